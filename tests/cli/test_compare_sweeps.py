"""``lmassay compare`` as a gate over the runs of two commands: every run is judged, or the gate says why not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from lmassay.cli import main
from lmassay.storage.store import STORE_FILE
from tests.compare_kit import add, rates, scored, set_created

GOOD, BAD = [1] * 30 + [0] * 10, [0] * 15 + [1] * 15 + [0] * 10


@pytest.fixture
def gate(capsys, tmp_path):
    """Holds the latest command of ``new`` against that of ``base``; gives exit code, output and errors."""

    def run(*arguments, names=("latest", "latest"), condition="accuracy<-0.02"):
        folders = ["--base-results", tmp_path / "base", "--results", tmp_path / "new", "--fail-if", condition]
        with pytest.raises(SystemExit) as stop:
            main(["compare", *names, *map(str, folders), *map(str, arguments)])
        shown = capsys.readouterr()
        return stop.value.code, shown.out, shown.err

    return run


@pytest.fixture
def sweep(tmp_path):
    """Puts a sweep into a folder: one run for each label, on one model."""

    def put(folder, **runs):
        for label, values in runs.items():
            add(tmp_path / folder, f"{folder}-{label}", rates(values), label=label, model="a model", sweep=folder)

    return put


def test_a_drop_in_any_run_of_a_sweep_fails(gate, sweep):
    sweep("base", first=GOOD, second=GOOD, third=GOOD)
    sweep("new", third=GOOD, first=BAD, second=GOOD)
    code, out, err = gate()
    assert (code, err) == (1, "")
    assert out.count("PASS  accuracy<-0.02") == 2
    assert out.count("FAIL  accuracy<-0.02") == 1
    assert "adjusted for 3 tests" in out
    assert "against the matching run of the base" in out


def test_programs_are_told_which_run_each_was_held_against(gate, sweep):
    sweep("base", first=GOOD, second=GOOD)
    sweep("new", second=GOOD, first=GOOD)
    code, out, _ = gate("--json")
    document = json.loads(out)
    assert (code, document["base"], document["gate"]["tests"]) == (0, None, 2)
    pairs = {(row["base"], row["new"]) for row in document["comparisons"]}
    assert pairs == {("base-first", "new-first"), ("base-second", "new-second")}


def test_a_page_shows_all_runs_of_both_sweeps(gate, sweep, tmp_path):
    sweep("base", first=GOOD, second=GOOD)
    sweep("new", first=BAD, second=GOOD)
    assert gate("-o", tmp_path / "c.html")[0] == 1
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    for run in ("base-first", "base-second", "new-first", "new-second"):
        assert f"lmassay show {run} " in text


def test_a_run_of_the_base_without_counterpart_is_refused_unless_that_is_allowed(gate, sweep):
    sweep("base", first=GOOD, second=GOOD)
    sweep("new", first=GOOD)
    code, out, err = gate()
    assert (code, out) == (2, "")
    assert "matches base-second (second on a model) of the base" in err
    code, _, err = gate("--allow-incomplete")
    assert code == 0
    assert "warning: no run of the new command" in err


def test_a_new_run_without_counterpart_is_reported(gate, sweep):
    sweep("base", first=GOOD)
    sweep("new", first=GOOD, second=BAD)
    code, _, err = gate()
    assert code == 0
    assert "not judged, because the base has no matching run: new-second (second on a model)" in err


def test_one_run_against_the_latest_of_a_sweep_is_refused_with_the_names(gate, sweep):
    sweep("base", first=GOOD, second=GOOD)
    sweep("new", first=GOOD, second=GOOD)
    code, _, err = gate(names=("base-first", "latest"))
    assert code == 2
    assert "latest is one of 2 runs of a command (new-first (first on a model), new-second (second on a model))" in err
    assert gate(names=("base-first", "new-first"))[0] == 0


def test_other_tasks_of_a_sweep_are_reported_where_no_condition_is_about_them(gate, sweep, tmp_path):
    for folder in ("base", "new"):
        sweep(folder, first=GOOD)
        rows = [scored(i, success=0.0) for i in range(40)]
        add(tmp_path / folder, f"{folder}-other", rows, label="x", model="a model", sweep=folder, task="other")
    code, out, err = gate()
    assert code == 0
    assert out.count("PASS") == 1
    assert "warning: no condition applies to new-other (x on a model), so the gate does not judge it" in err
    code, out, _ = gate("--fail-if", "success>0.1")
    assert (code, out.count("PASS")) == (0, 2)
    assert "base-first has no metric 'acuracy'; did you mean 'accuracy'?" in gate(condition="acuracy<0")[2]


def test_another_strength_of_an_attack_is_no_counterpart_and_is_reported_by_its_attack(gate, tmp_path):
    for folder, rates_of_attack in (("base", (0.05, 0.9)), ("new", (0.05, 0.2))):
        for rate in rates_of_attack:
            signature = {"attack": f"charswap(rate:{rate})"}
            more = {"task": "robustness", "label": "charswap", "model": "a model"}
            more |= {"sweep": folder, "signature": signature}
            add(tmp_path / folder, f"{folder}-{rate}", rates(GOOD), **more)
    code, out, err = gate()
    assert (code, out) == (2, "")
    assert "matches base-0.9 (charswap on a model, attack charswap(rate:0.9)) of the base" in err
    code, out, err = gate("--allow-incomplete")
    assert (code, out.count("PASS")) == (0, 1)
    assert "the base has no matching run: new-0.2 (charswap on a model, attack charswap(rate:0.2))" in err


def test_another_version_of_the_toolkit_is_reported_and_judged(gate, tmp_path):
    for folder in ("base", "new"):
        for k in (1, 2):
            signature = {"k": k, "lmassay": folder}
            add(tmp_path / folder, f"{folder}-{k}", rates(GOOD), model="m", sweep=folder, signature=signature)
    code, out, err = gate()
    assert (code, out.count("PASS")) == (0, 2)
    assert "new-1 and base-1 also differ in lmassay; compare with care" in err


def test_labels_that_differ_and_a_base_that_is_newer_are_reported(capsys, tmp_path):
    add(tmp_path, "one", rates(GOOD), label="prompt 1")
    add(tmp_path, "two", rates(GOOD), label="prompt 2")
    set_created(tmp_path, "two", "2020-01-01T00:00:00+00:00")
    with pytest.raises(SystemExit) as stop:
        main(["compare", "one", "two", "--results", str(tmp_path), "--fail-if", "accuracy<0"])
    stderr = capsys.readouterr().err
    assert stop.value.code == 0
    assert "two is 'prompt 2' and one is 'prompt 1'" in stderr
    assert "two is older than one, its base; are the two swapped?" in stderr


def test_a_damaged_run_of_a_sweep_is_refused_as_if_it_was_named(gate, sweep, tmp_path):
    sweep("base", first=GOOD, second=GOOD)
    sweep("new", first=GOOD, second=GOOD)
    with closing(sqlite3.connect(tmp_path / "new" / STORE_FILE)) as database, database:
        database.execute("UPDATE runs SET results = '[1]' WHERE id = 'new-first'")
    code, out, err = gate("--allow-incomplete")
    assert (code, out) == (2, "")
    assert "the run new-first is damaged" in err
