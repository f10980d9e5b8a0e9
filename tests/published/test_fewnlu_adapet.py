"""ADAPET against FewNLU, which was run on tiny random models: draws, losses and gradients."""

from __future__ import annotations

import pytest

from tests.published.fewnlu_gold import digest_of, family_in, gold, gold_task, network


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, AdapetOptions, AdapetLearner, Reading
    import torch

    from lmassay.evaluations.fewshot.methods.adapet import AdapetLearner, AdapetOptions
    from lmassay.evaluations.fewshot.methods.cloze import Reading


RUNS = gold("adapet")
ONE_WORD = [key for key, values in RUNS.items() if "label_probs" in values]
SEED = 7
"""Of the original's two global generators when the values were taken."""
TOLERANCE = 5e-6


@pytest.fixture
def run(tmp_path, request):
    """A gold run, the learner that repeats it, the examples of its label loss and of its guess."""
    values, name, pattern = RUNS[request.param], request.param.split("/")[0], int(request.param.rsplit("/p", 1)[1])
    task = gold_task(name, tmp_path)
    hyper = AdapetOptions(reference=True, draw_seed=SEED)
    learner = AdapetLearner(network(family_in(request.param)), task, Reading(pattern, values["L"]), hyper)
    items = learner.encode(task.examples("train")[:40], training=True)
    labelled, guessed = items[:4], items[4:8]
    if name in ("copa", "wsc"):
        # The original can do these one by one only.
        labelled = items[:1]
    if name == "wsc":
        for item in items:
            del item.extra["again"]
        # The example was encoded once more there, when chance gave it three masks more.
        while len(labelled[0].masks) < len(labelled[0].extra["span"]) + 3:
            labelled = learner.encode(task.examples("train")[:1], training=True)
    return values, learner, labelled, guessed


def test_no_run_is_left_out():
    assert len(RUNS) >= 7
    assert len(ONE_WORD) >= 5


def gradient_norm(learner):
    grown = [p.grad for p in learner.module.parameters() if p.grad is not None]
    return torch.stack([gradient.double().norm() for gradient in grown]).norm().item()


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_both_losses_and_their_gradients_are_those_of_the_original(run):
    values, learner, labelled, guessed = run
    label = learner.label_loss(labelled)
    label.backward()
    assert gradient_norm(learner) == pytest.approx(values["grad_norm_after_disc"], rel=2e-6)
    guess = learner.conditioned_loss(learner.hide(guessed))
    guess.backward()
    assert guess.item() == pytest.approx(values["lcmlm"]["loss"], abs=TOLERANCE)
    assert (label + guess).item() == pytest.approx(values["total_loss"], abs=TOLERANCE)
    assert gradient_norm(learner) == pytest.approx(values["grad_norm_total"], rel=2e-6)


@pytest.mark.parametrize("run", ONE_WORD, indirect=True)
def test_labels_have_the_probabilities_of_the_original(run):
    values, learner, labelled, _ = run
    with torch.no_grad():
        logits = learner.logits(labelled)
    assert logits.numpy() == pytest.approx(torch.tensor(values["label_probs"]).numpy(), abs=1e-9)
    assert [item.label for item in labelled] == values["labels"]
    assert learner.label_loss(labelled).item() == pytest.approx(values["decoupled_loss"], abs=TOLERANCE)


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_labels_and_hidden_words_are_drawn_as_by_the_original(run):
    values, learner, _, guessed = run
    hidden = learner.hide(guessed)
    assert [one.positions for one in hidden] == values["lcmlm"]["mask_input_ids_pos"]
    assert [int(one.filled.is_right) for one in hidden] == values["lcmlm"]["tgt"]
    for one, ids in zip(hidden, values["lcmlm"]["input_ids"] or [], strict=False):
        assert digest_of(one.filled.ids) == ids
