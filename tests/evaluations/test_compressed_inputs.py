"""Compressed files, wherever a configuration names a text file."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.helpers import EVALUATIONS, ROOT, lmassay, write_config

BIAS = EVALUATIONS / "bias/starters"
KOBBQ = ROOT / "tests" / "evaluations" / "bias" / "data"
SYNTAX = EVALUATIONS / "syntax"
FEWSHOT = EVALUATIONS / "fewshot/sample"
ECHO = {"name": "echo", "transform": "upper"}
BIGRAMS = {
    "name": str(SYNTAX / "sample/my_language_model.py:Bigrams"),
    "text": str(SYNTAX / "sample/corpus.txt"),
}


def compressed(file: Path, place: Path) -> Path:
    """A compressed copy of a file."""
    copy = place / f"{file.name}.gz"
    copy.write_bytes(gzip.compress(file.read_bytes()))
    return copy


def plan_of(place: Path, task: dict, model: dict) -> dict:
    """What ``lmassay check`` says about a configuration."""
    done = lmassay("check", write_config(place / "c.yaml", {"task": task, "model": model}), "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    return run


def test_questions_of_a_described_file(tmp_path):
    compressed(BIAS / "people.csv", tmp_path)
    description = (BIAS / "people.yaml").read_text(encoding="utf-8")
    (tmp_path / "people.yaml").write_text(description.replace("people.csv", "people.csv.gz"), encoding="utf-8")
    plain = plan_of(tmp_path, {"name": "bias", "data": str(BIAS / "people.yaml")}, ECHO)
    assert plan_of(tmp_path, {"name": "bias", "data": "people.yaml"}, ECHO)["examples"] == plain["examples"]


def test_samples_of_kobbq_and_its_prompts(tmp_path):
    compressed(KOBBQ / "korean.tsv", tmp_path)
    compressed(KOBBQ / "prompts.tsv", tmp_path)
    plain = plan_of(tmp_path, {"name": "bias", "data": str(KOBBQ / "korean.tsv")}, ECHO)
    task = {"name": "bias", "data": "korean.tsv.gz", "prompts": "prompts.tsv.gz"}
    assert plan_of(tmp_path, task, ECHO)["examples"] == plain["examples"]


def test_a_folder_of_pairs_and_the_names_of_its_files(tmp_path):
    folder = tmp_path / "pairs"
    folder.mkdir()
    compressed(SYNTAX / "starters/pairs.jsonl", folder)
    run = plan_of(tmp_path, {"name": "minimal_pairs", "data": "pairs", "clusters": "noun"}, BIGRAMS)
    assert run["label"] == "pairs"


def test_examples_of_a_few_shot_task(tmp_path):
    for part in ("train", "dev"):
        compressed(FEWSHOT / f"{part}.jsonl", tmp_path)
    description = (FEWSHOT / "reviews.yaml").read_text(encoding="utf-8")
    renamed = description.replace(".jsonl", ".jsonl.gz")
    (tmp_path / "reviews.yaml").write_text(renamed, encoding="utf-8")
    task = {"name": "fewshot", "data": "reviews.yaml", "method": "majority", "labelled": ["train"]}
    done = lmassay("check", write_config(tmp_path / "c.yaml", {"task": task}))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", ["", "source\tlabel\tannotation\tsentence\n"])
def test_the_files_of_a_data_folder(tmp_path, header):
    from lmassay.evaluations.fewshot.tasks.glue import ColaProcessor

    content = f"{header}a\t1\t\tThe dog barks.\nb\t0\t*\tThe dog bark.\n"
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(content.encode()))
    examples = ColaProcessor().get_train_examples(tmp_path)
    assert [(example.text_a, example.label) for example in examples] == [
        ("The dog barks.", "1"),
        ("The dog bark.", "0"),
    ]


@pytest.mark.parametrize(
    "task",
    [
        {"name": "bias", "data": "-"},
        {"name": "bias", "data": "described.yaml"},
        {"name": "minimal_pairs", "data": "-"},
        {"name": "fewshot", "data": "reviews.yaml", "method": "majority"},
        {"name": "robustness", "src": "-", "attack": "delete"},
    ],
)
def test_standard_input_is_refused_with_the_reason(tmp_path, task):
    people = (BIAS / "people.yaml").read_text(encoding="utf-8")
    (tmp_path / "described.yaml").write_text(people.replace("files: people.csv", 'files: "-"'), encoding="utf-8")
    reviews = (FEWSHOT / "reviews.yaml").read_text(encoding="utf-8")
    (tmp_path / "reviews.yaml").write_text(reviews.replace("train.jsonl", '"-"'), encoding="utf-8")
    shutil.copy(FEWSHOT / "dev.jsonl", tmp_path)
    model = BIGRAMS if task["name"] == "minimal_pairs" else ECHO
    done = lmassay("check", write_config(tmp_path / "c.yaml", {"task": task, "model": model}))
    assert done.returncode == 2
    assert "a configuration cannot read standard input (-)" in done.stderr
