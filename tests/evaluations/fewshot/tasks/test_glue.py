"""GLUE's files and patterns."""

from __future__ import annotations

import json

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task, task_names

MRPC = 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t10\t11\tHe said "yes.\tHe agreed.\n'


def test_glue_tables_are_read_as_published(tmp_path):
    (tmp_path / "train.tsv").write_text(MRPC, encoding="utf-8")
    (first,) = open_task("glue/mrpc", tmp_path).examples("train")
    assert (first.text_a, first.text_b, first.label) == ('He said "yes.', "He agreed.", "1")


def test_cola_is_read_with_and_without_a_header(tmp_path):
    (tmp_path / "train.tsv").write_text("gj04\t1\t\tThey left.\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nThem left.\t0\n", encoding="utf-8")
    task = open_task("glue/cola", tmp_path)
    assert [(e.text_a, e.label) for part in ("train", "dev") for e in task.examples(part)] == [
        ("They left.", "1"),
        ("Them left.", "0"),
    ]


def test_glue_labels_by_number_are_those_of_the_hub(tmp_path):
    row = {"premise": "a", "hypothesis": "b", "label": 1, "idx": 0}
    (tmp_path / "train.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert open_task("mnli", tmp_path).examples("train")[0].label == "neutral"


def test_a_ragged_table_is_an_error_with_its_line(tmp_path):
    (tmp_path / "train.tsv").write_text("sentence\tlabel\nFine\t1\nonly\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3: 1 cells, but there are 2 columns"):
        open_task("sst2", tmp_path).examples("train")


@pytest.mark.parametrize("name", [name for name in task_names() if name.startswith("glue/")])
def test_every_glue_pattern_has_a_gap_and_words_for_every_label(name):
    task = open_task(name)
    shown = InputExample("train-1", "First text.", "Second text.", task.labels[0])
    for pattern in task.patterns["cloze"]:
        before, after = task.cloze_text(shown, pattern)
        assert "First text" in before + after
        assert all(task.verbalize(label, pattern) for label in task.labels)
    assert task.patterns["ptuning"] == [1, 2, 4]
