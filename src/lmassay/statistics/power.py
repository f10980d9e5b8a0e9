"""What a comparison of two runs can find, and how many examples it needs.

A test can only find a drop that is large compared with its standard error. What the standard error would be *if there
were a drop* is not what it is in a comparison that shows none, because the drop itself adds pairs that change. So the
drop ``δ`` that is found in four of five comparisons solves

    δ - threshold = t(1 - alpha) · error(δ) + t(power) · spread(δ)

with ``error(δ)`` the standard error and ``spread(δ)`` the standard deviation of the left side less ``error(δ)``, both
computed for changes as often as observed plus the falls that make up ``δ``. Pseudo-observations, design effect and
degrees of freedom are those of :mod:`lmassay.statistics.estimation`. ``benchmarks/gate.py`` compares what is stated
with what the gate does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.distributions import normal_quantile, t_quantile

if TYPE_CHECKING:
    from lmassay.statistics.estimation import Estimate
    from lmassay.statistics.pairing import Pairs
    from lmassay.types import Result

POWER = 0.8
"""The share of comparisons that find the drop which is stated."""
# Pseudo-observations on either side together, as in an estimate of differences that are mostly 0.
_PSEUDO_OBSERVATIONS = 2.0
# No benchmark has more examples; a search that gets here has no answer that helps.
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
        return replace(self, rows=rows, degrees=max((self.degrees + 1) * rows / self.rows - 1, 1.0))

    def needed(self, drop: float, threshold: float, alpha: float, power: float = POWER) -> float:
        """By how much a drop is too small to be found with this power; 0 or less if it is found at least as often."""
        degrees = self.degrees_of_freedom
        critical = t_quantile(1 - alpha, degrees)
        # Falls come from pairs that would not have changed; if there are not enough, all scores shift.
        falls = min(drop, self.size * (1 - self.changed))
        shift = drop - falls
        first = falls
        second = self.changed * self.size**2 + falls * self.size

        def lead(mean: float, square: float) -> float:
            center, error = self._with_pseudo_observations(mean, square, shift)
            return center - threshold - critical * error

        # How the lead varies from one comparison to the next (delta method). More falls than expected also make the
        # standard error larger, so mean and mean square do not vary independently.
        # Both slopes are numerical: a central difference in the mean, a forward difference in the mean square.
        step = 1e-6 * self.size
        slope_mean = (lead(first + step, second) - lead(first - step, second)) / (2 * step)
        slope_square = (lead(first, second + step**2) - lead(first, second)) / step**2
        variance = (
            slope_mean**2 * (second - first**2)
            + slope_square**2 * max(self.size**2 * second - second**2, 0.0)
            + 2 * slope_mean * slope_square * first * (self.size**2 - second)
        )
        spread = math.sqrt(max(variance, 0.0) / self.effective)
        return t_quantile(power, degrees) * spread - lead(first, second)

    def _with_pseudo_observations(self, mean: float, square: float, shift: float) -> tuple[float, float]:
        """Center and standard error for these mean and mean square of the changes."""
        effective = self.effective
        unchanged = max(1 - square / self.size**2, 0.0)
        pseudo = _PSEUDO_OBSERVATIONS * unchanged
        total = effective + pseudo
        center = mean * effective / total
        second = (square * effective + pseudo * self.size**2) / total
        return center + shift, math.sqrt(max(second - center**2, 0.0) / total)


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
    largest = threshold + spread.size if spread.changed >= 1 else spread.size
    if threshold >= largest:
        largest = threshold + spread.size
    if spread.needed(largest, threshold, alpha, power) > 0:
        return None
    return _smallest(lambda drop: spread.needed(drop, threshold, alpha, power) <= 0, threshold, largest)


def rows_to_detect(spread: Spread, drop: float, threshold: float, alpha: float, power: float = POWER) -> int | None:
    """How many pairs it takes to find a drop, which must be beyond the threshold; None for more than can be had."""
    return _rows(lambda rows: spread.with_rows(rows).needed(drop, threshold, alpha, power) <= 0)


def rows_to_show(spread: Spread, margin: float, alpha: float, power: float = POWER) -> int | None:
    """How many pairs it takes to show that a run is worse by less than the margin, if nothing has changed on average.

    The mirror image of finding a drop of that size.
    """
    return _rows(lambda rows: _shows(spread.with_rows(rows), margin, alpha, power))


def _shows(spread: Spread, margin: float, alpha: float, power: float) -> bool:
    # No falls are added: the question is what happens if there is no drop.
    return spread.needed(0.0, -margin, alpha, power) <= 0


def _rows(is_enough: Callable[[float], bool]) -> int | None:
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


def _smallest(is_enough: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        if is_enough(middle):
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
    count = 0
    square = 0.0
    for column in pairs.columns:
        change = column.changes()
        # What one row adds to the difference, in units of 1 / rows: so columns of different lengths can be added up.
        scale = column.coefficient * rows / len(change)
        weights = 1.0 if column.weights is None else column.weights / column.weights.mean()
        count += int((change != 0).sum())
        square += float(((scale * weights * change) ** 2).sum()) / rows
    # Of repetitions on the same tests, the pairs are the tests, whatever the number of repetitions.
    effect = rows / estimated.effective
    degrees = None
    if estimated.units != rows:
        degrees = estimated.degrees
        effect = cautious_effect(effect, degrees)
    if count == 0:
        for column in pairs.columns:
            if np.any((column.before < 0) | (column.before > 1)):
                # Nobody knows by how much a score of another range would change.
                return None
        return Spread(rows, 0.0, 1.0, effect, degrees)
    size = math.sqrt(square * rows / count)
    changed = count / rows - _reliable(estimated) / size
    return Spread(rows, max(changed, 0.0), size, effect, degrees)


def cautious_effect(effect: float, degrees: float) -> float:
    """A design effect for statements about other comparisons, larger than the one estimated from few clusters.

    Estimates from few clusters scatter, mostly below the truth, and a drop that is stated too small misleads more than
    one that is stated too large. The factor keeps the share of comparisons that find the stated drop close to 0.8.
    """
    return effect * (1 + 2 / max(degrees, 1.0))


def _reliable(estimated: Estimate) -> float:
    """The difference, shrunken by what chance alone would make of it.

    It is the positive part of James and Stein's estimate (1961), here of a single value: ``d · (1 - error² / d²)``.
    """
    value = abs(estimated.value)
    if value <= estimated.standard_error:
        return 0.0
    return value - estimated.standard_error**2 / value
