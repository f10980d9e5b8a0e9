"""A lock that the operating system releases when the process that holds it ends, even if it is killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lmassay.errors import StoreError
from lmassay.storage.journals import has_foreign_journal, journal_of, obstacle

LOCKS = ".locks"
"""The folder in a results folder with a file for each lock."""
REPAIR_LOCK = "repair"
"""The lock of a process that repairs the results folder."""


@contextmanager
def exclusive(file: Path, what: str, advice: str = "") -> Iterator[None]:
    """Hold a lock within a ``with`` block. The lock file is created if necessary.

    Raises StoreError if another process holds the lock or if the lock file cannot be used. In the message, ``what``
    names what is locked; ``advice`` is added if the lock file cannot be used.
    """
    ending = f"; {advice}" if advice else ""
    # lmassay creates no links. In a folder from somebody else, a link could lead to another file, which would be
    # deleted with the lock.
    for path in (file.parent, file):
        if path.is_symlink():
            raise StoreError(f"cannot lock {what}: {path} is a link; delete the link{ending}")
    if file.parent.exists() and not file.parent.is_dir():
        raise StoreError(f"cannot lock {what}: {file.parent} is not a folder; remove it{ending}")
    problem = obstacle(file)
    if problem:
        raise StoreError(f"cannot lock {what}: {problem}{ending}")
    if has_foreign_journal(file):
        raise StoreError(f"cannot lock {what}: lmassay did not write {journal_of(file)}; delete it{ending}")
    try:
        file.parent.mkdir(exist_ok=True, parents=True)
        # An exclusive SQLite transaction is a lock that works in the same way on all platforms. A process that only
        # checks whether the lock is held (see ``is_held``) blocks it for a moment; the timeout is long enough to wait.
        held = sqlite3.connect(file, timeout=2, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise StoreError(f"another process is working on {what}; wait for it or stop it") from None
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise StoreError(f"cannot lock {what}: lmassay did not write {file}; delete it{ending}") from error
        raise StoreError(f"cannot lock {what} in {file.parent}: {error}{ending}") from error
    except OSError as error:
        raise StoreError(f"cannot lock {what} in {file.parent}: {error.strerror or error}{ending}") from error
    try:
        yield
    finally:
        held.close()


def is_held(file: Path) -> bool:
    """Return whether any process holds the lock."""
    if not file.is_file() or obstacle(file):
        return False
    # Reading fails if another process has an exclusive transaction. The reader itself takes a shared lock for a moment;
    # a process that wants to acquire the exclusive lock at this moment waits until the reader has finished.
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", timeout=0, uri=True)) as reader:
            reader.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        # Any other error means that nobody holds the lock: its holder may just have finished and removed the file.
        return "locked" in str(error)
    return False
