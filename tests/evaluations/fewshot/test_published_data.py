"""FewGLUE by name: ``data: superglue/rte`` without a folder."""

from __future__ import annotations

import json

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.task import FewShot
from lmassay.evaluations.fewshot.tasks.nlu import published_folder
from tests.helpers import lmassay, write_config

TASKS = ["boolq", "cb", "copa", "multirc", "rte", "record", "wsc", "wic"]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_superglue_is_found(fetched, task):
    fetched("fewglue")
    folder = published_folder(f"superglue/{task}")
    assert (folder / "train.jsonl").is_file()
    assert folder == published_folder(task)


def test_a_task_that_is_not_of_superglue_is_left_alone():
    assert published_folder("glue/mrpc") is None
    assert published_folder("mine.yaml") is None
    assert published_folder("mine.py:name") is None


def test_data_that_were_not_fetched_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="run lmassay data get fewglue"):
        FewShot("superglue/rte", method="majority").check()


def test_a_run_needs_no_folder(fetched, tmp_path):
    fetched("fewglue")
    config = {"task": {"name": "fewshot", "data": "superglue/rte", "method": "majority", "splits": {"k": 2}}}
    write_config(tmp_path / "c.yaml", config)
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    accuracy = next(result for result in run["results"] if result["metric"] == "acc")
    # RTE's 277 validation examples, of which 146 have the more frequent label.
    assert 0.4 < accuracy["value"] < 0.6
