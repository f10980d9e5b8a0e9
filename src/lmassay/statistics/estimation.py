"""Estimates that are sums of means, with their standard error, interval and p-value: one method for all of them.

A rate, a mean score, a difference of two accuracies, the mean over constructions and the difference between two runs
are all ``constant + Σ coefficient · mean``. :func:`estimate` takes the means as :class:`Term` objects and returns an
:class:`Estimate`. There is one interval for each kind of number, over its whole range:

- *rates* (every value 0 or 1): Wilson's interval (1927) with the effective number of examples in place of their number
  and Student's t in place of the normal quantile.
  Its lower end is never above, and its upper end never below, where it would be without a single error (or success),
  so one more error never raises the lower end.
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
from typing import TYPE_CHECKING, Any, Literal

from lmassay.statistics.distributions import normal_quantile, t_quantile, t_upper_tail
from lmassay.statistics.variance import Clusters, clusters_of, degrees_of_freedom, design_effect, largest_effect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Labels = Sequence[str] | NDArray[np.int64]

Kind = Literal["rate", "bounded mean", "mean"]
Alternative = Literal["two-sided", "less", "greater"]
Bounds = tuple[float | None, float | None]
# Below this many independent units (examples, or clusters) nothing is known about the spread.
MIN_UNITS = 2
# Pseudo-observations of a bounded mean close to its bound, and of a difference that is mostly 0.
_PSEUDO_OBSERVATIONS = 2.0
# Differences below this are rounding.
_ROUNDING = 1e-12
_NO_SPREAD = "all {rows:,} values are the same"
_NOTHING_COUNTS = "no example counts: all weights are 0"
# Even in the middle of its range, scores that are all the same do not prove that all scores are.
_MIN_CLOSENESS = 0.05
# Scores pile up at a bound if their distances from it vary much. The squared coefficient of variation of the distances
# is 1 if they are exponentially distributed, and larger if most scores are at the bound and a few far from it. Between
# these values, protection fades in.
_CLEARLY_AWAY, _PILED_UP = 0.75, 1.5
# Distances that add up to less than the first number of wrong rows hardly differ from no wrong row at all; from the
# second number on, they do. In between, protection fades out.
_NO_WRONG_ROW, _A_WRONG_ROW = 0.25, 0.75
# Few scores do not show how much distances vary: with this many, twice as much as observed is allowed for.
_FEW_SCORES = 8.0


@dataclass(frozen=True, slots=True)
class Term:
    """One mean of an estimate, and how much it counts in it.

    ``clusters`` holds one sequence of labels for each grouping of the rows: none for independent rows, two for rows
    that share a noun or a verb. ``weights`` says how much each row counts in the mean. If ``weights_are_counts``, each
    weight is a number of rows, and the value is the share of right answers among them.
    """

    values: Floats
    coefficient: float = 1.0
    clusters: Sequence[Labels] = ()
    weights: Floats | None = None
    weights_are_counts: bool = False
    step: float | None = None
    """The absolute value of a non-zero value, e.g. 1 for the difference of two right/wrong outcomes.

    It places the pseudo-observations when all values are 0. Default: half the range.
    """
    unchanged: NDArray[np.bool_] | None = None
    """Which rows count as 0 although their values are not: linearised values of a ratio, such as a relative drop."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with all that its interval and its p-value need."""

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

    It gives the interval's outermost end when no error was seen. The interval never ends short of it.
    """
    unseen_weight: float = 0.0
    """Bounded means only: the weight of the allowance for scores at the far bound that the sample happened not to
    contain. It is a number from 0 to 1, divided by the effective number of rows."""
    bounds: tuple[float, float] | None = None
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
        """How the interval was computed, for signatures and exports."""
        if self.reason:
            return f"none: {self.reason}"
        names: dict[Kind, str] = {"rate": "wilson", "bounded mean": "wilson-rescaled", "mean": "t"}
        return names[self.kind] + "".join(f"/{name}" for name in self.clustered_by)

    def interval(self, confidence: float = 0.95) -> tuple[float | None, float | None]:
        """The two-sided interval; (None, None) where :attr:`reason` says why not."""
        if self.reason:
            return None, None
        tail = 0.5 + confidence / 2
        if self.kind == "mean" or self.bounds is None:
            half = t_quantile(tail, self.degrees) * self.standard_error
            return _inside(self.center - half, self.center + half, self.bounds)
        low, high = self.bounds
        span = high - low
        quantile = _quantile(tail, self.degrees)
        lower, upper = wilson((self.value - low) / span, self.effective, quantile)
        if self.effective_without_errors:
            # Errors must not move the end towards the bound: it is at least as far out as without any error.
            lower = min(lower, self.effective_without_errors / (self.effective_without_errors + quantile**2))
            upper = max(upper, quantile**2 / (self.effective_without_errors + quantile**2))
        if self.unseen_weight:
            share = (self.value - low) / span
            # The end of Wilson's interval of a rate of 0: the share of such scores that would easily go unseen.
            largest_unseen = self.unseen_weight * quantile**2 / (1 + self.unseen_weight * quantile**2)
            if share > 0.5:
                lower = min(lower, share * (1 - largest_unseen))
            else:
                upper = max(upper, share + (1 - share) * largest_unseen)
        return low + span * lower, low + span * upper

    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided") -> float | None:
        """The p-value: the probability, if the true value is ``null``, of an estimate at least this far from it.

        With the alternative "less" or "greater", of an estimate at least this far below or above it. Call it for the
        kind "mean" (every difference is one): rates and bounded means have Wilson's interval, which a p-value by
        Student's t may contradict.
        """
        if self.reason:
            return None
        distance = self.center - null
        if self.standard_error <= 0:
            return 1.0 if abs(distance) <= _ROUNDING else 0.0
        t = distance / self.standard_error
        if alternative == "less":
            return t_upper_tail(-t, self.degrees)
        if alternative == "greater":
            return t_upper_tail(t, self.degrees)
        return min(1.0, 2 * t_upper_tail(abs(t), self.degrees))

    def bound(self, side: Literal["lower", "upper"], confidence: float = 0.95) -> float | None:
        """A one-sided confidence bound."""
        low, high = self.interval(2 * confidence - 1)
        return low if side == "lower" else high


def wilson(rate: Floats | float, n: Floats | float, quantile: float) -> tuple[float, float]:
    """Wilson's interval (1927) of a rate in a number of tosses that need not be whole; arrays are taken elementwise."""
    import numpy as np

    square = quantile**2
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * np.sqrt(rate * (1 - rate) / n + square / (4 * n**2))
    # At a rate of 0 or 1 one end is exact; elsewhere rounding must not leave the range.
    lower = np.where(rate == 0, 0.0, np.maximum(middle - half, 0.0))
    upper = np.where(rate == 1, 1.0, np.minimum(middle + half, 1.0))
    if lower.ndim == 0:
        return float(lower), float(upper)
    return lower, upper  # type: ignore[return-value]


