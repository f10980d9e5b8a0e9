"""Bringing data sets out of the repositories they were published in."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.published import published_data
from tests.published.published_data import DataSet


@pytest.fixture
def repository(tmp_path):
    """A repository with two versions of a data set, and the commit of the first."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "host" / "somebody" / "data-set"
    (folder / "examples" / "MT").mkdir(parents=True)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout.strip()

    git("init", "--quiet")
    for text in ("first", "second"):
        (folder / "examples" / "MT" / "src.fr").write_text(text, encoding="utf-8")
        (folder / "prompts.tsv").write_text(f"prompts of the {text}", encoding="utf-8")
        git("add", "-A")
        git("commit", "--quiet", "-m", text)
    return tmp_path / "host", git("rev-parse", "HEAD~1")


def test_files_and_folders_come_from_the_commit_that_is_named(repository, tmp_path, monkeypatch, capsys):
    host, commit = repository
    files = {"MT": "examples/MT", "deep/prompts.tsv": "prompts.tsv"}
    data_set = DataSet("own", "somebody/data-set", commit, files)
    monkeypatch.setattr(published_data, "ALL", (data_set,))
    published_data.main([str(tmp_path / "shared"), "--host", host.as_uri()])
    folder = tmp_path / "shared" / "data" / "own"
    assert (folder / "MT" / "src.fr").read_text(encoding="utf-8") == "first"
    assert (folder / "deep" / "prompts.tsv").read_text(encoding="utf-8") == "prompts of the first"
    assert "somebody/data-set" in capsys.readouterr().out
    monkeypatch.setenv("LMASSAY_SHARED", str(tmp_path / "shared"))
    assert data_set.require() == folder


def test_a_test_that_lacks_its_data_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LMASSAY_SHARED", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="make published-data"):
        published_data.TEAPOT.require()
