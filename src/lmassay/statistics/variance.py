"""How precise a mean is when its examples belong together in clusters.

Questions made from one template tend to get similar answers, so a thousand questions from ten templates say less than a
thousand independent ones. Three quantities express that for every estimate:

- the *cluster-robust variance* of Bell and McCaffrey (2002), known as CR2: what each cluster adds to the deviation of
  the estimate, squared, and corrected for the weight of the cluster;
- the *degrees of freedom* of that variance by the same authors: few clusters, or one that dominates, leave few;
- the *design effect* (Kish 1965): by how much the variance exceeds that of independent examples,
  ``1 + (size - 1) · correlation``. The intra-cluster correlation is estimated from the CR2 variance and shrunk towards
  0.3 where the data say little about it: few clusters, a dominating cluster, or few errors.

Why the correlation is shrunk: the CR2 variance of a mean near a bound rests on very few clusters. Used as it is, one
more error can narrow the interval and raise its lower bound. The constants below were chosen by simulation so that this
almost never happens.

Rates whose rows are grouped once do not use this design effect: see :mod:`lmassay.statistics.clustered_rate`.

Functions work along the last axis, so that a simulation can pass many data sets at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# The intra-cluster correlation that is assumed if the data contain little information about it. Chosen by simulation:
# smaller values cover too little if answers within clusters are similar, larger ones make intervals needlessly wide.
PRIOR_CORRELATION = 0.3
# How many clusters full of errors the data must contain to weigh as much as that assumption. Three times the assumed
# correlation: with less, the design effect would fall so quickly from one error to the next that the lower bound rises.
PRIOR_CLUSTERS = 3 * PRIOR_CORRELATION
# How much a dominating cluster weakens the estimate: with half of all rows in one cluster, 1 / (1 + 30 / 4) is left.
LARGEST_SHARE_PENALTY = 30.0
# The correlation that intervals allow for where no error was seen. With smaller values, rates of .95 in many clusters
# with a correlation of 0.5 are covered in less than 92 %; with larger ones, perfect results say less than they could.
LARGEST_CORRELATION = 0.6
# Means and differences have no end at which their variance vanishes, so the assumption need only fill in for clusters
# that do not differ at all.
PRIOR_CLUSTERS_OF_MEANS = 0.1


@dataclass(frozen=True, slots=True)
class Clusters:
    """How the rows of an estimate are spread over clusters."""

    shares: Floats
    """Each cluster's share of all rows (or of their total weight)."""
    rows: float
    """The number of rows; with weights, of equally weighted rows that would be as precise."""
    size: float
    """How many rows the average row shares its cluster with, itself included: ``Σ m² / Σ m``."""

    @property
    def count(self) -> int:
        """The number of clusters."""
        return len(self.shares)

    @property
    def effective(self) -> float:
        """How many clusters of equal size would be as precise."""
        return self.rows / self.size

    @property
    def are_single_rows(self) -> bool:
        """True if every cluster is one row, so that rows are independent."""
        return self.size <= 1 + 1e-12

    def degrees_of_freedom(self) -> float:
        """Bell and McCaffrey's, for independent rows; ``count - 1`` where all clusters have the same size."""
        import numpy as np

        return degrees_of_freedom(self.shares[None, :], np.ones(1))


def clusters_of(sizes: Floats, squares: float | None = None) -> Clusters:
    """The clusters with these numbers of rows, or these sums of weights with the sum of the squared weights.

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

    ``shares`` has a row for each column that the estimate combines, ``variances`` what each column adds to the variance
    of the estimate if rows are independent. Under independence the contributions of the clusters have the covariance
    ``diag(d + Σ aₖ bₖ²) - Σ aₖ bₖ bₖᵀ`` with ``bₖ = hₖ / √(1 - hₖ)`` for shares ``hₖ`` and ``d = Σ aₖ hₖ``; the result
    is its squared trace over the trace of its square.
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
    """By how much clusters inflate the variance, at least 1; where the data say little, by the assumed correlation.

    ``events`` is the number of rows that differ from the common value: errors of a model that is mostly right, or
    right answers of one that is mostly wrong.
    """
    import numpy as np

    if clusters.are_single_rows:
        return np.ones_like(cluster_variance)
    has_spread = independent_variance > 0
    inflation = np.ones_like(cluster_variance)
    np.divide(cluster_variance, independent_variance, out=inflation, where=has_spread)
    # Kish's formula, solved for the correlation.
    correlation = np.clip((inflation - 1) / (clusters.size - 1), 0.0, 1.0)
    # Errors, counted in clusters full of them.
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
