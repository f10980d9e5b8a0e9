"""Estimates that are sums of means, with their standard error, interval and p-value: one method for all of them.

A rate, a mean score, a difference of two accuracies, the mean over constructions and the difference between two runs
are all ``constant + Σ coefficient · mean``. :func:`estimate` takes the means as :class:`Term` objects and returns an
:class:`Estimate`. There is one interval for each kind of number, over its whole range:

- *rates* (every value 0 or 1): Wilson's interval (1927) with the effective number of examples in place of their number
  and Student's t in place of the normal quantile. It is never narrower at its end than if all clusters were right.
- *bounded means*: the same on the score rescaled to 0…1. Two pseudo-observations protect means close to a bound, where
  the few scores that are far from it decide about the spread.
- *everything else*, differences above all: Student's t. Values that are mostly 0, as the differences of two runs that
  seldom disagree, get one pseudo-observation on either side (Bonett and Price 2012; Agresti and Caffo 2000 for
  differences of rates). Interval and p-value come from the same t, so they never contradict each other.

What clusters do to the variance is explained in :mod:`lmassay.statistics.variance`.
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
FEWEST_UNITS = 2
# Pseudo-observations of a bounded mean close to its bound, and of a difference that is mostly 0.
_PSEUDO_OBSERVATIONS = 2.0
# Differences below this are rounding.
_ROUNDING = 1e-12
_NO_SPREAD = "all {rows:,} values are the same"
_NOTHING_COUNTS = "no example counts: all weights are 0"
# Even in the middle of its range, scores that are all the same do not prove that all scores are.
_LEAST_CLOSENESS = 0.05
# Scores pile up at a bound if their distances from it vary much. The squared coefficient of variation of the distances
# is 1 if they are exponentially distributed, and larger if most scores are at the bound and a few far from it. Between
# these values, protection fades in.
_CLEARLY_AWAY, _PILED_UP = 0.75, 1.5
# Distances that add up to less than this many errors hardly differ from no error at all; from the other number on, they
# do. In between, protection fades out.
_NO_ERROR, _AN_ERROR = 0.25, 0.75
# Few scores do not show how much distances vary: with this many, twice as much as observed is allowed for.
_FEW_SCORES = 8.0


@dataclass(frozen=True, slots=True)
class Term:
    """One mean of an estimate, and how much it counts in it.

    ``clusters`` holds one sequence of labels for each way in which rows belong together: none for independent rows,
    two for rows that share a noun or a verb. ``weights`` says how much each row counts in the mean. If ``are_counts``,
    every value is the share of right answers among as many rows as its weight says.
    """

    values: Floats
    coefficient: float = 1.0
    clusters: Sequence[Labels] = ()
    weights: Floats | None = None
    are_counts: bool = False
    step: float | None = None
    """How far a value would be from 0 if one were: known for rates, where nothing else tells if all values are 0."""
    unchanged: NDArray[np.bool_] | None = None
    """Which rows count as 0 although their values are not: linearised values of a ratio, such as a relative drop."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with all that its interval and its p-value need."""

    value: float
    kind: Kind
    center: float
    """Where the interval is centred: the value, moved a little by pseudo-observations."""
    error: float
    """The standard error; 0 where none can be given."""
    degrees: float
    """Degrees of freedom of the standard error."""
    rows: int
    units: int
    """Independent units: clusters, or rows if there are none. Of two ways to cluster, the smaller number."""
    effective: float
    """How many independent rows would be as precise."""
    floor: float = 0.0
    """The effective number of rows if no error had been seen and rows were as similar as intervals must allow for."""
    unseen: float = 0.0
    """Of a bounded mean, from 0 to 1: how much its interval must allow for scores at the other bound that were not
    among as many rows as :attr:`floor` says."""
    bounds: tuple[float, float] | None = None
    clustered_by: tuple[str, ...] = ()
    """The groups that rows are clustered by, for :attr:`method`."""
    clusters: tuple[int, ...] = ()
    """How many clusters there are in each way in which rows belong together."""
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
            half = t_quantile(tail, self.degrees) * self.error
            return _inside(self.center - half, self.center + half, self.bounds)
        low, high = self.bounds
        span = high - low
        quantile = _quantile(tail, self.degrees)
        lower, upper = wilson((self.value - low) / span, self.effective, quantile)
        if self.kind == "rate" and self.floor:
            # With fewer errors the interval would not end further out than if there were none at all.
            lower = min(lower, self.floor / (self.floor + quantile**2))
            upper = max(upper, quantile**2 / (self.floor + quantile**2))
        if self.unseen:
            share = (self.value - low) / span
            # The end of Wilson's interval of a rate of 0: the share of such scores that would easily go unseen.
            largest_unseen = self.unseen * quantile**2 / (self.floor + self.unseen * quantile**2)
            if share > 0.5:
                lower = min(lower, share * (1 - largest_unseen))
            else:
                upper = max(upper, share + (1 - share) * largest_unseen)
        return low + span * lower, low + span * upper

    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided") -> float | None:
        """The probability of an estimate this far from ``null``, or of one this far below or above it."""
        if self.reason:
            return None
        distance = self.center - null
        if self.error <= 0:
            return 1.0 if abs(distance) <= _ROUNDING else 0.0
        t = distance / self.error
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
    """Wilson's interval of a rate in a number of tosses that need not be whole; arrays are taken elementwise."""
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
    floor = total / largest_effect(clusters.size)
    return (
        np.minimum(low, floor / (floor + quantile**2)),
        np.maximum(high, quantile**2 / (floor + quantile**2)),
    )


