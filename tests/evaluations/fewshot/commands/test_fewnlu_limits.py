"""``lmassay fewnlu``: fewer examples, more examples, frozen parts."""

from __future__ import annotations

import json

import pytest

from tests import tiny_models
from tests.evaluations.fewshot.commands.fewnlu_kit import call, files, flags, save_bert, write_data, write_rows


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    write_data(tmp_path / "RTE")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_so_many_labelled_examples_are_split(capsys, here, bert):
    assert call(capsys, flags(bert, train_examples=6))[0] == 0
    assert len(files(here / "out")["p0/f0-i0/dev32_predictions.jsonl"].splitlines()) == 3
    assert (here / "final_results/save_default_rte_dev32_split_pet_bert_6.txt").is_file()


def test_further_examples_are_trained_on_with_their_labels(capsys, here, bert):
    write_rows(here / "more.jsonl", 3, 60)
    call(capsys, flags(bert, "plain"))
    assert call(capsys, flags(bert, aug_data_dir="more.jsonl"))[0] == 0
    name = "p0/f0-i0/eval_logits.txt"
    assert files(here / "out")[name] != files(here / "plain")[name]


def test_further_examples_may_be_labelled_by_teachers(capsys, here, bert):
    write_rows(here / "more.jsonl", 3, 60)
    write_rows(here / "RTE/unlabeled.jsonl", 2, 40, labels=False)
    own = {"arch_method": "ipet", "repetitions": 2, "generations": 2, "ipet_scale_factor": 2}
    code, _, _ = call(capsys, flags(bert, aug_data_dir="more.jsonl", relabel_aug_data=True, **own))
    assert code == 0
    made = files(here / "out")
    assert len(made["g0/p0/f0-i0/unlabeled_logits.txt"].splitlines()) == 5
    drawn = [name for name in made if "next-gen-train-data" in name]
    taught = [json.loads(row)["guid"] for name in drawn for row in made[name].splitlines()]
    assert any(guid.startswith("train-6") for guid in taught)


def test_a_deberta_may_be_partly_frozen(capsys, here, tmp_path):
    model = tiny_models.save_model(tmp_path / "deberta", "deberta-v2", window=64)
    own = {"model_type": "deberta", "method": "sequence_classifier", "few_shot_setting": "fix_setting"}
    assert call(capsys, flags(model, "free", **own))[0] == 0
    assert call(capsys, flags(model, "fixed", fix_deberta=True, **own))[0] == 0
    name = "p0/f0-i0/eval_logits.txt"
    assert files(here / "free")[name] != files(here / "fixed")[name]
