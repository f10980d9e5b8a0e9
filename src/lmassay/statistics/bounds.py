"""Bounds of a number: the least and the largest value that it can have, either of which may be unknown."""

from __future__ import annotations

import math

Bounds = tuple[float | None, float | None]
"""The least and the largest possible value; None where there is no such limit."""
NumericBounds = tuple[float, float]
"""The least and the largest possible value; infinite where there is no such limit."""


def finite_bounds(bounds: Bounds | None) -> NumericBounds | None:
    """The bounds if both are known and the lower one is smaller; otherwise None.

    >>> finite_bounds((0.0, 1.0)), finite_bounds((0.0, None)), finite_bounds((1.0, 1.0))
    ((0.0, 1.0), None, None)
    """
    if bounds is None:
        return None
    low, high = bounds
    if low is None or high is None or low >= high:
        return None
    return low, high


def with_infinities(bounds: Bounds | None) -> NumericBounds | None:
    """The bounds with an infinity for a missing one, so that an interval can be cut off at the other; None without any.

    >>> with_infinities((0.0, None))
    (0.0, inf)
    """
    if bounds is None or bounds == (None, None):
        return None
    low, high = bounds
    if low is None:
        low = -math.inf
    if high is None:
        high = math.inf
    return low, high


def cut_to_bounds(low: float, high: float, bounds: NumericBounds | None) -> NumericBounds:
    """The interval from ``low`` to ``high``, cut off at the bounds."""
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])