def estimate(
    terms: Sequence[Term], *, constant: float = 0.0, bounds: Bounds | None = None, is_difference: bool = False
) -> Estimate:
    """``constant + Σ coefficient · mean`` over the terms.

    ``bounds`` are the least and the largest possible value. A difference has no interval that leans on its bounds:
    it is a mean that can have either sign, cut where it would leave them.
    """
    terms = [_counted(term) for term in terms]
    if any(not len(term.values) for term in terms):
        return Estimate(math.nan, "mean", math.nan, 0.0, 0.0, 0, 0, 0.0, reason=_NOTHING_COUNTS)
    ends = (bounds[0], bounds[1]) if bounds and bounds[0] is not None and bounds[1] is not None else None
    if ends is not None and not ends[0] < ends[1]:
        ends = None
    if ends is not None and not is_difference and _leaves(terms, constant, ends):
        # Bounds that do not hold cannot tell anything about the interval.
        bounds = ends = None
    parts = []
    for term in terms:
        step = term.step
        if step is None and ends is not None:
            step = (ends[1] - ends[0]) / 2 / abs(term.coefficient)
        parts.append(_part_of(term, step, is_signed=is_difference or _is_signed(terms, constant, ends)))
    value = constant + sum(part.coefficient * part.mean for part in parts)
    rows = sum(part.rows for part in parts)
    kind = _kind_of(parts, constant, ends, is_difference)
    if kind == "bounded mean" and ends is not None:
        # How many rows at the rarer bound would have this mean: what errors are to a rate.
        share = min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
        rarer = min(share, 1 - share)
        parts = [part if part.is_binary else replace(part, events=part.rows * rarer) for part in parts]
    ways = [_numbered(terms, way) for way in range(len(terms[0].clusters))]
    units, reason = _units_of(parts, ways)
    clusters = tuple(len(way.names) for way in ways)
    if reason:
        return Estimate(value, kind, value, 0.0, 0.0, rows, units, 0.0, bounds=ends, clusters=clusters, reason=reason)

    clustering = _clustering(terms, parts, ways, of_rate=kind != "mean")
    effect, degrees = clustering.effect, clustering.degrees
    if kind == "rate":
        (part,) = parts
        effective = part.equal_rows / effect
        return Estimate(
            value,
            kind,
            value,
            error=abs(part.coefficient) * math.sqrt(part.variance / effective),
            degrees=_degrees_of_rate(degrees, clustering.size),
            rows=rows,
            units=units,
            effective=effective,
            # Independent rows need no floor: Wilson's interval is monotone by itself.
            floor=part.equal_rows / clustering.largest_effect if ways else 0.0,
            bounds=ends,
            clusters=clusters,
            contributions=clustering.contributions,
        )

    if kind == "bounded mean" and ends is not None:
        unseen = 1 - (1 - _pile_up(value, terms, parts, ends)) / clustering.size
        bounded = _bounded(value, parts, ends, clustering, unseen, rows, units)
        return replace(bounded, clusters=clusters, contributions=clustering.contributions)

    center = constant
    variance = 0.0
    for part in parts:
        mean, part_variance = part.with_pseudo_observations(effect)
        center += part.coefficient * mean
        variance += part.coefficient**2 * part_variance
    error = math.sqrt(variance)
    return Estimate(
        value,
        kind,
        center,
        error,
        degrees,
        rows,
        units,
        rows / effect,
        bounds=_half_bounds(bounds) if ends is None else ends,
        clusters=clusters,
        contributions=clustering.contributions,
        reason="" if error > 0 else _NO_SPREAD.format(rows=rows),
    )


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates on the same clusters, such as those of one model under several prompts.

    What a cluster adds to each of them is averaged before it is squared, because the same templates are asked under
    every prompt. What the prior correlation and pseudo-observations add to the variances does not average out.
    """
    first = estimates[0]
    count = len(estimates)
    value = sum(one.value for one in estimates) / count
    reasons = [one.reason for one in estimates if one.reason]
    if reasons:
        return replace(first, value=value, center=value, reason=reasons[0])
    averaged: dict[str | int, float] = {}
    of_clusters = 0.0
    for one in estimates:
        for cluster, share in one.contributions.items():
            averaged[cluster] = averaged.get(cluster, 0.0) + share / count
        of_clusters += sum(share**2 for share in one.contributions.values()) / count
    of_estimates = sum(one.error**2 for one in estimates) / count
    of_mean = sum(share**2 for share in averaged.values())
    if of_estimates >= of_clusters:
        variance = of_mean + (of_estimates - of_clusters)
    else:
        # The prior correlation made the estimates more precise than their clusters look.
        variance = of_mean * of_estimates / of_clusters
    center = sum(one.center for one in estimates) / count
    if all(one.kind != "mean" for one in estimates):
        # How much more precise the mean is than a single estimate; not at all where no spread is seen.
        ratio = variance / of_estimates if of_estimates > 0 else 1.0
        # Independent prompts would be as many times as precise as there are; deviations that cancel are chance.
        ratio = min(max(ratio, 1 / count), 1.0)
        return replace(
            first,
            value=value,
            center=value,
            kind="rate" if all(one.kind == "rate" for one in estimates) else "bounded mean",
            error=math.sqrt(variance),
            degrees=min(one.degrees for one in estimates),
            rows=sum(one.rows for one in estimates),
            # Variances are averaged, so numbers of rows are by their harmonic mean.
            effective=count / sum(1 / one.effective for one in estimates) / ratio,
            floor=min(one.floor for one in estimates),
            unseen=max(one.unseen for one in estimates),
            contributions=averaged,
        )
    return Estimate(
        value,
        "mean",
        center,
        math.sqrt(variance),
        min(one.degrees for one in estimates),
        sum(one.rows for one in estimates),
        min(one.units for one in estimates),
        sum(one.effective for one in estimates) / count,
        bounds=first.bounds,
        contributions=averaged,
        reason="" if variance > 0 else _NO_SPREAD.format(rows=sum(one.rows for one in estimates)),
    )


def _counted(term: Term) -> Term:
    """The term without rows of weight 0: a row that counts nothing must not count as one that agrees."""
    import numpy as np

    if term.weights is None or bool((term.weights > 0).all()):
        return term
    counts = np.asarray(term.weights) > 0
    clusters = [np.asarray(labels)[counts] for labels in term.clusters]
    return replace(
        term,
        values=np.asarray(term.values)[counts],
        weights=term.weights[counts],
        clusters=clusters,
        unchanged=None if term.unchanged is None else term.unchanged[counts],
    )


def _leaves(terms: Sequence[Term], constant: float, ends: tuple[float, float]) -> bool:
    """True if some values are beyond the bounds that were declared for the estimate."""
    import numpy as np

    if len(terms) == 1:
        scores = constant + terms[0].coefficient * np.asarray(terms[0].values, dtype=float)
        lowest, highest = float(scores.min()), float(scores.max())
    else:
        # Bounds of a sum do not say which values each of the means can have.
        means = [np.average(term.values, weights=term.weights) for term in terms]
        lowest = highest = constant + sum(term.coefficient * mean for term, mean in zip(terms, means, strict=True))
    return lowest < ends[0] - _ROUNDING or highest > ends[1] + _ROUNDING


def _pile_up(value: float, terms: Sequence[Term], parts: Sequence[_Part], ends: tuple[float, float]) -> float:
    """How much scores look as if most were at a bound and some far from it: from 0 to 1.

    What matters is how much the distances from the bound vary, relative to their mean. If all scores are 0.95 or so,
    the next ones will be, too. If most are 1 and a few 0.5, as many as were seen do not exclude a few that are 0. A
    spread that comes from a single score is not believed either.
    """
    import numpy as np

    if len(terms) > 1 or parts[0].is_binary:
        return 1.0
    (term,), (part,) = terms, parts
    deviations = np.asarray(term.values, dtype=float) - part.mean
    weights = np.ones(part.rows) if term.weights is None else term.weights
    square = float((weights**2 * deviations**2).sum())
    if part.variance <= 0 or square <= 0:
        return 1.0
    fourth = float((weights**4 * deviations**4).sum())
    # How many scores of equal deviation would give the same variance.
    deviating = square**2 / fourth
    low, high = ends
    distance = min(abs(value - low), abs(high - value))
    variation = part.coefficient**2 * part.variance / distance**2 if distance > 0 else math.inf
    variation *= 1 + _FEW_SCORES / part.equal_rows
    piled_up = (variation - _CLEARLY_AWAY) / (_PILED_UP - _CLEARLY_AWAY)
    errors = part.equal_rows * distance / (high - low)
    too_close = (_AN_ERROR - errors) / (_AN_ERROR - _NO_ERROR)
    return min(max(piled_up, too_close, 1 / deviating**2), 1.0)


def _bounded(
    value: float,
    parts: Sequence[_Part],
    ends: tuple[float, float],
    clustering: _Clustering,
    unseen: float,
    rows: int,
    units: int,
) -> Estimate:
    """A mean of scores between two bounds, rescaled to 0…1.

    ``unseen`` says from 0 to 1 how much the interval must allow for scores at the other bound that were not seen.
    """
    low, high = ends
    span = high - low
    independent = 0.0
    for part in parts:
        sample_variance = part.variance * part.rows / max(part.rows - 1, 1)
        independent += (part.coefficient / span) ** 2 * sample_variance / part.equal_rows
    equal_rows = sum(part.equal_rows for part in parts)
    spread_rows = equal_rows / clustering.effect
    share = (value - low) / span
    # Half an observation at either end: at 0 and 1 the largest possible variance would be 0 otherwise.
    smoothed = (share * spread_rows + unseen / 2) / (spread_rows + unseen)
    largest = smoothed * (1 - smoothed)
    # A mean in the middle of its range needs hardly any protection, one at its end the more, the closer it is.
    closeness = max(abs(2 * smoothed - 1), _LEAST_CLOSENESS)
    pseudo = unseen * _PSEUDO_OBSERVATIONS
    added = pseudo * largest * closeness / spread_rows
    variance = (independent * clustering.effect * spread_rows + added) / (spread_rows + pseudo)
    if variance <= 0:
        reason = _NO_SPREAD.format(rows=rows)
        return Estimate(
            value, "bounded mean", value, 0.0, clustering.degrees, rows, units, 0.0, bounds=ends, reason=reason
        )
    return Estimate(
        value,
        "bounded mean",
        value,
        math.sqrt(variance) * span,
        clustering.degrees,
        rows,
        units,
        effective=largest / variance,
        bounds=ends,
        floor=equal_rows / clustering.largest_effect,
        # Flat at the ends: one score that is a little lower must not take protection away.
        unseen=unseen * max(1 - (2 * min(share, 1 - share)) ** 2, _LEAST_CLOSENESS),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A term, summed up."""

    coefficient: float
    rows: int
    equal_rows: float
    """The number of rows; with weights, of equally weighted rows that would be as precise."""
    mean: float
    variance: float
    events: float
    """Rows that differ from the common value: see :func:`design_effect`."""
    is_binary: bool
    ends: tuple[float, float] | None
    """Where pseudo-observations of a difference go; None where it needs none."""
    pseudo: float

    def with_pseudo_observations(self, effect: float) -> tuple[float, float]:
        """The mean and its variance with pseudo-observations at both ends, counted in effective rows."""
        effective = self.equal_rows / effect
        if self.ends is None or self.pseudo <= 0:
            # The sample variance of the values, as in any t-interval.
            sample_variance = self.variance * self.rows / max(self.rows - 1, 1)
            return self.mean, sample_variance / effective
        total = effective + self.pseudo
        low, high = self.ends
        mean = (self.mean * effective + self.pseudo * (low + high) / 2) / total
        second = (self.variance + self.mean**2) * effective + self.pseudo * (low**2 + high**2) / 2
        return mean, max(second / total - mean**2, 0.0) / total


