"""Nine updates of the original, loss by loss: PET, PET with an auxiliary language model, the sequence classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.methods.conftest import Opened, gold_model
from tests.published.fewnlu_gold import fill, gold
from tests.published_data import published_set


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global classifier, SequenceClassifier, Network, open_network, Pet, FittedNetwork, Training
    from lmassay.evaluations.fewshot.methods import classifier
    from lmassay.evaluations.fewshot.methods.classifier import SequenceClassifier
    from lmassay.evaluations.fewshot.methods.network import Network, open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.training import FittedNetwork, Training


__all__ = ["gold_model"]
COMMON: dict[str, Any] = {
    "max_steps": 8,
    "batch_size": 8,
    "micro_batch": 4,
    "learning_rate": 1e-3,
    "eval_ratios": 0.5,
    "max_seq_length": 128,
}
MADE: dict[str, dict[str, Any]] = {"pet": {}, "pet+mlm": {"lm_training": True}, "cls": {}}
# P-tuning has a file of its own; "spec" is a text.
RUNS = {key: run for key, run in gold("train_trajectories").items() if key.split("/")[0] in MADE}


@pytest.fixture(autouse=True)
def filled_classifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """New heads with the weights of the gold values."""

    def opened(*arguments: Any, **options: Any) -> Network:
        net = open_network(*arguments, **options)
        fill(net.module)
        return net

    monkeypatch.setattr(classifier, "open_network", opened)


def taught(gold_model: Opened, name: str, **options: Any) -> tuple[FittedNetwork, dict[str, Any], TrainingInputs]:
    kind, family, task_name, *pattern = name.split("/")
    run = RUNS[name]
    task = open_task(f"superglue/{task_name}", published_set("fewglue"))
    examples = task.examples("train")
    unlabeled = []
    if kind == "pet+mlm":
        published_set("fewglue")
        unlabeled = task.examples("unlabeled")[:8]
    inputs = TrainingInputs(
        task, gold_model(family), examples[:16], examples[16:24], unlabeled, seed=42, sampler_seed=42
    )
    make, own = SequenceClassifier if kind == "cls" else Pet, MADE[kind]
    own = {**own, "pattern": int(pattern[0][1:])} if pattern else own
    # A first rate of 0 is that of a warm-up, to the full one.
    warmup = {"warmup_ratio": run["lr"].index(COMMON["learning_rate"]) / COMMON["max_steps"]}
    return make(**{**COMMON, **own, **warmup, **options}).fit(inputs), run, inputs


def test_no_run_is_left_out() -> None:
    known = {key for key, run in gold("train_trajectories").items() if isinstance(run, dict)}
    assert known == {*RUNS, *(key for key in known if key.startswith("ptuning/"))}
    assert len(RUNS) >= 4


@pytest.mark.parametrize("name", RUNS)
def test_every_loss_and_the_last_logits_are_those_of_the_original(gold_model: Opened, name: str) -> None:
    fitted, run, inputs = taught(gold_model, name, reference=True)
    # The original divides by the number of micro-batches twice.
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(run["loss"], abs=1e-6)
    assert fitted.course.learning_rates == pytest.approx(run["lr"], abs=1e-12)
    assert [scores["acc"] for _, scores in fitted.course.curve] == run["dev"]
    assert fitted.choices[0].step == run["returned"][0]
    assert np.abs(fitted.logits(inputs.dev[:4]) - run["final_logits_dev0_3"]).max() <= 1e-5


def test_without_the_reference_there_are_exactly_the_updates_that_were_asked_for(gold_model: Opened) -> None:
    fitted, run, _ = taught(gold_model, "pet/bert/rte/p0", optimiser="hf_adamw")
    assert fitted.course.updates == 8
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(run["loss"][:8], abs=1e-6)


def test_torchs_adamw_comes_close_to_the_older_one(gold_model: Opened) -> None:
    fitted, run, inputs = taught(gold_model, "pet/bert/rte/p0")
    assert [loss / 2 for loss in fitted.course.losses] == pytest.approx(run["loss"][:8], abs=1e-4)
    difference = np.abs(fitted.logits(inputs.dev[:4]) - run["final_logits_dev0_3"]).max()
    assert 1e-6 < difference < 1e-3
