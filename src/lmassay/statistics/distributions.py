"""Quantiles, tail probabilities and resampling.

``scipy.stats`` has the same functions, but importing it takes nearly a second, which is too long for short commands. So
the functions here use ``scipy.special``, which loads quickly.
``tests/statistics/test_distributions.py`` compares each function with its counterpart in ``scipy.stats``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal distribution: a variable is below it with this probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def t_quantile(probability: float, degrees: float) -> float:
    """The quantile of Student's t with these degrees of freedom: a variable is below it with this probability.

    With infinitely many degrees of freedom, it is the quantile of the normal distribution.
    """
    from scipy.special import stdtrit

    if math.isinf(degrees):
        return normal_quantile(probability)
    return float(stdtrit(degrees, probability))


def t_upper_tail(t: float, degrees: float) -> float:
    """The probability that Student's t is at least this large."""
    from scipy.special import stdtr

    return float(stdtr(degrees, -t))


def fair_coin_p(heads: int, tosses: int) -> float:
    """The two-sided p-value of a number of heads if the coin is fair, by the exact binomial test.

    For the discordant pairs of two runs, this is McNemar's test.

    >>> fair_coin_p(0, 5)
    0.0625
    """
    from scipy.special import bdtr

    # The distribution is symmetric, so both tails have the probability of the smaller one.
    fewer = min(heads, tosses - heads)
    return min(1.0, 2 * float(bdtr(fewer, tosses, 0.5)))


def false_discovery_rates(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, so that they are false discovery rates (Benjamini and Hochberg 1995).

    >>> false_discovery_rates([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    import numpy as np

    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    # The adjusted values keep the order: a larger p must not get a smaller adjusted value than a smaller p.
    adjusted = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    rates = np.empty_like(p)
    rates[order] = adjusted
    return [float(rate) for rate in rates]


def holm_adjusted(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """Adjust p-values so that the probability of any false rejection at a level alpha is at most alpha (Holm 1979).

    ``tests`` is the number of all tests, if ``p_values`` has only some of them. The others are assumed not to be
    significant.

    >>> [round(p, 3) for p in holm_adjusted([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    count = len(p_values) if tests is None else tests
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        # The adjusted values keep the order: a larger p must not get a smaller adjusted value than a smaller p.
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1 along the last axis; equal values share the mean of their ranks.

    >>> import numpy as np
    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    import numpy as np

    order = np.argsort(values, axis=-1, kind="stable")
    in_order = np.take_along_axis(values, order, axis=-1)
    n = values.shape[-1]
    positions = np.broadcast_to(np.arange(n), values.shape)
    # After sorting, equal values are next to each other. Mark where each group of them begins and ends.
    is_first = np.ones(values.shape, dtype=bool)
    is_first[..., 1:] = in_order[..., 1:] != in_order[..., :-1]
    is_last = np.ones(values.shape, dtype=bool)
    is_last[..., :-1] = is_first[..., 1:]
    # The first and the last position of each value's group, carried forwards from the beginning of the group and
    # backwards from its end.
    first_positions = np.where(is_first, positions, 0)
    first = np.maximum.accumulate(first_positions, axis=-1)
    last_positions = np.where(is_last, positions, n)
    last = np.minimum.accumulate(last_positions[..., ::-1], axis=-1)[..., ::-1]
    # Positions count from 0, ranks from 1.
    mean_ranks = (first + last) / 2 + 1
    ranked = np.empty(values.shape, dtype=float)
    np.put_along_axis(ranked, order, mean_ranks, axis=-1)
    return ranked


def percentile_bootstrap(
    samples: tuple[NDArray[np.float64], ...],
    statistic: Any,
    *,
    confidence: float,
    resamples: int,
    batch: int,
    seed: int,
) -> tuple[float, float]:
    """The percentile bootstrap interval of a statistic of one or several samples, whose rows are resampled together.

    ``batch`` is the number of resamples that are in memory at a time. The function draws the same random numbers in the
    same order as ``scipy.stats.bootstrap(…, paired=True, method="percentile")``.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    n = len(samples[0])
    drawn = []
    with warnings.catch_warnings():
        # In a resample, the denominator of a ratio may be 0; its value is then NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        for start in range(0, resamples, batch):
            size = min(batch, resamples - start)
            # The same rows are drawn from all samples, because values in the same row belong together.
            drawn_rows = generator.integers(0, n, (size, n))
            resampled = [sample[drawn_rows] for sample in samples]
            drawn.append(statistic(*resampled, axis=-1))
        tail = (1 - confidence) / 2
        low, high = np.percentile(np.concatenate(drawn), [100 * tail, 100 * (1 - tail)])
    return float(low), float(high)
