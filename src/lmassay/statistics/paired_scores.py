"""The paired scores of two runs: their difference, how many of them changed, and how many could have changed.

:mod:`lmassay.statistics.pairing` finds the pairs.
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
    """The paired scores of one column. What is paired are examples or, in some tasks, labels, repetitions or tests.

    ``before`` are the scores of the base run, ``after`` those of the new run.
    """

    coefficient: float
    """The weight of the column's mean in the metric; 1 for a metric that is not combined from several columns."""
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    """None if all scores count equally."""
    clusters: Sequence[Sequence[str]]
    """One sequence of labels for each grouping of the scores."""
    units: Sequence[str]
    """For each score, the name of what counts as one observation in a significance test: its cluster (if rows are
    grouped twice, in the grouping with fewer clusters), or the paired example itself if there are no clusters."""

    def changes(self) -> NDArray[np.float64]:
        """New minus base; 0 where scores differ only by rounding."""
        return changes_of(self.before, self.after)

    def mean(self, values: NDArray[np.float64]) -> float:
        """The mean of ``values``, one for each score, weighted like the scores."""
        if self.weights is None:
            return float(values.mean())
        return float((values * self.weights).sum() / self.weights.sum())

    def bounds(self) -> FiniteBounds:
        """0 and 1 if all scores lie in this range, to which they are then assumed to be limited; otherwise infinite."""
        for scores in (self.before, self.after):
            is_in_unit_range = (scores >= 0) & (scores <= 1)
            if not bool(is_in_unit_range.all()):
                return -inf, inf
        return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of scores by which two runs are compared in one metric."""

    columns: Sequence[PairedColumn]
    constant: float
    """The constant of the metric's combination; otherwise 0."""
    n: int
    """The number of pairs: of examples, labels, repetitions or tests."""
    only_base: int
    """The number of examples, labels or repetitions that only the base run scored (if ``n`` counts tests, these are
    still repetitions)."""
    only_new: int
    """The number of those that only the new run scored."""
    combination: Combination | None = None
    """The combination that defines the metric, if there is one."""
    clustered_by: tuple[str, ...] = ()
    """The names of the groups by which the pairs are clustered."""
    estimated: Estimate | None = None
    """The estimate of the difference if it is not a mean over independent pairs, as for overlapping repetitions."""
    unpaired_unit: str = "example"
    """What ``only_base`` and ``only_new`` count, as a singular noun."""

    def base_mean(self) -> float:
        """The metric of the base run, computed only from the pairs."""
        return self.constant + sum(column.coefficient * column.mean(column.before) for column in self.columns)

    def new_mean(self) -> float:
        """The metric of the new run, computed only from the pairs."""
        return self.constant + sum(column.coefficient * column.mean(column.after) for column in self.columns)

    def difference(self, settings: Settings) -> PairedDifference:
        """The difference with interval and p, computed only from the differences of single pairs."""
        import numpy as np

        if self.estimated is not None:
            low, high = self.estimated.interval(settings.confidence)
            return PairedDifference(self.estimated.value, low, high, self.estimated.p_value(), self.n, self.estimated)
        terms = []
        largest_difference = 0.0
        for column in self.columns:
            step = possible_change(np.concatenate([column.before, column.after]))
            terms.append(Term(column.changes(), column.coefficient, column.clusters, column.weights, step=step))
            # Two scores cannot differ by more than the distance between their bounds.
            low, high = column.bounds()
            largest_difference += abs(column.coefficient) * (high - low)
        if not isfinite(largest_difference):
            return difference_of(terms, settings, self.clustered_by)
        return difference_of(terms, settings, self.clustered_by, largest_difference)

    def at_bound(self, *, falls: bool) -> Pairs | None:
        """The pairs if every new score were at its lowest (``falls``) or highest value; None without bounds."""
        import numpy as np

        columns = []
        for column in self.columns:
            low, high = _column_bounds(self.combination, column)
            # If a column with a negative coefficient rises, the metric falls.
            column_falls = falls is (column.coefficient > 0)
            bound = low if column_falls else high
            if not isfinite(bound):
                return None
            columns.append(replace(column, after=np.full_like(column.before, bound)))
        return replace(self, columns=columns, estimated=None)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many units (see ``PairedColumn.units``) there are, how many changed, and how many could fall or rise.

    If scores lie between 0 and 1, an example with a score of 0 in the base run cannot fall. If only a few units can
    change in one direction, no difference in that direction can ever be significant.
    """

    units: int
    changed: int
    can_fall: int
    can_rise: int


def count_changes(pairs: Pairs) -> ChangeCounts:
    """Count the units that changed and those that could have fallen or risen."""
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
            # If a column with a negative coefficient rises, the metric falls.
            can_fall.update(below_high)
            can_rise.update(above_low)
    return ChangeCounts(len(units), len(changed), len(can_fall), len(can_rise))


def _is_at(bound: float, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which scores are equal to a bound; none if the bound is infinite."""
    import numpy as np

    if not isfinite(bound):
        return np.zeros(len(scores), dtype=bool)
    return same_scores(scores, np.full_like(scores, bound))


def _column_bounds(combination: Combination | None, column: PairedColumn) -> FiniteBounds:
    """The bounds of a column: those of its combination, if that has a single column; otherwise from the scores."""
    if combination is None:
        return column.bounds()
    if combination.each is not None:
        # There is only one column, which has the value of the whole combination for each label.
        return combination.bounds
    if len(combination.terms) > 1:
        # The bounds of a sum do not limit the values of each single column.
        return column.bounds()
    # The combination is constant + coefficient · column.
    ends = [(bound - combination.constant) / column.coefficient for bound in combination.bounds]
    return min(ends), max(ends)
