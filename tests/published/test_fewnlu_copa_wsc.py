"""COPA and WSC against FewNLU, which was run on tiny random models."""

from __future__ import annotations

import numpy as np
import pytest

from tests.published.fewnlu_gold import digest_of, family_in, gold, gold_task, network


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Reading, trimmed, learner_for
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.decoding import trimmed
    from lmassay.evaluations.fewshot.methods.multimask import learner_for


DECODINGS = ("default", "ltr", "parallel")
TOLERANCE = 5e-6
RUNS = gold("copa_wsc")
COPA, WSC = ([key for key in RUNS if key.startswith(f"{name}/")] for name in ("copa", "wsc"))


def learner(key, folder, **options):
    name, pattern = key.split("/")[0], int(key.rsplit("/p", 1)[1])
    task = gold_task(name, folder)
    return task, learner_for(task, network(family_in(key)), Reading(pattern, 128), **options)


def test_no_run_is_left_out():
    assert len(COPA) >= 2
    assert len(WSC) >= 3
    assert set(RUNS) == {*COPA, *WSC}


@pytest.mark.parametrize("key", COPA)
def test_the_hinge_of_a_whole_batch_is_that_of_the_original(tmp_path, key):
    run = RUNS[key]
    task, copa = learner(key, tmp_path, reference=True)
    items = copa.encode(task.examples("train")[:4], training=True)
    assert [digest_of(item.ids) for item in items] == run["input_ids"]
    assert [digest_of(item.extra["texts"][0]) for item in items] == run["choice1"]
    assert [digest_of(item.extra["texts"][1]) for item in items] == run["choice2"]
    assert copa.loss(items).item() == pytest.approx(run["train_loss_batch4"], abs=TOLERANCE)


@pytest.mark.parametrize("key", WSC)
def test_training_on_referents_has_the_loss_of_the_original(tmp_path, key):
    run = RUNS[key]
    task, wsc = learner(key, tmp_path, reference=True)
    items = wsc.encode(task.examples("train"), training=True)[:4]
    assert [digest_of(item.ids) for item in items] == run["input_ids"]
    assert [digest_of(item.extra["target"]) for item in items] == run["target"]
    assert wsc.loss(items).item() == pytest.approx(run["train_loss_batch4"], abs=TOLERANCE)


@pytest.mark.parametrize("key", WSC)
@pytest.mark.parametrize("decoding", DECODINGS)
def test_referents_are_judged_as_by_the_original(tmp_path, key, decoding):
    task, wsc = learner(key, tmp_path, decoding_strategy=decoding)
    with torch.no_grad():
        logits = wsc.logits(wsc.encode(task.examples("dev")[:6], training=False))
    assert logits.tolist() == RUNS[key][f"eval_{decoding}"]


def one_by_one(network, item, tokens, decoding):
    """The original's way: one example, one choice, one reading of the whole text a token."""
    short = trimmed(item, len(tokens))
    ids, left, total = torch.tensor([short.ids]), dict(zip(short.masks, tokens, strict=True)), 0.0
    while left:
        # ALBERT is given no token types.
        types = {"token_type_ids": torch.tensor([short.types])} if network.family == "bert" else {}
        with torch.no_grad():
            scores = network.module(ids, **types).logits[0].double().log_softmax(-1)
        known = {place: scores[place, token].item() for place, token in left.items()}
        if decoding == "parallel":
            return sum(known.values())
        place = min(known) if decoding == "ltr" else max(known, key=known.__getitem__)
        total += known[place]
        ids[0, place] = left.pop(place)
    return total


@pytest.mark.parametrize("key", COPA)
@pytest.mark.parametrize("decoding", DECODINGS)
def test_choices_read_together_score_as_one_by_one_also_where_the_original_crashes(tmp_path, key, decoding):
    task, copa = learner(key, tmp_path, decoding_strategy=decoding, eval_batch_size=5)
    items = copa.encode(task.examples("dev")[:3], training=False)
    with torch.no_grad():
        logits = copa.logits(items)
    expected = [[one_by_one(copa.net, item, text, decoding) for text in item.extra["texts"]] for item in items]
    assert logits.numpy() == pytest.approx(np.array(expected), abs=2e-4, rel=1e-6)
