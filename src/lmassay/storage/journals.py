"""Journals of SQLite files that somebody else made."""

from __future__ import annotations

import os
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")


def journal_of(file: Path) -> Path:
    """Return the file with which SQLite undoes an unfinished transaction."""
    # SQLite follows a link first, and looks for the journal where the file is.
    return Path(f"{os.path.realpath(file)}-journal")


def has_foreign_journal(file: Path) -> bool:
    """Return whether the journal of a SQLite file names another file, which SQLite would delete when it opens the file.

    SQLite writes such a name at the end of a journal, and the magic number after it, if a transaction changes several
    files. No transaction of lmassay does. In a folder of somebody else, the name may be that of any file.
    """
    journal = journal_of(file)
    try:
        if not journal.is_file():
            return False
        with journal.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - len(_MAGIC)))
            return stream.read() == _MAGIC
    except (OSError, ValueError):
        # SQLite cannot read it either, or the name is one that no file can have; SQLite says so.
        return False
