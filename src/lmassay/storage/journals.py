"""The files that SQLite keeps next to a database, which somebody else may have made."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LOG_SUFFIXES = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps next to the database."""
# The magic number of a rollback journal, which SQLite also writes after the name of another journal.
_MAGIC = bytes.fromhex("d9d505f920a163d7")
_NOT_FILES = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def logs_of(file: Path) -> list[Path]:
    """Return the files that SQLite keeps next to a database, whether they exist or not."""
    # SQLite follows a link first, and looks for them where the file is.
    real = os.path.realpath(file)
    return [Path(f"{real}{suffix}") for suffix in LOG_SUFFIXES]


def obstacle(file: Path) -> str:
    """Return why SQLite could not open a database or the files next to it, with advice; an empty text if it could.

    SQLite refuses a link in place of a log, and would wait forever for somebody to write to a pipe.
    """
    try:
        logs = logs_of(file)
        for log in logs:
            if log.is_symlink():
                return f"{log} is a link; delete the link"
        problems = [_problem_of(path) for path in (file, *logs)]
    except ValueError:
        # No file can have this name, e.g. because of a zero byte; whoever opens the folder gets an error that says so.
        return ""
    return next(filter(None, problems), "")


def _problem_of(path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ""
        return f"cannot open {path}: {error.strerror or error}; check its name and its permissions"
    for is_kind, what in _NOT_FILES.items():
        if is_kind(mode):
            return f"{path} is {what}, not a file; remove it"
    return ""


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


def has_open_journal(file: Path) -> bool:
    """Return whether a transaction was not finished, so that SQLite will undo it when it opens the file for writing."""
    try:
        with journal_of(file).open("rb") as stream:
            # SQLite ignores a journal that begins with a zero.
            return stream.read(1) not in (b"", b"\0")
    except (OSError, ValueError):
        return False
