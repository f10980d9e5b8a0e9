"""The interval of a rate in clusters, such as an accuracy over questions that were made from templates.

A row is a *hit* if its value is 1 (a right answer) and an *error* if it is 0. The interval is Wilson's (1927) with an
effective number of rows, in five steps:

1. *Correlation.* The intra-cluster correlation is estimated as by Fleiss and Cuzick (1979): 1 minus the ratio of the
   variance within clusters to the variance of all rows. Every row counts equally, whatever the size of its cluster.
2. *Prior.* If the data say little about the correlation, it is shrunk towards 0.3.
3. *Quantile.* Student's t has one degree of freedom less than there are clusters, or fewer if one cluster dominates.
4. *Monotonicity.* One more error can lower the estimated correlation, so the lower end of this interval may rise. Two
   functions never rise with an additional error: the minimum of the lower end over all data sets with fewer errors,
   which is the highest such function below it, and its maximum over all data sets with more errors, which is the lowest
   such function above it. The lower end that is used is the mean of these two. The upper end is 1 minus the lower end
   of the interval for the share of errors.
5. *Tails.* Lower ends are capped at that of a perfect result. So a true rate above the cap can be missed by the upper
   end only, and the upper end may miss it in nearly 5 % of data sets instead of 2.5 %. Near 0, the same holds with the
   two ends exchanged.

The constants were chosen by simulation; ``benchmarks/coverage.py`` shows how often the intervals cover the true rate,
and ``docs/uncertainty.md`` explains the rule to users. The last axis of all arrays is that of the clusters (or of the
points of a search), so that a simulation can pass many data sets at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from lmassay.statistics.distributions import t_quantile
from lmassay.statistics.variance import LARGEST_CORRELATION, PRIOR_CORRELATION, Clusters, clusters_of
from lmassay.statistics.wilson import extreme_ends, wilson_lower_ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # From the number of additional (or corrected) errors to the resulting rate and variance within clusters.
    Path = Callable[[Floats], tuple[Floats, Floats]]

# With this many clusters full of errors (or of hits), the data and the prior have the same weight in the correlation.
PRIOR_CLUSTERS_OF_RATES = 0.2
# One error changes the estimated correlation, and so the design effect. If it changes the design effect at the prior
# correlation by this fraction, the data's weight is limited to 1/2; if by less, the limit quickly approaches 1.
LARGEST_CHANGE_BY_ONE_ERROR = 0.2
# The exponent that says how quickly.
_STEEPNESS = 4
# Estimated correlations around 0 are raised smoothly; at 0, by half of what this many errors can change.
BENT_BY_ERRORS = 1.5
# With very many clusters that are not tiny, at least this many degrees of freedom are left if one cluster dominates.
DEGREES_WITH_DOMINANT_CLUSTER = 5.0
# The inequality of cluster sizes that has half of the largest effect. One cluster with 0.37 of the rows reaches it.
HALF_DOMINANT = 0.0025
# A cluster counts fully in the degrees of freedom if it is at least this fraction of the size of an average row's
# cluster.
SMALLEST_WHOLE_CLUSTER = 0.1
# With this many effective clusters or fewer, both tails are always equal.
EQUAL_TAILS_UP_TO = 5.2
# The numbers of errors at which the search for the smallest and the largest value begins. From 1 on, they grow by a
# factor of at most 1.5.
_FIRST_STEPS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0)
# Up to this number of data sets, the time depends on the number of calls to numpy, not on the size of the arrays.
_FEW_DATA_SETS = 8
# The rounds of the search for the largest value, and the points that each round after the first one evaluates. In the
# end, the distance between points is two million times smaller for many data sets, and one million times for few.
_ROUNDS, _POINTS = 8, 17
_ROUNDS_FOR_FEW, _POINTS_FOR_FEW = 5, 65


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """Everything that depends only on the sizes of the clusters, not on the answers."""

    sizes: Floats
    clusters: Clusters
    total: float
    """The number of rows."""
    degrees_within: float
    """Degrees of freedom of the variance within clusters: the number of rows minus that of clusters, at least 1."""
    data_weight: float
    """The largest weight, from 0 to 1, that the data can have when the correlation is shrunk towards its prior."""
    degrees: float
    """Degrees of freedom of Student's t."""
    tail_increase: float
    """By what fraction a tail grows if the interval can miss the true rate on that side only: 1 doubles it, so that 5 %
    are in one tail; 0 leaves 2.5 % in each."""

    def effective_without_errors(self) -> float:
        """The effective number of rows at the largest correlation that intervals allow for."""
        return self.total / (1 + (self.clusters.size - 1) * LARGEST_CORRELATION)


