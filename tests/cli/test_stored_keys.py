"""Keys that an old version stored are in nothing that a command prints or writes, however it cuts and escapes texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lmassay as package
from lmassay import redaction
from tests.helpers import lmassay
from tests.stored_keys import KEYS, MARK, RUNS, everything_in, folder_with

FIRST, SECOND = RUNS
# Those that change the store or look for keys in it, and those that read only ids, must see what is stored.
READ_AS_STORED = {"annotate.py", "doctor.py", "resume.py", "rm.py", "fewnlu.py", "viewer.py"}


@pytest.fixture(params=KEYS)
def results(request, tmp_path, monkeypatch):
    """A results folder with a key that is in the environment now."""
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path / "results", request.param)
    monkeypatch.setenv("MY_API_KEY", request.param)
    return tmp_path / "results"


def test_no_command_shows_any_part_of_a_key(results, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    commands: list[list[object]] = [
        ["ls"],
        ["ls", "--json"],
        ["show", FIRST],
        ["show", FIRST, "--provenance"],
        ["show", FIRST, "--json"],
        ["show", FIRST, "--yaml"],
        *(["report", "--all", "-o", out / f"report.{ending}"] for ending in ("html", "md", "tex", "csv")),
        ["compare", FIRST, SECOND, "-o", out / "compare.html"],
        ["compare", FIRST, SECOND, "--json"],
        *(["table", FIRST, SECOND, "-o", out / f"table.{ending}"] for ending in ("md", "tex", "csv")),
        ["figures", FIRST, "-o", out / "figures"],
        *(["export", FIRST, "--format", form, "-o", out / f"rows.{form}"] for form in ("jsonl", "csv")),
        *(["export", FIRST, "--format", form, "-o", out / form] for form in ("lm-eval", "every-eval-ever")),
    ]
    for command in commands:
        done = lmassay(*command, "--results", results)
        assert "Traceback" not in done.stderr, done.stderr
        assert MARK not in done.stdout + done.stderr, command
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) >= 10
    for path in written:
        assert MARK not in everything_in(path.read_bytes().decode("utf-8", "replace")), path


def test_nothing_that_python_shows_has_any_part_of_a_key(results, tmp_path):
    run = package.load_run(FIRST, results)
    run.report(tmp_path / "page.html")
    shown = [run._repr_html_(), repr(run), str(run.record.config), str(list(run.rows())), str(list(run.examples))]
    shown.append(everything_in((tmp_path / "page.html").read_text(encoding="utf-8")))
    shown.append(run.to_pandas().to_csv())
    for text in shown:
        assert MARK not in text


def test_whatever_shows_results_opens_them_for_display():
    source = Path(package.__file__).parent
    opened = re.compile(r"\bStore\((?!.*(?:create|for_display)=).*\)")
    found = set()
    for part in ("api", "cli", "interchange", "evaluations", "reporting"):
        for file in (source / part).rglob("*.py"):
            if opened.search(file.read_text(encoding="utf-8")):
                found.add(file.name)
    assert found <= READ_AS_STORED
