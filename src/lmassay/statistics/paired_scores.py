"""Scores of two runs in pairs: their difference, how many changed, and how many could have changed.

:mod:`lmassay.statistics.pairing` finds the pairs of two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import inf, isfinite
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import FiniteBounds
from lmassay.statistics.combination import Combination
from lmassay.statistics.estimation import Estimate
from lmassay.statistics.intervals import (
    PairedDifference,
    Settings,
    changes_of,
    difference_of,
    possible_change,
    same_scores,
)
from lmassay.statistics.terms import Term

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PairedColumn:
    """The scores of one column on what is paired: examples or, for some metrics, labels, repetitions or tests."""

    coefficient: float
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    """None if all scores count equally."""
    clusters: Sequence[Sequence[str]]
    """One sequence of labels for each grouping of the scores."""
    units: Sequence[str]
    """What counts as one observation in a significance test: the cluster of each score (of two groupings, the grouping
    with fewer clusters), or what is paired."""

    def changes(self) -> NDArray[np.float64]:
        """New minus base; 0 where scores differ by rounding only."""
        return changes_of(self.before, self.after)

    def mean(self, values: NDArray[np.float64]) -> float:
        """The mean of values, one per score, with the weights of the scores."""
        if self.weights is None:
            return float(values.mean())
        return float((values * self.weights).sum() / self.weights.sum())

    def bounds(self) -> FiniteBounds:
        """Scores that are all between 0 and 1 are assumed to be limited to this range; others have no bounds."""
        for scores in (self.before, self.after):
            is_in_unit_range = (scores >= 0) & (scores <= 1)
            if not bool(is_in_unit_range.all()):
                return -inf, inf
        return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class Pairs:
    """All that two runs are compared on by one metric."""

    columns: Sequence[PairedColumn]
    constant: float
    n: int
    """How many examples (or labels, repetitions or tests) are paired."""
    only_base: int
    """How many examples, or labels or repetitions, only the base run scored. ``n`` may count something else: tests."""
    only_new: int
    combination: Combination | None = None
    clustered_by: tuple[str, ...] = ()
    estimated: Estimate | None = None
    """The difference, if it is more than a mean over independent pairs: of repetitions on overlapping data."""
    unpaired_unit: str = "example"
    """What ``only_base`` and ``only_new`` count, in the singular."""

    def base_mean(self) -> float:
        """The metric of the base run, on the pairs alone."""
        return self.constant + sum(column.coefficient * column.mean(column.before) for column in self.columns)

    def new_mean(self) -> float:
        """The metric of the new run, on the pairs alone."""
        return self.constant + sum(column.coefficient * column.mean(column.after) for column in self.columns)

    def difference(self, settings: Settings) -> PairedDifference:
        """Interval and p from the differences of single pairs, so that nothing outside the pairs can matter."""
        import numpy as np

        if self.estimated is not None:
            low, high = self.estimated.interval(settings.confidence)
            return PairedDifference(self.estimated.value, low, high, self.estimated.p_value(), self.n, self.estimated)
        terms = []
        largest_difference = 0.0
        for column in self.columns:
            step = possible_change(np.concatenate([column.before, column.after]))
            terms.append(Term(column.changes(), column.coefficient, column.clusters, column.weights, step=step))
            # Scores between two bounds cannot differ by more than the bounds do.
            low, high = column.bounds()
            largest_difference += abs(column.coefficient) * (high - low)
        if not isfinite(largest_difference):
            return difference_of(terms, settings, self.clustered_by)
        return difference_of(terms, settings, self.clustered_by, largest_difference)

    def at_bound(self, *, falls: bool) -> Pairs | None:
        """The pairs if every new score were as low, or as high, as it can be; None where scores have no bounds."""
        import numpy as np

        columns = []
        for column in self.columns:
            low, high = _column_bounds(self.combination, column)
            # A column that is subtracted makes the metric fall where it rises.
            column_falls = falls is (column.coefficient > 0)
            bound = low if column_falls else high
            if not isfinite(bound):
                return None
            columns.append(replace(column, after=np.full_like(column.before, bound)))
        return replace(self, columns=columns, estimated=None)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Numbers of units (see ``PairedColumn.units``): all, those that changed, and those that could fall or rise.

    Scores between 0 and 1 have bounds: an example with a score of 0 in the base run cannot fall. If only a few units
    can change in one direction, no difference in that direction can ever be significant.
    """

    units: int
    changed: int
    can_fall: int
    can_rise: int


def count_changes(pairs: Pairs) -> ChangeCounts:
    """How many units changed, and how many could have: by the scores that are paired."""
    units: set[str] = set()
    changed: set[str] = set()
    # Units that could make the metric lower or higher than it is in the base run.
    can_fall: set[str] = set()
    can_rise: set[str] = set()
    for column in pairs.columns:
        low, high = _column_bounds(pairs.combination, column)
        units.update(column.units)
        changed.update(compress(column.units, ~same_scores(column.before, column.after)))
        above_low = compress(column.units, ~_is_at(low, column.before))
        below_high = compress(column.units, ~_is_at(high, column.before))
        if column.coefficient > 0:
            can_fall.update(above_low)
            can_rise.update(below_high)
        else:
            # A column that is subtracted makes the metric fall where it rises.
            can_fall.update(below_high)
            can_rise.update(above_low)
    return ChangeCounts(len(units), len(changed), len(can_fall), len(can_rise))


def _is_at(bound: float, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which scores are at a bound; none is at an infinite one."""
    import numpy as np

    if not isfinite(bound):
        return np.zeros(len(scores), dtype=bool)
    return same_scores(scores, np.full_like(scores, bound))


def _column_bounds(combination: Combination | None, column: PairedColumn) -> FiniteBounds:
    """The bounds that a combination declares, if they are those of one column; else they are read off the scores."""
    if combination is None:
        return column.bounds()
    if combination.each is not None:
        # The only column has the values of the whole combination within each label.
        return combination.bounds
    if len(combination.terms) > 1:
        # Bounds of a sum do not say which values each of its columns can have.
        return column.bounds()
    # The combination is constant + coefficient · column.
    ends = [(bound - combination.constant) / column.coefficient for bound in combination.bounds]
    return min(ends), max(ends)
