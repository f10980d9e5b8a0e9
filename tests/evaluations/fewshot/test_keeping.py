"""Trained models on disk: every method's classifier comes back as it was, and a folder is complete or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmassay.errors import DataError, ModelError
from lmassay.evaluations.fewshot import keeping, trainer
from lmassay.evaluations.fewshot.methods.contract import as_method
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.options import build
from tests.evaluations.fewshot.methods.conftest import Opened, rte, tiny  # noqa: F401 - fixtures


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global FittedNetwork
    from lmassay.evaluations.fewshot.methods.training import FittedNetwork


QUICK: dict[str, Any] = {
    "max_steps": 2,
    "batch_size": 4,
    "eval_ratios": 0.5,
    "learning_rate": 0.01,
    "max_seq_length": 48,
}
TESTED = {"part": "dev", "first": 6, "seed": 42}
METHODS = [
    ("bert", {"name": "pet"}),
    ("bert", {"name": "pet", "lm_training": True}),
    ("gpt2", {"name": "pet", "pattern": 1}),
    ("albert", {"name": "pet", "reference": True}),
    ("deberta-v2", {"name": "pet"}),
    ("bert", {"name": "adapet"}),
    ("bert", {"name": "ptuning", "pattern": 2, "prompt_encoder_head_type": "lstm"}),
    ("gpt2", {"name": "prompt_tuning", "n_tokens": 3}),
    ("bert", {"name": "lora"}),
    ("gpt2", {"name": "lora", "head": "classifier"}),
    ("roberta", {"name": "sequence_classifier"}),
]


def kept(folder: Path, task: NluTask, model: Any, method: dict[str, Any]) -> dict[str, Any]:
    """Train on four examples and keep the model; returns the outcome."""
    spec = {
        "data": "superglue/rte",
        "files": task.digests(),
        "labelled": ["train"],
        "train": [0, 1, 2, 3],
        "dev": [4, 5, 6, 7],
        "test": TESTED,
        "unlabeled": None,
        "seed": 42,
        "sampler_seed": 42,
        "method": {**QUICK, **method},
    }
    data_paths = {"data_dir": str(task.data_dir), "base_dir": str(folder.parent), "keep": str(folder)}
    return trainer.teach(model, spec, data_paths=data_paths)


@pytest.mark.parametrize(("family", "method"), METHODS, ids=[f"{family}-{m['name']}" for family, m in METHODS])
def test_a_kept_model_scores_as_it_did_when_it_was_trained(tmp_path, tiny: Opened, rte: NluTask, family, method):  # noqa: F811
    outcome = kept(tmp_path / "kept", rte, tiny(family), method)
    model = keeping.open_kept(tmp_path / "kept")
    classifier = model.classifier(model.task())
    logits = classifier.logits(trainer.test_examples(rte, {"test": TESTED}))
    assert np.allclose(logits, outcome["choices"][0]["test_logits"], atol=2e-5)


@pytest.mark.parametrize(("labelled", "is_same"), [(["train"], True), (["train", "dev"], False)])
def test_a_training_is_another_one_if_a_file_that_it_learned_from_has_changed(labelled, is_same):
    spec = {"data": "superglue/rte", "labelled": labelled, "files": {"train": "a", "dev": "b"}, "test": TESTED}
    changed = {**spec, "files": {"train": "a", "dev": "c"}}
    assert (keeping.training_identity(spec) == keeping.training_identity(changed)) is is_same


def test_the_card_of_a_kept_model_says_how_to_use_it(tmp_path, tiny: Opened, rte: NluTask):  # noqa: F811
    kept(tmp_path / "kept", rte, tiny("bert"), {"name": "pet", "pattern": 1})
    card = json.loads((tmp_path / "kept" / "lmassay.json").read_text(encoding="utf-8"))
    assert (card["task"], card["labels"], card["pattern"]) == ("superglue/rte", rte.labels, 1)
    assert card["words"] == {label: rte.verbalize(label, 1) for label in rte.labels}
    assert (card["method"]["max_steps"], card["max_seq_length"], card["training"]) == (2, 48, "kept")
    assert HuggingFace(str(tmp_path / "kept")).label == card["label"]


@pytest.mark.parametrize(("kind", "words"), [("masked", ["false", "true"]), ("causal", ["No", "Yes"])])
def test_label_words_of_p_tuning_are_those_that_it_reads(kind, words):
    # BoolQ's pattern with two slots has other words than its cloze pattern 2, and than the first pattern.
    boolq = open_task("superglue/boolq", None, Path())
    method = as_method(build("method", {"name": "ptuning", "pattern": 2}, Path(), "method"))
    read = method.label_words(boolq, HuggingFace("unused", kind=kind), 2)
    assert read == dict(zip(["False", "True"], [[word] for word in words], strict=True))


def test_keeping_a_model_does_not_change_the_outcome(tmp_path, tiny: Opened, rte: NluTask, monkeypatch):  # noqa: F811
    with_keep = kept(tmp_path / "kept", rte, tiny("bert"), {"name": "adapet"})
    monkeypatch.setattr(keeping, "keep", lambda *_: None)
    assert kept(tmp_path / "other", rte, tiny("bert"), {"name": "adapet"}) == with_keep
    assert not (tmp_path / "other").exists()


def test_a_process_that_dies_while_saving_leaves_no_folder(tmp_path, tiny: Opened, rte: NluTask, monkeypatch):  # noqa: F811
    def cut_off(self, folder):
        (folder / "config.json").write_text("{", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(FittedNetwork, "save", cut_off)
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "kept", rte, tiny("bert"), {"name": "pet"})
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_does_not_see_the_results_folder_says_so_before_it_trains(tmp_path, tiny: Opened, rte: NluTask):  # noqa: F811
    with pytest.raises(ModelError, match="workers must share the file system of the results folder"):
        kept(tmp_path / "elsewhere" / "models" / "kept", rte, tiny("bert"), {"name": "pet", "max_steps": 10**6})


def test_a_kept_model_without_its_weights_is_reported(tmp_path, tiny: Opened, rte: NluTask):  # noqa: F811
    kept(tmp_path / "kept", rte, tiny("bert"), {"name": "pet"})
    (tmp_path / "kept" / "model.safetensors").unlink()
    model = keeping.open_kept(tmp_path / "kept")
    with pytest.raises(DataError, match=r"has no \.safetensors weights"):
        model.classifier(model.task())
