"""COPA: choices as items."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from tests.evaluations.fewshot.methods.test_multimask import small_task, tiny


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Reading, right_first, learner_for, open_network
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.copa import right_first
    from lmassay.evaluations.fewshot.methods.multimask import learner_for
    from lmassay.evaluations.fewshot.methods.network import open_network


__all__ = ["small_task", "tiny"]  # Fixtures.


@pytest.fixture
def copa(tiny, small_task):
    task = small_task("copa")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150))
    learner.network.eval()
    return task, learner


def test_there_are_as_many_masks_as_the_longer_choice_has_tokens(copa):
    task, learner = copa
    for item in learner.encode(task.examples("train"), training=True):
        assert len(item.masks) == max(map(len, item.extra["texts"]))


def test_the_right_choice_comes_first_in_the_hinge(copa):
    task, learner = copa
    items = learner.encode(task.examples("train"), training=True)
    assert {item.label for item in items} == {0, 1}
    for item in items:
        assert right_first(item) == [item.extra["texts"][item.label], item.extra["texts"][1 - item.label]]


def test_the_loss_is_the_mean_over_examples(copa):
    task, learner = copa
    items = learner.encode(task.examples("train"), training=True)
    with torch.no_grad():
        apart = [learner.loss([item]).item() for item in items]
        assert learner.loss(items).item() == pytest.approx(sum(apart) / len(apart), abs=1e-4)


def test_swapped_choices_swap_the_scores_of_a_pattern_without_them(copa):
    task, learner = copa
    items = learner.encode(task.examples("dev"), training=False)
    with torch.no_grad():
        found = learner.logits(items)
        for item in items:
            item.extra["texts"].reverse()
        assert torch.allclose(learner.logits(items), found.flip(1))


def test_training_needs_labels(copa):
    task, learner = copa
    example = task.examples("train")[0]
    bare = InputExample("train-7", example.text_a, meta=example.meta)
    with pytest.raises(DataError, match="train-7: an example without label cannot be trained on"):
        learner.encode([bare], training=True)
    assert learner.encode([bare], training=False)[0].label == -1


def test_an_empty_choice_is_named(copa):
    task, learner = copa
    meta = {**task.examples("train")[0].meta, "choice2": "."}
    with pytest.raises(DataError, match="train-8: a text for the gap is empty"):
        learner.encode([InputExample("train-8", "The pilot swims.", label="0", meta=meta)], training=True)
