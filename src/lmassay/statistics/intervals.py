"""Intervals and tests. Every function takes a seed, so the same data give the same interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.statistics.distributions import (
    fair_coin_p,
    normal_quantile,
    percentile_bootstrap,
    standard_error,
    t_quantile,
    t_two_sided_p,
)
from lmassay.statistics.table import ScoreTable
from lmassay.types import LEAST_P_OF_DRAWS as LEAST_P_OF_DRAWS
from lmassay.types import Result
from lmassay.types import Settings as Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Statistic = Callable[..., NDArray[np.float64]]

# Below this many values the percentile bootstrap covers too little, and above the limit it agrees with Student's t.
FEW = 30
BOOTSTRAP_LIMIT = 20_000
# The sign-flip test draws 9,999 permutations; beyond this many pairs the paired t-test says the same at once.
PERMUTATION_LIMIT = 500
# Beyond rounding, as 0.1 + 0.2 is 0.3: scores of such a difference are the same score.
RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-9, 1e-12
RESAMPLES_OF_TEST = 9999
# Resampled values held at once: 4 million doubles are 32 MB.
_BATCH_VALUES = 4_000_000
# A rate is resampled where at least so many clusters have a hit and so many a miss.
_ENOUGH_TO_TELL = 10
# Below this many independent units (values, or clusters) an interval would be a pretence.
_FEWEST = 2


DEFAULT = Settings()


@dataclass(frozen=True, slots=True)
class Difference:
    """One run against another on the examples they share."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def mean_interval(
    values: NDArray[np.float64], settings: Settings = DEFAULT, clusters: Sequence[str] | None = None
) -> tuple[float | None, float | None]:
    """Interval of the mean; with ``clusters``, whole clusters are resampled.

    Values that are all 0 or 1 are a rate and take Wilson's interval; few values take Student's t, for resampling them
    promises too much.
    """
    if _all_zero_or_one(values):
        if clusters is not None:
            return _clustered_rate_interval(*_cluster_sums(values, clusters), settings)
        return wilson_interval(round(float(values.sum())), len(values), settings)
    low, high = _resampled_mean_interval(values, settings, clusters)
    # Scores that live in [0, 1] have a mean that does, too.
    return _within_unit(low, high) if len(values) and values.min() >= 0 and values.max() <= 1 else (low, high)


def _resampled_mean_interval(
    values: NDArray[np.float64], settings: Settings, clusters: Sequence[str] | None
) -> tuple[float | None, float | None]:
    if clusters is not None:
        return _ratio_interval(*_cluster_sums(values, clusters), settings)
    if _FEWEST <= len(values) < FEW or len(values) > BOOTSTRAP_LIMIT:
        return _t_interval(values, settings)
    return _bootstrap((values,), _mean, settings)


def _clustered_rate_interval(
    hits: NDArray[np.float64], sizes: NDArray[np.float64], settings: Settings
) -> tuple[float | None, float | None]:
    """Interval of a rate; where few clusters have a hit (or a miss), resampling would take one for surer than none.

    There it is Wilson's interval for as many tosses of a coin as the values are worth, by how alike those of a cluster
    are. That is known the less, the fewer clusters tell: one more, all of a kind, is supposed.
    """
    if len(sizes) < _FEWEST:
        return None, None
    n = float(sizes.sum())
    rate, size = float(hits.sum() / n), float((sizes**2).sum() / n)
    telling = min(int((hits > 0).sum()), int((hits < sizes).sum()))
    if telling >= _ENOUGH_TO_TELL and size > 1:
        return _within_unit(*_ratio_interval(hits, sizes, settings))
    alike = 0.0
    if telling and size > 1:
        variance = float(((hits - rate * sizes) ** 2).sum()) * len(sizes) / (len(sizes) - 1)
        alike = min(max((variance / (n * rate * (1 - rate)) - 1) / (size - 1), 0.0), 1.0)
    supposed = (alike * telling + 1) / (telling + 1)
    return rate_interval(rate, n / (1 + (size - 1) * supposed), settings)


def interval_of_mean(values: NDArray[np.float64], settings: Settings = DEFAULT) -> tuple[float | None, float | None]:
    """Interval of the mean of values that might be negative, though none of these is: not cut, not taken for rates."""
    return _resampled_mean_interval(values, settings, None)


def weighted_mean_interval(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    clusters: Sequence[str],
    settings: Settings = DEFAULT,
) -> tuple[float | None, float | None]:
    """Interval of Σ weight · value / Σ weight for values between 0 and 1; whole clusters are drawn.

    Where weights count rows and each value is a share of right ones, it is that of a rate.
    """
    import numpy as np

    sums, _ = _cluster_sums(values * weights, clusters)
    sizes, _ = _cluster_sums(weights, clusters)
    if np.allclose(values * weights, np.round(values * weights)) and np.allclose(weights, np.round(weights)):
        return _clustered_rate_interval(sums, sizes, settings)
    return _within_unit(*_ratio_interval(sums, sizes, settings))


