"""Which weights are kept: ties, patience, several intervals in one training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import Choice


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, Hyper, Taught, train, watches, Lines, some_items
    import torch

    from lmassay.evaluations.fewshot.methods.engine import Hyper, Taught, train
    from lmassay.evaluations.fewshot.methods.selection import watches
    from tests.evaluations.fewshot.methods.lines import Lines, some_items


def watched(scores: Sequence[float], ratio: float, total: int, patience: int = 6) -> Choice:
    """What is chosen when the dev score after each update is as given."""
    (watch,) = watches([ratio], total, patience, has_dev=True)
    for update, score in enumerate(scores, start=1):
        if watch.looks_at(update):
            watch.look(update, {"acc": score})
    return watch.choice(total)


def taught(scores: Sequence[float], *ratios: float, patience: int = 2) -> tuple[Lines, Taught, dict[int, torch.Tensor]]:
    """A training whose dev scores are given, one an update; the weights after each look."""
    learner, snapshots = Lines(), {}

    def look() -> dict[str, float]:
        update = len(learner.seen) // 2
        snapshots[update] = _weights(learner)
        return {"acc": scores[update - 1]}

    hyper = Hyper(max_steps=10, batch_size=8, micro_batch=4, learning_rate=0.1, eval_ratios=ratios, patience=patience)
    result = train(learner, some_items(), look, hyper, sampler_seed=42, told=lambda share: None)
    return learner, result, snapshots


def _weights(learner: Lines) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()]).clone()


def test_of_equal_scores_the_latest_is_chosen() -> None:
    assert watched([0.5, 0.7, 0.7, 0.6], 0.25, 4).step == 3


def test_the_best_score_is_chosen() -> None:
    choice = watched([0.5, 0.7, 0.6, 0.6], 0.25, 4)
    assert (choice.step, choice.dev, choice.every) == (2, {"acc": 0.7}, 0.25)


def test_a_tie_counts_as_no_improvement() -> None:
    assert watched([0.5] * 8, 0.125, 8, patience=3).stopped_at == 4
    assert watched([0.5, 0.6, 0.6, 0.7, 0.7, 0.8], 1 / 6, 6, patience=2).stopped_at == 6


def test_a_training_may_stop_with_a_score_of_zero() -> None:
    choice = watched([0.0] * 8, 0.125, 8, patience=3)
    assert (choice.step, choice.stopped_at) == (3, 3)


def test_several_metrics_count_by_their_mean() -> None:
    (watch,) = watches([0.5], 2, 6, has_dev=True)
    assert watch.look(1, {"acc": 0.4, "f1": 0.8})
    assert not watch.look(2, {"acc": 0.7, "f1": 0.4})


@pytest.mark.parametrize("total", [3, 7, 49, 250, 1000])
def test_an_interval_of_no_update_is_refused_with_the_smallest_that_works(total: int) -> None:
    with pytest.raises(ConfigError, match="less than one update") as raised:
        watches([0.0005], total, 6, has_dev=True)
    smallest = float(str(raised.value).partition("smallest possible is ")[2].split(",")[0])
    (watch,) = watches([smallest], total, 6, has_dev=True)
    assert watch.every == 1


@pytest.mark.parametrize("ratio", [0, -0.1, 1.5])
def test_a_ratio_outside_zero_and_one_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="is no share"):
        watches([ratio], 10, 6, has_dev=True)


def test_without_a_dev_set_the_last_weights_are_taken_whatever_the_ratio() -> None:
    learner = Lines()
    hyper = Hyper(max_steps=5, batch_size=8, eval_ratios=(0.02,))
    result = train(learner, some_items(), None, hyper, sampler_seed=1, told=lambda share: None)
    assert result.choices == [Choice(None, 5, {}, 5)]
    assert result.course.curve == []


def test_each_interval_has_its_own_best_weights_and_stop() -> None:
    scores = [0.1, 0.5, 0.9, 0.4, 0.1, 0.6, 0.1, 0.7, 0.1, 0.1]
    learner, result, snapshots = taught(scores, 0.1, 0.2, 1.0)
    assert [(choice.step, choice.stopped_at) for choice in result.choices] == [(3, 5), (8, 10), (10, 10)]
    assert torch.equal(_weights(learner), snapshots[3])
    result.use(result.choices[1])
    assert torch.equal(_weights(learner), snapshots[8])


def test_the_training_ends_when_every_interval_has_stopped() -> None:
    _, result, _ = taught([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0], 0.1, 0.2)
    assert result.course.updates == 6
    assert [choice.stopped_at for choice in result.choices] == [3, 6]


def test_intervals_that_choose_the_same_update_share_its_weights() -> None:
    _, result, _ = taught([0.1, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 0.1, 0.2)
    assert {choice.step for choice in result.choices} == {2} == set(result.weights)
