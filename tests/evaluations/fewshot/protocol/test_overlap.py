"""What splits have in common, by strategy, against the splits that are made."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.evaluations.fewshot.protocol.overlap import dev_correlation, replicates, train_correlation, train_share
from lmassay.evaluations.fewshot.protocol.splits import SplitUnit, make_splits
from lmassay.statistics.replicates import overlap_factor

POOL = [SplitUnit(str(place), "a") for place in range(240)]


def weights(strategy: str, k: int, ratio: float) -> np.ndarray:
    """How much each example counts in the mean over a split's train part."""
    weight_of_example = np.zeros((k, len(POOL)))
    for split in make_splits(strategy, POOL, k=k, ratio=ratio):
        np.add.at(weight_of_example[split.index], list(split.train), 1 / len(split.train))
    return weight_of_example


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("strategy", ["multi_splits", "random", "bagging", "cross_validation", "mdl"])
def test_the_factor_is_what_effects_that_add_up_give(strategy, ratio):
    """If each example adds its effect, the variance of the mean is known, and so is the expected sample variance."""
    k = 8
    covariance = weights(strategy, k, ratio) @ weights(strategy, k, ratio).T
    of_mean = covariance.sum() / k**2
    sample = (np.trace(covariance) - covariance.sum() / k) / (k - 1)
    factor = overlap_factor(k, train_correlation(strategy, k, ratio))
    assert factor == pytest.approx(of_mean / sample, rel=0.06)


@pytest.mark.parametrize("strategy", ["multi_splits", "random", "bagging", "cross_validation", "mdl"])
def test_the_shares_of_the_pool_are_those_of_the_splits(strategy):
    splits = make_splits(strategy, POOL, k=6, ratio=0.5)
    held_out = np.mean([len(split.dev) for split in splits]) / len(POOL)
    assert dev_correlation(strategy, 6, 0.5) == pytest.approx(held_out, abs=0.03)
    trained = np.mean([len(split.train) for split in splits]) / len(POOL)
    assert train_share(strategy, 6, 0.5) == pytest.approx(trained, abs=0.01)


@pytest.mark.parametrize("strategy", ["fixed", "dev32"])
def test_a_single_split_has_nothing_to_share(strategy):
    assert (train_correlation(strategy, 4, 0.5), dev_correlation(strategy, 4, 0.5)) == (0, 0)


def test_examples_drawn_from_the_train_part_are_met_twice_less_often():
    whole = replicates(["acc"], "multi_splits", 4, 0.5)
    part = replicates(["acc"], "multi_splits", 4, 0.5, shown_share=0.25)
    assert whole.correlation == {"acc": 0.5, "test": 0.5, "dev": 0.5, "dev_acc": 0.5}
    assert part.correlation["acc"] == 0.125
    assert part.correlation["dev"] == 0.5
