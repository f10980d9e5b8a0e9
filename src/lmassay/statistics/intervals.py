"""Intervals of the numbers that tasks report, and differences between runs.

The method is in :mod:`lmassay.statistics.estimation`; here it is applied to the columns of a table of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import Bounds
from lmassay.statistics.distributions import normal_quantile, percentile_bootstrap
from lmassay.statistics.estimation import Estimate, estimate
from lmassay.statistics.observations import Observations, observations
from lmassay.statistics.table import ScoreTable
from lmassay.statistics.terms import Term
from lmassay.statistics.wilson import wilson
from lmassay.types import Result
from lmassay.types import Settings as Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Labels = Sequence[str] | NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Statistic = Callable[..., Floats]

# Scores that differ by less are equal except for rounding, like 0.1 + 0.2 and 0.3.
RELATIVE_SLACK = 1e-9
ABSOLUTE_SLACK = 1e-12
# The number of resampled values in memory at a time: 4 million doubles are 32 MB.
_BATCH_VALUES = 4_000_000

DEFAULT = Settings()
UNIT: Bounds = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference between two runs on the examples that both have."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    """The two-sided p-value; None, like ``low`` and ``high``, if the data do not show how much differences vary."""
    n: int
    """The number of pairs."""
    estimate: Estimate | None = None
    """The estimate from which interval and p are computed; None if the runs have no pairs."""


def mean_estimate(
    values: Floats,
    clusters: Sequence[Labels] = (),
    *,
    weights: Floats | None = None,
    bounds: Bounds | None = None,
) -> Estimate:
    """Estimate the mean of a metric's values.

    Without ``bounds``, scores that all lie between 0 and 1 are assumed to be limited to this range.
    """
    import numpy as np

    lies_in_unit = bool(len(values)) and float(values.min()) >= 0 and float(values.max()) <= 1
    if bounds is None and lies_in_unit:
        bounds = UNIT
    weights_are_counts = False
    if weights is not None and lies_in_unit and clusters:
        hits = values * weights
        # If each weight is a number of answers and each value is the fraction of them that are right, the mean is a
        # rate among all answers. Without clusters, the answers to one example would count as independent, so each
        # example remains a single observation.
        are_whole_hits = np.allclose(hits, np.round(hits))
        are_whole_weights = np.allclose(weights, np.round(weights))
        weights_are_counts = bool(are_whole_hits and are_whole_weights)
    return estimate([Term(values, 1.0, clusters, weights, weights_are_counts)], bounds=bounds)


def mean_interval(
    values: Floats, settings: Settings = DEFAULT, clusters: Sequence[str] | None = None
) -> tuple[float | None, float | None]:
    """Only the interval of a mean, for tasks that build their results themselves."""
    groupings = [] if clusters is None else [clusters]
    return mean_estimate(values, groupings).interval(settings.confidence)


def rate_interval(rate: float, n: float, settings: Settings = DEFAULT) -> tuple[float, float]:
    """Wilson's interval of a rate among ``n`` independent examples; ``n`` need not be a whole number."""
    return wilson(rate, n, normal_quantile(0.5 + settings.confidence / 2))


def result_of(
    estimated: Estimate,
    metric: str,
    group: str,
    counts: tuple[int, int, int],
    settings: Settings,
    by: Sequence[str] = (),
) -> Result:
    """A result with the interval of an estimate.

    ``counts`` are the numbers of scored examples, of errors and of unscored examples; ``by`` names the clusters.
    """
    low, high = estimated.interval(settings.confidence)
    method = replace(estimated, clustered_by=tuple(by)).method
    # A mean over the labels of a group (``Combination.each``) has the group's name in ``by``, but no clusters.
    clusters = dict(zip(by, estimated.clusters, strict=False))
    return Result(metric, group, estimated.value, low, high, *counts, method=method, clusters=clusters)


def observed_result(
    estimated: Estimate,
    observed: Observations,
    metric: str,
    group: str,
    counts: tuple[int, int, int],
    settings: Settings,
) -> Result:
    """The result of an estimate from observations; its method names a grouping that could not be used as clusters."""
    result = result_of(replace(estimated, value=observed.mean), metric, group, counts, settings, observed.clustered_by)
    if not observed.not_clustered_by:
        return result
    return replace(result, method=f"{result.method} (not by {observed.not_clustered_by}: not in the run)")


