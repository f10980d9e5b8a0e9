"""Label logits and losses of the original for PET and the sequence classifier, and its distillation loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.methods.conftest import Opened, gold_model
from tests.published.fewnlu_gold import fill, gold, gold_task
from tests.published_data import published_set


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Classifier, Cloze, Reading, distillation_loss, Network, open_network
    import torch

    from lmassay.evaluations.fewshot.methods.classifier import Classifier
    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.learner import distillation_loss
    from lmassay.evaluations.fewshot.methods.network import Network, open_network


__all__ = ["gold_model"]
GOLD = gold("pet_cls_logits")
_opened: dict[tuple[str, str, int], Network] = {}


def network(model: Any, family: str, head: Any, n_labels: int) -> Network:
    key = (family, head, n_labels if head == "classifier" else 0)
    if key not in _opened:
        _opened[key] = open_network(model, head, n_labels, reference=True)
        fill(_opened[key].module).eval()
    return _opened[key]


def test_no_run_is_left_out() -> None:
    assert len(GOLD) >= 28


@pytest.mark.parametrize("name", GOLD)
def test_label_logits_and_loss_are_those_of_the_original(tmp_path: Path, gold_model: Opened, name: str) -> None:
    method, family, task_name, pattern = name.split("/")
    run = GOLD[name]
    task = gold_task(task_name, tmp_path)
    examples = task.examples("train")[:8]
    learner: Cloze | Classifier
    if method == "pet":
        net = network(gold_model(family), family, "lm", 0)
        learner = Cloze(net, task, Reading(int(pattern[1:]), run["L"]))
    else:
        net = network(gold_model(family), family, "classifier", len(task.labels))
        learner = Classifier(net, task, Reading(0, run["L"], "cls"))
    items = learner.encode(examples, training=False)
    with torch.no_grad():
        logits, loss = learner.logits(items).numpy(), learner.loss(items).item()
    assert [item.label for item in items] == run["labels"]
    assert np.abs(logits - run["logits"]).max() <= 2e-6
    assert loss == pytest.approx(run["loss"], abs=2e-6)


def test_albert_reads_without_token_types_and_with_the_eps_of_its_time(gold_model: Opened) -> None:
    """There are no published values of it here; the whole head must say the same as ours."""
    net = open_network(gold_model("albert"), reference=True)
    net.module.eval()
    task = open_task("superglue/rte", published_set("fewglue"))
    learner = Cloze(net, task, Reading(0, 128))
    items = learner.encode(task.examples("train")[:4], training=False)
    assert max(items[0].types) == 1
    batch = learner.batch(items)
    with torch.no_grad():
        whole = net.module(input_ids=batch.ids, attention_mask=batch.attention).logits
        label_logits = learner.logits(items)
    at_masks = [row[item.masks[0]] for row, item in zip(whole, items, strict=True)]
    expected = [[logits[ids[0]] for ids in learner.pvp.label_token_ids()] for logits in at_masks]
    assert net.module.predictions.LayerNorm.eps == 1e-5
    assert torch.allclose(label_logits, torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize("temperature", [1, 2])
def test_the_distillation_loss_is_that_of_the_original(temperature: int) -> None:
    figures = gold("metrics")["distillation_loss"]
    loss = distillation_loss(torch.tensor(figures["pred"]), torch.tensor(figures["tgt"]), temperature)
    assert loss.item() == pytest.approx(figures[f"T{temperature}"], abs=1e-7)
