"""``lmassay table`` prints and writes tables of runs."""

from __future__ import annotations

import pytest

from tests.helpers import lmassay, write_config, write_lines
from tests.reporting.test_run_table import BAD, GOOD, add_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("user") / "results"
    add_run(place, "a", GOOD, "large", seed=1)
    add_run(place, "b", BAD, "small", seed=1)
    return place


def test_the_table_is_printed_with_marks_and_what_they_mean(folder):
    done = lmassay("table", "a", "b", "--results", folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["model", "accuracy"]
    assert lines[2].split() == ["large", "*0.950*"]
    assert "* *: significantly better than all others" in done.stdout
    assert "n = 40 in every cell." in done.stdout


def test_runs_are_selected_by_filters(folder):
    shown = lmassay("table", "--model", "large", "--rows", "model", "--results", folder).stdout
    assert "large" in shown
    assert "small" not in shown


@pytest.mark.parametrize(
    ("suffix", "content"),
    [("tex", r"\textbf{0.950}"), ("md", "**0.950**"), ("csv", "large,"), ("html", "<strong>0.950")],
)
def test_the_suffix_of_the_file_chooses_the_format(folder, tmp_path, suffix, content):
    target = tmp_path / f"t.{suffix}"
    done = lmassay("table", "a", "b", "-o", target, "--results", folder)
    assert done.returncode == 0, done.stderr
    assert content in target.read_text(encoding="utf-8")


def test_an_unknown_ending_is_refused_before_anything_is_written(folder, tmp_path):
    done = lmassay("table", "a", "b", "-o", tmp_path / "t.docx", "--results", folder)
    assert done.returncode == 2
    assert "the name must end in .tex, .md, .csv or .html" in done.stderr


def test_a_label_without_a_tex_file_is_refused(folder):
    done = lmassay("table", "a", "b", "--label", "tab:x", "--results", folder)
    assert done.returncode == 2
    assert "--label is for LaTeX" in done.stderr


def test_runs_without_results_are_named_in_one_warning(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four"])
    dead = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "tries": 1}
    task = {"name": "robustness", "src": "src.txt", "attack": "case"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": [*({**dead, "model": name} for name in "ab"), "echo"]})
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 2
    done = lmassay("table", cwd=tmp_path)
    assert done.stderr.count("no results") == 1
    assert "warning: 2 runs have no results: " in done.stderr
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 runs have no results (failed: case on a, case on b)." in page
