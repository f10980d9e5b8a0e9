"""A lock on a file that ends with the process that holds it, however that ends, on every platform."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lmassay.errors import StoreError


@contextmanager
def exclusive(file: Path, what: str) -> Iterator[None]:
    """Hold ``file``, which is made if need be; ``what`` names in errors that which is locked by it."""
    try:
        file.parent.mkdir(exist_ok=True, parents=True)
        # An exclusive SQLite transaction is the one lock that works alike everywhere. The wait outlasts a reader that
        # looks whether the holder is alive.
        held = sqlite3.connect(file, timeout=2, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreError(f"another process is working on {what}; wait for it or stop it") from None
        raise StoreError(f"cannot lock {what} in {file.parent}: {error}") from error
    except OSError as error:
        raise StoreError(f"cannot lock {what} in {file.parent}: {error.strerror or error}") from error
    try:
        yield
    finally:
        held.close()


def is_held(file: Path) -> bool:
    """Whether some process holds the lock."""
    if not file.is_file():
        return False
    # Reading needs a shared lock only: whoever is just taking it waits for that and goes on.
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", timeout=0, uri=True)) as reader:
            reader.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        # Not locked but gone: its holder finished and tidied up at this very moment.
        return "locked" in str(error)
    return False
