"""What clusters do to an estimate: how many independent units it has, its design effect and degrees of freedom.

The formulas for one mean are in :mod:`lmassay.statistics.variance`. Here they are applied to a sum of several means,
and to rows that are grouped twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lmassay.statistics.terms import ROUNDING, Term, TermSummary
from lmassay.statistics.variance import Clusters, degrees_of_freedom, design_effect, largest_effect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Below this many independent units (examples, or clusters) nothing is known about the spread.
MIN_UNITS = 2


@dataclass(frozen=True, slots=True)
class Grouping:
    """One grouping of the rows into clusters: by noun, by verb."""

    names: NDArray[Any]
    codes: Sequence[NDArray[np.int64]]
    """For each term, the number of the cluster that each row is in."""


def groupings_of(terms: Sequence[Term]) -> list[Grouping]:
    """The groupings of the rows, with clusters numbered across the terms. All terms have the same groupings."""
    import numpy as np

    groupings = []
    lengths = [len(term.values) for term in terms]
    ends_of_terms = np.cumsum(lengths)[:-1]
    for index in range(len(terms[0].clusters)):
        # A template that occurs in two terms, such as both kinds of contexts, is one cluster: its errors in the two
        # are related. So the labels of all terms are numbered together.
        labels = np.concatenate([np.asarray(term.clusters[index]) for term in terms])
        names, codes = np.unique(labels, return_inverse=True)
        codes_by_term = np.split(codes.astype(np.int64), ends_of_terms)
        groupings.append(Grouping(names, codes_by_term))
    return groupings


def independent_units(summaries: Sequence[TermSummary], groupings: Sequence[Grouping]) -> tuple[int, str]:
    """How many independent units there are, and why no interval can be given if they are too few."""
    import numpy as np

    if not groupings:
        rows = sum(summary.rows for summary in summaries)
        is_one_rate = len(summaries) == 1 and summaries[0].is_binary
        # The variance of a rate follows from its value, so that even one row has an interval.
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
class Clustering:
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


def clustering_of(
    terms: Sequence[Term], summaries: Sequence[TermSummary], groupings: Sequence[Grouping], *, of_rate: bool
) -> Clustering:
    """The effect of the clusters. Rows that are grouped twice, as by noun and by verb, have the sum of both inflations.

    That is the two-way variance of Cameron, Gelbach and Miller (2011, eq. 2.11) with the variance of single rows as the
    part that both groupings count; the degrees of freedom are the smaller ones. If all rows of a noun were the same and
    all rows of a verb were the same, all rows would be the same. So the correlation within nouns and the correlation
    within verbs add up to at most 1, and the sum of the inflations is limited to what the grouping with the larger
    clusters has if the rows of each cluster are the same (``size``).
    """
    if not groupings:
        rows = sum(summary.rows for summary in summaries)
        degrees = max(float(rows - len(summaries)), 1.0)
        return Clustering(effect=1.0, degrees=degrees, size=1.0, largest_effect=1.0)
    by_grouping = [_one_way(terms, summaries, grouping, of_rate=of_rate) for grouping in groupings]
    effect = 1.0
    largest = 1.0
    for one_way in by_grouping:
        effect += one_way.effect - 1
        largest += one_way.largest_effect - 1
    size = max(1.0, *(one_way.size for one_way in by_grouping))
    return Clustering(
        effect=min(effect, size),
        degrees=min(one_way.degrees for one_way in by_grouping),
        size=size,
        largest_effect=min(largest, size),
        contributions=by_grouping[0].contributions,
    )


def _one_way(
    terms: Sequence[Term], summaries: Sequence[TermSummary], grouping: Grouping, *, of_rate: bool
) -> Clustering:
    """What the clusters of one grouping do to the estimate (CR2: Bell and McCaffrey 2002)."""
    import numpy as np

    n_clusters = len(grouping.names)
    contributions = np.zeros(n_clusters)
    shares = np.zeros((len(terms), n_clusters))
    sizes = np.zeros(len(terms))
    for index, (term, summary, codes) in enumerate(zip(terms, summaries, grouping.codes, strict=True)):
        weights = np.ones(summary.rows) if term.weights is None else term.weights
        total = float(weights.sum())
        weight_of_cluster = np.bincount(codes, weights=weights, minlength=n_clusters)
        residuals = np.bincount(codes, weights=weights * (term.values - summary.mean), minlength=n_clusters)
        shares[index] = weight_of_cluster / total
        sum_of_squares = total if term.weights_are_counts else float((weights**2).sum())
        sizes[index] = float((weight_of_cluster**2).sum()) / sum_of_squares
        # CR2: the residual of a cluster that holds much of the data is too small, because it pulls the mean.
        contributions += summary.coefficient * residuals / total / np.sqrt(1 - shares[index])

    coefficients = np.array([summary.coefficient for summary in summaries])
    variances = np.array([summary.variance for summary in summaries])
    equal_rows = np.array([summary.equal_rows for summary in summaries])
    # What each term adds to the variance of the estimate if all rows are independent.
    independent_variances = coefficients**2 * variances / equal_rows
    # How much each term matters to the variance; where none has any, by its coefficient and its rows.
    importance = independent_variances if independent_variances.sum() > 0 else coefficients**2 / equal_rows
    importance = importance / importance.sum()
    # Means of the same clusters, such as those of constructions with the same nouns, rise and fall together: a cluster
    # is then as large as all its rows. Rows of a difference cancel, so there the size within one mean is what counts.
    signed_spreads = np.sign(coefficients) * np.sqrt(importance * equal_rows)
    size_together = float(((signed_spreads @ shares) ** 2).sum())
    size_within_means = float(importance @ sizes)
    clusters = Clusters(
        shares=importance @ shares,
        rows=sum(summary.equal_rows for summary in summaries),
        size=max(size_within_means, size_together),
    )
    effect = design_effect(
        np.array(float((contributions**2).sum())),
        np.array(float(independent_variances.sum())),
        np.array(sum(summary.events for summary in summaries)),
        clusters,
        of_rate=of_rate,
    )
    return Clustering(
        effect=float(effect),
        degrees=degrees_of_freedom(shares, importance),
        size=clusters.size,
        largest_effect=largest_effect(clusters.size),
        contributions=dict(zip(grouping.names.tolist(), contributions.tolist(), strict=True)),
    )


def degrees_of_rate(degrees: float, size: float) -> float:
    """Degrees of freedom of a rate: of its variance only the design effect is estimated, not the spread of a row.

    By Satterthwaite's method, if the rows of a cluster were all the same; single rows have a known variance.
    """
    if size <= 1 + ROUNDING:
        return math.inf
    return degrees * (size / (size - 1)) ** 2
