"""ReCoRD against PET's own code, run on a tiny random BERT: FewNLU never got it to run."""

from __future__ import annotations

import hashlib

import pytest

from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.published import fewnlu_gold
from tests.published.fewnlu_gold import gold
from tests.published.test_fewnlu_copa_wsc import DECODINGS
from tests.published_data import published_set


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Reading, EncodedItem, learner_for
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem
    from lmassay.evaluations.fewshot.methods.multimask import learner_for


@pytest.fixture(scope="module")
def network():
    return fewnlu_gold.network("bert")


@pytest.fixture(scope="module")
def task():
    return open_task("record", published_set("fewglue"))


def digest(entity):
    """The figures have digests in place of the entities' names."""
    return hashlib.sha256(entity.encode()).hexdigest()[:16]


@pytest.mark.parametrize("reference", [False, True])
def test_the_hinges_of_one_question_are_those_of_pet(network, task, reference):
    run = fewnlu_gold.record_training()
    record = learner_for(task, network, Reading(0, 512), reference=reference)
    for ids, texts, marks, loss in zip(
        run["input_ids"], run["candidates"], run["candidate_labels"], run["loss_each"], strict=True
    ):
        masks = [place for place, token in enumerate(ids) if token == network.tokenizer.mask_token_id]
        extra = {"texts": texts, "right": [mark == 1 for mark in marks]}
        item = EncodedItem(ids, [0] * len(ids), masks, label=1, extra=extra)
        assert record.loss([item]).item() == pytest.approx(loss, abs=1e-5)


def test_training_examples_are_encoded_as_by_pet(network, task):
    run = fewnlu_gold.record_training()
    record = learner_for(task, network, Reading(0, 512))
    items = record.encode(task.examples("train")[:3], training=True)
    mask = network.tokenizer.mask_token_id
    # PET leaves to the order of a set which answer of a question comes first and which wrong entities are drawn, and
    # with them the number of masks and the room for the passage.
    assert {tuple(item.extra["texts"][0]) for item in items} == {tuple(texts[0]) for texts in run["candidates"]}
    for item, ids, texts in zip(items, run["input_ids"], run["candidates"], strict=True):
        assert len(item.extra["texts"]) == len(texts)
        assert item.ids[:60] == ids[:60]
        assert item.ids[item.masks[-1] + 1 :] == ids[len(ids) - ids[::-1].index(mask) :]


@pytest.mark.parametrize("decoding", DECODINGS)
def test_entities_score_as_in_pet(network, task, decoding):
    run = gold("pet_record")["eval"][decoding]
    record = learner_for(task, network, Reading(0, 512), decoding_strategy=decoding)
    items = record.encode(task.examples("dev32")[:3], training=False)
    with torch.no_grad():
        entity_scores = record.gaps.scores(items, [item.extra["texts"] for item in items])
        logits = record.logits(items)
    for item, scores, known, row, predicted in zip(
        items, entity_scores, run["choices"], logits, run["pred"], strict=True
    ):
        names = map(digest, item.extra["names"])
        assert dict(zip(names, scores, strict=True)) == pytest.approx(known["choices"], abs=5e-5)
        assert row.argmax().item() == predicted[0].index(1)
        assert digest(item.extra["answer"]) == max(known["choices"], key=known["choices"].__getitem__)