def bootstrap_interval(
    samples: tuple[Floats, ...], statistic: Statistic, settings: Settings = DEFAULT
) -> tuple[float | None, float | None]:
    """Bootstrap interval of a statistic that is not a sum of means, such as a correlation.

    ``statistic`` takes as many arrays as there are ``samples``, and a keyword argument ``axis`` like a numpy function.
    """
    import numpy as np

    n = len(samples[0])
    if n < 2 or all(np.ptp(sample) == 0 for sample in samples):
        # If all values are the same, resampling cannot show what other values are possible.
        return None, None
    # The random draws are positions. Rows are sorted first, so that their order does not affect the interval.
    order = np.lexsort(samples)
    low, high = percentile_bootstrap(
        tuple(sample[order] for sample in samples),
        statistic,
        confidence=settings.confidence,
        resamples=settings.resamples,
        batch=max(1, _BATCH_VALUES // n),
        seed=settings.seed,
    )
    if not np.isfinite(low) or not np.isfinite(high):
        return None, None
    return low, high


def same_scores(before: Floats, after: Floats) -> Mask:
    """Which scores are equal except for rounding; NaN is not equal to anything.

    >>> import numpy as np
    >>> same_scores(np.array([0.1 + 0.2, 1.0]), np.array([0.3, 1.001])).tolist()
    [True, False]
    """
    import numpy as np

    slack = np.maximum(RELATIVE_SLACK * np.maximum(np.abs(before), np.abs(after)), ABSOLUTE_SLACK)
    with np.errstate(invalid="ignore"):
        is_close = np.abs(before - after) <= slack
    # An infinite score is equal only to itself, although the slack is infinite, too.
    return np.asarray((before == after) | (is_close & np.isfinite(slack)))


def changes_of(before: Floats, after: Floats) -> Floats:
    """After minus before; 0 where scores differ only by rounding."""
    import numpy as np

    return np.where(same_scores(before, after), 0.0, after - before)


def paired_difference(
    a: Floats,
    b: Floats,
    settings: Settings = DEFAULT,
    clusters: Sequence[Labels] = (),
    weights: Floats | None = None,
) -> PairedDifference:
    """The mean of ``b - a`` over paired values, with an interval and a p-value from the same t-distribution."""
    import numpy as np

    if len(a) == 0:
        return PairedDifference(0.0, None, None, None, 0)
    step = possible_change(np.concatenate([a, b]))
    return difference_of([Term(changes_of(a, b), 1.0, clusters, weights, step=step)], settings)


def possible_change(scores: Floats) -> float:
    """How far a score that did not change could have moved.

    This is 1 for scores of 0 or 1, otherwise the standard deviation of all scores. If all are equal, it is guessed.
    """
    import numpy as np

    if np.isin(scores, (0.0, 1.0)).all():
        return 1.0
    spread = float(scores.std())
    if spread > 0:
        return spread
    # All scores are equal, so their standard deviation can only be guessed from their size.
    return max(1.0, float(np.abs(scores).max()))


def difference_of(
    terms: Sequence[Term], settings: Settings, by: Sequence[str] = (), largest: float | None = None
) -> PairedDifference:
    """The difference between two runs. Each term holds the paired differences in one column of the metric.

    ``by`` names the clusters. The interval is cut off at ``-largest`` and ``largest``, the bounds of a difference.
    """
    bounds = None if largest is None else (-largest, largest)
    estimated = replace(estimate(terms, is_difference=True), clustered_by=tuple(by), bounds=bounds)
    low, high = estimated.interval(settings.confidence)
    return PairedDifference(estimated.value, low, high, estimated.p_value(), estimated.rows, estimated)


def mean_result(
    table: ScoreTable,
    metric: str,
    settings: Settings = DEFAULT,
    *,
    group: str = "overall",
    where: Mask | None = None,
    cluster: str | Sequence[str] | None = None,
    weight: str | None = None,
    bounds: Bounds | None = None,
    crossed: str | None = None,
) -> Result:
    """The mean of a metric over the rows in ``where``, with interval and counts.

    ``cluster`` names the group, or the two groups, whose examples are not independent. Without it, if questions were
    asked several times, the samples (the answers to one question) are a cluster. ``weight`` names the column that says
    how much each example counts, such as its number of words. ``crossed`` says what the labels of the metric's outcomes
    are, as in ``Design.crossed``.
    """
    n, n_error, n_unscored = table.counts(metric, where)
    if n == 0:
        return Result(metric, group, None, None, None, 0, n_error, n_unscored)
    clusters = cluster_names(cluster) or table.repeated_by
    observed = observations(table, metric, where, clusters=clusters, weight=weight, crossed=crossed)
    if observed is None:
        return Result(metric, group, None, None, None, 0, n_error, n_unscored + n)
    estimated = mean_estimate(observed.values, observed.clusters, weights=observed.weights, bounds=bounds)
    return observed_result(estimated, observed, metric, group, (n, n_error, n_unscored), settings)


def cluster_names(cluster: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the groups that examples are clustered by."""
    if cluster is None:
        return ()
    return (cluster,) if isinstance(cluster, str) else tuple(cluster)


def mean_results(
    table: ScoreTable,
    metrics: Sequence[str],
    settings: Settings = DEFAULT,
    cluster: str | Sequence[str] | None = None,
    weights: Mapping[str, str] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    crossed: Mapping[str, str] | None = None,
) -> list[Result]:
    """Means overall and for each label of every group of the table, which is what most tasks report.

    Groups that define clusters are left out.

    ``weights`` and ``crossed`` are those of a ``Design``: dicts from a metric to the column that says how much each
    example counts, and from a metric to what its outcomes are labelled by. ``bounds`` is a dict from a metric to the
    least and the largest possible value.
    """
    parts: list[tuple[str, Mask | None]] = [("overall", None)]
    for group in table.groups:
        if group in (*cluster_names(cluster), *table.repeated_by):
            # Groups that define clusters are left out: a single cluster has no interval, and there are too many
            # clusters for a table.
            continue
        for label, mask in table.parts(group):
            parts.append((f"{group}={label}", mask))
    weights = weights or {}
    bounds = bounds or {}
    crossed = crossed or {}
    results = []
    for name, where in parts:
        for metric in metrics:
            result = mean_result(
                table,
                metric,
                settings,
                group=name,
                where=where,
                cluster=cluster,
                weight=weights.get(metric),
                bounds=bounds.get(metric),
                crossed=crossed.get(metric),
            )
            results.append(result)
    return results
