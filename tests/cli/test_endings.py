"""What ``-o`` writes is what the name of the file says, in every command, or the name is refused in one line."""

from __future__ import annotations

import csv
import json

import click
import pytest

from lmassay.cli import app
from lmassay.cli.commands import command_table
from tests.helpers import lmassay, write_config, write_lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two runs."""
    place = tmp_path_factory.mktemp("user")
    write_lines(place / "src.txt", [f"sentence {number} of a text" for number in range(8)])
    config = {
        "task": {"name": "robustness", "src": "src.txt", "attack": ["charswap", "homoglyph"]},
        "model": "echo",
        "resamples": 100,
    }
    done = lmassay("run", write_config(place / "c.yaml", config), cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def looks_like(path):
    text = path.read_text(encoding="utf-8")
    if text.lower().startswith("<!doctype html>"):
        return "html"
    if text.startswith("# "):
        return "md"
    if text.lstrip().startswith(("\\documentclass", "%")):
        return "tex"
    if text.startswith("{"):
        return "jsonl" if json.loads(text.split("\n")[0]) else "json"
    return "csv" if len(next(csv.reader(text.split("\n")))) > 2 else "?"


@pytest.mark.parametrize(
    ("command", "name", "form"),
    [
        ("export latest", "x.csv", "csv"),
        ("export latest", "X.CSV", "csv"),
        ("export latest", "x.jsonl", "jsonl"),
        ("export latest", "x", "jsonl"),
        ("export latest --format csv", "x.txt", "csv"),
        ("report", "x.csv", "csv"),
        ("report", "x.md", "md"),
        ("report", "x.tex", "tex"),
        ("report", "x.html", "html"),
        ("compare A B", "x.html", "html"),
    ],
)
def test_the_ending_decides_what_is_written(folder, tmp_path, command, name, form):
    file = tmp_path / name
    runs = [run["run"] for run in json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"]]
    done = lmassay(*command.replace("A B", " ".join(runs)).split(), "-o", file, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert looks_like(file) == form


@pytest.mark.parametrize(
    ("command", "name", "endings"),
    [
        ("export latest", "x.md", ".jsonl, .ndjson or .csv"),
        ("export latest", "x.html", ".jsonl, .ndjson or .csv"),
        ("export latest --format every-eval-ever", "x.csv", ".json"),
        ("report", "x.txt", ".html, .htm, .md, .markdown, .tex or .csv"),
        ("compare latest latest", "x.md", ".html or .htm"),
        ("compare latest latest", "x.csv", ".html or .htm"),
        ("card", "x.csv", ".html"),
        ("init robustness", "x.csv", ".yaml or .yml"),
        ("init robustness", "x.md", ".yaml or .yml"),
        ("table --metric success", "x.pdf", ".tex, .md, .csv or .html"),
        ("protocol", "x.html", ".md, .markdown, .tex, .csv or .json"),
        ("verbs words.txt", "x.md", ".csv"),
        ("surprisal echo --in src.txt", "x.md", ".tsv or .csv"),
        ("predict latest --in src.txt", "x.md", ".csv"),
    ],
)
def test_an_ending_that_the_command_cannot_write_is_refused_in_one_line(folder, tmp_path, command, name, endings):
    write_lines(folder / "words.txt", ["walk"])
    file = tmp_path / name
    done = lmassay(*command.split(), "-o", file, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert endings in done.stderr
    assert not file.exists()


def test_every_command_with_an_output_file_is_tested_here():
    # Results folders have no format; figures are written into a folder, in the formats of --format.
    tested = {"export", "report", "compare", "card", "init", "protocol", "verbs", "surprisal", "predict", "table"}
    without_format = {"merge", "figures"}
    context = click.Context(app)
    with_output = set()
    for name in command_table().by_name:
        command = app.get_command(context, name)
        for parameter in command.params:
            if "-o" in parameter.opts and not getattr(parameter.type, "exists", False):
                with_output.add(name)
    assert with_output - without_format == tested
