"""COPA and WSC against FewNLU, which was run on a tiny random BERT."""

from __future__ import annotations

import json
import shutil
import zlib

import numpy as np
import pytest

pytest.importorskip("torch", reason="the hf extra is not installed")

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from lmassay.fewshot.methods.cloze import Reading
from lmassay.fewshot.methods.decoding import trimmed
from lmassay.fewshot.methods.multimask import learner_for
from lmassay.fewshot.methods.network import Network
from lmassay.fewshot.tasks import open_task
from tests.conftest import shared_folder

pytestmark = pytest.mark.skipif(shared_folder() is None, reason="the shared folder with the gold values is not there")
DECODINGS = ("default", "ltr", "parallel")
TOLERANCE = 5e-6


def gold(shared, name):
    return json.loads((shared / "gold" / "fewnlu" / f"{name}.json").read_text(encoding="utf-8"))


def gold_network(shared):
    """The tiny BERT of the gold values: its weights are a function of their names."""
    folder = shared / "gold" / "fewnlu" / "tiny_bert"
    module = BertForMaskedLM(BertConfig.from_pretrained(folder))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            state = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
            drawn = state.standard_normal(tuple(parameter.shape)) * 0.08 + ("LayerNorm.weight" in name)
            parameter.copy_(torch.from_numpy(drawn.astype(np.float32)))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False)
    return Network(module.eval(), tokenizer, "masked", torch.device("cpu"))


def gold_task(shared, name, folder):
    """The task with the files of the gold runs; WSC has its own training file there."""
    if name != "wsc":
        return open_task(name, shared / "data" / "fewglue")
    shutil.copy(shared / "gold" / "fewnlu" / "wsc_pairs_train.jsonl", folder / "train.jsonl")
    shutil.copy(shared / "data" / "fewglue" / "WSC" / "val.jsonl", folder / "val.jsonl")
    return open_task(name, folder)


@pytest.fixture(scope="module")
def network(shared):
    return gold_network(shared)


def learner(shared, network, name, pattern, folder, **options):
    task = gold_task(shared, name, folder)
    return task, learner_for(task, network, Reading(pattern, 128), **options)


@pytest.mark.parametrize("pattern", [0, 1])
def test_the_hinge_of_a_whole_batch_is_that_of_the_original(shared, network, tmp_path, pattern):
    run = gold(shared, "copa_wsc")[f"copa/bert/p{pattern}"]
    task, copa = learner(shared, network, "copa", pattern, tmp_path, reference=True)
    items = copa.encode(task.examples("train")[:4], training=True)
    assert [item.ids for item in items] == run["input_ids"]
    assert [item.extra["texts"] for item in items] == [
        list(t) for t in zip(run["choice1"], run["choice2"], strict=True)
    ]
    assert copa.loss(items).item() == pytest.approx(run["train_loss_batch4"], abs=TOLERANCE)


@pytest.mark.parametrize("pattern", [0, 1, 2])
def test_training_on_referents_has_the_loss_of_the_original(shared, network, tmp_path, pattern):
    run = gold(shared, "copa_wsc")[f"wsc/bert/p{pattern}"]
    task, wsc = learner(shared, network, "wsc", pattern, tmp_path, reference=True)
    items = wsc.encode(task.examples("train"), training=True)[:4]
    assert [item.ids for item in items] == run["input_ids"]
    assert [item.extra["target"] for item in items] == run["target"]
    assert wsc.loss(items).item() == pytest.approx(run["train_loss_batch4"], abs=TOLERANCE)


@pytest.mark.parametrize("pattern", [0, 1, 2])
@pytest.mark.parametrize("decoding", DECODINGS)
def test_referents_are_judged_as_by_the_original(shared, network, tmp_path, pattern, decoding):
    run = gold(shared, "copa_wsc")[f"wsc/bert/p{pattern}"]
    task, wsc = learner(shared, network, "wsc", pattern, tmp_path, decoding_strategy=decoding)
    with torch.no_grad():
        found = wsc.logits(wsc.encode(task.examples("dev")[:6], training=False))
    assert found.tolist() == run[f"eval_{decoding}"]


@torch.no_grad()
def one_by_one(network, item, tokens, decoding):
    """The original's way: one example, one choice, one reading of the whole text a token."""
    short = trimmed(item, len(tokens))
    ids, left, total = torch.tensor([short.ids]), dict(zip(short.masks, tokens, strict=True)), 0.0
    while left:
        scores = network.module(ids, token_type_ids=torch.tensor([short.types])).logits[0].double().log_softmax(-1)
        known = {place: scores[place, token].item() for place, token in left.items()}
        if decoding == "parallel":
            return sum(known.values())
        place = min(known) if decoding == "ltr" else max(known, key=known.__getitem__)
        total += known[place]
        ids[0, place] = left.pop(place)
    return total


@pytest.mark.parametrize("decoding", DECODINGS)
def test_choices_read_together_score_as_one_by_one_where_the_original_crashes(shared, network, tmp_path, decoding):
    task, copa = learner(shared, network, "copa", 0, tmp_path, decoding_strategy=decoding, eval_batch_size=5)
    items = copa.encode(task.examples("dev")[:6], training=False)
    with torch.no_grad():
        found = copa.logits(items)
    expected = [[one_by_one(network, item, text, decoding) for text in item.extra["texts"]] for item in items]
    assert found.numpy() == pytest.approx(np.array(expected), abs=2e-4, rel=1e-6)