def _blended(events: float, observed: float | None, step: float) -> float:
    """How far from 0 a pseudo-observation is: as far as the values that differ from it, more surely the more there are.

    The possible change counts as one more of them.
    """
    if observed is None:
        return step
    return math.sqrt((events * observed**2 + step**2) / (events + 1))


def _is_signed(terms: Sequence[Term], constant: float, ends: tuple[float, float] | None) -> bool:
    """True if values can be negative although none of these may be: a single mean that can have either sign."""
    if len(terms) > 1 or ends is None:
        return False
    is_scaled_rate = ends == (constant, constant + terms[0].coefficient)
    return ends[0] < 0 < ends[1] and not is_scaled_rate


def _part_of(term: Term, step: float | None, *, is_signed: bool) -> _Part:
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
    if weights is not None and term.are_counts:
        # Each value stands for many rows, which are right or wrong: sum up the rows, not the values.
        events = min(mean * total, (1 - mean) * total)
        return _Part(term.coefficient, len(values), total, mean, mean * (1 - mean), events, True, (0.0, 1.0), 2.0)
    # Differences that are all 0 or 1 are not a rate: they could have been -1, and the result must not depend on which
    # of two runs comes first.
    is_binary = not is_signed and bool(np.isin(values, (0.0, 1.0)).all())
    nonzero = np.abs(values) > _ROUNDING if term.unchanged is None else ~term.unchanged
    if is_binary:
        events = float(min(nonzero.sum(), (~nonzero).sum()))
        return _Part(term.coefficient, len(values), equal_rows, mean, variance, events, True, (0.0, 1.0), 2.0)
    events = float(nonzero.sum())
    zeros = 1 - events / len(values)
    observed = float(np.sqrt((values[nonzero] ** 2).mean())) if nonzero.any() else None
    size = observed if step is None else _blended(events, observed, step)
    if is_signed and variance == 0 and size is not None:
        # All differences are the same: the spread is unknown, not 0, and so is how alike clusters are.
        size = size if observed is None else observed
        return _Part(
            term.coefficient, len(values), equal_rows, mean, variance, 0.0, False, (-size, size), _PSEUDO_OBSERVATIONS
        )
    return _Part(
        term.coefficient,
        len(values),
        equal_rows,
        mean,
        variance,
        events,
        False,
        (-size, size) if zeros > 0 and size is not None else None,
        _PSEUDO_OBSERVATIONS * zeros,
    )


