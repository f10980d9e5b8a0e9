"""Losses over label logits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from tests.evaluations.fewshot.methods.conftest import Opened


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, Cloze, Reading, distillation_loss, label_loss, open_network
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.learner import distillation_loss, label_loss
    from lmassay.evaluations.fewshot.methods.network import open_network


def test_hard_and_soft_labels_mix_by_item(tiny: Opened, rte: NluTask) -> None:
    learner = Cloze(open_network(tiny("bert")), rte, Reading())
    hard = learner.encode(rte.examples("train")[:3], training=True)
    soft = [replace(hard[0], logits=[1.0, 0.0])]
    logits = torch.tensor([[0.3, 0.1], [0.5, 0.2], [0.0, 1.0], [2.0, 0.5]])
    mixed = label_loss(logits, [*hard, *soft], 2.0)
    parts = 3 * label_loss(logits[:3], hard, 2.0) + distillation_loss(logits[3:], torch.tensor([[1.0, 0.0]]), 2.0)
    assert mixed.item() == pytest.approx(parts.item() / 4)
