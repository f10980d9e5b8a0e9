"""Answers of the embedded model are kept as long as nothing changes that could change an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import shared_answers


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A copy of lmassay that is small and may be changed."""
    folder = tmp_path / "lmassay"
    for name in ("models/hf/engine.py", "types/responses.py", "storage/files.py", "reporting/page.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("", encoding="utf-8")
    for name in ("__init__.py", "contracts.py", "errors.py", "redaction.py"):
        (folder / name).write_text("", encoding="utf-8")
    monkeypatch.setattr(shared_answers.lmassay, "__file__", str(folder / "__init__.py"))
    return folder


@pytest.mark.parametrize("name", ["models/hf/engine.py", "models/hf/new.py", "types/responses.py", "contracts.py"])
def test_answers_are_forgotten_when_the_source_of_the_models_changes(package, tmp_path, name):
    (tmp_path / "kept").mkdir()
    before = shared_answers.kept_in(tmp_path / "kept")
    before.write_text("answers", encoding="utf-8")
    (package / name).write_text("changed = True", encoding="utf-8")
    assert shared_answers.kept_in(tmp_path / "kept") != before
    assert not before.exists()


def test_answers_are_kept_when_something_else_changes(package, tmp_path):
    (tmp_path / "kept").mkdir()
    before = shared_answers.kept_in(tmp_path / "kept")
    before.write_text("answers", encoding="utf-8")
    (package / "reporting" / "page.py").write_text("changed = True", encoding="utf-8")
    assert shared_answers.kept_in(tmp_path / "kept") == before
    assert before.exists()


def test_answers_are_forgotten_with_another_version_of_a_library(package, tmp_path, monkeypatch):
    before = shared_answers.kept_in(tmp_path)
    monkeypatch.setattr(shared_answers.importlib.metadata, "version", lambda name: "0.0")
    assert shared_answers.kept_in(tmp_path) != before