def rate_intervals(hits: Floats, sizes: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """The intervals of many rates at once: ``hits`` has a row for each data set and a column for each cluster.

    For simulations; :func:`estimate` gives the same numbers for one data set.
    """
    import numpy as np

    clusters = clusters_of(np.asarray(sizes, dtype=float))
    total = float(np.sum(sizes))
    rates = hits.sum(axis=-1) / total
    residuals = hits - rates[..., None] * sizes
    cluster_variance = (residuals**2 / (1 - clusters.shares)).sum(axis=-1) / total**2
    independent = rates * (1 - rates) / total
    events = np.minimum(hits.sum(axis=-1), total - hits.sum(axis=-1))
    effect = design_effect(cluster_variance, independent, events, clusters, of_rate=True)
    degrees = _degrees_of_rate(clusters.degrees_of_freedom(), clusters.size)
    quantile = _quantile(0.5 + confidence / 2, degrees)
    low, high = wilson(rates, total / effect, quantile)
    effective_without_errors = total / largest_effect(clusters.size)
    return (
        np.minimum(low, effective_without_errors / (effective_without_errors + quantile**2)),
        np.maximum(high, quantile**2 / (effective_without_errors + quantile**2)),
    )


# --- the estimate of a sum of means -----------------------------------------------------------------------------------


def estimate(
    terms: Sequence[Term], *, constant: float = 0.0, bounds: Bounds | None = None, is_difference: bool = False
) -> Estimate:
    """The value of ``constant + Σ coefficient · mean`` over the terms, with all that its interval needs.

    ``bounds`` are the least and the largest possible value. The interval of a difference does not rest on its bounds:
    it is a mean that can have either sign, cut where it would leave them.
    """
    terms = [_without_weight_0(term) for term in terms]
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
    finite_bounds = _finite_bounds(bounds)
    if finite_bounds is not None and not is_difference and _values_exceed_bounds(terms, constant, finite_bounds):
        # Bounds that do not hold say nothing about the interval.
        bounds = finite_bounds = None

    summaries = _summaries(terms, constant, finite_bounds, is_difference=is_difference)
    value = constant + sum(summary.coefficient * summary.mean for summary in summaries)
    rows = sum(summary.rows for summary in summaries)
    kind = _kind_of(summaries, constant, finite_bounds, is_difference=is_difference)
    if kind == "bounded mean" and finite_bounds is not None:
        summaries = _with_equivalent_errors(summaries, value, finite_bounds)
    groupings = [_grouping(terms, index) for index in range(len(terms[0].clusters))]
    units, reason = _units_of(summaries, groupings)
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
            bounds=finite_bounds,
            clusters=cluster_counts,
            reason=reason,
        )

    clustering = _clustering(terms, summaries, groupings, of_rate=kind != "mean")
    if kind == "rate":
        estimated = _rate(value, summaries[0], finite_bounds, clustering)
    elif kind == "bounded mean" and finite_bounds is not None:
        pile_up = _pile_up(value, terms, summaries, finite_bounds)
        # The scores of one cluster say little about other clusters: protection fades only if clusters are single rows.
        unseen_weight = 1 - (1 - pile_up) / clustering.size
        estimated = _bounded_mean(value, summaries, finite_bounds, clustering, unseen_weight)
    else:
        cut_at = finite_bounds if finite_bounds is not None else _half_bounds(bounds)
        estimated = _mean(value, constant, summaries, cut_at, clustering)
    return replace(estimated, rows=rows, units=units, clusters=cluster_counts, contributions=clustering.contributions)


