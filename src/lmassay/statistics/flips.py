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
    """Numbers of examples that have no score in one of the runs, so that nobody knows whether they flipped."""

    error: int
    unscored: int
    only_base: int
    only_new: int

    @property
    def total(self) -> int:
        return self.error + self.unscored + self.only_base + self.only_new

    def text(self) -> str:
        """Such as ``3 left out (2 in error, 1 only in the base run)``."""
        if self.total == 0:
            return "none left out"
        counts = {
            "in error": self.error,
            "unscored": self.unscored,
            "only in the base run": self.only_base,
            "only in the new run": self.only_new,
        }
        parts = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        return f"{self.total:,} left out ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Flips:
    """How the scores of two runs differ, example by example.

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

    def first(self, limit: int | None) -> list[Change]:
        """The first changes of each direction, or all: what fell comes first."""
        if limit is None or not self.is_rate:
            return list(self.changes[:limit])
        return [*self.fallen[:limit], *self.risen[:limit]]

    def as_json(self, limit: int | None = 0) -> dict[str, Any]:
        """What ``--json`` prints: the counts, and up to ``limit`` changes of each direction."""
        document: dict[str, Any] = {
            "metric": self.metric,
            "base": self.base,
            "new": self.new,
            "paired_by": self.paired_by,
            "scores": "0 or 1" if self.is_rate else "graded",
            "n": self.n,
            "changed": len(self.changes),
            "fallen": len(self.fallen),
            "risen": len(self.risen),
        }
        if self.is_rate:
            document["both_one"] = self.both_one
            document["both_zero"] = self.both_zero
        document["left_out"] = {
            "error": self.left_out.error,
            "unscored": self.left_out.unscored,
            "only_base": self.left_out.only_base,
            "only_new": self.left_out.only_new,
        }
        examples = []
        for change in self.first(limit):
            examples.append({"id": change.id, "before": change.before, "after": change.after})
        document["examples"] = examples
        return document


def flips(base: Side, other: Side, metrics: Iterable[str]) -> list[Flips]:
    """One for each score that the metrics are made of, in their order."""
    # Several metrics may be made of the same score; a dictionary keeps their order.
    scores: dict[str, None] = {}
    for metric in metrics:
        scores.update(dict.fromkeys(scores_of(base, metric)))
    tables = []
    for score in scores:
        table = _flips(base, other, score)
        if table.n:
            tables.append(table)
    return tables


def scores_of(side: Side, metric: str) -> list[str]:
    """The scores of examples that a metric is made of: mostly one of the same name."""
    if side.table.has(metric):
        return [metric]
    combination = side.record.design.combinations.get(metric)
    return [] if combination is None else list(combination.terms)


def _flips(base: Side, other: Side, metric: str) -> Flips:
    key = pairing_key(base, other)
    before = units_of(base, metric, key)
    after = units_of(other, metric, key)
    pairs: list[Change] = []
    for name, unit in before.items():
        # A unit that stands for another number of rows in the other run is not the same unit.
        if name in after and after[name].weight == unit.weight:
            pairs.append(Change(name, unit.value, after[name].value))
    is_rate = bool(pairs)
    both_one = both_zero = 0
    changes: list[Change] = []
    for pair in pairs:
        if pair.before not in (0.0, 1.0) or pair.after not in (0.0, 1.0):
            is_rate = False
        if pair.before == pair.after == 1:
            both_one += 1
        if pair.before == pair.after == 0:
            both_zero += 1
        if not is_same(pair.before, pair.after):
            changes.append(pair)
    if not is_rate:
        # The largest changes of graded scores come first; flips stay in the order of the examples.
        changes.sort(key=lambda change: -abs(change.change))
    compared = {pair.id for pair in pairs}
    return Flips(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        paired_by=key or "example",
        n=len(pairs),
        is_rate=is_rate,
        both_one=both_one if is_rate else 0,
        both_zero=both_zero if is_rate else 0,
        left_out=_excluded(base, other, key, set(before), set(after), compared),
        changes=changes,
    )


def _excluded(
    base: Side, other: Side, key: str | None, before: set[str], after: set[str], compared: set[str]
) -> ExcludedExamples:
    """The examples that the score is about; one that neither run has a score for may not be.

    ``before`` and ``after`` are the examples that the base run and the other run scored.
    """
    base_states = unit_names(base, key)
    other_states = unit_names(other, key)
    failed: set[str] = set()
    unscored: set[str] = set()
    for states in (base_states, other_states):
        for name, state in states.items():
            if state == "error":
                failed.add(name)
            elif state == "unscored":
                unscored.add(name)
    both = base_states.keys() & other_states.keys()
    return ExcludedExamples(
        error=len((both & failed) - compared),
        unscored=len((both & (before | after | unscored)) - failed - compared),
        only_base=len(before - other_states.keys()),
        only_new=len(after - base_states.keys()),
    )