def _kind_of(parts: Sequence[_Part], constant: float, ends: tuple[float, float] | None, is_difference: bool) -> Kind:
    if is_difference or ends is None or any(part.coefficient <= 0 for part in parts):
        return "mean"
    if len(parts) == 1 and parts[0].is_binary and ends == (constant, constant + parts[0].coefficient):
        # Also a rate on another scale, such as BBQ's 2 · rate - 1.
        return "rate"
    # A number that can have either sign is a difference of something.
    return "mean" if ends[0] < 0 < ends[1] else "bounded mean"


@dataclass(frozen=True, slots=True)
class _Way:
    """One way in which rows belong together."""

    names: NDArray[Any]
    codes: Sequence[NDArray[np.int64]]
    """For each term, the number of the cluster that each row is in."""


def _numbered(terms: Sequence[Term], way: int) -> _Way:
    import numpy as np

    names, codes = np.unique(np.concatenate([np.asarray(term.clusters[way]) for term in terms]), return_inverse=True)
    ends = np.cumsum([len(term.values) for term in terms])[:-1]
    return _Way(names, np.split(codes.astype(np.int64), ends))


def _units_of(parts: Sequence[_Part], ways: Sequence[_Way]) -> tuple[int, str]:
    """How many independent units there are, and why no interval can be given if they are too few."""
    import numpy as np

    if not ways:
        rows = sum(part.rows for part in parts)
        is_one_rate = len(parts) == 1 and parts[0].is_binary
        return rows, "one value only" if rows < FEWEST_UNITS and not is_one_rate else ""
    units = min(len(way.names) for way in ways)
    for way in ways:
        for codes in way.codes:
            if len(np.unique(codes)) < FEWEST_UNITS:
                return units, "all examples belong to one cluster"
    return units, ""