def cluster_sizes(sizes: Floats) -> ClusterSizes:
    """Compute everything that depends only on these numbers of rows per cluster.

    There must be at least two clusters, and one must have more than one row. The numbers need not be whole: with
    weights, a cluster's size is its share of the total weight times Kish's effective number of rows.
    """
    import numpy as np

    sizes = np.asarray(sizes, dtype=float)
    clusters = clusters_of(sizes)
    total = float(sizes.sum())
    degrees_within = max(total - len(sizes), 1.0)
    # In the middle, where rows have a variance of 1/4, one error changes the correlation by up to 4 / degrees_within.
    prior_effect = 1 + (clusters.size - 1) * PRIOR_CORRELATION
    change_by_one_error = (clusters.size - 1) * 4 / degrees_within / prior_effect
    return ClusterSizes(
        sizes=sizes,
        clusters=clusters,
        total=total,
        degrees_within=degrees_within,
        data_weight=1 / (1 + (change_by_one_error / LARGEST_CHANGE_BY_ONE_ERROR) ** _STEEPNESS),
        degrees=_degrees_of_freedom(clusters),
        tail_increase=_tail_increase(clusters),
    )


def _degrees_of_freedom(clusters: Clusters) -> float:
    """Degrees of freedom: one less than the number of clusters, but fewer if a few clusters have most rows.

    If one of a hundred clusters has 0.2 of the rows, 67 degrees are left; if it has 0.3, 17; if it has half, 4.5.
    Only the design effect of a rate is estimated; the variance of a single row follows from the rate. So the degrees
    increase as clusters become smaller (by Satterthwaite's method), to infinity if each cluster is a single row.
    """
    count = _count_without_tiny_clusters(clusters)
    # This sum of sixth powers minus its smallest value is 0 for clusters of equal size, and stays small unless one
    # cluster has a quarter of the rows or more.
    inequality = max(float((clusters.shares**6).sum()) - count**-5, 0.0)
    dominance = inequality / (inequality + HALF_DOMINANT)
    degrees = 1 / (1 / (count - 1) + dominance / DEGREES_WITH_DOMINANT_CLUSTER)
    return degrees * (clusters.size / (clusters.size - 1)) ** 2


def _count_without_tiny_clusters(clusters: Clusters) -> float:
    """The number of clusters. A tiny one counts as a fraction: a few rows say little about how clusters differ.

    The number is continuous in the sizes: a cluster whose rows have nearly no weight hardly counts.
    """
    import numpy as np

    # The size of each cluster relative to that of the cluster of an average row, whose share is 1 / effective.
    relative_sizes = clusters.shares * clusters.effective
    count = float(np.minimum(relative_sizes / SMALLEST_WHOLE_CLUSTER, 1.0).sum())
    # Even if one cluster has nearly all rows, one degree of freedom is left.
    return max(count, 2.0)


def _tail_increase(clusters: Clusters) -> float:
    """See :attr:`ClusterSizes.tail_increase`: nearly 1 for many large clusters.

    It is smaller if there are few effective clusters, because then the correlation is not known well enough, and if
    clusters are small, because the interval of independent rows has equal tails.
    """
    has_enough_clusters = 1 - min(1.0, (EQUAL_TAILS_UP_TO / clusters.effective) ** 8)
    are_large = (1 - 1 / clusters.size) ** 4
    return has_enough_clusters * are_large


