"""What the store reads is what lmassay wrote; a changed value is never shown as a result."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lmassay.errors import StoreError
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import Example, NewRun, Provenance, Response, Result, Row, Score
from tests.helpers import lmassay, write_config, write_lines
from tests.storage.old_schemas import downgrade


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run of three lines, in the folder results."""
    write_lines(tmp_path / "src.txt", ["several wonderful people travelled together", "a dog ran", "we saw two birds"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "echo", "resamples": 100})
    done = lmassay("run", "c.yaml", "--results", "results", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def edit(folder: Path, *statements: str) -> None:
    """What somebody with an editor for SQLite might do."""
    with sqlite3.connect(folder / "results" / STORE_FILE) as database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0, statement
    database.close()


def table(folder: Path, name: str, columns: str = "*") -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "results" / STORE_FILE) as database:
        rows = database.execute(f"SELECT {columns} FROM {name} ORDER BY 1, 2").fetchall()
    database.close()
    return rows


CHANGED_RESULT = """UPDATE runs SET results = replace(results, '"value":', '"value":0.033,"was":')"""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET results = replace(results, '0.', '0.0')",
        "UPDATE runs SET results = replace(results, 's_src', 's_tgt')",
        "UPDATE runs SET results = '[]'",
        "UPDATE runs SET results = 'no JSON'",
    ],
)
def test_changed_results_are_not_shown_and_resume_computes_them_again(folder, statement):
    before = table(folder, "runs", "id, results")
    edit(folder, statement)
    with Store(folder / "results") as store:
        record = store.run("latest")
    assert (record.status, record.results) == ("damaged", [])
    listed = lmassay("ls", "--results", "results", cwd=folder)
    assert listed.returncode == 0
    assert "damaged" in listed.stdout
    assert f"lmassay resume {record.id}" in listed.stderr
    assert lmassay("report", "-o", "r.md", "--results", "results", cwd=folder).returncode == 0
    assert "lmassay resume" in (folder / "r.md").read_text(encoding="utf-8")
    shown = lmassay("show", "latest", "--results", "results", cwd=folder)
    assert f"lmassay resume {record.id} --results results" in shown.stdout.replace("\n", " ")
    again = lmassay("resume", record.id, "--results", "results", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert table(folder, "runs", "id, results") == before
    with Store(folder / "results") as store:
        assert store.run("latest").status == "done"


@pytest.mark.parametrize("column", ["signature", "label", "model", "task", "provenance", "config", "name", "sweep"])
def test_a_changed_record_is_damaged(folder, column):
    edit(folder, f"UPDATE runs SET {column} = replace({column}, 'e', 'f') || 'x'")
    with Store(folder / "results") as store:
        record = store.run("latest")
    assert (record.status, record.results) == ("damaged", [])
    assert "start a new run" in record.note
    for command in (["ls"], ["show", "latest"], ["report", "-o", "r.html"], ["resume"], ["export", "latest"]):
        done = lmassay(*command, "--results", "results", cwd=folder)
        assert done.returncode in (0, 1, 2)
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET scores = replace(scores, '0.', '0.0')",
        "UPDATE rows SET scores = replace(scores, '0.', '0.0') WHERE position = 1",
        'UPDATE rows SET groups = \'{"x":"y"}\'',
        "UPDATE rows SET state = 'unscored'",
        "UPDATE rows SET id = 'another' WHERE position = 1",
        "UPDATE rows SET digest = NULL WHERE position = 1",
        "DELETE FROM rows WHERE position = 1",
        "INSERT INTO rows SELECT run, 'new', 7, state, inputs, reference, groups, scores, unscored, details, error,"
        " digest, outcomes FROM rows WHERE position = 1",
        'UPDATE rows SET outcomes = \'{"tse":[["laugh/laughs",1.0,1.0]]}\' WHERE position = 1',
    ],
)
def test_changed_scores_are_an_error_and_resume_judges_the_examples_again(folder, statement):
    before = table(folder, "rows")
    edit(folder, statement)
    with Store(folder / "results") as store:
        run = store.run("latest").id
        for read in (store.rows, store.score_rows):
            with pytest.raises(
                StoreError, match=rf"the run {run} is damaged: .*score the examples again .*lmassay resume {run}"
            ):
                list(read(run))
    exported = lmassay("export", run, "--format", "csv", "-o", "rows.csv", "--results", "results", cwd=folder)
    assert exported.returncode == 2
    assert "is damaged" in exported.stderr
    again = lmassay("resume", run, "--results", "results", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert table(folder, "rows") == before


def test_a_changed_text_is_an_error_where_texts_are_read(folder):
    edit(folder, "UPDATE rows SET details = replace(details, 'wonderful', 'dreadful')")
    with Store(folder / "results") as store:
        run = store.run("latest").id
        assert len(list(store.score_rows(run))) == 3
        with pytest.raises(StoreError, match="is damaged"):
            list(store.rows(run))


def test_a_changed_answer_is_asked_for_again(tmp_path):
    with Store(tmp_path / "results", create=True) as store:
        for key in ("a", "b"):
            store.add_response(key, "run", "m", {"verb": "generate"}, Response("yes"))
    edit(tmp_path, "UPDATE responses SET response = replace(response, 'yes', 'no') WHERE key = 'a'")
    with Store(tmp_path / "results") as store:
        assert store.cached(["a", "b"]) == {"b": Response("yes")}
        assert store.cached_keys(["a", "b"]) == {"b"}


def test_a_run_that_is_not_finished_is_whole(tmp_path):
    with Store(tmp_path / "results", create=True) as store:
        store.add_run(NewRun("r", "s", "n", "t", "m", "l", {}, "sig", Provenance(), 2))
        store.add_rows("r", [(0, Row(Example("1", {}), "scored", Score({"a": 1.0})))])
        assert store.rows_are_whole("r")
        store.set_results("r", [Result("a", "overall", 1.0, None, None, 1)])
        store.add_rows("r", [(1, Row(Example("2", {}), "scored", Score({"a": 1.0})))])
        assert store.rows_are_whole("r")
        assert len(list(store.score_rows("r"))) == 2
        assert store.drop_damaged_rows("r") == 0


@pytest.mark.fault(5)
def test_one_damaged_run_leaves_the_others_alone(folder):
    edit(folder, CHANGED_RESULT)
    done = lmassay("run", "c.yaml", "--results", "results", cwd=folder)
    assert done.returncode == 0, done.stderr
    with Store(folder / "results") as store:
        assert [record.status for record in store.runs()] == ["damaged", "done"]


def test_a_gate_does_not_judge_a_damaged_run(folder):
    lmassay("run", "c.yaml", "--results", "results", cwd=folder)
    edit(folder, CHANGED_RESULT)
    with Store(folder / "results") as store:
        first, second = (record.id for record in store.runs())
    gate = ("--fail-if", "success worse by 0.1")
    done = lmassay("compare", first, second, *gate, "--results", "results", cwd=folder)
    assert done.returncode != 0
    assert "is damaged" in done.stderr + done.stdout


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_a_store_without_digests_is_read_and_carried_on(folder, version):
    downgrade(folder / "results" / STORE_FILE, version)
    with Store(folder / "results") as store:
        run = store.run("latest")
        assert run.status == "done"
        assert len(list(store.rows(run.id))) == len(list(store.score_rows(run.id))) == 3
        assert store.rows_are_whole(run.id)
    done = lmassay("run", "c.yaml", "--results", "results", cwd=folder)
    assert done.returncode == 0, done.stderr
    with Store(folder / "results") as store:
        assert [record.results for record in store.runs()] == [run.results] * 2
        assert len(list(store.rows(run.id))) == 3