def _rate(
    value: float, summary: _TermSummary, finite_bounds: tuple[float, float] | None, clustering: _Clustering
) -> Estimate:
    """A share of rows that are 1."""
    effective = summary.equal_rows / clustering.effect
    return Estimate(
        value=value,
        kind="rate",
        center=value,
        standard_error=abs(summary.coefficient) * math.sqrt(summary.variance / effective),
        degrees=_degrees_of_rate(clustering.degrees, clustering.size),
        rows=summary.rows,
        units=0,
        effective=effective,
        effective_without_errors=summary.equal_rows / clustering.largest_effect,
        bounds=finite_bounds,
    )


def _bounded_mean(
    value: float,
    summaries: Sequence[_TermSummary],
    finite_bounds: tuple[float, float],
    clustering: _Clustering,
    unseen_weight: float,
) -> Estimate:
    """A mean of scores between two bounds, rescaled to 0…1.

    ``unseen_weight`` says from 0 to 1 how much the interval must allow for scores at the far bound that the sample
    happened not to contain.
    """
    low, high = finite_bounds
    span = high - low
    rows = sum(summary.rows for summary in summaries)
    equal_rows = sum(summary.equal_rows for summary in summaries)
    # The variance of the mean if all rows were independent.
    independent_variance = 0.0
    for summary in summaries:
        sample_variance = summary.variance * summary.rows / max(summary.rows - 1, 1)
        independent_variance += (summary.coefficient / span) ** 2 * sample_variance / summary.equal_rows
    effective_rows = equal_rows / clustering.effect
    share = (value - low) / span
    # Half an observation at either end: at 0 and 1 the largest possible variance would be 0 otherwise.
    smoothed_share = (share * effective_rows + unseen_weight / 2) / (effective_rows + unseen_weight)
    # The variance of a score if all scores were at one bound or the other.
    largest_variance = smoothed_share * (1 - smoothed_share)
    # A mean in the middle of its range needs hardly any protection, one at its end the more, the closer it is.
    closeness = max(abs(2 * smoothed_share - 1), _MIN_CLOSENESS)
    pseudo_count = unseen_weight * _PSEUDO_OBSERVATIONS
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
            bounds=finite_bounds,
            reason=_NO_SPREAD.format(rows=rows),
        )
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
        bounds=finite_bounds,
        effective_without_errors=effective_without_errors,
        # Flat at the ends of the range: one score that is a little lower must not take protection away.
        unseen_weight=unseen_weight * max(1 - (2 * min(share, 1 - share)) ** 2, _MIN_CLOSENESS) / effective_rows,
    )


