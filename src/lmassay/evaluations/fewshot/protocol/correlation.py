"""Do dev scores rank configurations as test scores do? Spearman's coefficient, its interval, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from lmassay.statistics import intervals
from lmassay.statistics.intervals import DEFAULT, Settings

# With three configurations six orders are all there is.
FEWEST = 4
# In simulations with true values from 0 to 0.97 (normal, coarse and heavy-tailed scores) 95 % intervals by resampling
# covered down to 83 % at 8 configurations, but 93 to 99 % from 16 on; Bonett and Wright's formula the other way round,
# 93 to 97 % at 8, but down to 87 % at 24 with heavy tails.
FEW = 16


@dataclass(frozen=True, slots=True)
class Correlation:
    """Over ``n`` configurations; ``value`` is None where there is none, and ``reason`` says why."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str = ""


def rank_correlation(dev: Sequence[float], test: Sequence[float], settings: Settings = DEFAULT) -> Correlation:
    """Spearman's coefficient of two scores of the same configurations; equal scores share their mean rank.

    The interval takes the configurations for a sample of those one might try: below 16 of them from Fisher's
    transformation with Bonett and Wright's standard error, else from resampling (percentiles).

    >>> rank_correlation([0.1, 0.2, 0.3, 0.4, 0.5], [1, 2, 3, 5, 4]).value
    0.9
    """
    if len(dev) != len(test):
        raise ValueError(f"{len(dev)} dev scores and {len(test)} test scores cannot be paired")
    pairs = np.asarray([(d, t) for d, t in zip(dev, test, strict=True) if math.isfinite(d) and math.isfinite(t)])
    n = len(pairs)
    if n < FEWEST:
        return Correlation(
            None, None, None, n, f"{n} configuration{'' if n == 1 else 's'} with both scores; it takes {FEWEST}"
        )
    x, y = pairs[:, 0], pairs[:, 1]
    for values, name in ((x, "dev"), (y, "test")):
        if np.ptp(values) == 0:
            return Correlation(None, None, None, n, f"all configurations have the same {name} score")
    value = round(float(_spearman(x, y)), 12)
    low, high = intervals.interval((x, y), _spearman, settings) if n >= FEW else (None, None)
    if low is None or high is None:
        low, high = _by_formula(value, n, settings.confidence)
    return Correlation(value, low, high, n)


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=axis) for values in (x, y))
    a, b = (ranks - ranks.mean(axis=axis, keepdims=True) for ranks in (a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(axis=axis) / np.sqrt((a * a).sum(axis=axis) * (b * b).sum(axis=axis)))


def _by_formula(value: float, n: int, confidence: float) -> tuple[float, float]:
    # A perfect order has no spread under the transformation: it counts as half a swap of neighbours less than perfect.
    most = 1 - 6 / (n * (n * n - 1))
    z = math.atanh(max(-most, min(most, value)))
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt((1 + value * value / 2) / (n - 3))
    return (-1.0 if value <= -1 else math.tanh(z - half)), (1.0 if value >= 1 else math.tanh(z + half))