@dataclass(frozen=True, slots=True)
class _Clustering:
    """What clusters do to an estimate."""

    effect: float
    """The design effect."""
    degrees: float
    size: float
    """The design effect if all rows of a cluster were the same."""
    largest_effect: float
    """The design effect that intervals allow for where nothing is known: see :func:`largest_effect`."""
    contributions: Mapping[str | int, float]


def _clustering(terms: Sequence[Term], parts: Sequence[_Part], ways: Sequence[_Way], *, of_rate: bool) -> _Clustering:
    """Rows that are clustered in two ways, as by noun and by verb, have the sum of both inflations.

    That is the two-way variance of Cameron, Gelbach and Miller (2011) with the variance of single rows as the part
    that both ways count; the degrees of freedom are the smaller ones. Rows that were the same within every noun and
    within every verb would all be the same, so the two correlations do not exceed 1 together: no inflation exceeds
    the one that the way with the larger clusters could have by itself.
    """
    if not ways:
        rows = sum(part.rows for part in parts)
        return _Clustering(1.0, max(float(rows - len(parts)), 1.0), 1.0, 1.0, {})
    effect, size, degrees = 1.0, 1.0, math.inf
    largest = 1.0
    contributions: Mapping[str | int, float] = {}
    for place, way in enumerate(ways):
        clusters, own_effect, own_degrees, own_contributions = _one_way(terms, parts, way, of_rate=of_rate)
        effect += own_effect - 1
        largest += largest_effect(clusters.size) - 1
        size = max(size, clusters.size)
        degrees = min(degrees, own_degrees)
        if place == 0:
            contributions = dict(zip(way.names.tolist(), own_contributions.tolist(), strict=True))
    return _Clustering(min(effect, size), degrees, size, min(largest, size), contributions)


