"""Wilson's interval (1927) of a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def wilson(rate: Floats | float, n: Floats | float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a rate of ``n`` independent rows; ``n`` need not be a whole number.

    Arrays are processed element by element. ``quantile`` is that of the normal distribution or of Student's t.
    """
    import numpy as np

    middle, half = _middle_and_half_width(rate, n, quantile)
    # At a rate of 0 or 1, one end is known exactly. Elsewhere, rounding must not move an end out of 0…1.
    lower = np.where(rate == 0, 0.0, np.maximum(middle - half, 0.0))
    upper = np.where(rate == 1, 1.0, np.minimum(middle + half, 1.0))
    if lower.ndim == 0:
        return float(lower), float(upper)
    return lower, upper  # type: ignore[return-value]


def wilson_lower_ends(rates: Floats, n: Floats, quantile: float) -> Floats:
    """Only the lower ends of Wilson's intervals, for searches that compute very many of them."""
    import numpy as np

    middle, half = _middle_and_half_width(rates, n, quantile)
    return np.asarray(np.maximum(middle - half, 0.0))


def extreme_ends(n: float, quantile: float) -> tuple[float, float]:
    """The lower end of Wilson's interval for a rate of 1, and the upper end for a rate of 0."""
    square = quantile**2
    return n / (n + square), square / (n + square)


def _middle_and_half_width(
    rate: Floats | float, n: Floats | float, quantile: float
) -> tuple[Floats | float, Floats | float]:
    """The middle and half the width of Wilson's interval: the rates that a score test at this quantile accepts."""
    import numpy as np

    square = quantile**2
    shrinkage = 1 + square / n
    middle = (rate + square / (2 * n)) / shrinkage
    half_width = quantile / shrinkage * np.sqrt(rate * (1 - rate) / n + square / (4 * n**2))
    return middle, half_width
