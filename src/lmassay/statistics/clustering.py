"""How clusters affect an estimate: its number of independent units, design effect and degrees of freedom.

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

# With fewer independent units (examples, or clusters), nothing is known about the spread.
MIN_UNITS = 2


@dataclass(frozen=True, slots=True)
class Grouping:
    """One grouping of the rows into clusters, for example by noun."""

    names: NDArray[Any]
    """The labels of the clusters."""
    codes: Sequence[NDArray[np.int64]]
    """For each term, an array with the cluster of each row, as an index into ``names``."""


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
    """The number of independent units, and why there can be no interval if there are too few; empty if enough."""
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
    """How clusters affect an estimate."""

    effect: float
    """The design effect: the factor by which clusters inflate the variance."""
    degrees: float
    """Degrees of freedom of the cluster-robust variance."""
    size: float
    """The design effect if all rows of a cluster were the same; 1 without clusters."""
    largest_effect: float
    """The design effect at the largest correlation that intervals allow for: see :func:`largest_effect`."""
    contributions: Mapping[str | int, float] = field(default_factory=dict)
    """A dict from the label of a cluster in the first grouping to its contribution to the estimate's deviation."""


def clustering_of(
    terms: Sequence[Term], summaries: Sequence[TermSummary], groupings: Sequence[Grouping], *, of_rate: bool
) -> Clustering:
    """The effect of the clusters. If rows are grouped twice, e.g. by noun and by verb, both inflations are added up.

    This is the two-way variance of Cameron, Gelbach and Miller (2011, eq. 2.11), where the variance of single rows is
    what both groupings have in common. Of the two numbers of degrees of freedom, the smaller one is used. If all rows
    with the same noun were equal and all rows with the same verb were equal, all rows would be equal. So the
    correlation within nouns and the correlation within verbs add up to at most 1. That is why the sum of the inflations
    is limited to ``size``, the design effect of the grouping with the larger clusters if the rows of each cluster are
    equal.
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
    """How the clusters of one grouping affect the estimate, by the CR2 variance of Bell and McCaffrey (2002)."""
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
        # CR2: a cluster with much of the data pulls the mean towards itself, which makes its residual too small. The
        # square root corrects this.
        contributions += summary.coefficient * residuals / total / np.sqrt(1 - shares[index])

    coefficients = np.array([summary.coefficient for summary in summaries])
    variances = np.array([summary.variance for summary in summaries])
    equal_rows = np.array([summary.equal_rows for summary in summaries])
    # What each term adds to the variance of the estimate if all rows are independent.
    independent_variances = coefficients**2 * variances / equal_rows
    # The share of each term in the variance; if no term has a variance, as if all values had the same one.
    importance = independent_variances if independent_variances.sum() > 0 else coefficients**2 / equal_rows
    importance = importance / importance.sum()
    # Means that share their clusters, such as those of constructions with the same nouns, rise and fall together, so
    # the rows of a cluster in all terms count as one large cluster. In a difference, they cancel each other out, so the
    # size within a single mean is larger and is used.
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
    """Degrees of freedom of a rate, which are more than ``degrees``, those of the cluster-robust variance.

    Only the design effect of a rate is estimated; the variance of a single row follows from the rate. The formula is
    Satterthwaite's for clusters whose rows are all equal. Without clusters, the degrees are infinite.
    """
    if size <= 1 + ROUNDING:
        return math.inf
    return degrees * (size / (size - 1)) ** 2
