"""What the view knows about a folder that other processes change."""

from __future__ import annotations

import shutil
import sqlite3
import time

from lmassay.storage.progress import ProgressFile, RunProgress
from lmassay.storage.store import STORE_FILE, Store
from lmassay.view import folder as folder_module
from lmassay.view.folder import ResultsFolder
from tests.view.kit import add_run, row, sample_folder, viewed


def status_of(results: ResultsFolder, run: str) -> str:
    results.forget_snapshot()
    state = results.snapshot().run(run)
    assert state is not None
    return state.record.status


def test_a_run_is_running_as_long_as_its_process_holds_the_lock(tmp_path):
    results = ResultsFolder(tmp_path)
    with Store(tmp_path, create=True) as store:
        with store.lock("r1"):
            add_run(store, "r1", status="running", scores={"a": 1.0, "b": 0.0, "c": 1.0})
            store.add_rows("r1", [(0, row("a", 1.0)), (1, row("b", None, error="HTTP 500"))])
            state = results.snapshot().run("r1")
            assert state is not None
            assert state.record.status == "running"
            assert (state.scored, state.unscored, state.errors, state.done, state.total) == (1, 0, 1, 2, 3)
            assert not state.can_be_resumed
        # The process is gone, but no file has changed.
        assert status_of(results, "r1") == "interrupted"
        with store.lock("r1"):
            store.set_status("r1", "running")
            assert status_of(results, "r1") == "running"
        add_run(store, "r2")
        assert status_of(results, "r2") == "done"


def test_examples_that_are_answered_but_not_stored_yet_count_as_done(tmp_path, monkeypatch):
    from lmassay.storage import progress

    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    with Store(tmp_path, create=True) as store, store.lock("r1"):
        add_run(store, "r1", status="running", scores=dict.fromkeys("abcdef", 1.0))
        recorded = ProgressFile(tmp_path, "r1")
        recorded.update(0, 6)
        recorded.update(4.5, 6)
        state = ResultsFolder(tmp_path).snapshot().run("r1")
        assert state is not None
        assert (state.done, state.stored, state.total) == (4, 0, 6)
        assert state.seconds_left is not None
        recorded.remove()
        state = ResultsFolder(tmp_path).snapshot().run("r1")
        assert state is not None
        assert state.done == 0
    assert not (tmp_path / ".progress").exists()


def test_a_waiting_run_can_be_resumed_when_its_command_has_ended(tmp_path):
    results = ResultsFolder(tmp_path)
    with Store(tmp_path, create=True) as store:
        with store.lock_sweep("s"):
            add_run(store, "r1", status="waiting", sweep="s")
            state = results.snapshot().run("r1")
            assert state is not None
            assert state.in_progress
            assert state.trainings is None
        results.forget_snapshot()
        state = results.snapshot().run("r1")
        assert state is not None
        assert state.can_be_resumed


def test_a_waiting_run_shows_the_trainings_that_it_waits_for(tmp_path, monkeypatch):
    from lmassay.storage import progress

    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    with Store(tmp_path, create=True) as store, store.lock_sweep("s"):
        add_run(store, "r1", status="waiting", sweep="s")
        ProgressFile(tmp_path, progress.trainings_of("s")).update(3, 12)
        with viewed(tmp_path) as browser:
            assert "3 of 12 trainings" in browser.page("/")


def test_a_folder_that_does_not_exist_is_empty_until_it_does(tmp_path):
    results = ResultsFolder(tmp_path / "later")
    assert results.snapshot().runs == ()
    assert not results.snapshot().problem
    assert not (tmp_path / "later").exists()
    sample_folder(tmp_path / "later")
    results.forget_snapshot()
    assert len(results.snapshot().runs) == 3
    shutil.rmtree(tmp_path / "later")
    results.forget_snapshot()
    assert results.snapshot().runs == ()


def test_a_file_that_is_just_being_created_is_empty(tmp_path):
    (tmp_path / STORE_FILE).touch()
    assert ResultsFolder(tmp_path).snapshot() == folder_module.Snapshot(version="empty")


def test_a_store_of_a_newer_version_is_a_problem_that_says_what_to_do(tmp_path):
    sample_folder(tmp_path)
    with sqlite3.connect(tmp_path / STORE_FILE) as file:
        file.execute("PRAGMA user_version = 99")
        file.execute("UPDATE digests SET value = '99' WHERE run = ''")
    file.close()
    assert "newer lmassay" in ResultsFolder(tmp_path).snapshot().problem


def test_a_damaged_run_is_named_and_the_others_are_shown(tmp_path):
    sample_folder(tmp_path)
    with sqlite3.connect(tmp_path / STORE_FILE) as file:
        file.execute("UPDATE runs SET results = '[]' WHERE id LIKE '%aaaaaa'")
        file.execute("DELETE FROM rows WHERE run LIKE '%cccccc' AND position = 1")
    file.close()
    damaged, whole, incomplete = ResultsFolder(tmp_path).snapshot().runs
    assert damaged.record.status == "damaged"
    assert "lmassay resume" in damaged.problem
    assert (whole.record.status, whole.scored) == ("done", 3)
    # It has no results to compare the number of its examples with.
    assert (incomplete.scored, incomplete.errors, incomplete.problem) == (1, 1, "")


def test_the_folder_is_read_again_only_if_something_has_changed(tmp_path, monkeypatch):
    sample_folder(tmp_path)
    results = ResultsFolder(tmp_path)
    reads: list[float] = []
    read = Store.runs

    def counted(store: Store):
        reads.append(time.monotonic())
        return read(store)

    monkeypatch.setattr(Store, "runs", counted)
    monkeypatch.setattr(folder_module, "_SECONDS_TO_KEEP", -1.0)
    first = results.snapshot()
    assert results.snapshot() is first
    assert len(reads) == 1
    with Store(tmp_path, create=True) as store:
        add_run(store, "r9")
    assert results.snapshot().run("r9") is not None
    assert results.snapshot().version != first.version


def test_reading_cannot_change_the_folder_and_does_not_make_a_writer_wait(tmp_path):
    sample_folder(tmp_path)
    with ResultsFolder(tmp_path).store() as reader, Store(tmp_path, create=True) as writer:
        before = len(reader.runs())
        add_run(writer, "r9")
        # What a page shows belongs to one moment.
        assert len(reader.runs()) == before
        try:
            reader.database.execute("DELETE FROM runs")
        except sqlite3.OperationalError as error:
            assert "readonly" in str(error)
        else:
            raise AssertionError("a reader could delete runs")


def test_the_remaining_time_is_estimated_from_what_this_process_has_done():
    assert RunProgress(10, 100, began=0.0, done_before=10, updated=5.0).seconds_left() is None
    assert RunProgress(55, None, began=0.0, done_before=10, updated=5.0).seconds_left() is None
    assert RunProgress(55, 100, began=0.0, done_before=10, updated=9.0).seconds_left() == 9.0


def test_a_run_in_which_nothing_could_be_scored_has_nothing_to_resume(tmp_path):
    results = ResultsFolder(tmp_path)
    with Store(tmp_path, create=True) as store:
        add_run(store, "r1", status="incomplete")
        add_run(store, "r2", status="incomplete", scores={"a": None})
        store.add_rows("r2", [(0, row("a", None, error="HTTP 500"))])
    results.forget_snapshot()
    states = {state.record.id: state for state in results.snapshot().runs}
    assert not states["r1"].can_be_resumed
    assert states["r2"].can_be_resumed
