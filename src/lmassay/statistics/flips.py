"""Lists the examples whose scores differ between two runs, which cause the difference between their means.

If scores are 0 or 1, such a change from right to wrong, or from wrong to right, is called a *flip*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, overload

from lmassay.statistics.intervals import same_scores
from lmassay.statistics.pairing import are_aligned, pairing_key, unit_states, units_of
from lmassay.statistics.sides import Side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Change:
    """An example (or a label, if runs are paired by a group) whose score differs between the runs."""

    id: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """New minus base."""
        return self.after - self.before


class ScoreChanges(Sequence[Change]):
    """A sequence of changes that is stored as columns, because there may be a million.

    A :class:`Change` is created only when an element is read.
    """

    def __init__(self, ids: Sequence[str], before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
        self.ids = ids
        """The id of the example (or the label) of each change."""
        self._before = before
        self._after = after

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Change: ...

    @overload
    def __getitem__(self, index: slice) -> ScoreChanges: ...

    def __getitem__(self, index: int | slice) -> Change | ScoreChanges:
        if isinstance(index, slice):
            return ScoreChanges(self.ids[index], self._before[index], self._after[index])
        return Change(self.ids[index], float(self._before[index]), float(self._after[index]))

    def __iter__(self) -> Iterator[Change]:
        return map(Change, self.ids, self._before.tolist(), self._after.tolist())

    def risen(self) -> ScoreChanges:
        """The changes to a higher score."""
        return self._where(self._after - self._before > 0)

    def fallen(self) -> ScoreChanges:
        """The changes to a lower score."""
        return self._where(self._after - self._before < 0)

    def largest_first(self) -> ScoreChanges:
        """The same changes sorted by size; changes of equal size keep their order."""
        import numpy as np

        sizes = np.abs(self._after - self._before)
        order = np.argsort(-sizes, kind="stable")
        ids = [self.ids[row] for row in order.tolist()]
        return ScoreChanges(ids, self._before[order], self._after[order])

    def _where(self, mask: NDArray[np.bool_]) -> ScoreChanges:
        ids = list(compress(self.ids, mask))
        return ScoreChanges(ids, self._before[mask], self._after[mask])


@dataclass(frozen=True, slots=True)
class ExcludedExamples:
    """Numbers of examples that are not compared, usually because one of the runs has no score for them."""

    error: int
    """Those in both runs that have an error in at least one of them."""
    unscored: int
    """Those in both runs that have no error, but lack a score in at least one run, or have different weights."""
    only_base: int
    """Those that the base run scored and that are not in the new run at all."""
    only_new: int
    """Those that the new run scored and that are not in the base run at all."""

    @property
    def total(self) -> int:
        """All examples that are left out."""
        return self.error + self.unscored + self.only_base + self.only_new

    def text(self) -> str:
        """The numbers as a text, such as ``3 left out (2 with errors, 1 only in the base run)``."""
        if self.total == 0:
            return "none left out"
        counts = {
            "with errors": self.error,
            "unscored": self.unscored,
            "only in the base run": self.only_base,
            "only in the new run": self.only_new,
        }
        parts = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        return f"{self.total:,} left out ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Flips:
    """How the scores of two runs in one metric differ, example by example.

    If scores are 0 or 1, the examples are counted in a two-by-two table: both 1, both 0, fallen and risen. Whether the
    difference is significant is part of the :class:`~lmassay.statistics.comparison.Comparison`.
    """

    metric: str
    base: str
    """The id of the base run."""
    new: str
    """The id of the run that is compared with it."""
    paired_by: str
    """``example``, or the name of the group by whose labels the runs are paired."""
    n: int
    """The number of pairs."""
    is_rate: bool
    """Whether all scores are 0 or 1."""
    both_one: int
    """The number of pairs with a score of 1 in both runs; 0 if scores are graded."""
    both_zero: int
    """The number of pairs with a score of 0 in both runs; 0 if scores are graded."""
    left_out: ExcludedExamples
    changes: ScoreChanges
    """In the order of the data if scores are 0 or 1; otherwise the largest change first."""

    @property
    def risen(self) -> ScoreChanges:
        """The examples with a higher score in the new run."""
        return self.changes.risen()

    @property
    def fallen(self) -> ScoreChanges:
        """The examples with a lower score in the new run."""
        return self.changes.fallen()

    def first(self, limit: int | None) -> list[Change]:
        """The changes to show. Without a limit (None), these are all, in the order of :attr:`changes`.

        If scores are 0 or 1, ``limit`` applies to each direction: up to ``limit`` falls, followed by up to ``limit``
        rises. Otherwise, the ``limit`` largest changes are returned.
        """
        if limit is None or not self.is_rate:
            return list(self.changes[:limit])
        return [*self.fallen[:limit], *self.risen[:limit]]

    def as_json(self, limit: int | None = 0) -> dict[str, Any]:
        """What ``--json`` prints: the counts, and the changes of :meth:`first`; with a limit of 0, only the counts."""
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
    """The flips of each score from which the metrics are computed, in the order of the metrics."""
    # Several metrics may be computed from the same score. A dictionary removes duplicates and keeps the order.
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
    """The names of the example scores from which a metric is computed: usually one score of the same name."""
    if side.table.has(metric):
        return [metric]
    combination = side.record.design.combinations.get(metric)
    return [] if combination is None else list(combination.terms)


def _flips(base: Side, other: Side, metric: str) -> Flips:
    """The flips of one score between two runs."""
    key = pairing_key(base, other)
    if are_aligned(base, other, metric, key):
        pairs, left_out = _aligned_pairs(base, other, metric)
    else:
        pairs, left_out = _pairs_by_name(base, other, metric, key)
    before = pairs.before
    after = pairs.after
    is_rate = len(pairs.ids) > 0 and _are_binary(before) and _are_binary(after)
    # Scores that differ only by rounding, for example because of another batch size, have not changed.
    is_changed = ~same_scores(before, after)
    changed_ids = list(compress(pairs.ids, is_changed))
    changes = ScoreChanges(changed_ids, before[is_changed], after[is_changed])
    both_one = 0
    both_zero = 0
    if is_rate:
        both_one = int(((before == 1) & (after == 1)).sum())
        both_zero = int(((before == 0) & (after == 0)).sum())
    else:
        # Flips (changes between 0 and 1) stay in the order of the examples; changes of graded scores are sorted.
        changes = changes.largest_first()
    return Flips(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        paired_by=key or "example",
        n=len(pairs.ids),
        is_rate=is_rate,
        both_one=both_one,
        both_zero=both_zero,
        left_out=left_out,
        changes=changes,
    )


@dataclass(frozen=True, slots=True)
class _ScoredPairs:
    """The examples (or labels) that both runs have scored, with both scores."""

    ids: Sequence[str]
    before: NDArray[np.float64]
    after: NDArray[np.float64]


def _are_binary(scores: NDArray[np.float64]) -> bool:
    return bool(((scores == 0) | (scores == 1)).all())


def _aligned_pairs(base: Side, other: Side, metric: str) -> tuple[_ScoredPairs, ExcludedExamples]:
    """The pairs of two runs whose rows are the same examples in the same order."""
    import numpy as np

    before = base.table.column(metric)
    after = other.table.column(metric)
    in_base = ~np.isnan(before)
    in_other = ~np.isnan(after)
    is_paired = in_base & in_other
    paired_ids = list(compress(base.table.ids, is_paired))
    pairs = _ScoredPairs(paired_ids, before[is_paired], after[is_paired])
    failed = np.zeros(len(before), dtype=bool)
    unscored = np.zeros(len(before), dtype=bool)
    for side in (base, other):
        has_score = side.table.has_score()
        has_error = side.table.has_error()
        failed |= has_error & ~has_score
        unscored |= ~has_error & ~has_score
    # A row that has only scores of other metrics does not concern this metric. In BBQ, for example, questions with an
    # ambiguous context have no score for the other kind of context.
    concerns_metric = in_base | in_other | unscored
    # An example that has an error in one run and is unscored in the other counts once, as an error.
    is_failed = failed & ~is_paired
    is_unscored = concerns_metric & ~failed & ~is_paired
    # Aligned runs have the same examples, so there is none that only one run has.
    left_out = ExcludedExamples(error=int(is_failed.sum()), unscored=int(is_unscored.sum()), only_base=0, only_new=0)
    return pairs, left_out


def _pairs_by_name(base: Side, other: Side, metric: str, key: str | None) -> tuple[_ScoredPairs, ExcludedExamples]:
    """The pairs of runs whose rows are not aligned: by id, or by label if the runs are paired by the group ``key``."""
    import numpy as np

    before = units_of(base, metric, key)
    after = units_of(other, metric, key)
    names: list[str] = []
    for name, unit in before.items():
        # A unit whose weight differs between the runs does not consist of the same rows, so it is not compared.
        if name in after and after[name].weight == unit.weight:
            names.append(name)
    pairs = _ScoredPairs(
        names,
        np.array([before[name].value for name in names], dtype=float),
        np.array([after[name].value for name in names], dtype=float),
    )
    return pairs, _excluded(base, other, key, set(before), set(after), set(names))


def _excluded(
    base: Side, other: Side, key: str | None, before: set[str], after: set[str], compared: set[str]
) -> ExcludedExamples:
    """Count the examples that are not compared, each of them once.

    ``before`` and ``after`` are the ids of the examples that the base run and the other run scored, ``compared`` those
    in a pair. An example that has only other scores in both runs is not counted, because this score may not apply to
    it.
    """
    base_states = unit_states(base, key)
    other_states = unit_states(other, key)
    failed: set[str] = set()
    unscored: set[str] = set()
    for states in (base_states, other_states):
        for name, state in states.items():
            if state == "error":
                failed.add(name)
            elif state == "unscored":
                unscored.add(name)
    both = base_states.keys() & other_states.keys()
    failed_in_one = (both & failed) - compared
    unscored_in_one = (both & (before | after | unscored)) - failed - compared
    return ExcludedExamples(
        error=len(failed_in_one),
        unscored=len(unscored_in_one),
        only_base=len(before - other_states.keys()),
        only_new=len(after - base_states.keys()),
    )
