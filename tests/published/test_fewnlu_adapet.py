"""ADAPET against FewNLU, which was run on a tiny random BERT: draws, losses and gradients."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the hf extra is not installed")

import torch

from lmassay.fewshot.methods.adapet_learner import AdapetHyper, AdapetLearner
from lmassay.fewshot.methods.adapet_masks import Draws
from lmassay.fewshot.methods.cloze import Reading
from tests.conftest import shared_folder
from tests.published.test_fewnlu_copa_wsc import gold, gold_network, gold_task

pytestmark = pytest.mark.skipif(shared_folder() is None, reason="the shared folder with the gold values is not there")
ONE_WORD = ("boolq", "cb", "rte", "wic", "multirc")
SEED = 7
"""Of the original's two global generators when the values were taken."""
TOLERANCE = 5e-6


@pytest.fixture
def run(shared, tmp_path, request):
    """A gold run, the learner that repeats it, the examples of its label loss and of its guess."""
    values = gold(shared, "adapet")[f"{request.param}/bert/p0"]
    task = gold_task(shared, request.param, tmp_path)
    learner = AdapetLearner(gold_network(shared), task, Reading(0, values["L"]), AdapetHyper(reference=True))
    learner.draws = Draws(SEED)
    items = learner.encode(task.examples("train")[:40], training=True)
    labelled, guessed = items[:4], items[4:8]
    if request.param in ("copa", "wsc"):
        # The original can do these one by one only.
        labelled = items[:1]
    if request.param == "wsc":
        for item in items:
            del item.extra["again"]
        # The example was encoded once more there, when chance gave it three masks more.
        while len(labelled[0].masks) < len(labelled[0].extra["span"]) + 3:
            labelled = learner.encode(task.examples("train")[:1], training=True)
    return values, learner, labelled, guessed


def gradient_norm(learner):
    grown = [p.grad for p in learner.network.parameters() if p.grad is not None]
    return torch.stack([gradient.double().norm() for gradient in grown]).norm().item()


@pytest.mark.parametrize("run", [*ONE_WORD, "copa", "wsc"], indirect=True)
def test_both_losses_and_their_gradients_are_those_of_the_original(run):
    values, learner, labelled, guessed = run
    label = learner.label_loss(labelled)
    label.backward()
    assert gradient_norm(learner) == pytest.approx(values["grad_norm_after_disc"], rel=2e-6)
    guess = learner.guess_loss(learner.hide(guessed))
    guess.backward()
    assert guess.item() == pytest.approx(values["lcmlm"]["loss"], abs=TOLERANCE)
    assert (label + guess).item() == pytest.approx(values["total_loss"], abs=TOLERANCE)
    assert gradient_norm(learner) == pytest.approx(values["grad_norm_total"], rel=2e-6)


@pytest.mark.parametrize("run", ONE_WORD, indirect=True)
def test_labels_have_the_probabilities_of_the_original(run):
    values, learner, labelled, _ = run
    with torch.no_grad():
        found = learner.logits(labelled)
    assert found.numpy() == pytest.approx(torch.tensor(values["label_probs"]).numpy(), abs=1e-9)
    assert [item.label for item in labelled] == values["labels"]
    assert learner.label_loss(labelled).item() == pytest.approx(values["decoupled_loss"], abs=TOLERANCE)


@pytest.mark.parametrize("run", [*ONE_WORD, "copa", "wsc"], indirect=True)
def test_labels_and_hidden_words_are_drawn_as_by_the_original(run):
    values, learner, _, guessed = run
    hidden = learner.hide(guessed)
    assert [one.places for one in hidden] == values["lcmlm"]["mask_input_ids_pos"]
    assert [int(one.told.right) for one in hidden] == values["lcmlm"]["tgt"]
    for one, ids in zip(hidden, values["lcmlm"]["input_ids"] or [], strict=False):
        assert one.told.ids == ids[: len(one.told.ids)]
        assert not any(ids[len(one.told.ids) :])