def design_effects(rates: Floats, within: Floats, design: ClusterSizes) -> Floats:
    """The factors by which clusters inflate the variance of rates; ``within`` are the variances within clusters."""
    import numpy as np

    variances = rates * (1 - rates)
    has_spread = variances > 1e-12
    # Where all rows are the same, there is no variance; 1 only avoids a division by 0 and does not affect the result.
    divisors = np.where(has_spread, variances, 1.0)
    correlations = np.where(has_spread, np.maximum(1 - within / divisors, -1.0), 0.0)
    # A negative correlation is noise. Cutting it off at 0 would make a corner, before which one more error changes
    # nothing and after which it changes much. The smooth function used instead is positive everywhere; at 0, it is half
    # of what a few errors can change.
    change_by_errors = np.where(has_spread, np.minimum(BENT_BY_ERRORS / (divisors * design.degrees_within), 1.0), 1.0)
    smooth_correlations = np.minimum((correlations + np.sqrt(correlations**2 + change_by_errors**2)) / 2, 1.0)
    # The number of errors, or of hits if there are fewer of them, in units of the average row's cluster.
    information = np.minimum(rates, 1 - rates) * design.clusters.effective
    weights = design.data_weight * information**2 / (information**2 + PRIOR_CLUSTERS_OF_RATES**2)
    shrunken = weights * smooth_correlations + (1 - weights) * PRIOR_CORRELATION
    return np.asarray(1 + (design.clusters.size - 1) * shrunken)


