"""The SQLite file of a results folder: how it is opened, created, updated to the current schema and copied."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from lmassay.errors import DamageError, StoreError
from lmassay.redaction import excerpt
from lmassay.storage.batches import BATCHES
from lmassay.storage.commands import command_line, command_on_results
from lmassay.storage.digests import decoded_cell
from lmassay.storage.journals import has_foreign_journal, has_open_journal, logs_of, obstacle
from lmassay.storage.migration import add_missing_digests

STORE_FILE = "lmassay.sqlite"
"""The SQLite file inside the results folder."""
KEPT_MODELS = "models"
"""The folder inside the results folder with the trained models that runs kept."""
SCHEMA = 7
APPLICATION_ID = 0x6C6D6173  # "lmas"
# Tables with long texts have a rowid: in a table WITHOUT ROWID, every row of more than a kilobyte takes a whole page.
TABLES = """
CREATE TABLE runs (
  id TEXT PRIMARY KEY, sweep TEXT NOT NULL, name TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL,
  label TEXT NOT NULL, status TEXT NOT NULL, config TEXT NOT NULL, signature TEXT NOT NULL,
  provenance TEXT NOT NULL, results TEXT NOT NULL DEFAULT '[]', note TEXT NOT NULL DEFAULT '',
  planned INTEGER, created TEXT NOT NULL, finished TEXT
);
CREATE TABLE responses (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, run TEXT NOT NULL,
  created TEXT NOT NULL
);
CREATE TABLE rows (
  run TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, state TEXT NOT NULL, inputs TEXT NOT NULL,
  reference TEXT NOT NULL, groups TEXT NOT NULL, scores TEXT NOT NULL, unscored TEXT NOT NULL, details TEXT NOT NULL,
  error TEXT, PRIMARY KEY (run, id)
);
CREATE INDEX rows_in_order ON rows (run, position);
"""
TABLES_OF_RUN = ("rows", "batches", "spending", "asked", "digests")
"""The tables in which each row belongs to one run. Not ``responses``, because runs share them."""
# Since schema 2. If the price of one answer is unknown, so is the sum: in SQL, adding NULL gives NULL.
SPENDING = """
CREATE TABLE IF NOT EXISTS spending (
  run TEXT PRIMARY KEY, answers INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, usd REAL
) WITHOUT ROWID
"""
# Since schema 3: the cache keys of the responses to an example's requests.
ASKED = "CREATE TABLE IF NOT EXISTS asked (run TEXT, id TEXT, keys TEXT NOT NULL, PRIMARY KEY (run, id)) WITHOUT ROWID"
OWN_ANSWER_MARK = "@"
"""If two merged folders have different answers to the same request, one of them is stored under its usual cache key,
this mark and a suffix; see ``merging``."""
# Since schema 4: digests of the parts of a run ("record", "results"), and the number of its rows ("rows"). The digests
# of rows and answers are in a column of their tables.
DIGESTS = """
CREATE TABLE IF NOT EXISTS digests (
  run TEXT, part TEXT, value TEXT NOT NULL, PRIMARY KEY (run, part)
) WITHOUT ROWID
"""
_FIRST_SCHEMA_WITH_SPENDING = 2
_FIRST_SCHEMA_WITH_ASKED = 3
_FIRST_SCHEMA_WITH_DIGESTS = 4
# Since schema 5: the table ``rows`` has a column ``outcomes``. For the few metrics that have outcomes, it stores the
# metric's mean for each label within an example, such as each verb pair.
_FIRST_SCHEMA_WITH_OUTCOMES = 5
# Since schema 6: batches of scored examples as columns, see lmassay.storage.batches.
_FIRST_SCHEMA_WITH_BATCHES = 6
# Since schema 7: digests of everything that is shown, see lmassay.storage.digests. Anything without one is damaged.
_FIRST_SCHEMA_WITH_ALL_DIGESTS = 7
# The table of digests also records the number of the schema, with this part and an empty run.
_SCHEMA_PART = "schema"
_TABLES_OF_EVERY_SCHEMA = {"runs", "rows", "responses"}
OWN_TABLES = {*_TABLES_OF_EVERY_SCHEMA, *TABLES_OF_RUN}
# Keywords of views, virtual tables, computed columns and defaults, and CHECK constraints. The statements that create
# lmassay's own tables contain none of them.
_COMPUTED = re.compile(r"\b(?:VIRTUAL|VIEW|GENERATED|AS|CHECK|WHERE)\b|\bDEFAULT\s*\(", re.IGNORECASE)
# An index that calls no functions, with or without a WHERE clause: the only pair of brackets has its columns, and there
# is no operator that SQLite implements as a function.
_PLAIN_INDEX = re.compile(r"(?!.*\b(?:LIKE|GLOB|REGEXP|MATCH)\b)[^()]*\([^()]*\)[^()]*", re.IGNORECASE | re.DOTALL)
_MAX_MESSAGE_LENGTH = 200
_MAX_NAME_LENGTH = 40
# The primary result codes of SQLite that do not mean damage: the cause is the disk, the operating system or another
# process, or (SQLITE_AUTH) a view or trigger that somebody added and lmassay refuses to run.
_NOT_DAMAGE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOMEM,
}


# SQLite reports these errors instead of SQLITE_FULL if the file must not grow, for example because of a limit.
_WRITE_ERRORS = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
}
# EDQUOT, an exceeded disk quota, is not defined on every system.
_FULL_ERRNOS = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class _Connection(sqlite3.Connection):
    """A connection that raises only SQLite's own errors, even if the file is damaged."""

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """Execute an SQL statement."""
        try:
            return super().execute(statement, values)
        except UnicodeDecodeError as error:
            # SQLite's message, or the name of a column, contains bytes of a damaged schema table.
            raise sqlite3.DatabaseError("the schema table is not UTF-8") from error


