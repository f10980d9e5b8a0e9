"""Computes which drop a comparison of two runs can detect, and how many examples it needs.

A test can detect only a drop that is large compared with its standard error. The standard error that a comparison would
have *if there were a drop* is larger than that of a comparison without one, because the drop itself adds pairs whose
scores change. So the drop ``δ`` that is detected in four of five comparisons solves

    δ - threshold = t(1 - alpha) · error(δ) + t(power) · spread(δ)

where ``t`` is the quantile of Student's t and ``error(δ)`` the standard error. ``spread(δ)`` is the standard deviation,
over repeated comparisons, of the observed difference minus ``t(1 - alpha)`` times its standard error. For both, scores
are assumed to change as often as observed, and additionally to fall as often as necessary for a mean drop of ``δ``.
Pseudo-observations, design effect and degrees of freedom are those of :mod:`lmassay.statistics.estimation`.
``benchmarks/gate.py`` compares the computed drops with what the gate detects.
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
"""The fraction of comparisons that detect a drop of the computed size."""
# No benchmark has more examples, so a larger result would not be useful.
_MAX_ROWS = 100_000_000
_MIN_ROWS = 2
# How often the size of a drop without bounds is doubled in search of one that is detected.
_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Spread:
    """How often and by how much scores change from one run to another if neither run is better on average.

    >>> round(detectable(Spread(rows=300, changed=0.06), threshold=0.0, alpha=0.05), 3)
    0.047
    """

    rows: float
    """The number of pairs."""
    changed: float
    """The fraction of pairs whose scores differ; half of them rise and half fall."""
    size: float = 1.0
    """The size of a change: 1 for scores of 0 or 1."""
    effect: float = 1.0
    """The design effect of clusters."""
    degrees: float | None = None
    """Degrees of freedom of the standard error; None for independent pairs, which have ``rows - 1``."""

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard error, at least 1."""
        return max(self.rows - 1 if self.degrees is None else self.degrees, 1.0)

    @property
    def effective(self) -> float:
        """The effective number of pairs: this many independent pairs would give the same precision."""
        return self.rows / self.effect

    def with_rows(self, rows: float) -> Spread:
        """The same spread for another number of pairs, in clusters of the same size."""
        if self.degrees is None:
            return replace(self, rows=rows)
        # The degrees of freedom plus the one that the mean takes are proportional to the number of clusters.
        degrees = (self.degrees + 1) * rows / self.rows - 1
        return replace(self, rows=rows, degrees=max(degrees, 1.0))

    def shortfall(self, drop: float, threshold: float, alpha: float, power: float = POWER) -> float:
        """The right side of the equation in the docstring of this module minus its left side.

        If it is positive, the drop is too small to be detected with this power; otherwise, it is detected at least as
        often.
        """
        degrees = self.degrees_of_freedom
        critical = t_quantile(1 - alpha, degrees)
        # The drop consists of falls of scores that would not have changed otherwise. If there are not enough of them,
        # the rest of the drop is a shift of all scores.
        mean_fall = min(drop, self.size * (1 - self.changed))
        shift = drop - mean_fall
        mean_square = self.changed * self.size**2 + mean_fall * self.size

        def margin(mean: float, square: float) -> float:
            """The difference minus the threshold and minus the critical value: positive if the test is significant."""
            center, error = self._with_pseudo_observations(mean, square, shift)
            return center - threshold - critical * error

        # The variance of this margin over repeated comparisons, by the delta method. The mean and the mean square are
        # correlated, because more falls than expected also make the standard error larger. Both slopes are numerical: a
        # central difference in the mean, a forward difference in the mean square.
        step = 1e-6 * self.size
        margin_above = margin(mean_fall + step, mean_square)
        margin_below = margin(mean_fall - step, mean_square)
        slope_of_mean = (margin_above - margin_below) / (2 * step)
        expected_margin = margin(mean_fall, mean_square)
        slope_of_square = (margin(mean_fall, mean_square + step**2) - expected_margin) / step**2
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
        return t_quantile(power, degrees) * spread - expected_margin

    def _with_pseudo_observations(self, mean: float, square: float, shift: float) -> tuple[float, float]:
        """The centre and the standard error of an interval for changes with this mean and this mean square."""
        effective = self.effective
        fraction_unchanged = max(1 - square / self.size**2, 0.0)
        # The same number as in an estimate of differences that are mostly 0. Half are at ``size``, half at ``-size``.
        pseudo_count = PSEUDO_OBSERVATIONS * fraction_unchanged
        total = effective + pseudo_count
        center = mean * effective / total
        mean_square = (square * effective + pseudo_count * self.size**2) / total
        variance = max(mean_square - center**2, 0.0)
        return center + shift, math.sqrt(variance / total)


