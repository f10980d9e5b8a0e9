"""Estimates that are sums of means, with their standard error, interval and p-value: one method for all of them.

A rate, a mean score, a difference of two accuracies, the mean over constructions and the difference between two runs
are all ``constant + Σ coefficient · mean``. :func:`estimate` takes the means as :class:`Term` objects and returns an
:class:`Estimate`. There is one interval for each kind of number, over its whole range:

- *rates* (every value 0 or 1): Wilson's interval (1927) with the effective number of examples in place of their number
  and Student's t in place of the normal quantile. Rates in clusters have their own module,
  :mod:`lmassay.statistics.clustered_rate`; those of rows that are grouped twice are computed here.
- *bounded means*: the same on the score rescaled to 0…1. Scores that pile up at a bound get two pseudo-observations,
  and their interval allows for a few scores at the other bound that were not seen. Scores that are clearly away from
  the bound have nearly Student's interval.
- *everything else*, differences above all: Student's t. Values that are mostly 0, as the differences of two runs that
  seldom disagree, get one pseudo-observation on either side (Bonett and Price 2012; Agresti and Caffo 2000 for
  differences of rates). Interval and p-value come from the same t, so they never contradict each other.

*Protection* is what widens an interval where the observed spread is too small to be trusted: the pseudo-observations,
and the allowance for scores that were not seen.

What clusters do to the variance is explained in :mod:`lmassay.statistics.variance`, the references are in
``docs/uncertainty.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from lmassay.statistics import clustered_rate
from lmassay.statistics.bounds import Bounds, FiniteBounds, cut_to_bounds, finite_bounds, with_infinities
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
"""Which of the three intervals a number has: see the top of this module."""
Alternative = Literal["two-sided", "less", "greater"]
_NO_SPREAD = "all {rows:,} values are the same"
_NOTHING_COUNTS = "no example counts: all weights are 0"
# A sample of equal scores does not prove that all scores are equal, not even in the middle of the range.
_MIN_CLOSENESS = 0.05
# So many that the time for each call of numpy hardly counts, and so few that the arrays fit into a processor's cache.
_DATA_SETS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with everything that its interval and its p-value need."""

    value: float
    kind: Kind
    center: float
    """Where the interval is centred: the value, moved a little by pseudo-observations."""
    standard_error: float
    """The standard error; 0 where none can be given."""
    degrees: float
    """Degrees of freedom of the standard error."""
    rows: int
    units: int
    """Independent units: clusters, or rows if there are none. Of two groupings, the smaller number."""
    effective: float
    """How many independent rows would be as precise."""
    effective_without_errors: float = 0.0
    """The effective number of rows at the largest intra-cluster correlation; 0 for no such limit.

    It gives the lower end of the interval when no error was seen, and no lower end is above that one. The same holds
    for the upper end when no row is right.
    """
    unseen_weight: float = 0.0
    """Bounded means only: the weight of the allowance for scores at the far bound that the sample happened not to
    contain. It is a number from 0 to 1, divided by the effective number of rows."""
    clustered_rate: ClusteredRate | MeanOfRates | None = field(default=None, repr=False, compare=False)
    """Rates in clusters, grouped once: what their interval is computed from."""
    bounds: FiniteBounds | None = None
    clustered_by: tuple[str, ...] = ()
    """The groups that rows are clustered by, for :attr:`method`."""
    clusters: tuple[int, ...] = ()
    """How many clusters each grouping of the rows has."""
    contributions: Mapping[str | int, float] = field(default_factory=dict, repr=False, compare=False)
    """What each cluster adds to the deviation of the estimate (CR2), by its label; empty without clusters."""
    reason: str = ""
    """Why there is no interval; empty if there is one."""

    @property
    def method(self) -> str:
        """How the interval was computed, for signatures and exports: such as ``wilson/template``."""
        if self.reason:
            return f"none: {self.reason}"
        names: dict[Kind, str] = {"rate": "wilson", "bounded mean": "wilson-rescaled", "mean": "t"}
        return "/".join([names[self.kind], *self.clustered_by])

    def interval(self, confidence: float = 0.95) -> tuple[float | None, float | None]:
        """The two-sided interval; (None, None) where :attr:`reason` says why not."""
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
        """Wilson's interval of a rate or of a mean rescaled to 0…1, widened where the sample may hide some errors."""
        lower, upper = wilson(share, self.effective, quantile)
        if self.effective_without_errors:
            # Errors must not move the end towards the bound: it is at least as far out as without any error.
            lower_without_errors, upper_without_hits = extreme_ends(self.effective_without_errors, quantile)
            lower = min(lower, lower_without_errors)
            upper = max(upper, upper_without_hits)
        if self.unseen_weight:
            # The end of Wilson's interval of a rate of 0: the share of such scores that would easily go unseen.
            largest_unseen = self.unseen_weight * quantile**2 / (1 + self.unseen_weight * quantile**2)
            if share > 0.5:
                lower = min(lower, share * (1 - largest_unseen))
            else:
                upper = max(upper, share + (1 - share) * largest_unseen)
        return lower, upper

    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided") -> float | None:
        """The p-value: the probability, if the true value is ``null``, of an estimate at least this far from it.

        With the alternative "less" or "greater", of an estimate at least this far below or above it. Call it for the
        kind "mean" (every difference is one): rates and bounded means have Wilson's interval, which a p-value by
        Student's t may contradict.
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
        """A one-sided confidence bound; None where :attr:`reason` says why not."""
        if self.reason:
            return None
        if self.clustered_rate is not None and self.bounds is not None:
            # Its two-sided interval may have unequal tails.
            least, largest = self.bounds
            return least + (largest - least) * self.clustered_rate.bound(side, confidence)
        low, high = self.interval(2 * confidence - 1)
        return low if side == "lower" else high


def rate_intervals(hits: Floats, sizes: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The intervals of many rates at once: ``hits`` has a row for each data set and a column for each cluster.

    For simulations; :func:`estimate` gives the same numbers for one data set.
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
    """The value of ``constant + Σ coefficient · mean`` over the terms, with everything that its interval needs.

    ``bounds`` are the least and the largest possible value. The interval of a difference does not rest on its bounds:
    it is a mean that can have either sign, cut where it would leave them.
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
            reason=_NOTHING_COUNTS,
        )
    both_bounds = finite_bounds(bounds)
    if both_bounds is not None and not is_difference and values_exceed_bounds(terms, constant, both_bounds):
        # Bounds that do not hold say nothing about the interval.
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
            estimated = _with_clusters(estimated, terms[0], summaries[0], groupings[0])
    elif kind == "bounded mean" and both_bounds is not None:
        protection = pile_up(value, terms, summaries, both_bounds)
        # The scores of one cluster say little about other clusters: protection fades only if clusters are single rows.
        unseen_weight = 1 - (1 - protection) / clustering.size
        estimated = _bounded_mean(value, summaries, both_bounds, clustering, unseen_weight)
    else:
        cut_at = both_bounds if both_bounds is not None else with_infinities(bounds)
        estimated = _mean(value, constant, summaries, cut_at, clustering)
    return replace(estimated, rows=rows, units=units, clusters=cluster_counts, contributions=clustering.contributions)


