"""Estimates that are weighted sums of means, with their standard errors, intervals and p-values.

A rate, a mean score, a difference of two accuracies, the mean over constructions and the difference between two runs
are all ``constant + Σ coefficient · mean``. :func:`estimate` takes the means as :class:`Term` objects and returns an
:class:`Estimate`. Each of the three kinds of numbers has one method for its interval, whatever the value:

- *rates* (every value 0 or 1): Wilson's interval (1927) with the effective number of examples instead of their number
  and the quantile of Student's t instead of the normal one. Rates whose rows are grouped once into clusters have their
  own module, :mod:`lmassay.statistics.clustered_rate`. All other rates are computed here, also those whose rows are
  grouped twice, for example by noun and by verb.
- *bounded means*: the same interval for the score rescaled to 0…1. If the scores pile up at a bound (most are there and
  a few far from it, see :mod:`lmassay.statistics.pile_up`), two pseudo-observations are added, and the interval allows
  for a few scores at the other bound that the sample does not contain. If the scores are clearly away from the bound,
  the interval is nearly Student's.
- *everything else*, mainly differences: Student's t. If most values are 0, as in a comparison of two runs that seldom
  disagree, one pseudo-observation is added on either side of 0 (Bonett and Price 2012; Agresti and Caffo 2000 for
  differences of rates). Interval and p-value come from the same t, so they never contradict each other.

*Protection* means everything that widens an interval because the observed spread is too small to be trusted: the
pseudo-observations, and the allowance for scores that the sample does not contain.

:mod:`lmassay.statistics.variance` explains how clusters affect the variance; ``docs/uncertainty.md`` has the
references.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from lmassay.statistics import clustered_rate
from lmassay.statistics.bounds import Bounds, NumericBounds, cut_to_bounds, finite_bounds, with_infinities
from lmassay.statistics.clustered_rate import ClusteredRate, MeanOfRates
from lmassay.statistics.clustering import (
    Clustering,
    Grouping,
    clustering_of,
    degrees_of_rate,
    groupings_of,
    independent_units,
)
from lmassay.statistics.distributions import normal_quantile, t_quantile, t_upper_tail
from lmassay.statistics.pile_up import pile_up, with_equivalent_errors
from lmassay.statistics.terms import (
    PSEUDO_OBSERVATIONS,
    ROUNDING,
    Term,
    TermSummary,
    summaries_of,
    values_exceed_bounds,
    without_weight_0,
)
from lmassay.statistics.variance import clusters_of
from lmassay.statistics.wilson import extreme_ends, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Kind = Literal["rate", "bounded mean", "mean"]
"""Which of the three methods computes the interval; the docstring of this module describes them."""
Alternative = Literal["two-sided", "less", "greater"]
_NO_SPREAD = "all {rows:,} values are the same"
_NO_WEIGHT = "no example counts: all weights are 0"
# The protection of a mean depends on how close it is to a bound. This is the least closeness that is used: even in the
# middle of the range, a sample of equal scores does not prove that all scores are equal.
_MIN_CLOSENESS = 0.05
# Large enough that the overhead of numpy calls hardly counts, small enough for the arrays to fit into a CPU's cache.
_DATA_SETS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with everything that is needed to compute its interval and its p-value."""

    value: float
    kind: Kind
    center: float
    """The centre of Student's interval: the value, shifted a little if there are pseudo-observations."""
    standard_error: float
    """The standard error; 0 if it cannot be computed."""
    degrees: float
    """Degrees of freedom of the standard error."""
    rows: int
    """The number of values from which the estimate is computed."""
    units: int
    """The number of independent units: clusters, or rows if there are no clusters. If the rows are grouped twice, the
    smaller of the two numbers of clusters."""
    effective: float
    """The effective number of rows: this many independent rows would give the same precision."""
    effective_without_errors: float = 0.0
    """The effective number of rows at the largest intra-cluster correlation that is allowed for.

    It determines the lower end of the interval of a sample without wrong answers. Lower ends are capped there, because
    a sample with wrong answers must not get a higher lower end than one without any. In the same way, upper ends are
    capped at the upper end of a sample without right answers. 0 means that ends are not capped.
    """
    unseen_weight: float = 0.0
    """Bounded means only: how much the interval allows for scores at the far bound that the sample does not contain.

    It is a weight from 0 (not at all) to 1 (fully), divided by the effective number of rows.
    """
    clustered_rate: ClusteredRate | MeanOfRates | None = field(default=None, repr=False, compare=False)
    """The hits and sizes of the clusters, from which the interval is computed. Only for rates whose rows are grouped
    once."""
    bounds: NumericBounds | None = None
    clustered_by: tuple[str, ...] = ()
    """The names of the groups that rows are clustered by, such as ``template``, for :attr:`method`."""
    clusters: tuple[int, ...] = ()
    """The number of clusters in each grouping of the rows."""
    contributions: Mapping[str | int, float] = field(default_factory=dict, repr=False, compare=False)
    """A dict from the label of a cluster to its contribution to the estimate's deviation. The sum of the squares is the
    CR2 variance. Empty without clusters."""
    reason: str = ""
    """Why there is no interval; empty if there is one."""

    @property
    def method(self) -> str:
        """How the interval was computed, such as ``wilson/template``, for signatures and exports."""
        if self.reason:
            return f"none: {self.reason}"
        names: dict[Kind, str] = {"rate": "wilson", "bounded mean": "wilson-rescaled", "mean": "t"}
        return "/".join([names[self.kind], *self.clustered_by])

    def interval(self, confidence: float = 0.95) -> tuple[float | None, float | None]:
        """The two-sided interval; (None, None) if there is none, for the reason in :attr:`reason`."""
        if self.reason:
            return None, None
        quantile = t_quantile(0.5 + confidence / 2, self.degrees)
        if self.kind == "mean" or self.bounds is None:
            half_width = quantile * self.standard_error
            return cut_to_bounds(self.center - half_width, self.center + half_width, self.bounds)
        low, high = self.bounds
        span = high - low
        if self.clustered_rate is not None:
            lower, upper = self.clustered_rate.interval(confidence)
        else:
            share = (self.value - low) / span
            lower, upper = self._interval_of_share(share, quantile)
        return low + span * lower, low + span * upper

    def _interval_of_share(self, share: float, quantile: float) -> tuple[float, float]:
        """Wilson's interval of a rate or of a mean rescaled to 0…1, widened by the two kinds of protection."""
        lower, upper = wilson(share, self.effective, quantile)
        if self.effective_without_errors:
            # A sample with wrong answers must not get a higher lower end than one without any, and a sample with right
            # answers must not get a lower upper end than one without any.
            lower_without_errors, upper_without_hits = extreme_ends(self.effective_without_errors, quantile)
            lower = min(lower, lower_without_errors)
            upper = max(upper, upper_without_hits)
        if self.unseen_weight:
            # The upper end of Wilson's interval of a rate of 0, for ``1 / unseen_weight`` rows: the largest share of
            # scores at the far bound that a sample of this size could easily miss.
            largest_unseen = self.unseen_weight * quantile**2 / (1 + self.unseen_weight * quantile**2)
            if share > 0.5:
                lower = min(lower, share * (1 - largest_unseen))
            else:
                upper = max(upper, share + (1 - share) * largest_unseen)
        return lower, upper

    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided") -> float | None:
        """The probability of an estimate at least this far from ``null`` if the true value is ``null``.

        With the alternative "less" or "greater", it is the probability of an estimate at least this far below or above
        ``null``. Call it only for estimates of the kind "mean", which all differences are. Rates and bounded means have
        Wilson's interval, and a p-value by Student's t may contradict it.

        Returns None if there is no p-value, for the reason in :attr:`reason`.
        """
        if self.reason:
            return None
        distance = self.center - null
        if self.standard_error > 0:
            t = distance / self.standard_error
        else:
            t = 0.0 if abs(distance) <= ROUNDING else math.copysign(math.inf, distance)
        if alternative == "less":
            return t_upper_tail(-t, self.degrees)
        if alternative == "greater":
            return t_upper_tail(t, self.degrees)
        return min(1.0, 2 * t_upper_tail(abs(t), self.degrees))

    def bound(self, side: Literal["lower", "upper"], confidence: float = 0.95) -> float | None:
        """A one-sided confidence bound; None if there is none, for the reason in :attr:`reason`."""
        if self.reason:
            return None
        if self.clustered_rate is not None and self.bounds is not None:
            # The tails of its two-sided interval may be unequal, so the bound is not an end of a two-sided interval.
            least, largest = self.bounds
            return least + (largest - least) * self.clustered_rate.bound(side, confidence)
        low, high = self.interval(2 * confidence - 1)
        return low if side == "lower" else high


