"""How strongly the results of splits are correlated because splits of the same labelled examples overlap.

The test score of a training depends on the examples that it was trained on. If each example changes the score a little
and these effects add up, the correlation between the scores of two splits is the share of training examples that they
have in common. Anything else that differs between trainings, such as the order of examples, makes the correlation
smaller, so an interval that is computed from this correlation is too wide rather than too narrow.

The correlations by strategy, where "ratio" is the share of the examples that is trained on and K the number of splits:

============================ ========================== =============
strategy                     of test scores             of dev scores
============================ ========================== =============
multi_splits, model_informed ratio                      1 - ratio
random                       ratio                      (1 - ratio)²
bagging                      ratio / (1 + ratio)        exp(-ratio)
cross_validation             (K - 2) / (K - 1)          1 / K
mdl                          see _nested_correlation    1 / (2K)
============================ ========================== =============

The strategies "fixed" and "dev32" make a single split, so their correlations are 0. The correlation of dev scores is
the choice of Nadeau and Bengio (2003): the share of the examples that is held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmassay.evaluations.fewshot.protocol.splits import strategy_name
from lmassay.evaluations.fewshot.protocol.strategies import SINGLE
from lmassay.types import Replicates


def train_correlation(strategy: str, k: int, ratio: float) -> float:
    """The correlation between the test scores of two splits.

    >>> train_correlation("multi_splits", 4, 0.5), round(train_correlation("cross_validation", 4, 0.5), 3)
    (0.5, 0.667)
    """
    name = strategy_name(strategy)
    if name in SINGLE or k < 2:
        return 0.0
    if name == "cross_validation":
        # Each split trains on k - 1 blocks. Two splits have k - 2 of these in common: all but the blocks that one of
        # them validates on.
        return (k - 2) / (k - 1)
    if name == "bagging":
        # An example that is drawn twice counts twice, so splits differ more than the examples in common suggest.
        return ratio / (1 + ratio)
    if name == "mdl":
        return _nested_correlation(k)
    return ratio


def dev_correlation(strategy: str, k: int, ratio: float) -> float:
    """The correlation between the dev scores of two splits: the share of all labelled examples that is held out."""
    name = strategy_name(strategy)
    if name in SINGLE or k < 2:
        return 0.0
    shares = {
        "cross_validation": 1 / k,
        # One of k blocks of the second half.
        "mdl": 1 / (2 * k),
        # Of n examples, ``ratio * n`` draws with replacement miss a share of (1 - 1/n) ** (ratio * n), which is close
        # to exp(-ratio).
        "bagging": math.exp(-ratio),
        # An example is drawn for dev and, independently, not drawn for train.
        "random": (1 - ratio) ** 2,
    }
    return shares.get(name, 1 - ratio)


def train_share(strategy: str, k: int, ratio: float) -> float:
    """The share of all labelled examples that a split trains on, on average.

    With bagging, an example that is drawn twice counts twice.
    """
    name = strategy_name(strategy)
    if name == "fixed":
        return 1.0
    if name == "cross_validation":
        return (k - 1) / k
    if name == "mdl":
        return sum(_nested_sizes(k)) / k
    return ratio


def replicates(metrics: Sequence[str], strategy: str, k: int, ratio: float, *, shown_share: float = 1.0) -> Replicates:
    """The correlations by metric, for intervals that treat splits as repetitions of an experiment.

    ``shown_share`` is the share of the train part that a method learns from. If it is only a part, as with in-context
    learning, splits have fewer examples in common.
    """
    of_test = train_correlation(strategy, k, ratio) * shown_share
    of_dev = dev_correlation(strategy, k, ratio)
    correlation: dict[str, float] = {}
    for metric in (*metrics, "test"):
        correlation[metric] = of_test
    correlation["dev"] = of_dev
    for metric in metrics:
        correlation[f"dev_{metric}"] = of_dev
    return Replicates("split", correlation)


def _nested_sizes(k: int) -> list[float]:
    """The share of the examples that each split of MDL trains on: half of them, and from split to split one block more.

    A block is one of K in the second half.
    """
    return [0.5 * (1 + block / k) for block in range(k)]


def _nested_correlation(k: int) -> float:
    """The correlation between the test scores of MDL's splits.

    Each training set of MDL contains the smaller ones, so pairs of splits differ in their correlation. This is the one
    value with which Nadeau and Bengio's formula gives the right variance of the mean over all splits. The covariance
    between the means over two such sets is the variance of the mean over the larger one, which is proportional to
    1 / size.
    """
    sizes = _nested_sizes(k)
    sum_of_variances = sum(1 / size for size in sizes)
    sum_of_covariances = 0.0
    for first in sizes:
        for second in sizes:
            sum_of_covariances += 1 / max(first, second)
    variance_of_mean = sum_of_covariances / k**2
    expected_sample_variance = (sum_of_variances - sum_of_covariances / k) / (k - 1)
    # Nadeau and Bengio: the variance of the mean is the sample variance times (1/k + r / (1 - r)).
    surplus = variance_of_mean / expected_sample_variance - 1 / k
    return surplus / (1 + surplus)
