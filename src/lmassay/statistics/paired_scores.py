"""The paired scores of two runs: the difference of the runs, and how many scores changed or could have changed.

:mod:`lmassay.statistics.pairing` finds the pairs. What it calls a unit is what is paired; here, ``units`` are what a
significance test counts as one observation, which may be a cluster of several pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import inf, isfinite
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import NumericBounds
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
    """The paired scores of two runs in one column, which is a metric or one of the means that a metric combines.

    What is paired are examples or, in some tasks, the labels of a group of examples (such as the names of templates,
    each with the mean of its examples), repetitions of a few-shot training, or test examples of such a training.
    ``before`` are the scores of the base run, ``after`` those of the new run.
    """

    coefficient: float
    """The weight of the column's mean in the metric; 1 for a metric that is not combined from several columns."""
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    """None if all scores count equally."""
    clusters: Sequence[Sequence[str]]
    """For each grouping by which the scores are clustered, the name of every score's cluster."""
    units: Sequence[str]
    """For each score, the name of what counts as one observation in a significance test: its cluster (with two
    groupings, that of the grouping with fewer clusters) or, without clusters, what is paired."""

    def changes(self) -> NDArray[np.float64]:
        """New minus base; 0 where scores differ only by rounding."""
        return changes_of(self.before, self.after)

    def mean(self, values: NDArray[np.float64]) -> float:
        """The mean of ``values``, one for each score, weighted like the scores."""
        if self.weights is None:
            return float(values.mean())
        return float((values * self.weights).sum() / self.weights.sum())

    def bounds(self) -> NumericBounds:
        """0 and 1 if all scores of both runs lie between them; otherwise -inf and inf.

        In the first case, the scores are assumed to be limited to this range.
        """
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
    """How many examples, labels or repetitions only the base run scored; ``unpaired_unit`` says which of them. This may
    differ from what ``n`` counts: in few-shot runs, ``n`` may count test examples, while this counts repetitions of the
    training."""
    only_new: int
    """How many examples, labels or repetitions only the new run scored."""
    combination: Combination | None = None
    """The combination that defines the metric, if there is one."""
    clustered_by: tuple[str, ...] = ()
    """The names of the groups by which the pairs are clustered."""
    estimated: Estimate | None = None
    """The estimate of the difference if it cannot be computed from the pairs as if they were independent. The
    repetitions of a few-shot training, for example, share training examples."""
    unpaired_unit: str = "example"
    """What ``only_base`` and ``only_new`` count, as a singular noun."""

    def base_mean(self) -> float:
        """The metric of the base run, computed only from the pairs."""
        return self.constant + sum(column.coefficient * column.mean(column.before) for column in self.columns)

    def new_mean(self) -> float:
        """The metric of the new run, computed only from the pairs."""
        return self.constant + sum(column.coefficient * column.mean(column.after) for column in self.columns)

    def difference(self, settings: Settings) -> PairedDifference:
        """The difference with interval and p.

        It is ``estimated`` if there is such an estimate; otherwise, it is computed from the differences within pairs.
        """
        import numpy as np

        if self.estimated is not None:
            low, high = self.estimated.interval(settings.confidence)
            return PairedDifference(self.estimated.value, low, high, self.estimated.p_value(), self.n, self.estimated)
        terms = []
        largest_difference = 0.0
        for column in self.columns:
            # How far a score that did not change could have moved.
            step = possible_change(np.concatenate([column.before, column.after]))
            terms.append(Term(column.changes(), column.coefficient, column.clusters, column.weights, step=step))
            # Two scores cannot differ by more than the distance between their bounds.
            low, high = column.bounds()
            largest_difference += abs(column.coefficient) * (high - low)
        if not isfinite(largest_difference):
            return difference_of(terms, settings, self.clustered_by)
        return difference_of(terms, settings, self.clustered_by, largest_difference)

    def at_bound(self, *, falls: bool) -> Pairs | None:
        """The pairs if every new score were at the bound that makes the metric lowest (``falls``) or highest.

        None if a column has no such bound.
        """
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
    """How many units (see ``PairedColumn.units``) there are, how many changed, and how many could have changed.

    ``can_fall`` counts the units that could have made the metric lower than in the base run, ``can_rise`` those that
    could have made it higher. If scores lie between 0 and 1 and a high score raises the metric, a score of 0 in the
    base run cannot make it fall. If only a few units can change in one direction, no difference in that direction can
    ever be significant.
    """

    units: int
    changed: int
    can_fall: int
    can_rise: int


def count_changes(pairs: Pairs) -> ChangeCounts:
    """Count the units that changed, and those that could have made the metric fall or rise."""
    units: set[str] = set()
    changed: set[str] = set()
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


def _column_bounds(combination: Combination | None, column: PairedColumn) -> NumericBounds:
    """The bounds of a column: from the metric's combination if this has a single column, otherwise from the scores."""
    if combination is None:
        return column.bounds()
    if combination.each is not None:
        # What is paired are the labels of the group ``each``, such as templates. There is only one column, which has
        # the value of the whole combination for each label.
        return combination.bounds
    if len(combination.terms) > 1:
        # The bounds of a sum do not limit the values of each single column.
        return column.bounds()
    # The combination is constant + coefficient · column.
    ends = [(bound - combination.constant) / column.coefficient for bound in combination.bounds]
    return min(ends), max(ends)
