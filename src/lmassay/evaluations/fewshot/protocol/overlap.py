"""How strongly the results of splits are correlated, because splits of one pool share examples.

The test score after a split depends on the examples that were learned from. If each of them moves it a little, the
scores of two splits are correlated by the share of training examples that they have in common (exactly, if the effects
add up). Anything else that differs between trainings, such as the order of examples, makes the correlation smaller, so
an interval that uses this correlation is too wide rather than too narrow.

====================== ============================ ==========================
strategy               of test scores               of dev scores
====================== ============================ ==========================
multi_splits, random,  ratio                        share of the dev part
model_informed
bagging                ratio / (1 + ratio)          share never drawn
cross_validation       (K - 2) / (K - 1)            1 / K
mdl                    by the sizes of its parts    1 / (2K)
====================== ============================ ==========================

Dev scores: Nadeau and Bengio's (2003) choice, the share of the pool that is held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmassay.evaluations.fewshot.protocol.splits import strategy_name
from lmassay.evaluations.fewshot.protocol.strategies import SINGLE
from lmassay.types import Replicates


def train_correlation(strategy: str, k: int, ratio: float) -> float:
    """The correlation of test scores over splits.

    >>> train_correlation("multi_splits", 4, 0.5), round(train_correlation("cross_validation", 4, 0.5), 3)
    (0.5, 0.667)
    """
    name = strategy_name(strategy)
    if name in SINGLE or k < 2:
        return 0.0
    if name == "cross_validation":
        # Two folds share all blocks but their own two; each trains on k - 1 blocks.
        return (k - 2) / (k - 1)
    if name == "bagging":
        # An example drawn twice counts twice, which makes single draws differ more than their overlap says.
        return ratio / (1 + ratio)
    if name == "mdl":
        return _nested_correlation(k)
    return ratio


def dev_correlation(strategy: str, k: int, ratio: float) -> float:
    """The correlation of dev scores over splits: the share of the pool that is held out."""
    name = strategy_name(strategy)
    if name in SINGLE or k < 2:
        return 0.0
    shares = {
        "cross_validation": 1 / k,
        # One of k blocks of the second half.
        "mdl": 1 / (2 * k),
        # The share that ``ratio * n`` draws with replacement out of n miss: (1 - 1/n) ** (ratio * n).
        "bagging": math.exp(-ratio),
        # Drawn for dev and not drawn for train, independently.
        "random": (1 - ratio) ** 2,
    }
    return shares.get(name, 1 - ratio)


def train_share(strategy: str, k: int, ratio: float) -> float:
    """The share of the pool that a split trains on, on average."""
    name = strategy_name(strategy)
    if name == "fixed":
        return 1.0
    if name == "cross_validation":
        return (k - 1) / k
    if name == "mdl":
        return sum(_nested_sizes(k)) / k
    return ratio


def replicates(metrics: Sequence[str], strategy: str, k: int, ratio: float, *, shown_share: float = 1.0) -> Replicates:
    """Splits as repetitions of one experiment. ``shown_share`` is the share of a train part that is learned from.

    With a method that uses only some examples of the train part, such as in-context learning, splits share fewer.
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
    """MDL: the first half of the pool, and before each further split one of K blocks more."""
    return [0.5 * (1 + block / k) for block in range(k)]


def _nested_correlation(k: int) -> float:
    """The correlation that makes Nadeau and Bengio's factor right for parts of growing size, each within the next.

    The covariance of two means over such parts is that of the larger one with itself, 1 / size.
    """
    sizes = _nested_sizes(k)
    sum_of_variances = sum(1 / size for size in sizes)
    sum_of_covariances = 0.0
    for one in sizes:
        for other in sizes:
            sum_of_covariances += 1 / max(one, other)
    variance_of_mean = sum_of_covariances / k**2
    expected_sample_variance = (sum_of_variances - sum_of_covariances / k) / (k - 1)
    # Nadeau and Bengio: the variance of the mean is the sample variance times (1/k + r / (1 - r)).
    surplus = variance_of_mean / expected_sample_variance - 1 / k
    return surplus / (1 + surplus)