def connect(file: Path | str, **options: Any) -> sqlite3.Connection:
    """Open a SQLite file that may be damaged or made by somebody else. ``file`` is a Path, or a URI as a text."""
    # The check is not necessary for URIs: all of them are opened read-only, so SQLite does not apply a journal.
    if isinstance(file, Path) and has_foreign_journal(file):
        raise sqlite3.DatabaseError("its journal names another file, which SQLite would delete")
    connection = sqlite3.connect(file, factory=_Connection, **options)
    connection.set_authorizer(_only_own_statements)
    # With this setting, an index or column of the file cannot call SQL functions that have side effects.
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _only_own_statements(
    action: int, argument: str | None, other: str | None, database: str | None, view_or_trigger: str | None
) -> int:
    """SQLite's authorizer callback: refuse everything that a view or a trigger of the file does.

    lmassay writes neither. In a file from somebody else, they are programs: reading a view may never end. SQLite
    reports a common table expression (``WITH name AS …``) like a view, so lmassay's own statements use subqueries.
    """
    return sqlite3.SQLITE_OK if view_or_trigger is None else sqlite3.SQLITE_DENY


def require_plain_tables(connection: sqlite3.Connection, file: Path) -> None:
    """Raise StoreError if a table of lmassay is a view or virtual, or if the table or an index of it computes values.

    In such a file, reading a table would run a program that somebody else wrote. lmassay never writes such tables, so
    this is not damage that could be repaired. Tables and views with other names, which a user may have added, are not
    used; triggers are not run.
    """
    # Type and name are reliable, because SQLite refuses a file in which they contradict the statement.
    query = (
        "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master"
    )
    for row in connection.execute(query).fetchall():
        kind, name, table, statement = map(decoded_cell, row)
        # Names of tables are not case-sensitive in SQLite.
        kind = kind.lower()
        if table.lower() not in OWN_TABLES:
            continue
        shown_name = excerpt(name, _MAX_NAME_LENGTH)
        if kind in ("table", "view") and _COMPUTED.search(statement):
            raise StoreError(
                f"{file}: '{shown_name}' is not a plain table as lmassay writes it, so lmassay does not use the file; "
                "ask for another copy of the folder, or choose another --results folder"
            )
        # SQLite creates the index of a primary key itself, so it has no statement.
        if kind == "index" and statement and not _PLAIN_INDEX.fullmatch(statement):
            raise StoreError(
                f"{file}: the index '{shown_name}' may compute values, so lmassay does not use the file; if the index "
                f'is yours, remove it with SQLite (DROP INDEX "{shown_name}"), otherwise ask for another copy of the '
                "folder"
            )


