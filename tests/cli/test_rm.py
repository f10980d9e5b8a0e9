"""``lmassay rm`` removes what was asked for, after a confirmation."""

from __future__ import annotations

import json

import pytest

from lmassay.storage.store import Store
from lmassay.types import Annotation, Response
from tests.compare_kit import add, rates
from tests.helpers import lmassay
from tests.terminal import in_terminal


@pytest.fixture
def folder(tmp_path):
    add(tmp_path, "20260101-000000-x-aaaaaa", rates([1, 0]))
    add(tmp_path, "20260101-000000-x-bbbbbb", rates([1, 0]), status="failed")
    add(tmp_path, "20260101-000000-x-cccccc", rates([1, 0]), status="failed", model="other")
    with Store(tmp_path, create=True) as store:
        store.add_response("key", "20260101-000000-x-aaaaaa", "model", {}, Response("yes"))
    return tmp_path


def endings(folder):
    with Store(folder) as store:
        return [record.id[-1] for record in store.runs()]


def test_named_runs_are_removed(folder):
    done = lmassay("rm", "aaaaaa", "cccccc", "--yes", "--results", folder)
    assert done.returncode == 0, done.stderr
    assert "removed 2 runs; 1 cached answer that no other run uses is kept for later runs" in done.stderr
    assert endings(folder) == ["b"]


def test_runs_are_selected_as_in_ls(folder):
    lmassay("rm", "--status", "failed", "--model", "other", "--yes", "--results", folder)
    assert endings(folder) == ["a", "b"]


def test_answers_are_deleted_on_request(folder):
    done = lmassay("rm", "aaaaaa", "--answers", "--yes", "--json", "--results", folder)
    assert json.loads(done.stdout) == {
        "runs": ["20260101-000000-x-aaaaaa"],
        "answers": 1,
        "kept_answers": 0,
        "models": 0,
        "models_are_elsewhere": False,
    }


def test_without_a_terminal_nothing_is_removed_unless_yes_is_given(folder):
    done = lmassay("rm", "--status", "failed", "--results", folder)
    assert done.returncode == 2
    assert "2 runs would be removed; add --yes" in done.stderr
    assert endings(folder) == ["a", "b", "c"]


def test_a_command_without_runs_and_filters_is_refused(folder):
    done = lmassay("rm", "--yes", "--results", folder)
    assert done.returncode == 2
    assert "name the runs to remove, or select them" in done.stderr
    assert endings(folder) == ["a", "b", "c"]


def test_a_filter_that_no_run_meets_is_an_error(folder):
    done = lmassay("rm", "--tag", "none", "--yes", "--results", folder)
    assert done.returncode == 2
    assert "no run in" in done.stderr


def test_a_run_in_progress_is_refused(folder):
    with Store(folder, create=True) as store:
        run = store.run("aaaaaa").id
        store.set_status(run, "running")
        with store.lock(run):
            done = lmassay("rm", "aaaaaa", "bbbbbb", "--yes", "--results", folder)
    assert done.returncode == 2
    assert f"the run {run} is in progress" in done.stderr
    assert endings(folder) == ["a", "b", "c"]


def test_a_missing_folder_is_not_created(tmp_path):
    done = lmassay("rm", "latest", "--yes", "--results", tmp_path / "none")
    assert done.returncode == 2
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("answer", "code", "remaining"), [("y\n", 0, ["a"]), ("n\n", 1, ["a", "b", "c"])])
def test_on_a_terminal_the_runs_are_listed_and_the_user_is_asked(folder, answer, code, remaining):
    shown = in_terminal("rm", "--status", "failed", "--results", folder, typed=answer)
    assert shown.returncode == code, shown.screen
    assert "bbbbbb" in shown.screen
    assert "Remove 2 runs? [y/N]" in shown.screen
    assert endings(folder) == remaining


def test_the_listed_runs_show_no_key_that_an_old_version_stored(folder, monkeypatch):
    key = "SENTINEL0a1b2c3d"
    with monkeypatch.context() as earlier:
        earlier.setattr("lmassay.storage.store.redact", lambda text: text)
        with Store(folder, create=True) as store:
            store.annotate("20260101-000000-x-bbbbbb", Annotation("", (key,)))
    command = ["rm", "bbbbbb", "--results", folder]
    shown = in_terminal(*command, typed="n\n", columns=160, env={"MY_API_KEY": key})
    assert "[redacted]" in shown.screen
    assert "SENTINEL" not in shown.screen
