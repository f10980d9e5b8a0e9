"""What a comparison of two runs can find, and how many examples it needs.

A test can only find a drop that is large compared with its standard error. What the standard error would be *if there
were a drop* is not what it is in a comparison that shows none, because the drop itself adds pairs that change. So the
drop ``δ`` that is found in four of five comparisons solves

    δ - threshold = t(1 - alpha) · error(δ) + t(power) · spread(δ)

where ``error(δ)`` is the standard error. ``spread(δ)`` is the standard deviation, from one comparison to the next, of
the observed difference minus ``t(1 - alpha)`` times its standard error. Both are computed for changes as often as
observed plus the falls that make up ``δ``. Pseudo-observations, design effect and degrees of freedom are those of
:mod:`lmassay.statistics.estimation`. ``benchmarks/gate.py`` compares the stated drops with what the gate detects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.distributions import normal_quantile, t_quantile
from lmassay.statistics.terms import PSEUDO_OBSERVATIONS

if TYPE_CHECKING:
    from lmassay.statistics.estimation import Estimate
    from lmassay.statistics.paired_scores import Pairs
    from lmassay.types import Result

POWER = 0.8
"""The share of comparisons that find a drop of the stated size."""
# No benchmark has more examples, so a larger number would help nobody.
_MAX_ROWS = 100_000_000
_MIN_ROWS = 2


@dataclass(frozen=True, slots=True)
class Spread:
    """How much scores change from one run to another if neither run is better on average.

    >>> round(detectable(Spread(rows=300, changed=0.06), threshold=0.0, alpha=0.05), 3)
    0.047
    """

    rows: float
    """Pairs of examples."""
    changed: float
    """The share of pairs that change, as many up as down."""
    size: float = 1.0
    """By how much a score changes if it does; 1 for scores of 0 or 1."""
    effect: float = 1.0
    """The design effect of clusters."""
    degrees: float | None = None
    """Degrees of freedom of the standard error; None for independent pairs, which have ``rows - 1``."""

    @property
    def degrees_of_freedom(self) -> float:
        return max(self.rows - 1 if self.degrees is None else self.degrees, 1.0)

    @property
    def effective(self) -> float:
        """How many independent pairs would be as precise."""
        return self.rows / self.effect

    def with_rows(self, rows: float) -> Spread:
        """The same with another number of pairs, in clusters of the same size."""
        if self.degrees is None:
            return replace(self, rows=rows)
        # One degree of freedom goes to the mean; the others grow with the number of clusters.
        degrees = (self.degrees + 1) * rows / self.rows - 1
        return replace(self, rows=rows, degrees=max(degrees, 1.0))

    def shortfall(self, drop: float, threshold: float, alpha: float, power: float = POWER) -> float:
        """By how much a drop is too small to be found with this power; 0 or less if it is found at least as often.

        It is the right side of the equation at the top of this module less the left one.
        """
        degrees = self.degrees_of_freedom
        critical = t_quantile(1 - alpha, degrees)
        # Falls come from pairs that would not have changed; if there are not enough, all scores shift.
        mean_fall = min(drop, self.size * (1 - self.changed))
        shift = drop - mean_fall
        mean_square = self.changed * self.size**2 + mean_fall * self.size

        def lead(mean: float, square: float) -> float:
            """How far the test statistic is beyond its critical value."""
            center, error = self._with_pseudo_observations(mean, square, shift)
            return center - threshold - critical * error

        # How the lead varies from one comparison to the next (delta method). More falls than expected also make the
        # standard error larger, so mean and mean square do not vary independently.
        # Both slopes are numerical: a central difference in the mean, a forward difference in the mean square.
        step = 1e-6 * self.size
        lead_above = lead(mean_fall + step, mean_square)
        lead_below = lead(mean_fall - step, mean_square)
        slope_of_mean = (lead_above - lead_below) / (2 * step)
        expected_lead = lead(mean_fall, mean_square)
        slope_of_square = (lead(mean_fall, mean_square + step**2) - expected_lead) / step**2
        # A change is -size, 0 or size, so its square is 0 or size², and its cube is size² times the change.
        variance_of_change = mean_square - mean_fall**2
        variance_of_square = max(self.size**2 * mean_square - mean_square**2, 0.0)
        covariance = mean_fall * (self.size**2 - mean_square)
        variance = (
            slope_of_mean**2 * variance_of_change
            + slope_of_square**2 * variance_of_square
            + 2 * slope_of_mean * slope_of_square * covariance
        )
        spread = math.sqrt(max(variance, 0.0) / self.effective)
        return t_quantile(power, degrees) * spread - expected_lead

    def _with_pseudo_observations(self, mean: float, square: float, shift: float) -> tuple[float, float]:
        """Center and standard error for these mean and mean square of the changes."""
        effective = self.effective
        share_unchanged = max(1 - square / self.size**2, 0.0)
        # As many as in an estimate of differences that are mostly 0, half of them at either ``size`` or ``-size``.
        pseudo_count = PSEUDO_OBSERVATIONS * share_unchanged
        total = effective + pseudo_count
        center = mean * effective / total
        mean_square = (square * effective + pseudo_count * self.size**2) / total
        variance = max(mean_square - center**2, 0.0)
        return center + shift, math.sqrt(variance / total)


def distinguishable(result: Result, confidence: float, power: float = POWER) -> float | None:
    """How far two models must differ for a two-sided test to find the difference with this power.

    Nothing is known yet about the second model. It is taken to have an interval as wide as this one and answers that
    are unrelated to those of this model, so the difference has an interval that is wider by a factor of √2. Models that
    agree on many examples can be distinguished at a smaller difference, because they are compared pair by pair. None
    if the result has no interval.

    >>> from lmassay.types import Result
    >>> round(distinguishable(Result("accuracy", "overall", 0.5, 0.4, 0.6, 96), 0.95), 3)
    0.202
    """
    if result.value is None or result.low is None or result.high is None:
        return None
    # Near a bound the interval is not symmetric; the longer side is the safe choice.
    half_width = max(result.value - result.low, result.high - result.value)
    critical = normal_quantile(1 - (1 - confidence) / 2)
    return math.sqrt(2) * half_width * (critical + normal_quantile(power)) / critical


def detectable(spread: Spread, threshold: float, alpha: float, power: float = POWER) -> float | None:
    """The drop that the gate finds with this power, if it fails on evidence of a drop beyond the threshold.

    None if no drop is found so often, however large.
    """
    # Beyond this, every score would have fallen by as much as scores change.
    largest = spread.size
    if spread.changed >= 1 or threshold >= largest:
        largest = threshold + spread.size
    if spread.shortfall(largest, threshold, alpha, power) > 0:
        return None

    def is_found(drop: float) -> bool:
        return spread.shortfall(drop, threshold, alpha, power) <= 0

    return _smallest_drop(is_found, threshold, largest)


def rows_to_detect(spread: Spread, drop: float, threshold: float, alpha: float, power: float = POWER) -> int | None:
    """How many pairs it takes to find a drop, which must be beyond the threshold; None for more than can be had."""

    def is_enough(rows: float) -> bool:
        return spread.with_rows(rows).shortfall(drop, threshold, alpha, power) <= 0

    return _fewest_rows(is_enough)


def rows_to_show(spread: Spread, margin: float, alpha: float, power: float = POWER) -> int | None:
    """How many pairs it takes to show that a run is worse by less than the margin, if nothing has changed on average.

    The mirror image of finding a drop of that size.
    """

    def is_enough(rows: float) -> bool:
        # No falls are added: the question is what happens if there is no drop.
        return spread.with_rows(rows).shortfall(0.0, -margin, alpha, power) <= 0

    return _fewest_rows(is_enough)


def _fewest_rows(is_enough: Callable[[float], bool]) -> int | None:
    """The smallest number of rows that is enough, by bisection; None if not even the largest is."""
    if not is_enough(_MAX_ROWS):
        return None
    low, high = _MIN_ROWS, _MAX_ROWS
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _smallest_drop(is_found: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest drop between ``low`` and ``high`` that is found, by bisection."""
    # After 50 halvings, the two ends differ by a few units in the last place.
    for _ in range(50):
        middle = (low + high) / 2
        if is_found(middle):
            high = middle
        else:
            low = middle
    return high


