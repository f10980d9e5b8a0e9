"""Label logits and losses of the original for PET and the sequence classifier, and its distillation loss."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the hf extra is not installed")

import torch

from lmassay.fewshot.methods.classifier import Classifier
from lmassay.fewshot.methods.cloze import Cloze, Reading
from lmassay.fewshot.methods.losses import distillation_loss
from lmassay.fewshot.methods.network import Network, open_network
from lmassay.fewshot.tasks import open_task
from tests.conftest import shared_folder
from tests.fewshot.methods.conftest import Opened, fill, gold_model

__all__ = ["gold_model"]


def gold_values() -> dict[str, Any]:
    """All that is there, of whichever family."""
    found: dict[str, Any] = {}
    folder = shared_folder()
    if folder is not None:
        for file in sorted((folder / "gold" / "fewnlu").glob("pet_cls_logits*.json")):
            found |= json.loads(file.read_text(encoding="utf-8"))
    return found


GOLD = gold_values()
_opened: dict[tuple[str, str, int], Network] = {}


def network(model: Any, family: str, head: Any, n_labels: int) -> Network:
    key = (family, head, n_labels if head == "classifier" else 0)
    if key not in _opened:
        _opened[key] = open_network(model, head, n_labels, reference=True)
        fill(_opened[key].module).eval()
    return _opened[key]


@pytest.mark.skipif(not GOLD, reason="there is no folder ../shared with data and gold results; set LMASSAY_SHARED")
@pytest.mark.parametrize("name", GOLD or ["none"])
def test_label_logits_and_loss_are_those_of_the_original(
    shared: Path, tmp_path: Path, gold_model: Opened, name: str
) -> None:
    method, family, task_name, pattern = name.split("/")
    gold = GOLD[name]
    data = shared / "data" / "fewglue"
    if task_name == "wsc":
        # The original reads pairs of a true and a false referent, from a file of its own format.
        data = tmp_path
        shutil.copy(shared / "gold" / "fewnlu" / "wsc_pairs_train.jsonl", data / "train.jsonl")
    task = open_task(f"superglue/{task_name}", data)
    examples = task.examples("train")[:8]
    learner: Cloze | Classifier
    if method == "pet":
        net = network(gold_model(family), family, "lm", 0)
        learner = Cloze(net, task, Reading(int(pattern[1:]), gold["L"]))
    else:
        net = network(gold_model(family), family, "classifier", len(task.labels))
        learner = Classifier(net, task, Reading(0, gold["L"], "cls"))
    items = learner.encode(examples, training=False)
    with torch.no_grad():
        logits, loss = learner.logits(items).numpy(), learner.loss(items).item()
    assert [item.label for item in items] == gold["labels"]
    assert np.abs(logits - gold["logits"]).max() <= 1e-6
    assert loss == pytest.approx(gold["loss"], abs=1e-6)


def test_albert_reads_without_token_types_and_with_the_eps_of_its_time(shared: Path, gold_model: Opened) -> None:
    """There are no published values of it here; the whole head must say the same as ours."""
    net = open_network(gold_model("albert"), reference=True)
    net.module.eval()
    task = open_task("superglue/rte", shared / "data" / "fewglue")
    learner = Cloze(net, task, Reading(0, 128))
    items = learner.encode(task.examples("train")[:4], training=False)
    assert max(items[0].types) == 1
    batch = learner.batch(items)
    with torch.no_grad():
        whole = net.module(input_ids=batch.ids, attention_mask=batch.attention).logits
        found = learner.logits(items)
    at_masks = [row[item.masks[0]] for row, item in zip(whole, items, strict=True)]
    expected = [[logits[ids[0]] for ids in learner.pvp.label_token_ids()] for logits in at_masks]
    assert net.module.predictions.LayerNorm.eps == 1e-5
    assert torch.allclose(found, torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize("temperature", [1, 2])
def test_the_distillation_loss_is_that_of_the_original(shared: Path, temperature: int) -> None:
    gold = json.loads((shared / "gold" / "fewnlu" / "metrics.json").read_text(encoding="utf-8"))["distillation_loss"]
    loss = distillation_loss(torch.tensor(gold["pred"]), torch.tensor(gold["tgt"]), temperature)
    assert loss.item() == pytest.approx(gold[f"T{temperature}"], abs=1e-7)