def _kind_of(
    summaries: Sequence[TermSummary], constant: float, bounds: FiniteBounds | None, *, is_difference: bool
) -> Kind:
    if is_difference or bounds is None or any(summary.coefficient <= 0 for summary in summaries):
        return "mean"
    if len(summaries) == 1 and summaries[0].is_binary:
        # Also a rate on another scale, such as BBQ's 2 · rate - 1.
        is_whole_range = bounds == (constant, constant + summaries[0].coefficient)
        if is_whole_range:
            return "rate"
    # A number that can have either sign is a difference of something.
    can_have_either_sign = bounds[0] < 0 < bounds[1]
    return "mean" if can_have_either_sign else "bounded mean"


def _rate(value: float, summary: TermSummary, bounds: FiniteBounds | None, clustering: Clustering) -> Estimate:
    """A share of rows that are 1."""
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


def _with_clusters(estimated: Estimate, term: Term, summary: TermSummary, grouping: Grouping) -> Estimate:
    """The estimate of a rate whose rows are grouped once."""
    import numpy as np

    codes = grouping.codes[0]
    weights = np.ones(summary.rows) if term.weights is None else term.weights
    # With weights, clusters are as large as their shares of the equally weighted rows that would be as precise.
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
    bounds: FiniteBounds,
    clustering: Clustering,
    unseen_weight: float,
) -> Estimate:
    """A mean of scores between two bounds, rescaled to 0…1.

    ``unseen_weight`` says from 0 to 1 how much the interval must allow for scores at the far bound that the sample
    happened not to contain.
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
    # Half an observation at either end: at 0 and 1 the largest possible variance would be 0 otherwise.
    smoothed_share = (share * effective_rows + unseen_weight / 2) / (effective_rows + unseen_weight)
    # The variance of a score if all scores were at one bound or the other.
    largest_variance = smoothed_share * (1 - smoothed_share)
    # A mean in the middle of its range needs hardly any protection, one at its end the more, the closer it is.
    closeness = max(abs(2 * smoothed_share - 1), _MIN_CLOSENESS)
    pseudo_count = unseen_weight * PSEUDO_OBSERVATIONS
    added_variance = pseudo_count * largest_variance * closeness / effective_rows
    observed_variance = independent_variance * clustering.effect
    variance = (observed_variance * effective_rows + added_variance) / (effective_rows + pseudo_count)
    # Scores that do not pile up have no such limit.
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
    # Flat at the ends of the range: one score that is a little lower must not take protection away.
    flat_closeness = max(1 - (2 * min(share, 1 - share)) ** 2, _MIN_CLOSENESS)
    return Estimate(
        value=value,
        kind="bounded mean",
        center=value,
        standard_error=math.sqrt(variance) * span,
        degrees=clustering.degrees,
        rows=rows,
        units=0,
        # This many tosses of a coin with this rate would be as precise: what Wilson's formula takes.
        effective=largest_variance / variance,
        bounds=bounds,
        effective_without_errors=effective_without_errors,
        unseen_weight=unseen_weight * flat_closeness / effective_rows,
    )


def _mean(
    value: float,
    constant: float,
    summaries: Sequence[TermSummary],
    cut_at: FiniteBounds | None,
    clustering: Clustering,
) -> Estimate:
    """Any other mean, or a difference: Student's t."""
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
    """The plain mean of estimates on the same clusters, such as those of one model under several prompts.

    What a cluster adds to each of them is averaged before it is squared, because the same templates are asked under
    every prompt. What the prior correlation and pseudo-observations add to the variances does not average out.
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
    # What means, rates and bounded means have in common.
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
    # The variance of the mean relative to that of a single estimate; 1 where no spread is seen.
    variance_ratio = variance / mean_variance if mean_variance > 0 else 1.0
    # With k independent prompts the variance would be 1/k of a single one. A smaller ratio means that deviations
    # cancelled by chance, so it is raised to 1/k.
    variance_ratio = min(max(variance_ratio, 1 / count), 1.0)
    return _as_share(mean, estimates, variance_ratio)


def _as_mean(mean: Estimate, estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates of which at least one has Student's interval, so that the mean has it, too."""
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
        # ``result_of`` fills in what the mean is clustered by.
        clustered_by=(),
        reason=reason,
    )


