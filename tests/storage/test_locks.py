"""A lock whose file somebody else made is refused with a remedy, and nobody waits for it without end."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lmassay.errors import StoreError
from lmassay.storage.locks import LOCKS, exclusive, is_held
from tests.compare_kit import add, rates
from tests.helpers import lmassay

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files, and links need rights")


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made, pytest.MonkeyPatch.context() as patch:
        # The path of a socket must be short.
        patch.chdir(path.parent)
        made.bind(path.name)


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/null")


NOT_FILES = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a link": link_to_device,
}


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / LOCKS / "one"
    file.parent.mkdir()
    return file


def written_lock(lock: Path) -> Path:
    """Write a lock that is not empty: only then does SQLite read its journal."""
    with closing(sqlite3.connect(lock)) as database:
        database.execute("CREATE TABLE t (x)")
    return lock


def require_remedy(lock: Path, obstacle: Path, what: str) -> None:
    with pytest.raises(StoreError) as caught, exclusive(lock, "the run one"):
        pass
    assert f"cannot lock the run one: {obstacle} is {what}" in str(caught.value)
    assert str(caught.value).endswith(("remove it", "delete the link"))
    assert not is_held(lock)
    # The remedy works.
    obstacle.rmdir() if obstacle.is_dir() else obstacle.unlink()
    with exclusive(lock, "the run one"):
        assert is_held(lock)


@pytest.mark.parametrize("what", NOT_FILES)
def test_what_is_not_a_file_in_the_place_of_a_lock_is_named(lock, what):
    NOT_FILES[what](lock)
    require_remedy(lock, lock, what)


@pytest.mark.parametrize("what", NOT_FILES)
@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_what_is_not_a_file_next_to_a_lock_is_named(lock, what, suffix):
    written_lock(lock)
    obstacle = lock.with_name(f"{lock.name}{suffix}")
    NOT_FILES[what](obstacle)
    require_remedy(lock, obstacle, what)


def test_a_lock_with_other_content_is_refused_with_a_remedy(lock):
    lock.write_text("notes", encoding="utf-8")
    with pytest.raises(StoreError, match=r"lmassay did not write .*one; delete it"), exclusive(lock, "the run one"):
        pass
    assert lock.read_text(encoding="utf-8") == "notes"


def test_a_file_in_the_place_of_the_folder_of_locks_is_named(tmp_path):
    (tmp_path / LOCKS).touch()
    with (
        pytest.raises(StoreError, match=r"\.locks is not a folder; remove it"),
        exclusive(tmp_path / LOCKS / "one", "the run one"),
    ):
        pass


def test_a_run_whose_lock_has_a_pipe_as_journal_is_listed_as_interrupted(tmp_path, lock):
    add(tmp_path, "one", rates([1, 0]), status="running")
    os.mkfifo(written_lock(lock).with_name("one-journal"))
    assert "interrupted" in lmassay("ls", "--results", tmp_path).stdout
