"""Can a lower bound that never rises with one more error exclude a true rate of 95 % often enough?

    python benchmarks/coverage_limits.py [-o FILE]

Intervals that are neither too narrow nor too wide miss the true rate in about 2.5 % of data sets on either side. A
lower bound that never rises with one more error is highest for a perfect result. If perfect results are so common at a
true rate of .95 that their interval must contain it, no interval can miss it from below. For the cluster sizes of KoBBQ
and BBQ with six or more effective clusters, this script computes, without simulation,

- how often a data set has no error at all at a rate of .95: in the beta-binomial model with correlations of .3 and .5;
  and at least how often if there are two kinds of clusters with a correlation of .5, some that are always answered
  correctly and others that are often wrong. 92 % coverage needs intervals that contain .95 where this exceeds 8 %;
- for up to 2,000 rows, the largest share z such that a lower bound is above .95 in at least z of the beta-binomial data
  sets at correlations of .1, .2 and .3, but in no more than 2.5 % at any correlation from 0 to .5. Of the lower bound
  it is only assumed that it is never above the observed rate, that it depends on the number of errors and on the number
  of clusters with an error, and that it never rises with one more error. Such bounds, if they may decide by chance,
  form a convex set, so that z is the solution of a linear program.

The result is in ``benchmarks/measured/coverage_limits.tsv``; ``docs/coverage-study.md`` explains what it means.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_matrix
from scipy.special import gammaln

from lmassay.statistics.variance import clusters_of

# As a script, this file has only its own folder on the path, where `import coverage` could mean the package coverage.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import coverage

Floats = NDArray[np.float64]
RATE = 0.95
CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
TAIL = 0.025
MAX_ROWS = 2_000
COLUMNS = (
    "sizes",
    "rows",
    "effective",
    "clusters",
    "perfect_at_.3",
    "perfect_at_.5",
    "perfect_of_two_kinds",
    "excluded",
)


def error_probabilities(size: int, correlation: float, most: int) -> Floats:
    """The probabilities of 0, 1, ... and at most ``most`` errors in a cluster."""
    errors = np.arange(min(size, most) + 1)
    log_choices = gammaln(size + 1) - gammaln(errors + 1) - gammaln(size - errors + 1)
    if correlation == 0:
        return np.asarray(np.exp(log_choices + errors * np.log(1 - RATE) + (size - errors) * np.log(RATE)))
    total = (1 - correlation) / correlation
    wrong, right = (1 - RATE) * total, RATE * total
    log_rows = gammaln(wrong + errors) - gammaln(wrong) + gammaln(right + size - errors) - gammaln(right)
    return np.asarray(np.exp(log_choices + log_rows - gammaln(total + size) + gammaln(total)))


def joint_probabilities(sizes: Floats, correlation: float, most: int) -> Floats:
    """P(errors, clusters with an error) for up to ``most`` errors, by convolution over the clusters."""
    joint = np.zeros((most + 1, len(sizes) + 1))
    joint[0, 0] = 1.0
    for size in sizes.astype(np.int64):
        probabilities = error_probabilities(int(size), correlation, most)
        extended = joint * probabilities[0]
        for errors in range(1, len(probabilities)):
            extended[errors:, 1:] += probabilities[errors] * joint[: most + 1 - errors, :-1]
        joint = extended
    return joint


def largest_exclusion(sizes: Floats) -> float:
    """The largest share of data sets in which a monotone lower bound can be above the true rate: see above."""
    # An interval contains the observed rate, so its lower bound exceeds the true rate only with fewer errors than that.
    most = int(np.ceil((1 - RATE) * sizes.sum())) - 1
    joint = {correlation: joint_probabilities(sizes, correlation, most) for correlation in CORRELATIONS}
    cells = [
        (errors, faulty)
        for errors in range(most + 1)
        for faulty in range(min(errors, len(sizes)) + 1)
        if (errors == 0) == (faulty == 0)
    ]
    number = {cell: index for index, cell in enumerate(cells)}
    share = len(cells)
    entries: list[tuple[int, int, float]] = []
    limits: list[float] = []
    for correlation in CORRELATIONS:
        entries += [(len(limits), number[cell], float(joint[correlation][cell])) for cell in cells]
        limits.append(TAIL)
    for correlation in coverage.PUBLISHED_CORRELATIONS:
        entries += [(len(limits), number[cell], -float(joint[correlation][cell])) for cell in cells]
        entries.append((len(limits), share, 1.0))
        limits.append(0.0)
    for errors, faulty in cells:
        for one_more in ((errors + 1, faulty), (errors + 1, faulty + 1)):
            if one_more in number:
                entries += [(len(limits), number[one_more], 1.0), (len(limits), number[errors, faulty], -1.0)]
                limits.append(0.0)
    rows, columns, values = zip(*entries, strict=True)
    matrix = coo_matrix((values, (rows, columns)), shape=(len(limits), share + 1)).tocsr()
    goal = np.zeros(share + 1)
    goal[share] = -1.0
    solution = linprog(goal, A_ub=matrix, b_ub=limits, bounds=(0, 1), method="highs")
    assert solution.success, solution.message
    return float(-solution.fun)


def perfect_of_two_kinds(clusters: int, correlation: float) -> float:
    """How often all clusters are of the kind that is always answered correctly.

    A share b of the clusters has a lower rate r: b · (1 - r) is the error rate, and b · (1 - b) · (1 - r)² the variance
    between clusters, which the correlation gives. Clusters of the second kind may happen to have no error either, so
    that perfect data sets are at least this common.
    """
    share_of_first_kind = correlation * RATE / (1 - RATE + correlation * RATE)
    return float(share_of_first_kind**clusters)


def row(name: str, sizes: Floats) -> list[str]:
    """The cells for one set of cluster sizes."""
    perfect = [
        float(np.prod([error_probabilities(int(size), correlation, 0)[0] for size in sizes]))
        for correlation in (0.3, 0.5)
    ]
    perfect.append(perfect_of_two_kinds(len(sizes), 0.5))
    excluded = f"{largest_exclusion(sizes):.4f}" if sizes.sum() <= MAX_ROWS else "-"
    cells = [name, f"{sizes.sum():.0f}", f"{clusters_of(sizes).effective:.1f}", str(len(sizes))]
    return [*cells, *(f"{probability:.4f}" for probability in perfect), excluded]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the table to this file as well")
    options = parser.parse_args(argv)
    lines = ["# python benchmarks/coverage_limits.py", "\t".join(COLUMNS)]
    print("\n".join(lines))
    for name, sizes in coverage.published_sizes().items():
        if clusters_of(sizes).effective >= 6:
            lines.append("\t".join(row(name, sizes)))
            print(lines[-1], flush=True)
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
