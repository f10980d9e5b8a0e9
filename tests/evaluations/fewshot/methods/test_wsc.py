"""WSC: whom the network means against the candidate."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from tests.evaluations.fewshot.methods.test_multimask import small_task, tiny


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Reading, learner_for, open_network, Referent, same_referent
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.multimask import learner_for
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.wsc import Referent, same_referent


__all__ = ["small_task", "tiny"]  # Fixtures.


@pytest.mark.parametrize(
    ("written", "candidate", "same"),
    [
        ("the city councilmen", "councilmen", True),
        ("Councilmen", "The city councilmen", True),
        ("the demonstrators", "the councilmen", False),
        ("Jim's dog", "jim s", True),
        ("", "Jim", True),
        ("##x y", "Jim", False),
    ],
)
def test_referents_are_the_same_if_all_words_of_one_are_in_the_other(written, candidate, same):
    assert same_referent(written, candidate) is same


@pytest.fixture
def wsc(tiny, small_task):
    task = small_task("wsc")
    return task, learner_for(task, open_network(tiny("roberta")), Reading(0, 150))


def test_only_true_referents_are_trained_on(wsc):
    task, learner = wsc
    assert len(learner.encode(task.examples("train"), training=True)) == 2
    assert len(learner.encode(task.examples("train"), training=False)) == 3


def test_surplus_masks_are_trained_to_be_padding_of_the_tokenizer(wsc):
    task, learner = wsc
    many = [item for _ in range(8) for item in learner.encode(task.examples("train"), training=True)]
    assert {len(item.masks) - len(item.extra["span"]) for item in many} == {0, 1, 2, 3}
    pad = learner.net.tokenizer.pad_token_id
    assert pad == 1
    for item in many:
        assert item.extra["target"] == item.extra["span"] + [pad] * (len(item.masks) - len(item.extra["span"]))


def test_surplus_masks_may_be_left_out_of_the_loss(tiny, small_task):
    task, net = small_task("wsc"), open_network(tiny("bert"))
    learner = learner_for(task, net, Reading(0, 150), count_padding=False)
    items = learner.encode(task.examples("train"), training=True)
    assert all(item.extra["target"] == item.extra["span"] for item in items)


def test_deberta_does_not_count_padding_as_in_fewnlu(tiny, small_task):
    learner = learner_for(small_task("wsc"), open_network(tiny("deberta-v2")), Reading(0, 150))
    items = learner.encode(small_task("wsc").examples("train"), training=True)
    assert all(item.extra["target"] == item.extra["span"] for item in items)


def test_dev_examples_have_one_surplus_mask_wherever_they_come_from(wsc):
    task, learner = wsc
    for item in learner.encode(task.examples("train"), training=False):
        assert len(item.masks) == len(item.extra["span"]) + 1


def test_the_original_looks_at_the_name_of_the_file(tiny, small_task):
    task = small_task("wsc")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150), reference=True)
    seen = {
        len(item.masks) - len(item.extra["span"])
        for _ in range(8)
        for item in learner.encode(task.examples("train"), training=False)
    }
    assert seen == {0, 1, 2, 3}


def test_a_referent_that_is_written_gives_the_label_true(wsc):
    task, learner = wsc
    items = learner.encode(task.examples("dev"), training=False)

    class Says:
        def write(self, given):
            return [[*item.extra["span"], learner.net.tokenizer.pad_token_id] for item in given[:2]] + [
                learner.pvp.text_ids("some movie") for _ in given[2:]
            ]

    assert learner.rule.logits(Says(), items).tolist() == [[0, 1], [0, 1], [1, 0]]


def test_the_loss_is_a_mean_over_tokens(wsc):
    task, learner = wsc
    items = learner.encode(task.examples("train"), training=True)
    learner.network.eval()
    with torch.no_grad():
        both = learner.loss(items).item()
        apart = [learner.loss([item]).item() * len(item.extra["target"]) for item in items]
    assert both == pytest.approx(sum(apart) / sum(len(item.extra["target"]) for item in items), abs=1e-4)


def test_labels_without_true_are_refused(tiny):
    net = open_network(tiny("bert"))
    with pytest.raises(DataError, match="needs the label 'True'"):
        Referent(None, ["no", "yes"], net.tokenizer, pad_id=0)
