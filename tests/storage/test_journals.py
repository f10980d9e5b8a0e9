"""A journal in a results folder of somebody else deletes no file of this machine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from lmassay.errors import StoreError
from lmassay.storage.database import STORE_FILE
from lmassay.storage.journals import has_foreign_journal, has_open_journal
from lmassay.storage.locks import LOCKS, exclusive
from lmassay.storage.store import Store
from tests.compare_kit import add, rates
from tests.helpers import lmassay

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_PAGE = 4096


def journal_that_names(victim, database):
    """Return what SQLite leaves behind if it is killed while it changes several files; ``victim`` is their list."""
    header = _MAGIC + struct.pack(">5I", 0, 0, database.stat().st_size // _PAGE, 512, _PAGE)
    name = os.fsencode(victim)
    checksum = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFFFFFF
    page_of_locks = 0x40000000 // _PAGE + 1
    end = struct.pack(">I", page_of_locks) + name + struct.pack(">II", len(name), checksum) + _MAGIC
    return header.ljust(512, b"\0") + end


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "thesis.txt"
    file.write_text("precious", encoding="utf-8")
    return file


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    add(folder, "one", rates([1, 0]))
    with closing(sqlite3.connect(folder / STORE_FILE)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return folder


def test_sqlite_itself_deletes_the_file(results, victim):
    """If it no longer does, the check is not needed any more."""
    file = results / STORE_FILE
    (results / f"{STORE_FILE}-journal").write_bytes(journal_that_names(victim, file))
    with closing(sqlite3.connect(file)) as database:
        database.execute("SELECT COUNT(*) FROM runs").fetchone()
    assert not victim.exists()


@pytest.mark.parametrize("is_link", [False, True])
def test_the_journal_of_a_store_deletes_nothing_and_can_be_repaired(results, victim, is_link):
    file = results / STORE_FILE
    if is_link:
        file = file.rename(results / "other.sqlite")
        (results / STORE_FILE).symlink_to(file)
    journal = file.with_name(f"{file.name}-journal")
    journal.write_bytes(journal_that_names(victim, file))
    done = lmassay("ls", "--results", results)
    assert done.returncode == 2
    assert "its journal names another file" in done.stderr
    assert lmassay("doctor", "--results", results).returncode == 1
    lmassay("doctor", "--results", results, "--fix")
    done = lmassay("ls", "--results", results)
    assert (done.returncode, "one" in done.stdout) == (0, True)
    assert victim.exists()


def test_the_journal_of_a_lock_deletes_nothing(tmp_path, victim):
    lock = tmp_path / LOCKS / "one"
    lock.parent.mkdir()
    with closing(sqlite3.connect(lock)) as database:
        database.execute("CREATE TABLE t (x)")
    journal = lock.with_name("one-journal")
    journal.write_bytes(journal_that_names(victim, lock))
    with pytest.raises(StoreError, match="delete it"), exclusive(lock, "the run one"):
        pass
    assert victim.exists()
    journal.unlink()
    with exclusive(lock, "the run one"):
        pass


def leave_journal(results):
    """Leave the file and its journal as a process does that is killed in a transaction."""
    file = results / STORE_FILE
    journal = results / f"{STORE_FILE}-journal"
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        database.execute("UPDATE runs SET label = 'unfinished'")
        database.execute("CREATE TABLE filler AS SELECT randomblob(100000)")
        left_behind = file.read_bytes(), journal.read_bytes()
    file.write_bytes(left_behind[0])
    journal.write_bytes(left_behind[1])


def test_the_journal_of_a_killed_process_is_applied(results):
    leave_journal(results)
    assert not has_foreign_journal(results / STORE_FILE)
    assert has_open_journal(results / STORE_FILE)
    with Store(results) as store:
        assert store.run("one").label != "unfinished"
    assert not has_open_journal(results / STORE_FILE)


def test_a_run_is_not_called_damaged_because_a_journal_cannot_be_applied(results, tmp_path, monkeypatch):
    leave_journal(results)
    # Tests may run as root, who can write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK or Path(path) != results)
    done = lmassay("ls", "--results", results)
    assert (done.returncode, done.stdout) == (2, "")
    assert "copy the folder" in done.stderr
    shutil.copytree(results, tmp_path / "copy")
    done = lmassay("ls", "--results", tmp_path / "copy")
    assert (done.returncode, "damaged" in done.stdout) == (0, False)