def rate_intervals(hits: Floats, sizes: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The lower and the upper ends of the intervals of many rates at once, for simulations.

    ``hits`` says how many rows are right; it has a row for each data set and a column for each cluster. ``sizes`` is
    the number of rows of each cluster. For one data set, :func:`estimate` gives the same numbers.
    """
    import numpy as np

    sizes = np.asarray(sizes, dtype=float)
    if not clusters_of(sizes).are_single_rows:
        design = clustered_rate.cluster_sizes(sizes)
        blocks = np.array_split(hits, math.ceil(len(hits) / _DATA_SETS_AT_ONCE))
        ends = [clustered_rate.intervals(block, design, confidence) for block in blocks]
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])
    total = float(sizes.sum())
    rates = hits.sum(axis=-1) / total
    low, high = wilson(rates, np.full_like(rates, total), normal_quantile(0.5 + confidence / 2))
    return np.asarray(low), np.asarray(high)


# --- the estimate of a sum of means -----------------------------------------------------------------------------------


def estimate(
    terms: Sequence[Term], *, constant: float = 0.0, bounds: Bounds | None = None, is_difference: bool = False
) -> Estimate:
    """Estimate ``constant + Σ coefficient · mean``, the sum over all terms.

    ``bounds`` are the least and the largest possible value of the result. With ``is_difference``, the result gets the
    interval of the kind "mean", which is cut off at the bounds; the values of a difference may have either sign.
    """
    terms = [without_weight_0(term) for term in terms]
    if any(len(term.values) == 0 for term in terms):
        return Estimate(
            value=math.nan,
            kind="mean",
            center=math.nan,
            standard_error=0.0,
            degrees=0.0,
            rows=0,
            units=0,
            effective=0.0,
            reason=_NO_WEIGHT,
        )
    both_bounds = finite_bounds(bounds)
    if both_bounds is not None and not is_difference and values_exceed_bounds(terms, constant, both_bounds):
        # Some values are outside the declared bounds, so the declaration is wrong and is ignored.
        bounds = both_bounds = None

    summaries = summaries_of(terms, constant, both_bounds, is_difference=is_difference)
    value = constant + sum(summary.coefficient * summary.mean for summary in summaries)
    rows = sum(summary.rows for summary in summaries)
    kind = _kind_of(summaries, constant, both_bounds, is_difference=is_difference)
    if kind == "bounded mean" and both_bounds is not None:
        summaries = with_equivalent_errors(summaries, value, both_bounds)
    groupings = groupings_of(terms)
    units, reason = independent_units(summaries, groupings)
    cluster_counts = tuple(len(grouping.names) for grouping in groupings)
    if reason:
        return Estimate(
            value=value,
            kind=kind,
            center=value,
            standard_error=0.0,
            degrees=0.0,
            rows=rows,
            units=units,
            effective=0.0,
            bounds=both_bounds,
            clusters=cluster_counts,
            reason=reason,
        )

    clustering = clustering_of(terms, summaries, groupings, of_rate=kind != "mean")
    if kind == "rate":
        estimated = _rate(value, summaries[0], both_bounds, clustering)
        if len(groupings) == 1 and clustering.size > 1 + ROUNDING:
            estimated = _as_clustered_rate(estimated, terms[0], summaries[0], groupings[0])
    elif kind == "bounded mean" and both_bounds is not None:
        protection = pile_up(value, terms, summaries, both_bounds)
        # Scores that are clearly away from the bound need no protection if rows are independent. But the scores of one
        # cluster say little about other clusters: the larger the clusters, the less the protection may fade.
        unseen_weight = 1 - (1 - protection) / clustering.size
        estimated = _bounded_mean(value, summaries, both_bounds, clustering, unseen_weight)
    else:
        cut_at = both_bounds if both_bounds is not None else with_infinities(bounds)
        estimated = _mean(value, constant, summaries, cut_at, clustering)
    return replace(estimated, rows=rows, units=units, clusters=cluster_counts, contributions=clustering.contributions)


def _kind_of(
    summaries: Sequence[TermSummary], constant: float, bounds: NumericBounds | None, *, is_difference: bool
) -> Kind:
    """Decide which method computes the interval of an estimate, from its values and bounds."""
    if is_difference or bounds is None or any(summary.coefficient <= 0 for summary in summaries):
        return "mean"
    if len(summaries) == 1 and summaries[0].is_binary:
        # This includes rates on another scale, such as BBQ's 2 · rate - 1.
        is_whole_range = bounds == (constant, constant + summaries[0].coefficient)
        if is_whole_range:
            return "rate"
    # A number that can be negative or positive is some kind of difference.
    can_have_either_sign = bounds[0] < 0 < bounds[1]
    return "mean" if can_have_either_sign else "bounded mean"


def _rate(value: float, summary: TermSummary, bounds: NumericBounds | None, clustering: Clustering) -> Estimate:
    """The estimate of a rate: the share of rows whose value is 1."""
    effective = summary.equal_rows / clustering.effect
    return Estimate(
        value=value,
        kind="rate",
        center=value,
        standard_error=abs(summary.coefficient) * math.sqrt(summary.variance / effective),
        degrees=degrees_of_rate(clustering.degrees, clustering.size),
        rows=summary.rows,
        units=0,
        effective=effective,
        effective_without_errors=summary.equal_rows / clustering.largest_effect,
        bounds=bounds,
    )


def _as_clustered_rate(estimated: Estimate, term: Term, summary: TermSummary, grouping: Grouping) -> Estimate:
    """Replace what differs if the rows of a rate are grouped once: its effective number of rows and its interval."""
    import numpy as np

    codes = grouping.codes[0]
    weights = np.ones(summary.rows) if term.weights is None else term.weights
    # With weights, a cluster's size is its share of the total weight times Kish's effective number of rows.
    weights = weights * (summary.equal_rows / float(weights.sum()))
    n_clusters = len(grouping.names)
    rate = ClusteredRate(
        hits=np.asarray(np.bincount(codes, weights=weights * term.values, minlength=n_clusters), dtype=float),
        sizes=np.asarray(np.bincount(codes, weights=weights, minlength=n_clusters), dtype=float),
    )
    effective = summary.equal_rows / rate.design_effect()
    return replace(
        estimated,
        standard_error=abs(summary.coefficient) * math.sqrt(summary.variance / effective),
        degrees=clustered_rate.cluster_sizes(rate.sizes).degrees,
        effective=effective,
        clustered_rate=rate,
    )


def _bounded_mean(
    value: float,
    summaries: Sequence[TermSummary],
    bounds: NumericBounds,
    clustering: Clustering,
    unseen_weight: float,
) -> Estimate:
    """A mean of scores between two bounds, rescaled to 0…1.

    ``unseen_weight`` says how much the interval must allow for scores at the far bound that the sample does not
    contain, from 0 (not at all) to 1 (fully).
    """
    low, high = bounds
    span = high - low
    rows = sum(summary.rows for summary in summaries)
    equal_rows = sum(summary.equal_rows for summary in summaries)
    # The variance of the mean if all rows were independent.
    independent_variance = 0.0
    for summary in summaries:
        scale = summary.coefficient / span
        independent_variance += scale**2 * summary.sample_variance / summary.equal_rows
    effective_rows = equal_rows / clustering.effect
    share = (value - low) / span
    # Half a pseudo-observation at each bound. Otherwise, the largest possible variance would be 0 at a mean of 0 or 1.
    smoothed_share = (share * effective_rows + unseen_weight / 2) / (effective_rows + unseen_weight)
    # The variance that the scores would have if each were at one of the two bounds.
    largest_variance = smoothed_share * (1 - smoothed_share)
    # A mean in the middle of its range needs hardly any protection; the closer to an end, the more it needs.
    closeness = max(abs(2 * smoothed_share - 1), _MIN_CLOSENESS)
    pseudo_count = unseen_weight * PSEUDO_OBSERVATIONS
    added_variance = pseudo_count * largest_variance * closeness / effective_rows
    observed_variance = independent_variance * clustering.effect
    variance = (observed_variance * effective_rows + added_variance) / (effective_rows + pseudo_count)
    # Scores that do not pile up need no protection, so their interval has no cap.
    effective_without_errors = 0.0
    if unseen_weight > 0:
        effective_without_errors = equal_rows / clustering.largest_effect / unseen_weight
    if variance <= 0:
        return Estimate(
            value=value,
            kind="bounded mean",
            center=value,
            standard_error=0.0,
            degrees=clustering.degrees,
            rows=rows,
            units=0,
            effective=0.0,
            bounds=bounds,
            reason=_NO_SPREAD.format(rows=rows),
        )
    # Unlike ``closeness``, this function is flat at both ends, so one score slightly off the bound hardly reduces the
    # protection.
    flat_closeness = max(1 - (2 * min(share, 1 - share)) ** 2, _MIN_CLOSENESS)
    return Estimate(
        value=value,
        kind="bounded mean",
        center=value,
        standard_error=math.sqrt(variance) * span,
        degrees=clustering.degrees,
        rows=rows,
        units=0,
        # Wilson's formula needs the number of coin tosses (values 0 or 1) that would have this variance.
        effective=largest_variance / variance,
        bounds=bounds,
        effective_without_errors=effective_without_errors,
        unseen_weight=unseen_weight * flat_closeness / effective_rows,
    )


def _mean(
    value: float,
    constant: float,
    summaries: Sequence[TermSummary],
    cut_at: NumericBounds | None,
    clustering: Clustering,
) -> Estimate:
    """Any other mean or a difference, with Student's interval, which is cut off at the bounds ``cut_at``."""
    rows = sum(summary.rows for summary in summaries)
    center = constant
    variance = 0.0
    for summary in summaries:
        mean, variance_of_mean = summary.with_pseudo_observations(clustering.effect)
        center += summary.coefficient * mean
        variance += summary.coefficient**2 * variance_of_mean
    standard_error = math.sqrt(variance)
    return Estimate(
        value=value,
        kind="mean",
        center=center,
        standard_error=standard_error,
        degrees=clustering.degrees,
        rows=rows,
        units=0,
        effective=rows / clustering.effect,
        bounds=cut_at,
        reason="" if standard_error > 0 else _NO_SPREAD.format(rows=rows),
    )


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of estimates on the same clusters, such as those of one model under several prompts.

    The contributions of a cluster to the estimates are averaged before they are squared, because the same templates are
    used under every prompt. What the prior correlation and pseudo-observations add to the variances is kept in full.
    """
    first = estimates[0]
    count = len(estimates)
    value = sum(single.value for single in estimates) / count
    for single in estimates:
        if single.reason:
            return replace(first, value=value, center=value, reason=single.reason)

    contributions = _mean_contributions(estimates)
    mean_variance = sum(single.standard_error**2 for single in estimates) / count
    variance = _variance_of_mean(estimates, contributions, mean_variance)
    # The fields that are computed in the same way for all three kinds.
    mean = replace(
        first,
        value=value,
        center=value,
        standard_error=math.sqrt(variance),
        degrees=min(single.degrees for single in estimates),
        rows=sum(single.rows for single in estimates),
        contributions=contributions,
    )
    if any(single.kind == "mean" for single in estimates):
        return _as_mean(mean, estimates)
    # The variance of the mean relative to that of a single estimate; 1 if no spread was observed.
    variance_ratio = variance / mean_variance if mean_variance > 0 else 1.0
    # If the results of k prompts were independent, the variance of their mean would be 1/k of a single one. A smaller
    # ratio means that deviations cancelled by chance, so it is raised to 1/k.
    variance_ratio = min(max(variance_ratio, 1 / count), 1.0)
    return _as_share(mean, estimates, variance_ratio)


def _as_mean(mean: Estimate, estimates: Sequence[Estimate]) -> Estimate:
    """Complete the mean of estimates if at least one of them has Student's interval; then the mean has it, too."""
    count = len(estimates)
    reason = ""
    if mean.standard_error <= 0:
        reason = _NO_SPREAD.format(rows=mean.rows)
    return replace(
        mean,
        kind="mean",
        center=sum(single.center for single in estimates) / count,
        units=min(single.units for single in estimates),
        effective=sum(single.effective for single in estimates) / count,
        # Student's interval needs none of these.
        clustered_rate=None,
        effective_without_errors=0.0,
        unseen_weight=0.0,
        # The caller, ``result_of``, fills in what the mean is clustered by.
        clustered_by=(),
        reason=reason,
    )


def _as_share(mean: Estimate, estimates: Sequence[Estimate], variance_ratio: float) -> Estimate:
    """Complete the mean of rates or bounded means; its variance is ``variance_ratio`` times that of a single one."""
    are_rates = all(single.kind == "rate" for single in estimates)
    kind: Kind = "bounded mean"
    if are_rates:
        kind = "rate"
    # A variance is inversely proportional to the number of rows. The mean has the average variance, so its number of
    # rows is the harmonic mean of theirs.
    sum_of_inverses = sum(1 / single.effective for single in estimates)
    harmonic_mean = len(estimates) / sum_of_inverses
    # Near 0 and 1, the most cautious of the estimates decides. 0 means that an estimate has no cap.
    caps = [single.effective_without_errors for single in estimates if single.effective_without_errors > 0]
    largest_unseen_weight = max(single.unseen_weight for single in estimates)
    clustered_rates = [single.clustered_rate for single in estimates if single.clustered_rate is not None]
    mean_of_rates = None
    if len(clustered_rates) == len(estimates):
        mean_of_rates = MeanOfRates(clustered_rates)
    return replace(
        mean,
        kind=kind,
        clustered_rate=mean_of_rates,
        effective=harmonic_mean / variance_ratio,
        effective_without_errors=min(caps, default=0.0),
        unseen_weight=largest_unseen_weight,
    )


def _mean_contributions(estimates: Sequence[Estimate]) -> dict[str | int, float]:
    """A dict from a cluster to its contribution to the deviation of the mean of the estimates."""
    averaged: dict[str | int, float] = {}
    for single in estimates:
        for cluster, contribution in single.contributions.items():
            averaged[cluster] = averaged.get(cluster, 0.0) + contribution / len(estimates)
    return averaged


def _variance_of_mean(
    estimates: Sequence[Estimate], mean_contributions: Mapping[str | int, float], mean_variance: float
) -> float:
    """The variance of the mean of estimates whose own variances are ``mean_variance`` on average."""
    # First, only what comes from the clusters: the average variance of a single estimate, and the variance of the mean.
    mean_cluster_variance = 0.0
    for single in estimates:
        cluster_variance = sum(contribution**2 for contribution in single.contributions.values())
        mean_cluster_variance += cluster_variance / len(estimates)
    cluster_variance_of_mean = sum(contribution**2 for contribution in mean_contributions.values())
    if mean_variance >= mean_cluster_variance:
        # The rest, which the prior correlation and pseudo-observations add, is the same for all estimates and does not
        # become smaller in their mean.
        return cluster_variance_of_mean + (mean_variance - mean_cluster_variance)
    # The prior correlation made the estimates more precise than the spread of their clusters suggests.
    return cluster_variance_of_mean * mean_variance / mean_cluster_variance
