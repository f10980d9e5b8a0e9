"""The file that says how far a run is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lmassay.storage import progress
from lmassay.storage.progress import ProgressFile, recorded_progress


def test_a_short_run_writes_nothing(tmp_path):
    file = ProgressFile(tmp_path, "r1")
    file.update(5, 10)
    assert recorded_progress(tmp_path, "r1") is None
    assert list(tmp_path.iterdir()) == []
    file.remove()


def test_what_is_written_is_read_and_removed_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    first, second = ProgressFile(tmp_path, "r1"), ProgressFile(tmp_path, "r2")
    first.update(2, 10)
    first.update(4.5, 10)
    second.update(1, None)
    found = recorded_progress(tmp_path, "r1")
    assert found is not None
    assert (found.done, found.total, found.done_before) == (4.5, 10, 2.0)
    first.remove()
    assert recorded_progress(tmp_path, "r1") is None
    assert recorded_progress(tmp_path, "r2") is not None
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_no_progress(tmp_path):
    (tmp_path / ".progress").mkdir()
    for content in ("", "{}", "[1]", json.dumps({"done": "x", "total": 1, "began": 1, "done_before": 0, "updated": 1})):
        (tmp_path / ".progress" / "r1.json").write_text(content, encoding="utf-8")
        assert recorded_progress(tmp_path, "r1") is None


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    (tmp_path / ".progress").write_text("not a folder", encoding="utf-8")
    file = ProgressFile(tmp_path, "r1")
    file.update(1, 2)
    file.remove()


def test_numbers_that_are_not_finite_are_no_progress(tmp_path):
    (tmp_path / ".progress").mkdir()
    for number in ("NaN", "Infinity", "1e999"):
        content = f'{{"done": {number}, "total": 5, "began": 1, "done_before": 0, "updated": 1}}'
        (tmp_path / ".progress" / "r1.json").write_text(content, encoding="utf-8")
        assert recorded_progress(tmp_path, "r1") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_pipe_in_place_of_a_progress_file_is_not_read(tmp_path, monkeypatch):
    (tmp_path / ".progress").mkdir()
    os.mkfifo(tmp_path / ".progress" / "one.json")

    def read_text(file: Path, encoding: str) -> str:
        raise AssertionError(f"reading {file} would never end")

    monkeypatch.setattr(Path, "read_text", read_text)
    assert recorded_progress(tmp_path, "one") is None
