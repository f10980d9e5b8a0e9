"""Which examples two runs judge differently: the ones that a difference of means is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.statistics.comparison import Side, is_same, pairing_key, unit_names, units_of


@dataclass(frozen=True, slots=True)
class Change:
    """An example, or what a task pairs by, with a score that is another one in the new run."""

    id: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class ExcludedExamples:
    """Examples that have no score in one of the runs. They are no flips: nobody knows what the score would be."""

    error: int
    unscored: int
    only_base: int
    only_new: int

    @property
    def total(self) -> int:
        return self.error + self.unscored + self.only_base + self.only_new

    def told(self) -> str:
        """Such as ``3 left out (2 in error, 1 only in the base run)``."""
        names = {"error": "in error", "unscored": "unscored", "only_base": "only in the base run"}
        names |= {"only_new": "only in the new run"}
        parts = [f"{getattr(self, field):,} {name}" for field, name in names.items() if getattr(self, field)]
        return f"{self.total:,} left out ({', '.join(parts)})" if parts else "none left out"


@dataclass(frozen=True, slots=True)
class Flips:
    """How the examples of two runs fare by one score.

    Where the score is 0 or 1, examples are counted in a table of two by two. The test is that of the comparison.
    """

    metric: str
    base: str
    new: str
    paired_by: str
    n: int
    is_rate: bool
    both_one: int
    both_zero: int
    left_out: ExcludedExamples
    changes: Sequence[Change]
    """In the order of the data where the score is 0 or 1, else the largest change first."""

    @property
    def risen(self) -> list[Change]:
        return [change for change in self.changes if change.change > 0]

    @property
    def fallen(self) -> list[Change]:
        return [change for change in self.changes if change.change < 0]

    def first(self, most: int | None) -> list[Change]:
        """The first changes of each direction, or all: what fell comes first."""
        if most is None or not self.is_rate:
            return list(self.changes[:most])
        return [*self.fallen[:most], *self.risen[:most]]

    def as_json(self, most: int | None = 0) -> dict[str, Any]:
        """What ``--json`` prints: the counts, and as many of the changes as wanted."""
        counts: dict[str, Any] = {"n": self.n, "changed": len(self.changes)}
        counts |= {"fallen": len(self.fallen), "risen": len(self.risen)}
        counts |= {"both_one": self.both_one, "both_zero": self.both_zero} if self.is_rate else {}
        out = self.left_out
        left_out = {"error": out.error, "unscored": out.unscored}
        left_out |= {"only_base": out.only_base, "only_new": out.only_new}
        return {
            "metric": self.metric,
            "base": self.base,
            "new": self.new,
            "paired_by": self.paired_by,
            "scores": "0 or 1" if self.is_rate else "graded",
            **counts,
            "left_out": left_out,
            "examples": [{"id": c.id, "before": c.before, "after": c.after} for c in self.first(most)],
        }


def flips(base: Side, other: Side, metrics: Iterable[str]) -> list[Flips]:
    """One for each score that the metrics are made of, in their order."""
    scores = dict.fromkeys(score for metric in metrics for score in scores_of(base, metric))
    return [found for score in scores if (found := _flips(base, other, score)).n]


def scores_of(side: Side, metric: str) -> list[str]:
    """The scores of examples that a metric is made of: mostly one of the same name."""
    if side.table.has(metric):
        return [metric]
    combination = side.record.design.combinations.get(metric)
    return [] if combination is None else list(combination.terms)


def _flips(base: Side, other: Side, metric: str) -> Flips:
    key = pairing_key(base, other)
    before, after = (units_of(side, metric, key) for side in (base, other))
    shared = [unit for unit in before if unit in after and before[unit].weight == after[unit].weight]
    pairs = [Change(unit, before[unit].value, after[unit].value) for unit in shared]
    is_rate = bool(pairs) and all(value in (0.0, 1.0) for pair in pairs for value in (pair.before, pair.after))
    changes = [pair for pair in pairs if not is_same(pair.before, pair.after)]
    if not is_rate:
        changes.sort(key=lambda change: -abs(change.change))
    return Flips(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        paired_by=key or "example",
        n=len(pairs),
        is_rate=is_rate,
        both_one=sum(pair.before == pair.after == 1 for pair in pairs) if is_rate else 0,
        both_zero=sum(pair.before == pair.after == 0 for pair in pairs) if is_rate else 0,
        left_out=_left_out(base, other, key, set(before), set(after), set(shared)),
        changes=changes,
    )


def _left_out(
    base: Side, other: Side, key: str | None, before: set[str], after: set[str], compared: set[str]
) -> ExcludedExamples:
    """Of the examples that the score is about; one that neither run has a score for may not be."""
    ours, theirs = (unit_names(side, key) for side in (base, other))
    failed = {name for found in (ours, theirs) for name, state in found.items() if state == "error"}
    silent = {name for found in (ours, theirs) for name, state in found.items() if state == "unscored"}
    both = ours.keys() & theirs.keys()
    return ExcludedExamples(
        error=len((both & failed) - compared),
        unscored=len((both & (before | after | silent)) - failed - compared),
        only_base=len(before - theirs.keys()),
        only_new=len(after - ours.keys()),
    )