class Database:
    """The open file. Statements are committed one by one unless they are in a :meth:`transaction`."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the file in a results folder. With ``create``, it is created if necessary, and an old schema updated."""
        self.folder = folder
        self.file = folder / STORE_FILE
        problem = obstacle(self.file)
        if problem:
            raise StoreError(f"{problem}, or choose another --results folder")
        if create:
            _create_and_check_writable(folder)
        elif not self.file.is_file():
            raise StoreError(f"there are no results in {folder}; run something first, or give --results FOLDER")
        with plain_errors(self.file):
            self.connection = self._connect()
            try:
                self._open_schema(create)
            except sqlite3.OperationalError as error:
                if create or not _is_full(error) or self._has_log():
                    raise
                # On a full disk, the file can still be read if SQLite writes no files next to it.
                self.connection.close()
                self.connection = self._connect_to_file_only()
                self._open_schema(create)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute an SQL statement."""
        return self.connection.execute(statement, values)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Execute an SQL statement once for each item."""
        self.connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all statements of a ``with`` block together, or none if an error ends it."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:
                self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def all_digests(self) -> dict[str, dict[str, str]]:
        """Return a dict from run to a dict from part (such as ``results``) to digest."""
        digests: dict[str, dict[str, str]] = {}
        if not self.has_digests:
            return digests
        # The cells are read as bytes: otherwise, a single text that is not UTF-8 would abort the query, and all later
        # digests would be missing.
        query = "SELECT CAST(run AS BLOB), CAST(part AS BLOB), CAST(value AS BLOB) FROM digests"
        with suppress(sqlite3.DatabaseError):
            # If digests cannot be read, they are missing, which makes their runs damaged.
            for columns in self.execute(query):
                run, part, value = map(decoded_cell, columns)
                if run:
                    digests.setdefault(run, {})[part] = value
        return digests

    def digests(self, run: str) -> dict[str, str]:
        """Return a dict from part (such as ``results``) to the digest of this part of a run."""
        if not self.has_digests:
            return {}
        query = "SELECT CAST(part AS BLOB), CAST(value AS BLOB) FROM digests WHERE run = ?"
        return {decoded_cell(part): decoded_cell(value) for part, value in self.execute(query, (run,))}

    def set_digest(self, run: str, part: str, value: str) -> None:
        """Store the digest of a part of a run."""
        self.execute("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (run, part, value))

    def copy_to(self, backup: Path) -> None:
        """Copy the whole database to another file."""
        # The copy gets its final name when it is complete, because two processes may do this at the same time.
        unfinished = self.file.with_name(f".{backup.name}-{secrets.token_hex(4)}")
        try:
            with closing(connect(unfinished)) as copy:
                self.connection.backup(copy)
            unfinished.replace(backup)
        finally:
            unfinished.unlink(missing_ok=True)

    def _connect(self) -> sqlite3.Connection:
        """Open the file. Raises StoreError if it has a log that SQLite cannot apply in a read-only folder."""
        if os.access(self.folder, os.W_OK):
            return connect(self.file, timeout=60, isolation_level=None)
        if self._has_log():
            raise StoreError(
                f"{self.file} is still being written, or its writer was killed, and you cannot write to {self.folder}; "
                "copy the folder, with all its files, to a place where you can"
            )
        return self._connect_to_file_only()

    def _has_log(self) -> bool:
        """Return whether the file is incomplete without its log: a process is writing to it, or was killed."""
        log, *_ = logs_of(self.file)
        return (log.is_file() and log.stat().st_size > 0) or has_open_journal(self.file)

    def _connect_to_file_only(self) -> sqlite3.Connection:
        """Connect so that SQLite uses no other files next to the store; usually, it needs them even for reading.

        This is for folders that cannot be written to and for full disks. The caller must check that the file has no
        log, without which it would be incomplete.
        """
        return connect(f"{self.file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)

    def _open_schema(self, create: bool) -> None:
        """Check whose file it is, create or update its tables if ``create`` is set, and note what its schema has."""
        require_plain_tables(self.connection, self.file)
        # Table names are read before the version, because another process may be creating tables now. So the version
        # read below is never older than the tables found here.
        tables = self._table_names()
        version = self._schema(tables)
        (application,) = self.execute("PRAGMA application_id").fetchone()
        if version > SCHEMA and application == APPLICATION_ID:
            raise StoreError(f"{self.file} was written by a newer lmassay (schema {version} > {SCHEMA}); upgrade")
        # If the number that identifies the program is damaged, the tables show whether the file is lmassay's.
        if tables and application != APPLICATION_ID and not tables >= _TABLES_OF_EVERY_SCHEMA:
            raise StoreError(f"{self.file} is a database of another program; choose another --results folder")
        if not tables and not create:
            raise StoreError(f"{self.file} is empty; run something first, or give --results FOLDER")
        if create:
            self.execute("PRAGMA journal_mode = WAL")
            # With NORMAL, nothing is lost if the process is killed; the last commits may be lost if the power fails.
            self.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            with self.transaction():
                # Another process may have created the tables since they were listed above.
                if not self._table_names():
                    for statement in TABLES.strip().split(";\n"):
                        self.execute(statement)
                    self.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if create and version < SCHEMA:
            if tables and version:
                self._back_up(version)
            with self.transaction():
                self.execute(SPENDING)
                self.execute(ASKED)
                self.execute(DIGESTS)
                self.execute(BATCHES)
                for table in ("rows", "responses", "asked"):
                    self._add_column(table, "digest BLOB")
                self._add_column("rows", "outcomes TEXT")
                add_missing_digests(self.connection)
                self.set_digest("", _SCHEMA_PART, str(SCHEMA))
                self.execute(f"PRAGMA user_version = {SCHEMA}")
            version = SCHEMA
        self.has_asked = version >= _FIRST_SCHEMA_WITH_ASKED
        self.has_spending = version >= _FIRST_SCHEMA_WITH_SPENDING
        self.has_digests = version >= _FIRST_SCHEMA_WITH_DIGESTS
        self.has_batches = version >= _FIRST_SCHEMA_WITH_BATCHES
        self.has_all_digests = version >= _FIRST_SCHEMA_WITH_ALL_DIGESTS
        self.asked_digest_column = "digest" if self.has_all_digests else "NULL"
        self.digest_column = "digest" if self.has_digests else "NULL"
        self.outcomes_column = "outcomes" if version >= _FIRST_SCHEMA_WITH_OUTCOMES else "NULL"

    def _back_up(self, version: int) -> None:
        """Copy the file before its schema is updated, so that an earlier version of lmassay can still read the copy."""
        backup = self.file.with_name(f"{STORE_FILE}.schema-{version}")
        if not backup.exists():
            self.copy_to(backup)

    def _table_names(self) -> set[str]:
        query = "SELECT CAST(name AS BLOB) FROM sqlite_master WHERE type = 'table'"
        return {decoded_cell(name) for (name,) in self.execute(query)}

    def _column_names(self, table: str, database: str = "main") -> list[str]:
        return [name for _, name, *_ in self.execute(f"PRAGMA {database}.table_info({table})")]

    def common_columns(self, table: str, attached: str) -> list[str]:
        """Return the columns that a table also has in an attached database, which may have an older schema."""
        others = self._column_names(table, attached)
        return [name for name in self._column_names(table) if name in others]

    def has_damaged_header(self) -> bool:
        """Return whether the numbers that identify the program and the schema differ from what lmassay writes."""
        (application,) = self.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            return True
        if not self.has_all_digests:
            return False
        (version,) = self.execute("PRAGMA user_version").fetchone()
        tables = self._table_names()
        # The numbers are not compared with SCHEMA, because a file that is only read keeps its earlier schema.
        return {version, self._recorded_schema(tables)} != {self._schema(tables)}

    def _schema(self, tables: set[str]) -> int:
        """Return the schema of the file. Since schema 7, the number is stored twice, because one may be damaged."""
        version = int(self.execute("PRAGMA user_version").fetchone()[0])
        recorded = self._recorded_schema(tables)
        if recorded is None:
            return max(version, _schema_of_tables(tables, self._column_names("asked")))
        # Files with a recorded number have schema 7 or later, so a smaller number is damaged. A number above SCHEMA is
        # used only if the other one is not valid, either: then a newer lmassay may have written the file.
        possible = [number for number in (version, recorded) if _FIRST_SCHEMA_WITH_ALL_DIGESTS <= number <= SCHEMA]
        return max(possible, default=max(version, recorded, _FIRST_SCHEMA_WITH_ALL_DIGESTS))

    def _recorded_schema(self, tables: set[str]) -> int | None:
        """Return the schema number that the table of digests records since schema 7; None if it has none."""
        if "digests" not in tables:
            return None
        query = "SELECT CAST(value AS BLOB) FROM digests WHERE run = '' AND part = ?"
        with suppress(sqlite3.DatabaseError):
            row = self.execute(query, (_SCHEMA_PART,)).fetchone()
            if row is not None and decoded_cell(row[0]).isdecimal():
                return int(decoded_cell(row[0]))
        return None

    def _add_column(self, table: str, declaration: str) -> None:
        # Another process may have added the column already.
        if declaration.split()[0] not in self._column_names(table):
            self.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")


def _create_and_check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-test-{secrets.token_hex(4)}"
        try:
            probe.write_bytes(b"x")
        finally:
            # If the disk is full, the file exists although nothing could be written to it.
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write to the results folder {folder}: {error.strerror or error}") from error


def _schema_of_tables(tables: set[str], asked_columns: Sequence[str]) -> int:
    """Return the earliest schema that has these tables and columns; 0 if that is before schema 4.

    It is used if the schema number in the file is damaged or missing.
    """
    if "digest" in asked_columns:
        return _FIRST_SCHEMA_WITH_ALL_DIGESTS
    if "batches" in tables:
        return _FIRST_SCHEMA_WITH_BATCHES
    if "digests" in tables:
        return _FIRST_SCHEMA_WITH_DIGESTS
    return 0


@contextmanager
def plain_errors(file: Path) -> Iterator[None]:
    """Turn errors of SQLite into messages that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _plain_error(file, error) from error


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error of SQLite means that the file is damaged."""
    # The last byte of an extended error code is the primary code. Errors that Python itself raises have no code; they
    # count as damage.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF not in _NOT_DAMAGE


def _plain_error(file: Path, error: sqlite3.Error) -> StoreError:
    """Return an error whose message says what an error of SQLite means and what to do."""
    text = str(error)
    if is_damage(error):
        check = command_line("doctor", "--results", file.parent)
        return DamageError(
            f"{file} is damaged or not an lmassay store ({one_line(error)}); `{check}` says what is damaged, and "
            "with --fix it saves what can be read"
        )
    if _is_full(error):
        command = command_on_results(file.parent, "resume")
        text = (
            f"{text}: the disk is full or the file may not grow; free some space and repeat the command; "
            f"interrupted runs continue with: {command}"
        )
    elif "locked" in text:
        text = "another process is using the file; try again when it is done"
    elif error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_AUTH:
        repair = command_line("doctor", "--results", file.parent, "--fix")
        text = f"it has views or triggers, which lmassay neither writes nor runs; `{repair}` makes a file without them"
    elif error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
        text = f"{text} ({error.sqlite_errorname}): the disk cannot be read or written; copy the folder to another disk"
    elif error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
        text = f"{text}; allow writing to the file, or copy the folder to a place where you can write"
    elif error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN:
        text = f"{text}; check that it is a file and that you may write to it, or choose another --results folder"
    return StoreError(f"{file}: {text}")


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error was raised because the disk is full, or a file may not grow."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error) and _is_full(cause):
            return True
        if isinstance(cause, OSError) and cause.errno in _FULL_ERRNOS:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _is_full(error: sqlite3.Error) -> bool:
    if is_damage(error):
        return False
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code in _WRITE_ERRORS


def one_line(error: BaseException) -> str:
    """Return the message of an error as one short line. It may be long, because SQLite may quote a whole cell in it."""
    line = " ".join(str(error).split()) or type(error).__name__
    if len(line) <= _MAX_MESSAGE_LENGTH:
        return line
    return f"{excerpt(line, _MAX_MESSAGE_LENGTH)} …"
