"""The training loop: updates, gradient accumulation, what it records, how it fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lmassay.errors import ConfigError, ModelError


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global CPU
    global torch, Hyper, Taught, scores, train, Item, seeded, Broken, Lines, some_items
    import torch

    from lmassay.evaluations.fewshot.methods.engine import Hyper, Taught, scores, train
    from lmassay.evaluations.fewshot.methods.learner import Item
    from lmassay.evaluations.fewshot.methods.weights import seeded
    from tests.evaluations.fewshot.methods.lines import Broken, Lines, some_items

    CPU = torch.device("cpu")


def taught(learner: Lines, items: list[Item] | None = None, **options: Any) -> Taught:
    """A training with a dev set only where ``looks`` says what it scores."""
    looks = options.pop("looks", None)
    given = {"max_steps": 6, "batch_size": 8, "micro_batch": 4, "learning_rate": 0.1, **options}
    with seeded(11, CPU, 1):
        return train(learner, items or some_items(), looks, Hyper(**given), sampler_seed=42, told=lambda share: None)


def weights(learner: Lines) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])


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


def test_examples_that_never_make_an_update_of_the_reference_are_told() -> None:
    with pytest.raises(ConfigError, match="1 examples are less than one update of 8; lower batch_size"):
        taught(Lines(), some_items(1), max_steps=2, batch_size=8, micro_batch=1, reference=True)


@pytest.mark.parametrize("n", [16, 14, 5])
def test_micro_batches_of_any_size_give_the_same_updates(n: int) -> None:
    found = []
    for size in (8, 3, 1):
        learner = Lines()
        course = taught(learner, some_items(n), micro_batch=size).course
        found.append((weights(learner), course.losses))
    for other, losses in found[1:]:
        assert torch.allclose(found[0][0], other, atol=1e-6)
        assert losses == pytest.approx(found[0][1], abs=1e-6)


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

        def look(learner: Lines = learner, items: list[Item] = items) -> dict[str, float]:
            return {"acc": float(scores(learner, items, 4).argmax(axis=1).mean())}

        courses.append(taught(learner, items, max_steps=10, eval_ratios=ratios, looks=look, patience=99).course)
        assert not learner.looked_in_training
    assert courses[0].losses == courses[1].losses == courses[2].losses
    assert [step for step, _ in courses[2].curve] == [2, 4, 6, 8, 10]


def test_the_share_done_is_told_after_every_update_and_ends_with_one() -> None:
    told: list[float] = []
    train(Lines(), some_items(), None, Hyper(max_steps=4, batch_size=8), sampler_seed=1, told=told.append)
    assert told == [0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize(("factor", "word"), [(math.nan, "NaN"), (math.inf, "infinite")])
def test_a_loss_that_is_no_number_ends_the_training_with_its_update(factor: float, word: str) -> None:
    with pytest.raises(ModelError, match=f"loss became {word} at update 3; lower learning_rate"):
        taught(Broken(at=5, how=factor))


def test_memory_that_runs_out_is_told_with_a_remedy() -> None:
    with pytest.raises(ModelError, match="lower micro_batch"):
        taught(Broken(at=2, how=RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes")))


def test_other_errors_of_a_learner_come_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        taught(Broken(at=2, how=RuntimeError("mat1 and mat2 shapes cannot be multiplied")))


def test_an_empty_training_set_is_told() -> None:
    with pytest.raises(ModelError, match="nothing to learn from"):
        train(Lines(), [], None, Hyper(), sampler_seed=1, told=lambda share: None)


@pytest.mark.parametrize("option", ["batch_size", "micro_batch", "patience", "max_steps"])
def test_counts_below_one_are_refused_by_name(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}: must be at least 1"):
        taught(Lines(), **{option: 0})


def test_scores_come_in_the_order_of_the_items() -> None:
    learner, items = Lines(), some_items()
    together = scores(learner, items, 3)
    apart = [scores(learner, [item], 1)[0] for item in items]
    assert np.allclose(together, apart)


def test_scores_that_are_no_numbers_are_told() -> None:
    learner = Lines()
    with torch.no_grad():
        next(iter(learner.network.parameters())).fill_(math.nan)
    with pytest.raises(ModelError, match="NaN"):
        scores(learner, some_items(), 4)