def _one_way(
    terms: Sequence[Term], parts: Sequence[_Part], way: _Way, *, of_rate: bool
) -> tuple[Clusters, float, float, Floats]:
    import numpy as np

    count = len(way.names)
    contributions = np.zeros(count)
    shares = np.zeros((len(terms), count))
    sizes = np.zeros(len(terms))
    for place, (term, part, codes) in enumerate(zip(terms, parts, way.codes, strict=True)):
        weights = np.ones(part.rows) if term.weights is None else term.weights
        total = float(weights.sum())
        in_cluster = np.bincount(codes, weights=weights, minlength=count)
        residuals = np.bincount(codes, weights=weights * (term.values - part.mean), minlength=count)
        shares[place] = in_cluster / total
        squares = total if term.are_counts else float((weights**2).sum())
        sizes[place] = float((in_cluster**2).sum()) / squares
        # CR2: the residual of a cluster that holds much of the data is too small, because it pulls the mean.
        contributions += part.coefficient * residuals / total / np.sqrt(1 - shares[place])
    independent = np.array([part.coefficient**2 * part.variance / part.equal_rows for part in parts])
    importance = independent if independent.sum() > 0 else np.array([p.coefficient**2 / p.equal_rows for p in parts])
    importance = importance / importance.sum()
    rows = sum(part.equal_rows for part in parts)
    # Means of the same clusters, such as those of constructions with the same nouns, rise and fall together: a cluster
    # is then as large as all its rows. Rows of a difference cancel, so there the size within one mean is what counts.
    spreads = np.sqrt(importance * np.array([part.equal_rows for part in parts]))
    signed = np.sign([part.coefficient for part in parts]) * spreads
    together = float(((signed @ shares) ** 2).sum())
    clusters = Clusters(importance @ shares, rows, max(float(importance @ sizes), together))
    effect = design_effect(
        np.array(float((contributions**2).sum())),
        np.array(float(independent.sum())),
        np.array(sum(part.events for part in parts)),
        clusters,
        of_rate=of_rate,
    )
    return clusters, float(effect), degrees_of_freedom(shares, importance), contributions


def _degrees_of_rate(degrees: float, size: float) -> float:
    """Degrees of freedom of a rate: of its variance only the design effect is estimated, not the spread of a row.

    By Satterthwaite's method, if the rows of a cluster were all the same; single rows have a known variance.
    """
    if size <= 1 + _ROUNDING:
        return math.inf
    return degrees * (size / (size - 1)) ** 2


def _quantile(probability: float, degrees: float) -> float:
    return normal_quantile(probability) if math.isinf(degrees) else t_quantile(probability, degrees)


def _half_bounds(bounds: Bounds | None) -> tuple[float, float] | None:
    """Bounds of which one end may be missing, for cutting an interval."""
    if bounds is None or bounds == (None, None):
        return None
    low, high = bounds
    return (-math.inf if low is None else low), (math.inf if high is None else high)


def _inside(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        return low, high
    return max(low, bounds[0]), min(high, bounds[1])