def spread_of(pairs: Pairs, estimated: Estimate) -> Spread | None:
    """How much scores vary between the two runs of a comparison; None if it cannot be estimated.

    The changed scores that the drop itself explains are subtracted; the rest are changes by chance.
    """
    import numpy as np

    if estimated.reason:
        return None
    rows = sum(len(column.before) for column in pairs.columns)
    changed_rows = 0
    sum_of_squares = 0.0
    for column in pairs.columns:
        changes = column.changes()
        # What one row adds to the difference, in units of 1 / rows: so columns of different lengths can be added up.
        scale = column.coefficient * rows / len(changes)
        relative_weights = 1.0 if column.weights is None else column.weights / column.weights.mean()
        changed_rows += int((changes != 0).sum())
        sum_of_squares += float(((scale * relative_weights * changes) ** 2).sum())
    # With repetitions on the same tests, each test is one pair, however many repetitions there are.
    effect = rows / estimated.effective
    degrees = None
    if estimated.units != rows:
        degrees = estimated.degrees
        effect = cautious_effect(effect, degrees)
    if changed_rows == 0:
        for column in pairs.columns:
            if np.any((column.before < 0) | (column.before > 1)):
                # It is unknown by how much a score that can lie outside 0…1 would change.
                return None
        return Spread(rows, 0.0, 1.0, effect, degrees)
    size = math.sqrt(sum_of_squares / changed_rows)
    changed_by_drop = _shrunken_difference(estimated) / size
    changed_by_chance = max(changed_rows / rows - changed_by_drop, 0.0)
    return Spread(rows, changed_by_chance, size, effect, degrees)


def cautious_effect(effect: float, degrees: float) -> float:
    """A design effect for statements about other comparisons, larger than the one estimated from few clusters.

    Estimates from few clusters scatter, mostly below the truth, and a drop that is stated too small misleads more than
    one that is stated too large. The factor keeps the share of comparisons that find the stated drop close to 0.8.
    """
    return effect * (1 + 2 / max(degrees, 1.0))


def _shrunken_difference(estimated: Estimate) -> float:
    """The size of the difference, shrunken by what chance alone would make of it.

    It is the positive part of James and Stein's estimate (1961), here of a single value: ``d · (1 - error² / d²)``.
    """
    value = abs(estimated.value)
    if value <= estimated.standard_error:
        return 0.0
    return value - estimated.standard_error**2 / value
