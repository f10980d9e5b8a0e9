"""The training loop: updates, early stopping, the optimiser, the order of the examples, how it fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods.contract import Choice


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global CPU
    global \
        torch, \
        Hyperparameters, \
        TrainingResult, \
        batches, \
        epochs, \
        linear, \
        make_optimiser, \
        scores, \
        set_rate, \
        train, \
        stopping_rules, \
        EncodedItem, \
        seeded
    global Broken, Lines, some_items
    import torch

    from lmassay.evaluations.fewshot.methods.engine import (
        Hyperparameters,
        TrainingResult,
        batches,
        epochs,
        linear,
        make_optimiser,
        scores,
        set_rate,
        stopping_rules,
        train,
    )
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem
    from lmassay.evaluations.fewshot.methods.network import seeded
    from tests.evaluations.fewshot.methods.lines import Broken, Lines, some_items

    CPU = torch.device("cpu")


def taught(learner: Lines, items: list[EncodedItem] | None = None, **options: Any) -> TrainingResult:
    """A training with a dev set only where ``looks`` says what it scores."""
    looks = options.pop("looks", None)
    given = {"max_steps": 6, "batch_size": 8, "micro_batch": 4, "learning_rate": 0.1, **options}
    with seeded(11, CPU, 1):
        return train(
            learner,
            items or some_items(),
            looks,
            Hyperparameters(**given),
            sampler_seed=42,
            report_progress=lambda share: None,
        )


def weights(learner: Lines) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.module.parameters()])


def test_max_steps_is_the_number_of_updates_and_the_last_has_an_effect() -> None:
    course = taught(Lines(), max_steps=6).course
    assert course.updates == len(course.losses) == 6
    assert course.learning_rates == pytest.approx([0.1 * (6 - update) / 6 for update in range(6)])


def test_the_reference_makes_one_update_more_at_rate_zero() -> None:
    course = taught(Lines(), max_steps=6, reference=True).course
    assert course.updates == 7
    assert course.learning_rates[-1] == 0.0


def test_epochs_count_every_batch_of_the_set() -> None:
    assert taught(Lines(), some_items(18), max_steps=None, epochs=3).course.updates == 9


def test_warmup_rises_from_the_first_update_on_and_then_falls() -> None:
    rates = taught(Lines(), max_steps=8, warmup_ratio=0.25).course.learning_rates
    assert rates[:3] == pytest.approx([0.1 / 3, 0.2 / 3, 0.1])
    assert rates[3:] == pytest.approx([0.1 * left / 6 for left in (5, 4, 3, 2, 1)])


def test_in_the_reference_the_first_update_of_a_warmup_has_no_effect() -> None:
    rates = taught(Lines(), max_steps=8, warmup_ratio=0.25, reference=True).course.learning_rates
    assert rates[:3] == pytest.approx([0.0, 0.05, 0.1])


@pytest.mark.parametrize(
    ("n", "micro", "batch", "updates"),
    # Epochs of 3 micro-batches where an update takes 8; of 5 where it takes 2; of 2 and one an update.
    [(6, 2, 16, 3), (18, 4, 8, 9), (6, 8, 4, 9)],
)
def test_the_reference_ends_with_the_epochs_that_it_thinks_are_enough(
    n: int, micro: int, batch: int, updates: int
) -> None:
    options = {"max_steps": 8, "micro_batch": micro, "batch_size": batch, "reference": True}
    assert taught(Lines(), some_items(n), **options).course.updates == updates


def test_examples_that_never_make_an_update_of_the_reference_are_reported() -> None:
    with pytest.raises(ConfigError, match="1 examples are less than one update of 8; lower batch_size"):
        taught(Lines(), some_items(1), max_steps=2, batch_size=8, micro_batch=1, reference=True)


@pytest.mark.parametrize("n", [16, 14, 5])
def test_micro_batches_of_any_size_give_the_same_updates(n: int) -> None:
    trainings = []
    for size in (8, 3, 1):
        learner = Lines()
        course = taught(learner, some_items(n), micro_batch=size).course
        trainings.append((weights(learner), course.losses))
    for other, losses in trainings[1:]:
        assert torch.allclose(trainings[0][0], other, atol=1e-6)
        assert losses == pytest.approx(trainings[0][1], abs=1e-6)


def test_items_are_regrouped_by_length_inside_one_update_only() -> None:
    learner, items = Lines(), some_items()
    taught(learner, items, max_steps=2)
    first, second, third, fourth = learner.seen
    assert min(len(items[place]) for place in first) >= max(len(items[place]) for place in second)
    assert sorted(first + second + third + fourth) == list(range(16))
    plain = Lines()
    taught(plain, items, max_steps=2, reference=True)
    assert set(plain.seen[0] + plain.seen[1]) == set(first + second)


def test_a_learner_whose_loss_is_no_mean_over_items_keeps_the_drawn_order() -> None:
    class Whole(Lines):
        regroups = False

    kept, drawn = Whole(), Lines()
    taught(kept, max_steps=2)
    taught(drawn, max_steps=1, reference=True)
    assert kept.seen == drawn.seen


def test_the_reference_gathers_micro_batches_across_epochs() -> None:
    learner = Lines()
    taught(learner, some_items(12), max_steps=2, reference=True)
    assert [len(part) for part in learner.seen] == [4] * 6
    assert sorted(place for part in learner.seen[:3] for place in part) == list(range(12))


def test_the_course_is_the_same_whatever_was_drawn_before() -> None:
    first = taught(Lines(dropout=0.5)).course
    torch.rand(100)
    assert taught(Lines(dropout=0.5)).course == first
    assert len(set(first.losses)) > 1


def test_a_training_leaves_the_random_numbers_of_the_process_alone() -> None:
    learner = Lines(dropout=0.5)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    taught(learner)
    assert torch.equal(torch.rand(3), expected)


def test_the_number_of_threads_is_set_back() -> None:
    before = torch.get_num_threads()
    with seeded(1, CPU, 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_looking_at_the_dev_set_changes_nothing_in_the_training() -> None:
    courses = []
    for ratios in ((1.0,), (0.5,), (0.2, 0.4)):
        learner, items = Lines(dropout=0.5), some_items()

        def look(learner: Lines = learner, items: list[EncodedItem] = items) -> dict[str, float]:
            return {"acc": float(scores(learner, items, 4).argmax(axis=1).mean())}

        courses.append(taught(learner, items, max_steps=10, eval_ratios=ratios, looks=look, patience=99).course)
        assert not learner.looked_in_training
    assert courses[0].losses == courses[1].losses == courses[2].losses
    assert [step for step, _ in courses[2].curve] == [2, 4, 6, 8, 10]


def test_the_share_done_is_reported_after_every_update_and_ends_with_one() -> None:
    reported: list[float] = []
    train(
        Lines(),
        some_items(),
        None,
        Hyperparameters(max_steps=4, batch_size=8),
        sampler_seed=1,
        report_progress=reported.append,
    )
    assert reported == [0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize(("factor", "word"), [(math.nan, "NaN"), (math.inf, "infinite")])
def test_a_loss_that_is_no_number_ends_the_training_with_its_update(factor: float, word: str) -> None:
    with pytest.raises(ModelError, match=f"loss became {word} at update 3; lower learning_rate"):
        taught(Broken(at=5, how=factor))


def test_memory_that_runs_out_is_reported_with_a_remedy() -> None:
    with pytest.raises(ModelError, match="lower micro_batch"):
        taught(Broken(at=2, how=RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes")))


def test_other_errors_of_a_learner_come_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        taught(Broken(at=2, how=RuntimeError("mat1 and mat2 shapes cannot be multiplied")))


def test_an_empty_training_set_is_reported() -> None:
    with pytest.raises(ModelError, match="nothing to learn from"):
        train(Lines(), [], None, Hyperparameters(), sampler_seed=1, report_progress=lambda share: None)


@pytest.mark.parametrize("option", ["batch_size", "micro_batch", "patience", "max_steps"])
def test_counts_below_one_are_refused_by_name(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}: must be at least 1"):
        taught(Lines(), **{option: 0})


def test_scores_come_in_the_order_of_the_items() -> None:
    learner, items = Lines(), some_items()
    together = scores(learner, items, 3)
    apart = [scores(learner, [item], 1)[0] for item in items]
    assert np.allclose(together, apart)


def test_scores_that_are_no_numbers_are_reported() -> None:
    learner = Lines()
    with torch.no_grad():
        next(iter(learner.module.parameters())).fill_(math.nan)
    with pytest.raises(ModelError, match="NaN"):
        scores(learner, some_items(), 4)


def watched(scores: Sequence[float], ratio: float, total: int, patience: int = 6) -> Choice:
    """What is chosen when the dev score after each update is as given."""
    (watch,) = stopping_rules([ratio], total, patience, has_dev=True)
    for update, score in enumerate(scores, start=1):
        if watch.is_due(update):
            watch.record(update, {"acc": score})
    return watch.choice(total)


def taught_with(
    scores: Sequence[float], *ratios: float, patience: int = 2
) -> tuple[Lines, TrainingResult, dict[int, torch.Tensor]]:
    """A training whose dev scores are given, one an update; the weights after each look."""
    learner, snapshots = Lines(), {}

    def look() -> dict[str, float]:
        update = len(learner.seen) // 2
        snapshots[update] = weights(learner).clone()
        return {"acc": scores[update - 1]}

    hyper = Hyperparameters(
        max_steps=10, batch_size=8, micro_batch=4, learning_rate=0.1, eval_ratios=ratios, patience=patience
    )
    result = train(learner, some_items(), look, hyper, sampler_seed=42, report_progress=lambda share: None)
    return learner, result, snapshots


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
    (watch,) = stopping_rules([0.5], 2, 6, has_dev=True)
    assert watch.record(1, {"acc": 0.4, "f1": 0.8})
    assert not watch.record(2, {"acc": 0.7, "f1": 0.4})


@pytest.mark.parametrize("total", [3, 7, 49, 250, 1000])
def test_an_interval_of_no_update_is_refused_with_the_smallest_that_works(total: int) -> None:
    with pytest.raises(ConfigError, match="less than one update") as raised:
        stopping_rules([0.0005], total, 6, has_dev=True)
    smallest = float(str(raised.value).partition("smallest possible is ")[2].split(",")[0])
    (watch,) = stopping_rules([smallest], total, 6, has_dev=True)
    assert watch.every == 1


@pytest.mark.parametrize(("total", "every"), [(1, 1), (20, 1), (49, 1), (100, 2)])
def test_with_the_default_interval_a_short_training_is_evaluated_after_every_update(total: int, every: int) -> None:
    (watch,) = stopping_rules([0.02], total, 6, has_dev=True)
    assert watch.every == every


@pytest.mark.parametrize("ratio", [0, -0.1, 1.5])
def test_a_ratio_outside_zero_and_one_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="is not a share"):
        stopping_rules([ratio], 10, 6, has_dev=True)


def test_without_a_dev_set_the_last_weights_are_taken_whatever_the_ratio() -> None:
    learner = Lines()
    hyper = Hyperparameters(max_steps=5, batch_size=8, eval_ratios=(0.02,))
    result = train(learner, some_items(), None, hyper, sampler_seed=1, report_progress=lambda share: None)
    assert result.choices == [Choice(None, 5, {}, 5)]
    assert result.course.curve == []


def test_each_interval_has_its_own_best_weights_and_stop() -> None:
    scores = [0.1, 0.5, 0.9, 0.4, 0.1, 0.6, 0.1, 0.7, 0.1, 0.1]
    learner, result, snapshots = taught_with(scores, 0.1, 0.2, 1.0)
    assert [(choice.step, choice.stopped_at) for choice in result.choices] == [(3, 5), (8, 10), (10, 10)]
    assert torch.equal(weights(learner).clone(), snapshots[3])
    result.use(result.choices[1])
    assert torch.equal(weights(learner).clone(), snapshots[8])


def test_the_training_ends_when_every_interval_has_stopped() -> None:
    _, result, _ = taught_with([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0], 0.1, 0.2)
    assert result.course.updates == 6
    assert [choice.stopped_at for choice in result.choices] == [3, 6]


def test_intervals_that_choose_the_same_update_share_its_weights() -> None:
    _, result, _ = taught_with([0.1, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 0.1, 0.2)
    assert {choice.step for choice in result.choices} == {2} == set(result.weights)


def parameter(*values: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values))


def test_the_older_manner_decays_after_the_update_and_adds_eps_before_the_correction() -> None:
    weight, gradients = parameter(1.0, -2.0), ([0.5, 0.1], [-0.2, 0.4])
    optimiser = make_optimiser("hf_adamw", [("w", weight, None)], 0.1, 0.01, 1e-2)
    mean, square, value = [0.0, 0.0], [0.0, 0.0], [1.0, -2.0]
    for step, gradient in enumerate(gradients, start=1):
        weight.grad = torch.tensor(gradient)
        optimiser.step()
        for place, g in enumerate(gradient):
            mean[place] = 0.9 * mean[place] + 0.1 * g
            square[place] = 0.999 * square[place] + 0.001 * g * g
            size = 0.1 * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            value[place] -= size * mean[place] / (math.sqrt(square[place]) + 1e-2)
            value[place] -= 0.1 * 0.01 * value[place]
    assert weight.detach().tolist() == pytest.approx(value, abs=1e-6)


def test_torchs_own_is_the_other_manner() -> None:
    ours, theirs = parameter(1.0, -2.0), parameter(1.0, -2.0)
    optimiser = make_optimiser("adamw", [("w", ours, None)], 0.1, 0.01, 1e-8)
    other = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    for weight, chosen in ((ours, optimiser), (theirs, other)):
        weight.grad = torch.tensor([0.5, 0.1])
        chosen.step()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", ["adamw", "hf_adamw"])
def test_parameters_without_gradient_stay(kind: str) -> None:
    used, unused = parameter(1.0), parameter(2.0)
    optimiser = make_optimiser(kind, [("a", used, None), ("b", unused, None)], 0.1, 0.5, 1e-8)  # type: ignore[arg-type]
    used.grad = torch.tensor([1.0])
    optimiser.step()
    assert unused.item() == 2.0
    assert used.item() < 1.0


def test_biases_layer_norms_and_what_has_a_rate_of_its_own_are_not_decayed() -> None:
    names = ["encoder.dense.weight", "encoder.dense.bias", "encoder.LayerNorm.weight", "lm_head.layer_norm.weight"]
    optimised = [(name, parameter(1.0), None) for name in names] + [("prompt.weight", parameter(1.0), 0.5)]
    groups = make_optimiser("hf_adamw", optimised, 0.1, 0.01, 1e-8).param_groups
    assert [(len(g["params"]), g["lr"], g["weight_decay"]) for g in groups] == [
        (2, 0.1, 0.01),
        (2, 0.1, 0.0),
        (1, 0.5, 0.0),
    ]


def test_the_schedule_scales_every_group_by_its_own_rate() -> None:
    optimised = [("a", parameter(1.0), None), ("prompt", parameter(1.0), 0.5)]
    optimiser = make_optimiser("adamw", optimised, 0.1, 0.0, 1e-8)
    set_rate(optimiser, 0.5)
    set_rate(optimiser, 0.2)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([0.02, 0.1])


def test_a_warmup_may_begin_above_zero() -> None:
    assert [linear(update, 4, 2, from_zero=False) for update in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1 / 2])


def test_the_schedule_never_falls_below_zero() -> None:
    assert [linear(update, 3, 0) for update in range(5)] == pytest.approx([1, 2 / 3, 1 / 3, 0, 0])


def test_every_epoch_is_another_permutation() -> None:
    first, second = islice(epochs(9, seed=1), 2)
    assert sorted(first) == sorted(second) == list(range(9))
    assert first != second


def test_the_order_follows_the_seed_alone() -> None:
    assert list(islice(epochs(9, seed=1), 3)) == list(islice(epochs(9, seed=1), 3))
    assert next(epochs(9, seed=1)) != next(epochs(9, seed=2))


def test_batches_go_through_an_epoch_before_the_next_begins() -> None:
    parts = list(islice(batches(10, 4, seed=7), 6))
    assert [len(part) for part in parts] == [4, 4, 2, 4, 4, 2]
    assert [place for part in parts[:3] for place in part] == next(epochs(10, seed=7))


def test_nothing_to_draw_from_is_reported_instead_of_waiting_for_ever() -> None:
    with pytest.raises(ModelError, match="no examples to draw from"):
        next(batches(0, 4, seed=1))