def _as_share(mean: Estimate, estimates: Sequence[Estimate], variance_ratio: float) -> Estimate:
    """The mean of rates or bounded means; its variance is ``variance_ratio`` times that of a single one."""
    are_rates = all(single.kind == "rate" for single in estimates)
    kind: Kind = "bounded mean"
    if are_rates:
        kind = "rate"
    # A variance is inversely proportional to the number of rows. The mean has the average variance, so its number of
    # rows is the harmonic mean of theirs.
    sum_of_inverses = sum(1 / single.effective for single in estimates)
    harmonic_mean = len(estimates) / sum_of_inverses
    # The most cautious of the estimates decides near 0 and 1. A limit of 0 means that an estimate has none.
    limits = [single.effective_without_errors for single in estimates if single.effective_without_errors > 0]
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
        effective_without_errors=min(limits, default=0.0),
        unseen_weight=largest_unseen_weight,
    )


def _mean_contributions(estimates: Sequence[Estimate]) -> dict[str | int, float]:
    """What each cluster adds to the mean of the estimates."""
    averaged: dict[str | int, float] = {}
    for single in estimates:
        for cluster, contribution in single.contributions.items():
            averaged[cluster] = averaged.get(cluster, 0.0) + contribution / len(estimates)
    return averaged


def _variance_of_mean(
    estimates: Sequence[Estimate], mean_contributions: Mapping[str | int, float], mean_variance: float
) -> float:
    """The variance of the mean of estimates whose own variances are ``mean_variance`` on average."""
    # First from the clusters alone: the variance of a single estimate on average, and the variance of the mean.
    mean_cluster_variance = 0.0
    for single in estimates:
        cluster_variance = sum(contribution**2 for contribution in single.contributions.values())
        mean_cluster_variance += cluster_variance / len(estimates)
    cluster_variance_of_mean = sum(contribution**2 for contribution in mean_contributions.values())
    if mean_variance >= mean_cluster_variance:
        # What the prior correlation and pseudo-observations add does not average out.
        return cluster_variance_of_mean + (mean_variance - mean_cluster_variance)
    # The prior correlation made the estimates more precise than their clusters look.
    return cluster_variance_of_mean * mean_variance / mean_cluster_variance