def intervals(hits: Floats, design: ClusterSizes, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The lower and the upper ends of the intervals of many rates.

    ``hits`` has a row for each data set and a column for each cluster.
    """
    import numpy as np

    tail = (1 - confidence) / 2
    # The upper end for the rate is 1 minus the lower end for the share of errors. Both are searched for at once, which
    # halves the number of calls to numpy.
    hits_and_errors = np.concatenate([hits, design.sizes - hits])
    ends = _with_whole_tail(lower_ends(hits_and_errors, design, tail), hits_and_errors, design, tail)
    return ends[: len(hits)], 1 - ends[len(hits) :]


def _with_whole_tail(ends: Floats, hits: Floats, design: ClusterSizes, tail: float) -> Floats:
    """Raise the lower ends where the upper end cannot miss the true rate, so that they may miss it more often.

    No upper end is below that of a result without hits. So true rates below that value can only be missed by the lower
    end, whose tail is enlarged there (up to the whole 5 % instead of half of it). Elsewhere, lower ends are unchanged.
    """
    import numpy as np

    quantile = t_quantile(1 - tail, design.degrees)
    _, upper_end_without_hits = extreme_ends(design.effective_without_errors(), quantile)
    # A larger tail only raises a lower end, so those that are already above the limit need not be computed again.
    is_near_0 = ends < upper_end_without_hits
    if not is_near_0.any():
        return ends
    raised = lower_ends(hits[is_near_0], design, tail * (1 + design.tail_increase))
    ends = ends.copy()
    ends[is_near_0] = np.minimum(raised, upper_end_without_hits)
    return ends


def lower_ends(hits: Floats, design: ClusterSizes, tail: float) -> Floats:
    """The lower end for each data set. It misses the true rate (is above it) with about the probability ``tail``.

    It never rises with an additional error. Because ``tail`` refers to this side alone, the lower end is also a
    one-sided confidence bound.
    """
    lowest, highest = monotone_ends(hits, design, tail)
    return (lowest + highest) / 2


def monotone_ends(hits: Floats, design: ClusterSizes, tail: float) -> tuple[Floats, Floats]:
    """Two monotone versions of Wilson's lower end: the first is never above it, the second never below it."""
    import numpy as np

    order = np.argsort(-hits / design.sizes, axis=-1, kind="stable")
    sorted_hits = _at(hits, order)
    sorted_sizes = design.sizes[order]
    quantile = t_quantile(1 - tail, design.degrees)

    with_fewer_errors, completed_clusters = _path_of_corrections(sorted_hits, sorted_sizes, design)
    with_more_errors = _path_of_errors(sorted_hits, sorted_sizes, design)

    def negative_end_with_fewer(errors: Floats) -> Floats:
        return -raw_lower_ends(*with_fewer_errors(errors), design, quantile)

    def end_with_more(errors: Floats) -> Floats:
        return raw_lower_ends(*with_more_errors(errors), design, quantile)

    n_errors = (sorted_sizes - sorted_hits).sum(axis=-1)
    n_hits = sorted_hits.sum(axis=-1)
    lowest = -_largest_along(negative_end_with_fewer, n_errors, completed_clusters)
    highest = _largest_along(end_with_more, n_hits)
    return lowest, highest


def raw_lower_ends(rates: Floats, within: Floats, design: ClusterSizes, quantile: float) -> Floats:
    """Wilson's lower end with the effective number of rows; never above that of a perfect result."""
    import numpy as np

    effective = design.total / design_effects(rates, within, design)
    lower = wilson_lower_ends(rates, effective, quantile)
    lower_without_errors, _ = extreme_ends(design.effective_without_errors(), quantile)
    return np.asarray(np.minimum(lower, lower_without_errors))


# --- one rate ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusteredRate:
    """One rate of rows that are grouped into clusters."""

    hits: Floats
    """The number of rows of each cluster whose value is 1."""
    sizes: Floats
    """The number of rows of each cluster."""

    def design_effect(self) -> float:
        """The factor by which clusters inflate the variance of the rate."""
        import numpy as np

        design = cluster_sizes(self.sizes)
        rate = np.array(self.hits.sum() / design.total)
        within = np.array((self.hits * (1 - self.hits / self.sizes)).sum() / design.degrees_within)
        return float(design_effects(rate, within, design))

    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided interval."""
        return _interval_of(self.hits.tobytes(), self.sizes.tobytes(), confidence)

    def bound(self, side: Literal["lower", "upper"], confidence: float) -> float:
        """The one-sided confidence bound."""
        design = cluster_sizes(self.sizes)
        if side == "lower":
            return float(lower_ends(self.hits[None, :], design, 1 - confidence)[0])
        return 1 - float(lower_ends((self.sizes - self.hits)[None, :], design, 1 - confidence)[0])

    def rate(self) -> float:
        """The share of rows that are 1."""
        return float(self.hits.sum() / self.sizes.sum())


@lru_cache(maxsize=512)
def _interval_of(hits: bytes, sizes: bytes, confidence: float) -> tuple[float, float]:
    """The interval of one rate. Its arrays are passed as bytes, because a cached function needs hashable arguments.

    Cached, because one interval takes milliseconds, and a report shows many rates in several places: for example, the
    rate of a category in a table, in a figure and as a part of a mean.
    """
    import numpy as np

    low, high = intervals(np.frombuffer(hits)[None, :], cluster_sizes(np.frombuffer(sizes)), confidence)
    return float(low[0]), float(high[0])


@dataclass(frozen=True, slots=True)
class MeanOfRates:
    """The mean of rates on the same clusters, such as the accuracies of a model under several prompts.

    Each end of its interval is the mean of the ends of the single intervals, which assumes that all prompts cause
    errors in the same clusters. If the errors are in different clusters, a narrower interval would suffice. But how
    similar the prompts are would have to be estimated, and one more error can lower that estimate, so that the lower
    end would rise.
    """

    rates: Sequence[ClusteredRate | MeanOfRates]

    def rate(self) -> float:
        """The mean."""
        return sum(single.rate() for single in self.rates) / len(self.rates)

    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided interval."""
        ends = [single.interval(confidence) for single in self.rates]
        return sum(low for low, _ in ends) / len(ends), sum(high for _, high in ends) / len(ends)

    def bound(self, side: Literal["lower", "upper"], confidence: float) -> float:
        """The one-sided confidence bound."""
        return sum(single.bound(side, confidence) for single in self.rates) / len(self.rates)


# --- data sets with fewer and with more errors ------------------------------------------------------------------------


def _path_of_corrections(hits: Floats, sizes: Floats, design: ClusterSizes) -> tuple[Path, Floats]:
    """For each number of corrected errors, the data set with the smallest variance within clusters.

    A smaller variance within clusters means a higher correlation and a smaller lower end of the interval. So of all
    data sets with the same number of corrected errors, only this one matters for the minimum. Correcting all errors of
    a cluster lowers the variance by the cluster's rate per error, so the clusters with the highest rates are corrected
    first (``hits`` and ``sizes`` are sorted by rate). If only some errors of a cluster are corrected, the variance is
    interpolated linearly, which is a lower bound for all data sets.

    Returns a function of the number of corrected errors, and the numbers at which whole clusters are corrected.
    """
    import numpy as np

    rates = hits / sizes
    rate = hits.sum(axis=-1, keepdims=True) / design.total
    within = (hits * (1 - rates)).sum(axis=-1, keepdims=True) / design.degrees_within
    corrected = _with_leading_0(np.cumsum(sizes - hits, axis=-1))
    removed = _with_leading_0(np.cumsum(hits * (1 - rates), axis=-1))

    def path(errors: Floats) -> tuple[Floats, Floats]:
        cluster = np.minimum(_count_at_most(corrected[..., 1:], errors), hits.shape[-1] - 1)
        in_cluster = errors - _at(corrected, cluster)
        removed_by_errors = _at(removed, cluster)
        removed_by_errors = removed_by_errors + in_cluster * _at(rates, cluster)
        better = np.minimum(rate + errors / design.total, 1.0)
        return better, np.maximum(within - removed_by_errors / design.degrees_within, 0.0)

    return path, corrected


def _path_of_errors(hits: Floats, sizes: Floats, design: ClusterSizes) -> Path:
    """For each number of additional errors, the data set with the largest variance within clusters.

    The variance grows most with errors in the clusters with the highest rates. So the errors are placed there, and all
    rates above a common level are lowered to that level (``hits`` and ``sizes`` are sorted by rate).
    """
    import numpy as np

    rates = hits / sizes
    rate = hits.sum(axis=-1, keepdims=True) / design.total
    within = (hits * (1 - rates)).sum(axis=-1, keepdims=True)
    levelled_rows = np.cumsum(sizes, axis=-1)
    levelled_hits = np.cumsum(hits, axis=-1)
    levelled_within = np.cumsum(hits * (1 - rates), axis=-1)
    # The number of errors that lower the rates of the first clusters to that of the next cluster.
    next_rates = np.concatenate([rates[..., 1:], np.zeros_like(rates[..., :1])], axis=-1)
    errors_to_next = levelled_hits - levelled_rows * next_rates

    def path(errors: Floats) -> tuple[Floats, Floats]:
        last = np.minimum(_count_at_most(errors_to_next, errors), hits.shape[-1] - 1)
        rows = _at(levelled_rows, last)
        level = np.minimum(np.maximum((_at(levelled_hits, last) - errors) / rows, 0.0), 1.0)
        changed = within - _at(levelled_within, last) + rows * level * (1 - level)
        worse = np.maximum(rate - errors / design.total, 0.0)
        return worse, np.maximum(changed, 0.0) / design.degrees_within

    return path


def _with_leading_0(sums: Floats) -> Floats:
    import numpy as np

    return np.concatenate([np.zeros_like(sums[..., :1]), sums], axis=-1)


def _at(values: Floats, columns: NDArray[np.int64]) -> Floats:
    """The values in these columns of each row: a faster ``np.take_along_axis`` without its checks."""
    import numpy as np

    return values[np.arange(len(values))[:, None], columns]


def _count_at_most(limits: Floats, points: Floats) -> NDArray[np.int64]:
    """For each point, the number of limits in the same row that are at most as large. Limits increase along a row."""
    import numpy as np

    if len(limits) <= _FEW_DATA_SETS:
        # A binary search in each row. For many rows, it is faster to compare all numbers at once.
        return np.array(
            [np.searchsorted(row, row_points, "right") for row, row_points in zip(limits, points, strict=True)]
        )
    return np.asarray((limits[:, None, :] <= points[:, :, None]).sum(axis=-1))


def _largest_along(values: Callable[[Floats], Floats], end: Floats, more_points: Floats | None = None) -> Floats:
    """The largest value of the function ``values`` between 0 and ``end``, for each data set.

    It is evaluated at some points, and then repeatedly at more closely spaced points around the best one so far.
    ``more_points`` are added to the first points: there, the function may have a corner.
    """
    import numpy as np

    steps = list(_FIRST_STEPS)
    while steps[-1] < float(np.max(end)):
        steps.append(steps[-1] * 1.5)
    points = np.minimum(np.array(steps)[None, :], end[:, None])
    if more_points is not None:
        points = np.sort(np.concatenate([points, np.minimum(more_points, end[:, None])], axis=-1), axis=-1)
    best = np.full(len(end), -np.inf)
    each = np.arange(len(end))
    n_rounds = _ROUNDS
    n_points = _POINTS
    if len(end) <= _FEW_DATA_SETS:
        n_rounds = _ROUNDS_FOR_FEW
        n_points = _POINTS_FOR_FEW
    fractions = np.linspace(0.0, 1.0, n_points)
    for _ in range(n_rounds):
        candidates = values(points)
        best_index = np.argmax(candidates, axis=-1)
        best = np.maximum(best, candidates[each, best_index])
        # The next round searches between the neighbours of the best point. Several points may be equal to it.
        best_point = points[each, best_index][:, None]
        left = np.where(points < best_point, points, points[:, :1]).max(axis=-1)
        right = np.where(points > best_point, points, points[:, -1:]).min(axis=-1)
        points = left[:, None] + (right - left)[:, None] * fractions
    return best