def _within_unit(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    return (low, high) if low is None or high is None else (max(low, 0.0), min(high, 1.0))


def _ratio_interval(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], settings: Settings
) -> tuple[float | None, float | None]:
    """Interval of a ratio of sums over clusters: few clusters take Student's t on what each adds to the ratio."""
    if not _FEWEST <= len(sums) < FEW and len(sums) <= BOOTSTRAP_LIMIT:
        return _bootstrap((sums, sizes), _ratio_of_sums, settings)
    ratio = float(sums.sum() / sizes.sum())
    return interval_around(ratio, (sums - ratio * sizes) / sizes.sum(), settings)


def linear_interval(
    estimate: float, contributions: NDArray[np.float64], settings: Settings = DEFAULT
) -> tuple[float | None, float | None]:
    """Interval of an estimate between 0 and 1 from what each independent cluster adds to its deviation."""
    return _within_unit(*interval_around(estimate, contributions, settings))


def interval_around(
    estimate: float, contributions: NDArray[np.float64], settings: Settings = DEFAULT
) -> tuple[float | None, float | None]:
    """The same for estimates of any range: Student's t on contributions that sum to zero."""
    if len(contributions) < _FEWEST:
        return None, None
    low, high = _t_interval(contributions * len(contributions), settings)
    return (None, None) if low is None or high is None else (estimate + low, estimate + high)


def interval(
    samples: tuple[NDArray[np.float64], ...], statistic: Statistic, settings: Settings = DEFAULT
) -> tuple[float | None, float | None]:
    """Bootstrap interval of any statistic of one or more paired samples; ``statistic`` takes ``axis``."""
    return _bootstrap(samples, statistic, settings)


