"""Runs against a base run: all that the terminal, the page and a program are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.comparison import (
    Comparison,
    Side,
    caveats,
    compare_runs,
    headline,
    known_metrics,
    pairing_key,
    told_otherwise,
)
from lmassay.flips import Flips, flips
from lmassay.gate import ALPHA, Condition, Verdict, judge
from lmassay.store import Store


@dataclass(frozen=True, slots=True)
class Source:
    """A run with its scores, the store that has its texts, and a name for it."""

    store: Store
    side: Side
    title: str


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not be, and how it is judged."""

    conditions: Sequence[Condition]
    alpha: float = ALPHA
    allow_incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """All that was found. ``sources`` are the base run and the others; ``groups`` says what part of the examples."""

    sources: Sequence[Source]
    rows: Sequence[Comparison]
    flips: Sequence[Flips]
    caveats: Sequence[str]
    groups: Mapping[str, str] = field(default_factory=dict)
    alpha: float = ALPHA
    verdict: Verdict | None = None

    @property
    def base(self) -> Source:
        return self.sources[0]

    @property
    def others(self) -> Sequence[Source]:
        return self.sources[1:]

    @property
    def part(self) -> str:
        return part_text(self.groups)

    @property
    def manner(self) -> str:
        """What is paired, and what the test does not tear apart."""
        keys = dict.fromkeys(pairing_key(self.base.side, other.side) or "example" for other in self.others)
        cluster = self.base.side.record.provenance.get("cluster")
        within = f"each {cluster}" if cluster else "pairs"
        return f"paired by {' or '.join(keys)}, tested by swaps within {within}"

    @property
    def confidence(self) -> float:
        return float(self.base.side.record.config.get("confidence", 0.95))

    def title(self, run: str) -> str:
        return next(source.title for source in self.sources if source.side.record.id == run)

    def flips_of(self, source: Source) -> list[Flips]:
        return [found for found in self.flips if found.new == source.side.record.id]

    def p(self, row: Comparison) -> float | None:
        """Adjusted where there are several rows."""
        return row.p_adjusted if len(self.rows) > 1 else row.p


def compare_sources(
    sources: Sequence[Source],
    metrics: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    gate: Gate | None = None,
) -> Compared:
    """Each other run against the first, by the metrics named or the headline, and by those that the gate needs."""
    base, *others = sides = [source.side for source in sources]
    conditions = gate.conditions if gate else ()
    alike = [side for side in others if side.record.task == base.record.task]
    # Runs of different tasks are told as such by the comparison, before any metric of theirs.
    named = known_metrics(base, alike, metrics)
    gated = known_metrics(base, alike, [condition.metric for condition in conditions])
    rows = compare_runs(base, others, list(dict.fromkeys([*(named or headline(base)), *gated])))
    shown = list(dict.fromkeys(row.metric for row in rows))
    told = [*caveats(base, others), *([] if groups else told_otherwise(base, others, rows))]
    return Compared(
        sources=sources,
        rows=rows,
        flips=[found for other in others for found in flips(base, other, shown)],
        caveats=told,
        groups=groups or {},
        alpha=gate.alpha if gate else ALPHA,
        verdict=judge(conditions, sides, rows, alpha=gate.alpha, allow_incomplete=gate.allow_incomplete)
        if gate and conditions
        else None,
    )


def part_text(groups: Mapping[str, str]) -> str:
    """Such as ``category=Age and label=test``."""
    return " and ".join(f"{kind}={label}" for kind, label in groups.items())
