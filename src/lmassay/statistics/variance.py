"""The precision of a mean whose examples are grouped into clusters.

Questions made from one template tend to get similar answers, so a thousand questions from ten templates say less than a
thousand independent ones. Three quantities express that for every estimate:

- the *cluster-robust variance* of Bell and McCaffrey (2002), known as CR2: the sum of the squared contributions of the
  clusters to the deviation of the estimate, corrected for the weight of each cluster;
- the *degrees of freedom* of that variance by the same authors, which are low if there are few clusters or if one
  dominates;
- the *design effect* (Kish 1965): the factor by which the variance exceeds that of independent examples,
  ``1 + (size - 1) · correlation``. The intra-cluster correlation is estimated from the CR2 variance. It is shrunk
  towards 0.3 if the data say little about it because there are few clusters, a dominating cluster, or few errors.

The correlation is shrunk because the CR2 variance of a mean near a bound depends on very few clusters. Without
shrinkage, one more error could narrow the interval and raise its lower bound. The constants below were chosen by
simulation so that this almost never happens.

Rates whose rows are grouped once do not use this design effect: see :mod:`lmassay.statistics.clustered_rate`.

The variances and events that :func:`design_effect` takes may be arrays with one element for each data set, so that a
simulation can pass many data sets at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# The intra-cluster correlation that is assumed if the data contain little information about it. Chosen by simulation:
# with smaller values, intervals cover the true value too rarely if answers within clusters are similar; with larger
# ones, intervals are needlessly wide.
PRIOR_CORRELATION = 0.3
# With this many clusters full of errors, the data and the assumption have the same weight. It is three times the
# assumed correlation: if it were less, one more error could lower the design effect so much that the lower bound rises.
PRIOR_CLUSTERS = 3 * PRIOR_CORRELATION
# How much a dominating cluster reduces the weight of the estimated correlation: if one cluster has half of all rows,
# this weight is divided by 1 + 30 / 4.
LARGEST_SHARE_PENALTY = 30.0
# The correlation that intervals allow for if there was no error. With smaller values, a true rate of 0.95 in many
# clusters with a correlation of 0.5 is covered in less than 92 % of data sets; with larger values, the intervals of
# perfect results are wider than necessary.
LARGEST_CORRELATION = 0.6
# The same as PRIOR_CLUSTERS for means and differences. Unlike that of a rate, their variance does not vanish at an end
# of the range, so the assumption matters only if hardly any rows differ from 0.
PRIOR_CLUSTERS_OF_MEANS = 0.1


@dataclass(frozen=True, slots=True)
class Clusters:
    """How the rows of an estimate are distributed over clusters."""

    shares: Floats
    """Each cluster's share of all rows (or of their total weight)."""
    rows: float
    """The number of rows; with weights, the number of equally weighted rows that would be as precise."""
    size: float
    """The size of the cluster of an average row: ``Σ m² / Σ m`` for clusters of m rows."""

    @property
    def count(self) -> int:
        """The number of clusters."""
        return len(self.shares)

    @property
    def effective(self) -> float:
        """The effective number of clusters: this many clusters of equal size would give the same precision."""
        return self.rows / self.size

    @property
    def are_single_rows(self) -> bool:
        """True if every cluster is one row, so that rows are independent."""
        return self.size <= 1 + 1e-12

    def degrees_of_freedom(self) -> float:
        """Bell and McCaffrey's degrees of freedom of a mean; ``count - 1`` if all clusters have the same size."""
        import numpy as np

        return degrees_of_freedom(self.shares[None, :], np.ones(1))


def clusters_of(sizes: Floats, squares: float | None = None) -> Clusters:
    """The clusters with these numbers of rows; with weights, ``sizes`` are sums of weights, ``squares`` is Σ weight².

    >>> import numpy as np
    >>> clusters_of(np.array([12.0, 12.0, 12.0])).effective
    3.0
    """
    total = float(sizes.sum())
    if squares is None:
        squares = total
    return Clusters(
        shares=sizes / total,
        rows=total**2 / squares,
        size=float((sizes**2).sum()) / squares,
    )


def degrees_of_freedom(shares: Floats, variances: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of a CR2 variance, by Satterthwaite's method.

    ``shares`` has a row for each of the means that the estimate combines and a column for each cluster. ``variances``
    are what each mean adds to the variance of the estimate if rows are independent. In that case, the contributions of
    the clusters have the covariance ``diag(d + Σ aₖ bₖ²) - Σ aₖ bₖ bₖᵀ``, where k numbers the means, ``hₖ`` are the
    shares, ``aₖ`` the variances, ``bₖ = hₖ / √(1 - hₖ)`` and ``d = Σ aₖ hₖ``. The result is the squared trace of this
    matrix divided by the trace of its square.
    """
    import numpy as np

    leverage = shares / np.sqrt(1 - shares)
    trace_terms = variances @ shares
    diagonal = trace_terms + variances @ leverage**2
    products = leverage @ leverage.T
    trace_of_square = (
        float((diagonal**2).sum())
        - 2 * float(variances @ (leverage**2 @ diagonal))
        + float(variances @ products**2 @ variances)
    )
    return float(trace_terms.sum()) ** 2 / trace_of_square


def design_effect(
    cluster_variance: Floats, independent_variance: Floats, events: Floats, clusters: Clusters, *, of_rate: bool
) -> Floats:
    """The factor by which clusters inflate the variance, at least 1.

    The less information the data contain about the correlation, the closer it is to the factor at the assumed
    correlation. ``events`` is the number of rows that differ from the common value: errors of a model that is mostly
    right, or right answers of one that is mostly wrong.
    """
    import numpy as np

    if clusters.are_single_rows:
        return np.ones_like(cluster_variance)
    has_spread = independent_variance > 0
    inflation = np.ones_like(cluster_variance)
    np.divide(cluster_variance, independent_variance, out=inflation, where=has_spread)
    # Kish's formula, solved for the correlation.
    correlation = np.clip((inflation - 1) / (clusters.size - 1), 0.0, 1.0)
    # The number of events in units of the average row's cluster.
    information = events / clusters.size
    if of_rate:
        weight = information / (information + PRIOR_CLUSTERS)
        weight = weight / (1 + LARGEST_SHARE_PENALTY * float(clusters.shares.max()) ** 2)
    else:
        weight = information / (information + PRIOR_CLUSTERS_OF_MEANS)
    shrunken = weight * correlation + (1 - weight) * PRIOR_CORRELATION
    return np.asarray(1 + (clusters.size - 1) * shrunken)


def largest_effect(size: float) -> float:
    """The design effect of clusters of this size at the largest correlation that intervals allow for."""
    return 1 + (size - 1) * LARGEST_CORRELATION