def distinguishable(result: Result, confidence: float, power: float = POWER) -> float | None:
    """The difference between two models that a two-sided test detects with this power, from the result of one model.

    Nothing is known yet about the second model. It is assumed that its interval is as wide as that of this result and
    that its answers are unrelated, so the interval of the difference is wider by a factor of √2. Between models that
    agree on many examples, smaller differences can be detected, because they are compared pair by pair. None if the
    result has no interval.

    >>> from lmassay.types import Result
    >>> round(distinguishable(Result("accuracy", "overall", 0.5, 0.4, 0.6, 96), 0.95), 3)
    0.202
    """
    if result.value is None or result.low is None or result.high is None:
        return None
    # Near a bound, the interval is not symmetric. The longer side is the safe choice.
    half_width = max(result.value - result.low, result.high - result.value)
    critical = normal_quantile(1 - (1 - confidence) / 2)
    return math.sqrt(2) * half_width * (critical + normal_quantile(power)) / critical


def detectable(
    spread: Spread, threshold: float, alpha: float, power: float = POWER, *, has_bounds: bool = True
) -> float | None:
    """The smallest drop that a ``fail if`` gate with this threshold detects with this power.

    None if no drop is detected so often, however large. ``has_bounds`` says whether scores cannot fall by more than the
    size of a change, like those of 0 or 1. Without bounds, all scores may fall by any amount.
    """
    # The drop if every score fell by ``size``, the amount by which scores change.
    largest = spread.size
    if spread.changed >= 1 or threshold >= largest or not has_bounds:
        largest = threshold + spread.size

    def is_found(drop: float) -> bool:
        return spread.shortfall(drop, threshold, alpha, power) <= 0

    for _ in range(0 if has_bounds else _MAX_DOUBLINGS):
        if is_found(largest):
            break
        largest = threshold + 2 * (largest - threshold)
    if not is_found(largest):
        return None
    return _smallest_drop(is_found, threshold, largest)


def rows_to_detect(spread: Spread, drop: float, threshold: float, alpha: float, power: float = POWER) -> int | None:
    """The number of pairs needed to detect a drop, which must be beyond the threshold.

    None if more than 100 million are needed.
    """

    def is_enough(rows: float) -> bool:
        return spread.with_rows(rows).shortfall(drop, threshold, alpha, power) <= 0

    return _fewest_rows(is_enough)


def rows_to_show(spread: Spread, margin: float, alpha: float, power: float = POWER) -> int | None:
    """The number of pairs needed to show that a run is worse by less than the margin, if neither run is better.

    None if more than 100 million are needed.
    """

    def is_enough(rows: float) -> bool:
        # A drop of 0 is tested against a threshold of ``-margin``, because neither run is better.
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
    """The spread of the scores between the two runs of a comparison; None if it cannot be estimated.

    The changed scores that are explained by the difference between the runs are subtracted; the rest are changes by
    chance.
    """
    import numpy as np

    if estimated.reason:
        return None
    rows = sum(len(column.before) for column in pairs.columns)
    changed_rows = 0
    sum_of_squares = 0.0
    for column in pairs.columns:
        changes = column.changes()
        # What one row adds to the difference, in units of 1 / rows, so that columns of different lengths can be summed.
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
                # No score changed, and scores are not limited to 0…1, so the size of a change is unknown.
                return None
        return Spread(rows, 0.0, 1.0, effect, degrees)
    size = math.sqrt(sum_of_squares / changed_rows)
    changed_by_drop = _shrunken_difference(estimated) / size
    changed_by_chance = max(changed_rows / rows - changed_by_drop, 0.0)
    return Spread(rows, changed_by_chance, size, effect, degrees)


def cautious_effect(effect: float, degrees: float) -> float:
    """A design effect for predictions about other comparisons, which is increased if there are few clusters.

    Estimates from few clusters vary much and are mostly too small, and a computed drop that is too small misleads more
    than one that is too large. With this factor, close to 80 % of comparisons detect the computed drop.
    """
    return effect * (1 + 2 / max(degrees, 1.0))


def _shrunken_difference(estimated: Estimate) -> float:
    """The size of the difference ``d``, reduced by the part that chance alone is expected to cause.

    It is the positive part of James and Stein's estimate (1961), here of a single value: ``d · (1 - error² / d²)``.
    """
    value = abs(estimated.value)
    if value <= estimated.standard_error:
        return 0.0
    return value - estimated.standard_error**2 / value
