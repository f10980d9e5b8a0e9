"""Runs against a base run: all that the terminal, the page and a program are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.plugins.evaluations import metric_of
from lmassay.statistics.caveats import asked_differently, caveats, computed_differently, other_labels, wrong_order
from lmassay.statistics.comparison import (
    Comparison,
    Side,
    compare_runs,
    headline,
    known_metrics,
    pairing_text,
    require_one_task,
    with_false_discovery_rate,
)
from lmassay.statistics.conditions import Condition, likely_slip
from lmassay.statistics.flips import Flips, flips
from lmassay.statistics.gate import ALPHA, Verdict, judge, pairs_about
from lmassay.statistics.ranking import Standing, rankings
from lmassay.storage.store import Store
from lmassay.types import Better

DIRECTION_TEXTS: Mapping[Better, str] = {"higher": "more is better", "lower": "less is better", "zero": "0 is best"}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with its scores, the store that has its texts, and a name for it."""

    store: Store
    side: Side
    title: str


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The conditions, and how they are judged."""

    conditions: Sequence[Condition]
    alpha: float = ALPHA
    allow_incomplete: bool = False


Pair = tuple[ComparedRun, ComparedRun]
"""A base run and the new one that is compared with it."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All that was found. ``pairs`` have one base run, or each their own; ``groups`` says what part of the examples."""

    pairs: Sequence[Pair]
    rows: Sequence[Comparison]
    flips: Sequence[Flips]
    caveats: Sequence[str]
    groups: Mapping[str, str] = field(default_factory=dict)
    alpha: float = ALPHA
    verdict: Verdict | None = None
    standings: Sequence[Standing] = ()
    """All runs against the best one, by metric; empty for two runs, or where each run has its own base."""

    @property
    def bases(self) -> Sequence[ComparedRun]:
        return list({base.side.record.id: base for base, _ in self.pairs}.values())

    @property
    def others(self) -> Sequence[ComparedRun]:
        return [new for _, new in self.pairs]

    @property
    def base_title(self) -> str:
        return self.bases[0].title if len(self.bases) == 1 else "the base run"

    @property
    def part(self) -> str:
        return part_text(self.groups)

    @property
    def manner(self) -> str:
        """What is paired, and what is taken for independent."""
        texts: dict[str, None] = {}
        for base, other in self.pairs:
            rows = [row for row in self.rows if row.new == other.side.record.id]
            texts[pairing_text(base.side, other.side, rows)] = None
        return " or ".join(texts)

    @property
    def confidence(self) -> float:
        return self.bases[0].side.record.settings.confidence

    def title(self, run: str) -> str:
        sources = [*self.bases, *self.others]
        return next(source.title for source in sources if source.side.record.id == run)

    def flips_of(self, source: ComparedRun) -> list[Flips]:
        return [found for found in self.flips if found.new == source.side.record.id]

    def p(self, row: Comparison) -> float | None:
        """Adjusted where there are several rows."""
        return row.p_adjusted if len(self.rows) > 1 else row.p


def compare_pairs(
    pairs: Sequence[Pair],
    metrics: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    gate: GateSettings | None = None,
) -> RunComparison:
    """Each new run against its base, by the metrics named or the headline, and by those that the gate needs."""
    sides = [(base.side, new.side) for base, new in pairs]
    for base, new in sides:
        # Runs of different tasks are told as such, before any metric of theirs.
        require_one_task(base, new)
    conditions = gate.conditions if gate else ()
    named = _by_run(metrics, sides)
    gated = _by_run([condition.metric for condition in conditions], sides)
    alpha = gate.alpha if gate else ALPHA
    rows, found, told = [], [], []
    for base, new in sides:
        run = new.record.id
        shown = named[run] if metrics else headline(base)
        of_pair = compare_runs(base, [new], list(dict.fromkeys([*shown, *gated[run]])))
        rows += of_pair
        found += flips(base, new, dict.fromkeys(row.metric for row in of_pair))
        told += [*caveats(base, [new]), *wrong_order(base, new), *asked_differently(base, new)]
        told += [] if groups else computed_differently(base, [new], of_pair)
        if conditions:
            told += other_labels(base, new)
            for condition in conditions:
                if condition.metric in gated[run]:
                    slip = likely_slip(condition, metric_of(base.record, condition.metric))
                    told += [slip] if slip else []
            told += [] if gated[run] else [f"no condition is about {run} ({new.name}); it is not judged"]
    rows = with_false_discovery_rate(rows)
    return RunComparison(
        pairs=pairs,
        rows=rows,
        flips=found,
        caveats=list(dict.fromkeys(told)),
        groups=groups or {},
        alpha=alpha,
        verdict=judge(conditions, sides, rows, alpha=alpha, allow_incomplete=gate.allow_incomplete)
        if gate and conditions
        else None,
        standings=_standings(sides, rows, alpha),
    )


def _standings(sides: Sequence[tuple[Side, Side]], rows: Sequence[Comparison], alpha: float) -> list[Standing]:
    first = sides[0][0]
    if any(base is not first for base, _ in sides):
        # The runs of two sweeps are compared pair by pair; they are variants, not competitors.
        return []
    return rankings([first, *(new for _, new in sides)], rows, alpha)


def _by_run(metrics: Iterable[str], pairs: Sequence[tuple[Side, Side]]) -> dict[str, list[str]]:
    """The metrics of each new run: those that its task has. One that no task has is told."""
    found: dict[str, list[str]] = {new.record.id: [] for _, new in pairs}
    for metric in dict.fromkeys(metrics):
        for base, new in pairs_about(metric, pairs) or pairs:
            found[new.record.id] += known_metrics(base, [new], [metric])
    return found


def interval_text(row: Comparison, sign: str = "", digits: int = 4) -> str:
    """The interval of a difference; runs that are the same have none, which is something else than not knowing it."""
    if not row.changed:
        return f"same in all {row.n:,}"
    if row.low is None or row.high is None:
        return "n/a"
    return f"[{row.low:{sign}z.{digits}f}, {row.high:{sign}z.{digits}f}]"


def part_text(groups: Mapping[str, str]) -> str:
    """Such as ``category=Age and label=test``."""
    return " and ".join(f"{kind}={label}" for kind, label in groups.items())
