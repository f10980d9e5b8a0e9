"""Bounds of a number: the least and the largest value that it can have, either of which may be unknown."""

from __future__ import annotations

import math

Bounds = tuple[float | None, float | None]
"""The least and the largest possible value; None where there is no such limit."""
FiniteBounds = tuple[float, float]
"""Bounds that limit a number on both sides, or infinities in their place."""


def finite_bounds(bounds: Bounds | None) -> FiniteBounds | None:
    """The bounds if both are known and leave room between them.

    >>> finite_bounds((0.0, 1.0)), finite_bounds((0.0, None)), finite_bounds((1.0, 1.0))
    ((0.0, 1.0), None, None)
    """
    if bounds is None:
        return None
    low, high = bounds
    if low is None or high is None or low >= high:
        return None
    return low, high


def with_infinities(bounds: Bounds | None) -> FiniteBounds | None:
    """The bounds with an infinity for a missing end, to cut an interval at the other one; None if both are missing.

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


def cut_to_bounds(low: float, high: float, bounds: FiniteBounds | None) -> FiniteBounds:
    """The interval from ``low`` to ``high``, cut where it would leave the bounds."""
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])
