"""Checks the files that SQLite keeps next to a database, before SQLite opens a folder from somebody else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LOG_SUFFIXES = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps next to the database."""
# The magic number of a rollback journal. SQLite also writes it at the end of a journal that names another journal.
_MAGIC = bytes.fromhex("d9d505f920a163d7")
_NOT_FILES = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def logs_of(file: Path) -> list[Path]:
    """Return the paths of the files that SQLite keeps next to a database, whether they exist or not."""
    # If the path of the database is a link, SQLite keeps these files next to the file to which it leads.
    real = os.path.realpath(file)
    return [Path(f"{real}{suffix}") for suffix in LOG_SUFFIXES]


def obstacle(file: Path) -> str:
    """Return why SQLite cannot open a database or the files next to it, with advice; an empty text if it can.

    SQLite refuses to open a link instead of a log. If it opened a pipe, it would wait forever for somebody to write to
    the pipe.
    """
    try:
        logs = logs_of(file)
        for log in logs:
            if log.is_symlink():
                return f"{log} is a link; delete the link"
        problems = [_problem_of(path) for path in (file, *logs)]
    except ValueError:
        # A file cannot have this name, e.g. because of a zero byte. The caller gets an error when it opens the file.
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
    """Return the path of the rollback journal, with which SQLite undoes an unfinished transaction."""
    # If the path of the database is a link, the journal is next to the file to which it leads.
    return Path(f"{os.path.realpath(file)}-journal")


def has_foreign_journal(file: Path) -> bool:
    """Return whether the journal of a SQLite file names another file, which SQLite would delete when it opens the file.

    If a transaction changes several files, SQLite writes such a name and the magic number at the end of a journal. No
    transaction of lmassay does that. In a folder from somebody else, the name may be that of any file.
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
        # SQLite cannot read the journal either, or its name is not valid; SQLite will report this.
        return False


def has_open_journal(file: Path) -> bool:
    """Return whether there is an unfinished transaction, which SQLite undoes when it opens the file for writing."""
    try:
        with journal_of(file).open("rb") as stream:
            # SQLite ignores a journal that begins with a zero.
            return stream.read(1) not in (b"", b"\0")
    except (OSError, ValueError):
        return False
