"""Nine updates of the original, loss by loss: PET, PET with an auxiliary language model, the sequence classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the hf extra is not installed")

from lmassay.fewshot.methods import classifier
from lmassay.fewshot.methods.classifier import SequenceClassifier
from lmassay.fewshot.methods.contract import Lesson
from lmassay.fewshot.methods.fitted import FittedNetwork
from lmassay.fewshot.methods.network import Network, open_network
from lmassay.fewshot.methods.options import Training
from lmassay.fewshot.methods.pet import Pet
from lmassay.fewshot.tasks import open_task
from tests.fewshot.methods.conftest import Opened, fill, gold_model

__all__ = ["gold_model"]
COMMON: dict[str, Any] = {
    "max_steps": 8,
    "batch_size": 8,
    "micro_batch": 4,
    "learning_rate": 1e-3,
    "eval_ratios": 0.5,
    "max_seq_length": 128,
}
MADE: dict[str, tuple[type[Training], dict[str, Any]]] = {
    "pet/bert/rte/p0": (Pet, {"pattern": 0}),
    "pet/bert/boolq/p2": (Pet, {"pattern": 2, "warmup_ratio": 0.25}),
    "pet+mlm/bert/wic/p0": (Pet, {"pattern": 0, "lm_training": True}),
    "cls/bert/rte": (SequenceClassifier, {}),
}


@pytest.fixture(autouse=True)
def filled_classifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """New heads with the weights of the gold values."""

    def opened(*arguments: Any, **options: Any) -> Network:
        net = open_network(*arguments, **options)
        fill(net.module)
        return net

    monkeypatch.setattr(classifier, "open_network", opened)


def taught(shared: Path, gold_model: Opened, name: str, **options: Any) -> tuple[FittedNetwork, dict[str, Any], Lesson]:
    gold = json.loads((shared / "gold" / "fewnlu" / "train_trajectories.json").read_text(encoding="utf-8"))[name]
    _, family, task_name = name.split("/")[:3]
    task = open_task(f"superglue/{task_name}", shared / "data" / "fewglue")
    examples = task.examples("train")
    unlabeled = task.examples("unlabeled")[:8] if name.startswith("pet+mlm") else []
    lesson = Lesson(task, gold_model(family), examples[:16], examples[16:24], unlabeled, seed=42, sampler_seed=42)
    make, own = MADE[name]
    return make(**{**COMMON, **own, **options}).fit(lesson), gold, lesson


@pytest.mark.parametrize("name", MADE)
def test_every_loss_and_the_last_logits_are_those_of_the_original(shared: Path, gold_model: Opened, name: str) -> None:
    fitted, gold, lesson = taught(shared, gold_model, name, reference=True)
    # The original divides by the number of micro-batches twice.
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(gold["loss"], abs=1e-6)
    assert fitted.course.learning_rates == pytest.approx(gold["lr"], abs=1e-12)
    assert [scores["acc"] for _, scores in fitted.course.curve] == gold["dev"]
    assert fitted.choices[0].step == gold["returned"][0]
    assert np.abs(fitted.logits(lesson.dev[:4]) - gold["final_logits_dev0_3"]).max() <= 1e-5


def test_without_the_reference_there_are_exactly_the_updates_that_were_asked_for(
    shared: Path, gold_model: Opened
) -> None:
    fitted, gold, _ = taught(shared, gold_model, "pet/bert/rte/p0", optimiser="hf_adamw")
    assert fitted.course.updates == 8
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(gold["loss"][:8], abs=1e-6)


def test_torchs_adamw_comes_close_to_the_older_one(shared: Path, gold_model: Opened) -> None:
    fitted, gold, lesson = taught(shared, gold_model, "pet/bert/rte/p0")
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(gold["loss"][:8], abs=1e-4)
    difference = np.abs(fitted.logits(lesson.dev[:4]) - gold["final_logits_dev0_3"]).max()
    assert 1e-6 < difference < 1e-3
