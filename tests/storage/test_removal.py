"""Runs are removed with everything that belongs to them, and with nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lmassay.errors import StoreError
from lmassay.storage.database import KEPT_MODELS, TABLES_OF_RUN
from lmassay.storage.locks import LOCKS
from lmassay.storage.removal import remove_runs
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import Response
from tests.compare_kit import add, rates


@pytest.fixture
def store(tmp_path):
    for run in ("one", "two"):
        add(tmp_path, run, rates([1, 0]))
    with Store(tmp_path, create=True) as opened:
        yield opened


def use_answer(store, run, key):
    """Record an answer, and that an example of the run used it."""
    if not store.cached_keys([key]):
        store.add_response(key, run, "model", {}, Response("yes"))
    (row, *_) = store.rows(run)
    store.add_rows(run, [(0, row)], {row.example.id: [key]})
    store.set_results(run, store.run(run).results)


def test_nothing_of_a_removed_run_is_left(store):
    (store.folder / ".progress").mkdir()
    (store.folder / ".progress" / "one.json").write_text("{}", encoding="utf-8")
    removal = remove_runs(store, [store.run("one")])
    assert removal.runs == ["one"]
    assert not (store.folder / ".progress").exists()
    for table in TABLES_OF_RUN:
        assert store.database.execute(f"SELECT COUNT(*) FROM {table} WHERE run = 'one'").fetchone() == (0,)
    assert [record.id for record in store.runs()] == ["two"]


def test_the_other_runs_stay_whole(store):
    before = list(store.rows("two"))
    remove_runs(store, [store.run("one")])
    assert list(store.rows("two")) == before
    assert store.damage_of("two") is None


def test_a_run_in_progress_is_refused_and_stays(store):
    store.set_status("one", "running")
    with store.lock("one"), pytest.raises(StoreError, match="the run one is in progress"):
        remove_runs(store, [store.run("one")])
    assert len(store.runs()) == 2


def test_a_run_that_waits_in_a_sweep_in_progress_is_refused(store):
    store.set_status("one", "waiting")
    record = store.run("one")
    with store.lock_sweep(record.sweep), pytest.raises(StoreError, match="is in progress"):
        remove_runs(store, [record])


def test_cached_answers_are_kept_unless_they_are_to_be_deleted(store):
    use_answer(store, "one", "k1")
    removal = remove_runs(store, [store.run("one")])
    assert (removal.answers, removal.kept_answers) == (0, 1)
    assert store.cached_keys(["k1"]) == {"k1"}


def test_only_answers_that_no_other_run_uses_are_deleted(store):
    use_answer(store, "one", "shared")
    use_answer(store, "two", "shared")
    store.add_response("own", "one", "model", {}, Response("no"))
    store.add_response("received by two", "two", "model", {}, Response("no"))
    removal = remove_runs(store, [store.run("one")], with_answers=True)
    assert removal.answers == 1
    assert store.cached_keys(["shared", "own", "received by two"]) == {"shared", "received by two"}


def test_trained_models_that_another_run_keeps_are_not_deleted(store):
    folder = store.folder / KEPT_MODELS
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    (folder / "one.json").write_text(json.dumps({"x": ["a", "b"]}), encoding="utf-8")
    (folder / "two.json").write_text(json.dumps({"x": ["b"]}), encoding="utf-8")
    assert remove_runs(store, [store.run("one")]).models == 1
    assert sorted(path.name for path in folder.iterdir()) == ["b", "two.json"]


def test_a_damaged_run_can_be_removed(store):
    store.database.execute("UPDATE runs SET label = 'changed by hand' WHERE id = 'one'")
    assert store.run("one").status == DAMAGED
    remove_runs(store, [store.run("one")])
    assert [record.id for record in store.runs()] == ["two"]


def test_keys_of_answers_that_cannot_be_read_do_not_prevent_a_removal(store):
    use_answer(store, "one", "k1")
    store.database.execute("UPDATE asked SET keys = X'FF' WHERE run = 'one'")
    remove_runs(store, [store.run("one")])
    assert [record.id for record in store.runs()] == ["two"]


def test_a_run_of_somebody_else_cannot_lead_out_of_the_folder(tmp_path):
    results = tmp_path / "results"
    run = "../../notes"
    add(results, run, rates([1, 0]))
    for folder in (".progress", KEPT_MODELS):
        (results / folder).mkdir()
    precious = [tmp_path / "notes.json", tmp_path / "notes"]
    for file in precious:
        file.write_bytes(b"")
    with Store(results, create=True) as store:
        remove_runs(store, [store.run(run)])
        assert store.runs() == []
    assert all(file.exists() for file in precious)


@pytest.mark.parametrize(
    "listing", ['{"x": [".."]}', '{"x": [""]}', '{"x": ["."]}', '{"x": ["a/../.."]}', "[]", "{", '{"x": 1}']
)
def test_a_strange_list_of_models_deletes_nothing_else(store, listing):
    folder = store.folder / KEPT_MODELS
    (folder / "a").mkdir(parents=True)
    (folder / "one.json").write_text(listing, encoding="utf-8")
    assert remove_runs(store, [store.run("one")]).models == 0
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert [record.id for record in store.runs()] == ["two"]


def test_no_model_is_deleted_if_the_list_of_another_run_cannot_be_read(store):
    folder = store.folder / KEPT_MODELS
    (folder / "a").mkdir(parents=True)
    (folder / "one.json").write_text('{"x": ["a"]}', encoding="utf-8")
    (folder / "two.json").write_text("{", encoding="utf-8")
    assert remove_runs(store, [store.run("one")]).models == 0
    assert (folder / "a").is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_no_model_is_deleted_if_the_list_of_another_run_is_a_pipe(store, monkeypatch):
    folder = store.folder / KEPT_MODELS
    (folder / "a").mkdir(parents=True)
    (folder / "one.json").write_text('{"x": ["a"]}', encoding="utf-8")
    os.mkfifo(folder / "two.json")
    read_text = Path.read_text

    def read(file: Path, encoding: str) -> str:
        assert file.is_file(), f"reading {file} would never end"
        return read_text(file, encoding=encoding)

    monkeypatch.setattr(Path, "read_text", read)
    assert remove_runs(store, [store.run("one")]).models == 0
    assert (folder / "a").is_dir()


@pytest.mark.skipif(os.name == "nt", reason="creating links needs rights on Windows")
@pytest.mark.parametrize("name", [KEPT_MODELS, ".progress"])
def test_nothing_is_deleted_behind_a_link(store, tmp_path_factory, name):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "thesis").mkdir()
    (elsewhere / "one.json").write_text('{"x": ["thesis"]}', encoding="utf-8")
    (store.folder / name).symlink_to(elsewhere)
    removal = remove_runs(store, [store.run("one")])
    assert removal.models == 0
    assert ("because models is a link" in removal.describe()) == (name == KEPT_MODELS)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["one.json", "thesis"]


@pytest.mark.skipif(os.name == "nt", reason="creating links needs rights on Windows")
def test_a_folder_of_locks_that_is_a_link_is_refused(store, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "one").touch()
    (store.folder / LOCKS).symlink_to(elsewhere)
    with pytest.raises(StoreError, match=r"\.locks is a link; delete the link"):
        remove_runs(store, [store.run("one")])
    assert (elsewhere / "one").exists()


def test_runs_whose_names_differ_in_unsafe_characters_only_are_removed_together(tmp_path):
    names = ["a/b", "a\\b", "a__b", "x" * 200, "x" * 201]
    for name in names:
        add(tmp_path, name, rates([1, 0]))
    with Store(tmp_path, create=True) as store:
        assert remove_runs(store, store.runs()).runs == names
        assert store.runs() == []