def in_blocks(*samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Sums over blocks of equal size, few enough to bootstrap: exact for statistics that depend on sums alone."""
    import numpy as np

    size = -(-len(samples[0]) // BOOTSTRAP_LIMIT)
    if size <= 1:
        return samples
    starts = np.arange(0, len(samples[0]), size)
    return tuple(np.add.reduceat(sample, starts) for sample in samples)


def the_same(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values differ by no more than rounding does."""
    import numpy as np

    return np.asarray(np.isclose(a, b, rtol=RELATIVE_SLACK, atol=ABSOLUTE_SLACK))


def paired_difference(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    settings: Settings = DEFAULT,
    clusters: Sequence[str] | None = None,
) -> Difference:
    """Mean of ``b - a`` over paired values: interval, and p from a test that flips signs within pairs (or clusters)."""
    import numpy as np

    difference = np.where(the_same(a, b), 0.0, b - a)
    if len(difference) == 0:
        return Difference(0.0, None, None, None, 0)
    low, high = _resampled_mean_interval(difference, settings, clusters)
    units = difference if clusters is None else _cluster_sums(difference, clusters)[0]
    return Difference(float(np.mean(difference)), low, high, _sign_flip_p(units, settings), len(difference))


def mean_result(
    table: ScoreTable,
    metric: str,
    settings: Settings = DEFAULT,
    *,
    group: str = "overall",
    where: NDArray[np.bool_] | None = None,
    cluster: str | None = None,
    weight: str | None = None,
) -> Result:
    """The mean of a metric over a part of the table, with interval and counts.

    ``weight`` names the column that says how much each example counts, such as its number of words.
    """
    n, n_error, n_unscored = table.counts(metric, where)
    if n == 0:
        return Result(metric, group, None, None, None, 0, n_error, n_unscored)
    values = table.values(metric, where)
    clusters = table.clusters(metric, cluster, where) if cluster else None
    if weight is None:
        low, high = mean_interval(values, settings, clusters)
        return Result(metric, group, float(values.mean()), low, high, n, n_error, n_unscored)
    weights = table.weights(metric, weight, where)
    total = float(weights.sum())
    if not total > 0:
        return Result(metric, group, None, None, None, 0, n_error, n_unscored + n)
    value = float((values * weights).sum() / total)
    # Without clusters, each example is a cluster of its own.
    units = clusters if clusters is not None else [str(place) for place in range(n)]
    if bool(((values >= 0) & (values <= 1)).all()):
        low, high = weighted_mean_interval(values, weights, units, settings)
    else:
        sums, _ = _cluster_sums(values * weights, units)
        sizes, _ = _cluster_sums(weights, units)
        low, high = _ratio_interval(sums, sizes, settings)
    return Result(metric, group, value, low, high, n, n_error, n_unscored)


def mean_results(
    table: ScoreTable,
    metrics: Sequence[str],
    settings: Settings = DEFAULT,
    cluster: str | None = None,
    weights: Mapping[str, str] | None = None,
) -> list[Result]:
    """Means overall and by every group of the table: what most tasks report.

    ``weights`` are those of a ``Design``: metric → the column that says how much each example counts.
    """
    weight_of = weights or {}
    rows = [mean_result(table, m, settings, cluster=cluster, weight=weight_of.get(m)) for m in metrics]
    for group in table.groups:
        if group == cluster:
            continue
        for label, where in table.parts(group):
            name = f"{group}={label}"
            for metric in metrics:
                weight = weight_of.get(metric)
                row = mean_result(table, metric, settings, group=name, where=where, cluster=cluster, weight=weight)
                rows.append(row)
    return rows


def _mean(values: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(np.mean(values, axis=axis))


def _ratio_of_sums(sums: NDArray[np.float64], sizes: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(np.sum(sums, axis=axis) / np.sum(sizes, axis=axis))


def _cluster_sums(
    values: NDArray[np.float64], clusters: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(codes, weights=values).astype(float), np.bincount(codes).astype(float)


def _bootstrap(
    samples: tuple[NDArray[np.float64], ...], statistic: Statistic, settings: Settings
) -> tuple[float | None, float | None]:
    import numpy as np

    n = len(samples[0])
    if n < _FEWEST:
        return None, None
    if all(np.ptp(sample) == 0 for sample in samples):
        # Without spread, resampling knows nothing of what other values there might be.
        return None, None
    low, high = percentile_bootstrap(
        samples,
        statistic,
        confidence=settings.confidence,
        resamples=settings.resamples,
        batch=max(1, _BATCH_VALUES // n),
        seed=settings.seed,
    )
    return (low, high) if np.isfinite(low) and np.isfinite(high) else (None, None)


def _t_interval(values: NDArray[np.float64], settings: Settings) -> tuple[float | None, float | None]:
    import numpy as np

    if np.ptp(values) == 0:
        return None, None
    half = t_quantile(0.5 + settings.confidence / 2, len(values) - 1) * standard_error(values)
    mean = float(np.mean(values))
    return mean - half, mean + half


def _all_zero_or_one(values: NDArray[np.float64]) -> bool:
    import numpy as np

    return len(values) > 0 and bool(np.isin(values, (0.0, 1.0)).all())


def wilson_interval(hits: int, n: int, settings: Settings = DEFAULT) -> tuple[float, float]:
    """Interval of a rate; 0 out of 10 is no certainty, though resampling ten zeros would say so."""
    return rate_interval(hits / n, n, settings)


def rate_interval(rate: float, n: float, settings: Settings = DEFAULT) -> tuple[float, float]:
    """Wilson's interval of a rate in a number of tosses that need not be whole, as scipy's must."""
    z = normal_quantile(0.5 + settings.confidence / 2)
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    # At 0 and 1 the interval begins there, but for rounding.
    return (0.0 if rate == 0 else max(middle - half, 0.0)), (1.0 if rate == 1 else min(middle + half, 1.0))


def _sign_flip_p(units: NDArray[np.float64], settings: Settings) -> float | None:
    import numpy as np

    nonzero = units[np.abs(units) > ABSOLUTE_SLACK]
    if len(units) < _FEWEST:
        return None
    if len(nonzero) < _FEWEST:
        # Flipping the sign of nothing, or of a single value, leaves the statistic as extreme as it was.
        return 1.0
    if np.ptp(np.abs(nonzero)) <= RELATIVE_SLACK * np.abs(nonzero).max():
        # All differences are of one size, as between two rates: flipping signs is tossing coins (McNemar's exact test).
        return fair_coin_p(int((nonzero > 0).sum()), len(nonzero))
    exact = 2 ** len(nonzero) <= RESAMPLES_OF_TEST
    if len(nonzero) > PERMUTATION_LIMIT or not (exact or settings.draws_suffice):
        return t_test_p(float(units.mean()), units / len(units), len(nonzero))
    from scipy.stats import permutation_test

    # Zeros never change under a flip, so only the others are permuted; few enough are enumerated exactly.
    found = permutation_test(
        (nonzero,),
        _sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES_OF_TEST,
        batch=max(1, _BATCH_VALUES // len(nonzero)),
        rng=np.random.default_rng(settings.seed),
    )
    return p_of_draws(float(found.statistic), found.null_distribution, exact, float(np.abs(nonzero).max()))


def p_of_draws(found: float, null: NDArray[np.float64], exact: bool, scale: float) -> float:
    """Two-sided p of a value among those that chance makes: all there are, or so many draws of them."""
    # Sums of the same numbers in another order are not quite the same.
    slack, more = RELATIVE_SLACK * scale, 0 if exact else 1
    tails = ((null <= found + slack).sum(), (null >= found - slack).sum())
    return float(min(1.0, 2 * (min(tails) + more) / (len(null) + more)))


def t_test_p(estimate: float, contributions: NDArray[np.float64], changed: int) -> float:
    """Student's t from what each unit adds to the estimate; never below what going through all swaps could give."""
    error = standard_error(contributions * len(contributions))
    p = t_two_sided_p(estimate / error, len(contributions) - 1) if error else 0.0
    return max(p, 2.0 ** (1 - min(changed, 1000)))


def _sum(values: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(np.sum(values, axis=axis))
