"""Quantiles, tail probabilities and resampling, as in ``scipy.stats``, whose import takes most of a second.

``scipy.special`` has the same functions under other names and loads quickly, so that a short command stays short.
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
    """The value that a standard normal variable stays below with this probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def t_quantile(probability: float, degrees: float) -> float:
    """The value that Student's t with these degrees of freedom stays below with this probability.

    With infinitely many, Student's t is the normal distribution.
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
    """Two-sided p of a number of heads if the coin is fair: the exact binomial test (McNemar's, for discordant pairs).

    >>> fair_coin_p(0, 5)
    0.0625
    """
    from scipy.special import bdtr

    # The distribution is symmetric, so both tails are as likely as the smaller one.
    fewer = min(heads, tosses - heads)
    return min(1.0, 2 * float(bdtr(fewer, tosses, 0.5)))


def false_discovery_rates(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for how many there are (Benjamini and Hochberg, 1995).

    >>> false_discovery_rates([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    import numpy as np

    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    # A larger p is never adjusted to less than a smaller one.
    adjusted = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    rates = np.empty_like(p)
    rates[order] = adjusted
    return [float(rate) for rate in rates]


def holm_adjusted(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """p-values adjusted so that the probability of any false rejection is at most alpha (Holm 1979).

    ``tests`` is the number of all tests, if these are only some of them; the others are assumed not to be significant.

    >>> [round(p, 3) for p in holm_adjusted([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    count = len(p_values) if tests is None else tests
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        # A larger p is never adjusted to less than a smaller one.
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
    # The first and the last position of each value's group: carried forwards from where the group begins, and
    # backwards from where it ends.
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
    """Percentile interval of a statistic of one or several samples, resampled together.

    It draws the same numbers in the same order as ``scipy.stats.bootstrap(…, paired=True, method="percentile")``.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    n = len(samples[0])
    drawn = []
    with warnings.catch_warnings():
        # In a resample, what a ratio divides by may be 0; its value is then NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        for start in range(0, resamples, batch):
            size = min(batch, resamples - start)
            # The same rows of all samples, because their values belong together.
            drawn_rows = generator.integers(0, n, (size, n))
            resampled = [sample[drawn_rows] for sample in samples]
            drawn.append(statistic(*resampled, axis=-1))
        tail = (1 - confidence) / 2
        low, high = np.percentile(np.concatenate(drawn), [100 * tail, 100 * (1 - tail)])
    return float(low), float(high)
