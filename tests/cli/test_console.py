"""What is printed is text, whatever stands in it."""

from __future__ import annotations

import logging
import re
import warnings

import pytest

from lmassay.cli.actions.doctor import _terminal
from lmassay.cli.console import print_json, redact_logs, show_warnings
from lmassay.cli.table_output import fits, print_sentence, print_table, print_wide_table
from tests.helpers import ROOT, lmassay, write_config
from tests.terminal import in_terminal

HOSTILE = ["g[/x]", "[/b]acc", "[red]acc", "\x1b]0;pwn\x07acc", "a\u202ecca"]


@pytest.mark.parametrize("columns", [200, 20])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_head_is_shown_as_it_is_but_for_what_steers_a_terminal(monkeypatch, capsys, name, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    print_table("", ["what", name, "more"], [["a", "1", "2"], ["b", "3", "4"]], right=(1, 2))
    shown = capsys.readouterr().out
    assert name.replace("\x1b", "�").replace("\x07", "�").replace("\u202e", "�") in shown
    assert not {"\x1b]", "\x07", "\u202e"} & {shown[i : i + n] for n in (1, 2) for i in range(len(shown))}


_TASK = """
from lmassay.statistics.intervals import mean_results
from lmassay.types import Example, Score

METRICS = ["g[/x]", "\\x1b]0;pwn\\x07acc", "=1+1"]

class Odd:
    name, version, needs = "odd", 1, frozenset()
    def examples(self):
        yield Example("1", {"@SUM(1)": "a"})
    def requests(self, example):
        return []
    def score(self, examples, responses):
        return [Score(dict.fromkeys(METRICS, 0.5))]
    def aggregate(self, table, settings):
        return mean_results(table, METRICS, settings)
    def signature(self):
        return {}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of a task whose metrics have names that nobody should have given them."""
    place = tmp_path_factory.mktemp("user")
    (place / "odd.py").write_text(_TASK, encoding="utf-8")
    write_config(place / "c.yaml", {"name": "a\u202eb 한", "task": "odd.py:Odd", "seed": [0, 1]})
    done = lmassay("run", "c.yaml", cwd=place)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert "g[/x]" in done.stdout
    assert "\x1b" not in done.stdout
    return place


def test_a_configuration_that_is_printed_steers_no_terminal_and_means_the_same(folder):
    import yaml

    text = lmassay("show", "latest", "--yaml", cwd=folder).stdout
    assert "\u202e" not in text
    assert yaml.safe_load(text)["name"] == "a\u202eb 한"


def test_the_head_of_a_csv_file_holds_no_formula(folder):
    head = lmassay("export", "latest", "--format", "csv", cwd=folder).stdout.splitlines()[0]
    assert "'=1+1" in head.split(",")
    assert "'@SUM(1)" in head.split(",")


LONG_CELL = "/".join(["", *["a rather long folder 이름"] * 40, "results"])


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_what_is_no_terminal_gets_every_row_on_one_line(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    rows = [["results folder", LONG_CELL, "set LMASSAY_RESULTS"], ["second", "2", "x" * 300]]
    print_table("title " * 60, ["what", "value", "remedy"], rows, right=(1,))
    print_sentence(f"{LONG_CELL} is not a folder. " * 3)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 5
    assert lines[0] == ("title " * 60).rstrip()
    assert LONG_CELL in lines[2]
    assert lines[2].endswith("set LMASSAY_RESULTS")
    assert lines[3].endswith("x" * 300)
    assert lines[4].count(LONG_CELL) == 3


def test_forced_colours_do_not_wrap_what_goes_to_a_file(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_table("", ["what", "value"], [["first", "a b " * 50], ["second", "2"]])
    print_sentence("a sentence " * 20)
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert "output goes to a file or pipe" in _terminal().found


@pytest.mark.parametrize("columns", ["30", "120"])
def test_commands_print_long_paths_whole_into_a_pipe(tmp_path, columns):
    place = tmp_path / ("a rather long folder 이름 " * 6) / ("another one " * 12)
    place.mkdir(parents=True)
    (place / "file").touch()
    environment = {"COLUMNS": columns, "LMASSAY_RESULTS": str(place / "file" / "results")}
    done = lmassay("doctor", cwd=place, env=environment)
    (row,) = [line for line in done.stdout.splitlines() if "results folder" in line]
    assert str(place / "file" / "results") in row
    assert "set LMASSAY_RESULTS" in row


def test_sentences_are_broken_between_words_on_a_terminal_and_nowhere_else(tmp_path):
    model = f"{ROOT / 'tests' / 'reporting' / 'card' / 'models.py'}:Talker"
    arguments = ("card", model, "--quick", "--only", "robustness", "--results", tmp_path, "-o", tmp_path / "c.html")
    shown = in_terminal(*arguments, columns=60)
    assert shown.returncode == 0, shown.screen
    lines = [line.rstrip() for line in shown.screen.splitlines()]
    [start] = [number for number, line in enumerate(lines) if line.startswith("attacks that succeed: The share")]
    assert max(map(len, lines[start : start + 6])) <= 60
    meaning = "The share of attacked inputs on which a right answer turns wrong although the input hardly changed"
    assert meaning in " ".join(lines[start : start + 6])
    assert meaning in lmassay(*arguments).stdout


def test_warnings_and_logs_of_libraries_and_json_steer_no_terminal(monkeypatch, capsys):
    shown_warnings = []
    with warnings.catch_warnings():
        monkeypatch.setattr(warnings, "showwarning", lambda message, *rest: shown_warnings.append(message))
        show_warnings()
        warnings.showwarning("a\x1b[2Jb", UserWarning, "lib.py", 1)
    assert shown_warnings == ["a�[2Jb"]
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler())
    redact_logs()
    assert logging.lastResort.format(logging.makeLogRecord({"msg": "a\x1b[2Jb"})) == "a�[2Jb"
    print_json({"text": "a\x7f\x1bb"})
    assert capsys.readouterr().out == '{\n  "text": "a\\u007f\\u001bb"\n}\n'


def test_a_narrow_terminal_breaks_neither_words_nor_intervals(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")
    label = "worst of 8 on org/translation-system_checkpoint-12000"
    print_table("", ["label", "mean", "interval"], [[label, "0.7250", "[-0.0923, 0.2860]"]], right=(1, 2))
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert "0.7250  [-0.0923, 0.2860]" in lines[1]
    label_lines = [line[:21].strip() for line in lines[1:]]
    assert " ".join(label_lines) == "worst of 8 on org/ translation-system_ checkpoint-12000"


@pytest.mark.parametrize(("columns", "parts"), [(21, 2), (22, 1), (23, 1)])
def test_a_table_is_split_only_if_it_is_wider_than_the_terminal(monkeypatch, capsys, columns, parts):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    # Four columns of four characters, with two spaces between them.
    headers, rows = ["name", "aaaa", "bbbb", "cccc"], [["run1", "1234", "1234", "1234"]]
    print_wide_table("", headers, rows)
    assert capsys.readouterr().out.count("run1") == parts
    assert fits(headers, rows) is (parts == 1)


def test_only_words_that_are_wider_than_their_column_are_broken(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    print_table("", ["options", "n"], [["data, prompts, answer_by, max_tokens", "1"]], right=(1,))
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "max_tokens" in out
    assert "answer_by," in out