def _mean(
    value: float,
    constant: float,
    summaries: Sequence[_TermSummary],
    cut_at: tuple[float, float] | None,
    clustering: _Clustering,
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
    value = sum(one.value for one in estimates) / count
    for one in estimates:
        if one.reason:
            return replace(first, value=value, center=value, reason=one.reason)

    contributions = _mean_contributions(estimates)
    mean_variance = sum(one.standard_error**2 for one in estimates) / count
    variance = _variance_of_mean(estimates, contributions, mean_variance)
    rows = sum(one.rows for one in estimates)
    degrees = min(one.degrees for one in estimates)

    if any(one.kind == "mean" for one in estimates):
        return Estimate(
            value=value,
            kind="mean",
            center=sum(one.center for one in estimates) / count,
            standard_error=math.sqrt(variance),
            degrees=degrees,
            rows=rows,
            units=min(one.units for one in estimates),
            effective=sum(one.effective for one in estimates) / count,
            bounds=first.bounds,
            clusters=first.clusters,
            contributions=contributions,
            reason="" if variance > 0 else _NO_SPREAD.format(rows=rows),
        )
    # The variance of the mean relative to that of a single estimate; 1 where no spread is seen.
    variance_ratio = variance / mean_variance if mean_variance > 0 else 1.0
    # With k independent prompts the variance would be 1/k of a single one. A smaller ratio means that deviations
    # cancelled by chance, so it is raised to 1/k.
    variance_ratio = min(max(variance_ratio, 1 / count), 1.0)
    are_rates = all(one.kind == "rate" for one in estimates)
    # 0 means that an estimate has no such limit; the limits of the others still hold.
    limits = [one.effective_without_errors for one in estimates if one.effective_without_errors > 0]
    return replace(
        first,
        value=value,
        center=value,
        kind="rate" if are_rates else "bounded mean",
        standard_error=math.sqrt(variance),
        degrees=degrees,
        rows=rows,
        # Variances are averaged, so numbers of rows are by their harmonic mean.
        effective=count / sum(1 / one.effective for one in estimates) / variance_ratio,
        effective_without_errors=min(limits, default=0.0),
        unseen_weight=max(one.unseen_weight for one in estimates),
        contributions=contributions,
    )


def _mean_contributions(estimates: Sequence[Estimate]) -> dict[str | int, float]:
    """What each cluster adds to the mean of the estimates."""
    averaged: dict[str | int, float] = {}
    for one in estimates:
        for cluster, contribution in one.contributions.items():
            averaged[cluster] = averaged.get(cluster, 0.0) + contribution / len(estimates)
    return averaged


def _variance_of_mean(
    estimates: Sequence[Estimate], mean_contributions: Mapping[str | int, float], mean_variance: float
) -> float:
    """The variance of the mean of estimates whose own variances are ``mean_variance`` on average."""
    # First from the clusters alone: the variance of a single estimate on average, and the variance of the mean.
    mean_cluster_variance = 0.0
    for one in estimates:
        cluster_variance = sum(contribution**2 for contribution in one.contributions.values())
        mean_cluster_variance += cluster_variance / len(estimates)
    cluster_variance_of_mean = sum(contribution**2 for contribution in mean_contributions.values())
    if mean_variance >= mean_cluster_variance:
        # What the prior correlation and pseudo-observations add does not average out.
        return cluster_variance_of_mean + (mean_variance - mean_cluster_variance)
    # The prior correlation made the estimates more precise than their clusters look.
    return cluster_variance_of_mean * mean_variance / mean_cluster_variance


# --- bounds -----------------------------------------------------------------------------------------------------------


def _finite_bounds(bounds: Bounds | None) -> tuple[float, float] | None:
    """The bounds if both are known and leave room between them."""
    if bounds is None:
        return None
    low, high = bounds
    if low is None or high is None or low >= high:
        return None
    return low, high


def _half_bounds(bounds: Bounds | None) -> tuple[float, float] | None:
    """Bounds of which one end may be missing, for cutting an interval."""
    if bounds is None or bounds == (None, None):
        return None
    low, high = bounds
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def _inside(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The interval, cut where it would leave the bounds."""
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])


def _values_exceed_bounds(terms: Sequence[Term], constant: float, finite_bounds: tuple[float, float]) -> bool:
    """True if some values are beyond the bounds that were declared for the estimate."""
    import numpy as np

    if len(terms) == 1:
        scores = constant + terms[0].coefficient * np.asarray(terms[0].values, dtype=float)
        lowest = float(scores.min())
        highest = float(scores.max())
    else:
        # Bounds of a sum do not say which values each of the means can have, so only the sum can be checked.
        value = constant
        for term in terms:
            value += term.coefficient * float(np.average(term.values, weights=term.weights))
        lowest = highest = value
    return lowest < finite_bounds[0] - _ROUNDING or highest > finite_bounds[1] + _ROUNDING


def _pile_up(
    value: float, terms: Sequence[Term], summaries: Sequence[_TermSummary], finite_bounds: tuple[float, float]
) -> float:
    """How much scores look as if most were at a bound and some far from it: from 0 to 1.

    What matters is how much the distances from the bound vary, relative to their mean. If all scores are 0.95 or so,
    the next ones will be, too. If most scores are 1 and a few 0.5, a sample of this size cannot rule out that a few
    other scores are 0. A spread that comes from a single score is not trusted either.
    """
    import numpy as np

    if len(terms) > 1 or summaries[0].is_binary:
        # Full protection: right/wrong scores are all at a bound, and for a sum of several means there is no single
        # distribution of scores to look at.
        return 1.0
    term = terms[0]
    summary = summaries[0]
    deviations = np.asarray(term.values, dtype=float) - summary.mean
    weights = np.ones(summary.rows) if term.weights is None else term.weights
    sum_of_squares = float((weights**2 * deviations**2).sum())
    if summary.variance <= 0 or sum_of_squares <= 0:
        # Full protection: scores that are all the same do not show how much others may vary.
        return 1.0
    # This many scores of equal deviation would give the same variance: the rows over the kurtosis.
    deviating = sum_of_squares**2 / float((weights**4 * deviations**4).sum())

    low, high = finite_bounds
    distance = min(abs(value - low), abs(high - value))
    squared_variation = summary.coefficient**2 * summary.variance / distance**2 if distance > 0 else math.inf
    squared_variation *= 1 + _FEW_SCORES / summary.equal_rows
    piled_up = (squared_variation - _CLEARLY_AWAY) / (_PILED_UP - _CLEARLY_AWAY)

    # This many rows at the far bound, and all others at the near one, would give the same mean.
    equivalent_wrong_rows = summary.equal_rows * distance / (high - low)
    too_close = (_A_WRONG_ROW - equivalent_wrong_rows) / (_A_WRONG_ROW - _NO_WRONG_ROW)
    # 1 if the spread comes from a single score, and hardly anything if a few scores share in it.
    from_few_scores = 1 / deviating**2
    return min(max(piled_up, too_close, from_few_scores), 1.0)


# --- terms, summed up -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TermSummary:
    """What an estimate needs to know of a term, except its clusters."""

    coefficient: float
    rows: int
    equal_rows: float
    """The number of rows; with weights, of equally weighted rows that would be as precise (Kish 1965)."""
    mean: float
    variance: float
    events: float
    """Rows that differ from the common value: see :func:`design_effect`."""
    is_binary: bool
    pseudo_values: tuple[float, float] | None = None
    """Where pseudo-observations of a difference are placed; None where it needs none."""
    pseudo: float = 0.0
    """The number of pseudo-observations."""

    def with_pseudo_observations(self, effect: float) -> tuple[float, float]:
        """The mean and its variance with pseudo-observations on both sides, counted in effective rows."""
        effective = self.equal_rows / effect
        if self.pseudo_values is None or self.pseudo <= 0:
            # The sample variance of the values, as in any t-interval.
            sample_variance = self.variance * self.rows / max(self.rows - 1, 1)
            return self.mean, sample_variance / effective
        total = effective + self.pseudo
        low, high = self.pseudo_values
        mean = (self.mean * effective + self.pseudo * (low + high) / 2) / total
        second_moment = (self.variance + self.mean**2) * effective + self.pseudo * (low**2 + high**2) / 2
        return mean, max(second_moment / total - mean**2, 0.0) / total


def _without_weight_0(term: Term) -> Term:
    """Drop rows of weight 0; otherwise their zeros would be counted as observed "no difference"."""
    import numpy as np

    if term.weights is None or bool((term.weights > 0).all()):
        return term
    counts = np.asarray(term.weights) > 0
    return replace(
        term,
        values=np.asarray(term.values)[counts],
        weights=term.weights[counts],
        clusters=[np.asarray(labels)[counts] for labels in term.clusters],
        unchanged=None if term.unchanged is None else term.unchanged[counts],
    )


def _summaries(
    terms: Sequence[Term], constant: float, finite_bounds: tuple[float, float] | None, *, is_difference: bool
) -> list[_TermSummary]:
    is_signed = is_difference or _is_signed(terms, constant, finite_bounds)
    summaries = []
    for term in terms:
        step = term.step
        if step is None and finite_bounds is not None:
            step = (finite_bounds[1] - finite_bounds[0]) / 2 / abs(term.coefficient)
        summaries.append(_summary(term, step, is_signed=is_signed))
    return summaries


def _is_signed(terms: Sequence[Term], constant: float, finite_bounds: tuple[float, float] | None) -> bool:
    """True for a single mean whose bounds allow both signs (unless it is a rescaled rate).

    That holds even if no observed value is negative.
    """
    if len(terms) > 1 or finite_bounds is None:
        return False
    is_scaled_rate = finite_bounds == (constant, constant + terms[0].coefficient)
    return finite_bounds[0] < 0 < finite_bounds[1] and not is_scaled_rate


def _summary(term: Term, step: float | None, *, is_signed: bool) -> _TermSummary:
    """A term, summed up; ``step`` is how far a value could be from 0."""
    import numpy as np

    values = np.asarray(term.values, dtype=float)
    weights = term.weights
    if weights is None:
        mean = float(values.mean())
        variance = float(((values - mean) ** 2).mean())
        equal_rows = float(len(values))
    else:
        total = float(weights.sum())
        mean = float((values * weights).sum() / total)
        variance = float((weights**2 * (values - mean) ** 2).sum() / (weights**2).sum())
        equal_rows = total**2 / float((weights**2).sum())
    if variance < _ROUNDING**2:
        variance = 0.0
    if weights is not None and term.weights_are_counts:
        # Each value stands for many rows, which are right or wrong: sum up the rows, not the values.
        return _TermSummary(
            coefficient=term.coefficient,
            rows=len(values),
            equal_rows=total,
            mean=mean,
            variance=mean * (1 - mean),
            events=min(mean * total, (1 - mean) * total),
            is_binary=True,
            pseudo_values=(0.0, 1.0),
            pseudo=_PSEUDO_OBSERVATIONS,
        )
    nonzero = np.abs(values) > _ROUNDING if term.unchanged is None else ~term.unchanged
    events = float(nonzero.sum())
    summary = _TermSummary(
        coefficient=term.coefficient,
        rows=len(values),
        equal_rows=equal_rows,
        mean=mean,
        variance=variance,
        events=events,
        is_binary=False,
    )
    # Differences that are all 0 or 1 are not a rate: they could have been -1, and the result must not depend on which
    # of two runs comes first.
    if not is_signed and bool(np.isin(values, (0.0, 1.0)).all()):
        return replace(
            summary,
            events=float(min(nonzero.sum(), (~nonzero).sum())),
            is_binary=True,
            # One success and one failure more, if the rate is part of a difference (Agresti and Caffo 2000).
            pseudo_values=(0.0, 1.0),
            pseudo=_PSEUDO_OBSERVATIONS,
        )

    observed = float(np.sqrt((values[nonzero] ** 2).mean())) if nonzero.any() else None
    size = observed if step is None else _pseudo_size(events, observed, step)
    if size is None:
        return summary
    if is_signed and variance == 0:
        # All differences are the same: the spread is unknown, not 0, and so is how similar clusters are.
        size = size if observed is None else observed
        return replace(summary, events=0.0, pseudo_values=(-size, size), pseudo=_PSEUDO_OBSERVATIONS)
    # The share of zeros says how much protection a mean needs: one of graded values, all different, needs none.
    zeros = 1 - events / len(values)
    if zeros <= 0:
        return summary
    return replace(summary, pseudo_values=(-size, size), pseudo=_PSEUDO_OBSERVATIONS * zeros)


def _pseudo_size(events: float, observed: float | None, step: float) -> float:
    """How far from 0 a pseudo-observation is: as far as the values that differ from it, more surely the more there are.

    The possible change counts as one more of them.
    """
    if observed is None:
        return step
    return math.sqrt((events * observed**2 + step**2) / (events + 1))


def _kind_of(
    summaries: Sequence[_TermSummary],
    constant: float,
    finite_bounds: tuple[float, float] | None,
    *,
    is_difference: bool,
) -> Kind:
    if is_difference or finite_bounds is None or any(summary.coefficient <= 0 for summary in summaries):
        return "mean"
    if (
        len(summaries) == 1
        and summaries[0].is_binary
        and finite_bounds == (constant, constant + summaries[0].coefficient)
    ):
        # Also a rate on another scale, such as BBQ's 2 · rate - 1.
        return "rate"
    # A number that can have either sign is a difference of something.
    return "mean" if finite_bounds[0] < 0 < finite_bounds[1] else "bounded mean"


def _with_equivalent_errors(
    summaries: Sequence[_TermSummary], value: float, finite_bounds: tuple[float, float]
) -> list[_TermSummary]:
    """Set the events of graded terms to the equivalent of a rate's errors.

    That is the number of rows that, placed at the rarer bound with all others at the opposite bound, would give the
    same mean.
    """
    share = min(max((value - finite_bounds[0]) / (finite_bounds[1] - finite_bounds[0]), 0.0), 1.0)
    rarer = min(share, 1 - share)
    adjusted = []
    for summary in summaries:
        if not summary.is_binary:
            summary = replace(summary, events=summary.rows * rarer)
        adjusted.append(summary)
    return adjusted


# --- clusters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Grouping:
    """One grouping of the rows into clusters: by noun, by verb."""

    names: NDArray[Any]
    codes: Sequence[NDArray[np.int64]]
    """For each term, the number of the cluster that each row is in."""


def _grouping(terms: Sequence[Term], index: int) -> _Grouping:
    """The grouping at this index of every term's ``clusters``, numbered across the terms."""
    import numpy as np

    labels = np.concatenate([np.asarray(term.clusters[index]) for term in terms])
    names, codes = np.unique(labels, return_inverse=True)
    ends = np.cumsum([len(term.values) for term in terms])[:-1]
    return _Grouping(names, np.split(codes.astype(np.int64), ends))


def _units_of(summaries: Sequence[_TermSummary], groupings: Sequence[_Grouping]) -> tuple[int, str]:
    """How many independent units there are, and why no interval can be given if they are too few."""
    import numpy as np

    if not groupings:
        rows = sum(summary.rows for summary in summaries)
        is_one_rate = len(summaries) == 1 and summaries[0].is_binary
        if rows < MIN_UNITS and not is_one_rate:
            return rows, "one value only"
        return rows, ""
    units = min(len(grouping.names) for grouping in groupings)
    for grouping in groupings:
        for codes in grouping.codes:
            if len(np.unique(codes)) < MIN_UNITS:
                return units, "all examples belong to one cluster"
    return units, ""


@dataclass(frozen=True, slots=True)
class _Clustering:
    """What clusters do to an estimate."""

    effect: float
    """The design effect."""
    degrees: float
    """Degrees of freedom of the cluster-robust variance."""
    size: float
    """The design effect if all rows of a cluster were the same; 1 without clusters."""
    largest_effect: float
    """The design effect that intervals allow for where nothing is known: see :func:`largest_effect`."""
    contributions: Mapping[str | int, float] = field(default_factory=dict)
    """What each cluster of the first grouping adds to the deviation of the estimate."""


def _clustering(
    terms: Sequence[Term], summaries: Sequence[_TermSummary], groupings: Sequence[_Grouping], *, of_rate: bool
) -> _Clustering:
    """Rows that are grouped twice, as by noun and by verb, have the sum of both inflations.

    That is the two-way variance of Cameron, Gelbach and Miller (2011, eq. 2.11) with the variance of single rows as the
    part that both groupings count; the degrees of freedom are the smaller ones. Rows that were the same within every
    noun and within every verb would all be the same, so the two correlations do not exceed 1 together: no inflation
    exceeds the one that the grouping with the larger clusters could have by itself.
    """
    if not groupings:
        rows = sum(summary.rows for summary in summaries)
        return _Clustering(effect=1.0, degrees=max(float(rows - len(summaries)), 1.0), size=1.0, largest_effect=1.0)
    effect = 1.0
    largest = 1.0
    size = 1.0
    degrees = math.inf
    for grouping in groupings:
        one_way = _one_way(terms, summaries, grouping, of_rate=of_rate)
        effect += one_way.effect - 1
        largest += one_way.largest_effect - 1
        size = max(size, one_way.size)
        degrees = min(degrees, one_way.degrees)
        if grouping is groupings[0]:
            contributions = one_way.contributions
    return _Clustering(min(effect, size), degrees, size, min(largest, size), contributions)


def _one_way(
    terms: Sequence[Term], summaries: Sequence[_TermSummary], grouping: _Grouping, *, of_rate: bool
) -> _Clustering:
    """What the clusters of one grouping do to the estimate (CR2: Bell and McCaffrey 2002)."""
    import numpy as np

    count = len(grouping.names)
    contributions = np.zeros(count)
    shares = np.zeros((len(terms), count))
    sizes = np.zeros(len(terms))
    for index, (term, summary, codes) in enumerate(zip(terms, summaries, grouping.codes, strict=True)):
        weights = np.ones(summary.rows) if term.weights is None else term.weights
        total = float(weights.sum())
        weight_of_cluster = np.bincount(codes, weights=weights, minlength=count)
        residuals = np.bincount(codes, weights=weights * (term.values - summary.mean), minlength=count)
        shares[index] = weight_of_cluster / total
        sum_of_squares = total if term.weights_are_counts else float((weights**2).sum())
        sizes[index] = float((weight_of_cluster**2).sum()) / sum_of_squares
        # CR2: the residual of a cluster that holds much of the data is too small, because it pulls the mean.
        contributions += summary.coefficient * residuals / total / np.sqrt(1 - shares[index])

    coefficients = np.array([summary.coefficient for summary in summaries])
    variances = np.array([summary.variance for summary in summaries])
    equal_rows = np.array([summary.equal_rows for summary in summaries])
    independent = coefficients**2 * variances / equal_rows
    # How much each term matters to the variance; where none has any, by its coefficient and its rows.
    importance = independent if independent.sum() > 0 else coefficients**2 / equal_rows
    importance = importance / importance.sum()
    # Means of the same clusters, such as those of constructions with the same nouns, rise and fall together: a cluster
    # is then as large as all its rows. Rows of a difference cancel, so there the size within one mean is what counts.
    signed_spreads = np.sign(coefficients) * np.sqrt(importance * equal_rows)
    size_together = float(((signed_spreads @ shares) ** 2).sum())
    clusters = Clusters(
        importance @ shares,
        sum(summary.equal_rows for summary in summaries),
        max(float(importance @ sizes), size_together),
    )
    effect = design_effect(
        np.array(float((contributions**2).sum())),
        np.array(float(independent.sum())),
        np.array(sum(summary.events for summary in summaries)),
        clusters,
        of_rate=of_rate,
    )
    by_name = dict(zip(grouping.names.tolist(), contributions.tolist(), strict=True))
    degrees = degrees_of_freedom(shares, importance)
    return _Clustering(float(effect), degrees, clusters.size, largest_effect(clusters.size), by_name)


def _degrees_of_rate(degrees: float, size: float) -> float:
    """Degrees of freedom of a rate: of its variance only the design effect is estimated, not the spread of a row.

    By Satterthwaite's method, if the rows of a cluster were all the same; single rows have a known variance.
    """
    if size <= 1 + _ROUNDING:
        return math.inf
    return degrees * (size / (size - 1)) ** 2


def _quantile(probability: float, degrees: float) -> float:
    return normal_quantile(probability) if math.isinf(degrees) else t_quantile(probability, degrees)
