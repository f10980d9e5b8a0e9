"""Checks a whole results folder for damage, and rebuilds its file from everything that is undamaged.

The rebuilt file has every row, batch and answer that matches its digest, even if SQLite can no longer find it. Runs
whose examples, results and status are undamaged keep them. Other runs are marked as interrupted, so that
``lmassay resume`` scores only what is missing. A run without a readable record is removed. The damaged file is kept
under another name.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmassay.errors import DamageError, StoreError
from lmassay.redaction import excerpt
from lmassay.storage import digests
from lmassay.storage.annotations import annotation_from_text, time_of_change
from lmassay.storage.batches import BATCH_COLUMNS, StoredBatch
from lmassay.storage.database import (
    OWN_TABLES,
    STORE_FILE,
    connect,
    is_damage,
    is_disk_full,
    one_line,
    require_plain_tables,
)
from lmassay.storage.journals import LOG_SUFFIXES, logs_of
from lmassay.storage.locks import LOCKS, REPAIR_LOCK, exclusive, is_held
from lmassay.storage.pages import Record, read_records
from lmassay.storage.records import DAMAGED, FIELDS
from lmassay.storage.responses import RESPONSE_COLUMNS, StoredResponse
from lmassay.storage.single_rows import ROW_COLUMNS, UNREADABLE, StoredRow
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

# The numbers of columns by which records are recognised. Later schemas added columns to rows, responses and keys, so
# these have several sizes; the smallest is that of the first schema.
_ROW_SIZES = range(11, 14)
_RESPONSE_SIZES = range(6, 8)
_BATCH_SIZE = 7
_DIGEST_SIZE = 3
_KEYS_SIZES = range(3, 5)
_SPENDING_SIZE = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is damaged."""

    what: str
    """What is damaged: a run, the cached answers or the file."""
    problem: str
    """A clause that describes the damage."""


@dataclass(slots=True)
class Repair:
    """What a repair could not save, and where the damaged file is."""

    backup: Path
    """The path of the damaged file, which is kept."""
    removed: list[str] = field(default_factory=list)
    """The ids of the runs that are lost, because their record is damaged."""
    incomplete: list[str] = field(default_factory=list)
    """The ids of the runs that lost examples or results. ``lmassay resume`` completes them."""


# --- checking ---------------------------------------------------------------------------------------------------------


def find_damage(folder: Path) -> list[Damage]:
    """Verify the file, the records of all runs, and all their examples and answers."""
    file = folder / STORE_FILE
    try:
        with Store(folder) as store:
            damages = _damage_of_file(store)
            for record in store.runs():
                problem = _damage_of_run(store, record)
                if problem:
                    damages.append(Damage(f"the run {record.id}", problem))
            damages += _damage_of_answers(store)
            return damages
    except DamageError as error:
        return [Damage(str(file), one_line(error.__cause__ or error))]


def _damage_of_run(store: Store, record: RunRecord) -> str:
    """Return a clause that describes the first damage of a run; an empty text if there is none."""
    if record.status == DAMAGED:
        return record.note.partition("; ")[0]
    error = store.damage_of(record.id) or store.damage_of_answers(record.id)
    if error is None:
        try:
            store.spending(run=record.id)
        except DamageError as damage:
            error = damage
    return "" if error is None else error.problem


def _damage_of_file(store: Store) -> list[Damage]:
    """Let SQLite check its own structures, and compare the header with what lmassay writes."""
    damages = []
    try:
        problems = [text for (text,) in store.database.execute("PRAGMA integrity_check(10)")]
    except sqlite3.DatabaseError as error:
        problems = [one_line(error)]
    if problems != ["ok"]:
        more = f" and {counted(len(problems) - 1, 'more problem')}" if len(problems) > 1 else ""
        first = " ".join(str(problems[0]).split())
        damages.append(Damage(str(store.file), f"its structure is damaged: {excerpt(first, 120)}{more}"))
    with suppress(sqlite3.DatabaseError):
        # Views are not searched for: a view instead of a table is noticed when the table is read, and other views are
        # never read. Triggers on a user's own tables are not damage.
        tables_with_triggers = store.database.execute(
            "SELECT lower(tbl_name) FROM sqlite_master WHERE type = 'trigger'"
        )
        if any(table in OWN_TABLES for (table,) in tables_with_triggers):
            damages.append(Damage(str(store.file), "it has triggers, which lmassay does not write"))
    if store.database.has_damaged_header():
        damages.append(Damage(str(store.file), "its header is damaged"))
    cells = ", ".join(f"typeof({name})" for name in FIELDS)
    query = f"SELECT COUNT(*) FROM runs WHERE 'blob' IN ({cells})"  # noqa: S608
    with suppress(sqlite3.DatabaseError):
        # An error means that the table cannot be read, which was reported above.
        (count,) = store.database.execute(query).fetchone()
        if count:
            damages.append(Damage(str(store.file), "texts of its runs are stored as bytes"))
    return damages


def _damage_of_answers(store: Store) -> list[Damage]:
    """Count the cached answers that are damaged, including those that do not belong to an example of any run."""
    needs_digest = store.database.has_all_digests
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in StoredResponse._fields)
    query = f"SELECT {columns}, {store.database.digest_column} FROM responses"  # noqa: S608
    damaged = 0
    try:
        for *values, stored_digest in store.database.execute(query):
            response = StoredResponse(*map(digests.decoded_cell, values))
            damaged += response.is_damaged(stored_digest, needs_digest=needs_digest)
    except sqlite3.DatabaseError as error:
        return [Damage("the cached answers", f"they cannot be read: {one_line(error)}")]
    if damaged:
        return [Damage("the cached answers", f"{damaged:,} of them are not what lmassay wrote")]
    return []


# --- repairing --------------------------------------------------------------------------------------------------------


def repair_store(folder: Path) -> Repair:
    """Rebuild the file of a results folder from everything that is undamaged; keep the damaged file under another name.

    The caller must hold the repair lock.
    """
    file = folder / STORE_FILE
    backup = file.with_name(f"{STORE_FILE}.damaged-{secrets.token_hex(3)}")
    repair = Repair(backup)
    is_rebuilt = False
    try:
        with tempfile.TemporaryDirectory(prefix=".repair-", dir=folder, ignore_cleanup_errors=True) as temporary:
            for suffix, part in zip(("", *LOG_SUFFIXES), (file, *logs_of(file)), strict=True):
                if part.is_file():
                    shutil.copy2(part, backup.with_name(f"{backup.name}{suffix}"))
            content = _content_of(backup, Path(temporary))
            rebuilt = Path(temporary) / "rebuilt"
            with Store(rebuilt, create=True) as store:
                _Rebuilding(store, content, repair).run()
            is_rebuilt = True
            _put_in_place(rebuilt / STORE_FILE, file)
    except BaseException as error:
        if not is_rebuilt:
            # The damaged file is still under its own name. The copy may be incomplete and would only take space.
            for suffix in ("", *LOG_SUFFIXES):
                backup.with_name(f"{backup.name}{suffix}").unlink(missing_ok=True)
        if isinstance(error, OSError) or is_disk_full(error):
            reason = getattr(error, "strerror", None) or one_line(error.__cause__ or error)
            copy = f", and {backup.name} is a copy of it" if is_rebuilt else ""
            raise StoreError(f"cannot repair {file}: {reason}; the damaged file is unchanged{copy}") from error
        raise
    return repair


def _put_in_place(rebuilt: Path, file: Path) -> None:
    """Replace the damaged file by the rebuilt one. If this fails, the damaged file and its log are unchanged."""
    # The log of the damaged file is moved away first, because SQLite would apply it to the rebuilt file.
    moved: list[tuple[Path, Path]] = []
    try:
        for suffix in LOG_SUFFIXES:
            log = file.with_name(f"{file.name}{suffix}")
            if log.exists():
                moved.append((log, log.replace(rebuilt.with_name(f"damaged{suffix}"))))
        rebuilt.replace(file)
    except BaseException:
        # If the rebuilt file is no longer there, it has already replaced the damaged one (Ctrl-C may come after that).
        # Then the old log must not be moved back.
        if rebuilt.exists():
            for log, moved_log in moved:
                moved_log.replace(log)
        raise


@contextmanager
def repair_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from working on a results folder while it is repaired."""
    file = folder / STORE_FILE
    with exclusive(folder / LOCKS / REPAIR_LOCK, f"the repair of {file}", "the damaged file is unchanged"):
        for lock in sorted((folder / LOCKS).iterdir()):
            if lock.name != REPAIR_LOCK and is_held(lock):
                raise StoreError(f"{file}: {lock.name} is in progress; try again when it has finished")
        _require_no_writer(file)
        yield


def _require_no_writer(file: Path) -> None:
    """Raise StoreError if another process is writing to the file, e.g. a note.

    After the repair, such a process would continue to write to the damaged file, which has another name by then.
    """
    try:
        # The connection is closed before the repair begins: SQLite removes the log when it closes a file, and after the
        # repair, that would be the log of another file.
        with closing(connect(file, timeout=2, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        # Any other error is a reason for the repair, not against it.
        if not is_damage(error) and "locked" in str(error):
            raise StoreError(f"{file}: another process is using the file; try again when it is done") from error


@dataclass(slots=True)
class _Content:
    """All records that were found in a damaged file, recognised by their values; they are not verified yet.

    The number of a record is its rowid: if there are several versions of a record, the latest has the highest number.
    """

    runs: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """The number and the columns of each run."""
    digests: dict[str, dict[str, str]] = field(default_factory=dict)
    """A dict from run to a dict from part to digest."""
    ambiguous: set[str] = field(default_factory=set)
    """The ids of runs with different values of the same digest, because an outdated page was found, too."""
    rows: list[tuple[int, StoredRow, Any]] = field(default_factory=list)
    """The number of each row, the row, and its digest."""
    batches: list[StoredBatch] = field(default_factory=list)
    responses: list[tuple[int, StoredResponse, Any]] = field(default_factory=list)
    """The number of each response, the response, and its digest."""
    keys: list[tuple[str, str, str, Any]] = field(default_factory=list)
    """For each example: the ids of the run and the example, the cache keys of its answers as JSON, and their digest."""
    spending: list[tuple[Any, ...]] = field(default_factory=list)
    """The id of a run, followed by its tokens and cost."""
    is_sound: bool = False
    """Whether SQLite found no damage in the structure of the file."""
    has_all_digests: bool = False
    """Whether the schema has a digest for everything, so that a missing digest is damage."""

    def add(self, record: Record) -> None:
        """Recognise to which table a record belongs, and add it there. Entries of indexes are ignored."""
        values = record.values
        size = len(values)
        if size == len(FIELDS):
            # A single damaged bit can turn the text of a cell into bytes, so bytes are read as text. If the text itself
            # is damaged, the digest will not match.
            values = tuple(_escaped_text(value) if isinstance(value, bytes) else value for value in values)
        if not size or not isinstance(values[0], str):
            return
        # A table is recognised by its number of columns and the types of some of them.
        if size == len(FIELDS):
            self.runs.append((record.number, dict(zip(FIELDS, values, strict=True))))
        elif size in _ROW_SIZES and isinstance(values[2], int):
            # In the file, the column of digests precedes that of outcomes, which a later schema added.
            digest = _value_at(values, _ROW_SIZES.start)
            outcomes = _value_at(values, _ROW_SIZES.start + 1)
            columns = (*values[: _ROW_SIZES.start], outcomes)
            self.rows.append((record.number, StoredRow(*columns), digest))
        elif size == _BATCH_SIZE and isinstance(values[1], int) and isinstance(values[3], bytes):
            self.batches.append(StoredBatch(*values))
        elif size in _RESPONSE_SIZES and isinstance(values[3], str) and isinstance(values[1], str):
            columns = values[: _RESPONSE_SIZES.start]
            digest = _value_at(values, _RESPONSE_SIZES.start)
            self.responses.append((record.number, StoredResponse(*columns), digest))
        elif size == _SPENDING_SIZE and isinstance(values[1], int):
            self.spending.append(values)
        elif size == _DIGEST_SIZE and values[1] in digests.PARTS and isinstance(values[2], str):
            self._add_digest(*values)
        elif size in _KEYS_SIZES and all(isinstance(value, str) for value in values[:3]):
            run, example, keys = values[:3]
            self.keys.append((run, example, keys, _value_at(values, _KEYS_SIZES.start)))
            self.has_all_digests |= size > _KEYS_SIZES.start

    def _add_digest(self, run: str, part: str, value: str) -> None:
        parts = self.digests.setdefault(run, {})
        if part == digests.ANNOTATION:
            self._add_annotation(run, value)
        elif parts.setdefault(part, value) != value:
            self.ambiguous.add(run)

    def _add_annotation(self, run: str, value: str) -> None:
        """Keep the latest undamaged note and tags of a run, because an outdated page may have earlier ones."""
        if annotation_from_text(run, value) is None:
            return
        parts = self.digests.setdefault(run, {})
        present = parts.get(digests.ANNOTATION)
        if present is None or time_of_change(present) < time_of_change(value):
            parts[digests.ANNOTATION] = value


def _value_at(values: Sequence[Any], index: int) -> Any:
    """Return the value at an index; None for a column that the table of an earlier schema lacks."""
    return values[index] if index < len(values) else None


def _content_of(backup: Path, temporary: Path) -> _Content:
    """Read the records of a damaged file, including those in its log if SQLite can apply the log."""
    copy = temporary / STORE_FILE
    shutil.copy2(backup, copy)
    log = backup.with_name(f"{backup.name}-wal")
    if log.is_file():
        shutil.copy2(log, temporary / f"{STORE_FILE}-wal")
    with suppress(sqlite3.DatabaseError), closing(connect(copy)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = _Content(has_all_digests=_has_all_digests(copy))
    sound_records = _sound_records(copy)
    content.is_sound = sound_records is not None
    if sound_records is None:
        records: Iterable[Record] = read_records(copy)
    else:
        records = sound_records
    for record in records:
        content.add(record)
    return content


def _has_all_digests(file: Path) -> bool:
    """Return whether the tables are those of a schema with a digest for everything."""
    with suppress(sqlite3.DatabaseError), closing(connect(file)) as database:
        return any(name == "digest" for _, name, *_ in database.execute("PRAGMA table_info(asked)"))
    return False


def _sound_records(file: Path) -> list[Record] | None:
    """Return the records of a file in whose structure SQLite finds no damage; None if it finds any.

    Raises StoreError if a table of lmassay is a view or computes values: see :func:`require_plain_tables`.
    """
    records = []
    try:
        with closing(connect(file)) as database:
            require_plain_tables(database, file)
            if database.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                return None
            for table in ("runs", "rows", "batches", "responses"):
                query = f"SELECT rowid, * FROM {table}"  # noqa: S608
                records += [Record(number, tuple(values)) for number, *values in _readable(database, query)]
            for table in ("digests", "asked", "spending"):
                query = f"SELECT * FROM {table}"  # noqa: S608
                records += [Record(0, tuple(values)) for values in _readable(database, query)]
    except sqlite3.DatabaseError:
        return None
    return records


def _readable(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table. A text that is not UTF-8 gets lone surrogates, so its digest does not match."""
    database.text_factory = _escaped_text
    yield from database.execute(query)


def _escaped_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class _Rebuilding:
    """Inserts everything that is undamaged into a new store."""

    def __init__(self, store: Store, content: _Content, repair: Repair) -> None:
        self._database = store.database
        self._store = store
        self._content = content
        self._repair = repair
        # Before schema 7, not everything had a digest. The digest of a run's state shows that the schema is 7 or later.
        self._needs_digests = any(digests.STATE in parts for parts in content.digests.values())
        # If the whole table of digests is lost, the records of runs are kept without verification. Rows and answers are
        # verified all the same, because their digests are in their own tables.
        self._examples_need_digests = self._needs_digests or content.has_all_digests
        # Runs whose rows have digests. The results of these runs had a digest, too, even if it is lost.
        self._runs_with_digests = {row.run for _, row, stored_digest in content.rows if stored_digest is not None}
        self._runs_with_digests |= {batch.run for batch in content.batches}

    def run(self) -> None:
        """Insert everything, and compare the examples of each run with its record."""
        with self._database.transaction():
            runs = self._whole_runs()
            for fields in runs.values():
                self._insert("runs", ", ".join(fields), tuple(fields.values()))
            self._insert_rows(set(runs))
            self._insert_responses()
        for run, fields in runs.items():
            self._complete(run, fields)
        runs_before = set(self._content.digests)
        if not self._needs_digests:
            runs_before |= {str(fields["id"]) for _, fields in self._content.runs}
        self._repair.removed = sorted(runs_before - set(runs) - {""})

    def _insert(self, table: str, columns: str, values: Iterable[Any]) -> None:
        row = tuple(values)
        places = ", ".join("?" * len(row))
        self._database.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({places})", row)  # noqa: S608

    def _whole_runs(self) -> dict[str, dict[str, Any]]:
        """Return a dict from id to columns of the runs whose record is undamaged, in their order.

        Their results and status are not verified yet.
        """
        runs: dict[str, dict[str, Any]] = {}
        for _, fields in sorted(self._content.runs, key=_number):
            run = fields["id"]
            parts = self._content.digests.get(run, {})
            try:
                expected = parts.get(digests.RECORD)
                if expected is None and self._needs_digests:
                    continue
                if expected is not None and expected != digests.record_digest(fields):
                    continue
                json.loads(fields["config"])
                json.loads(fields["provenance"])
                # This raises an error for a text that is not UTF-8, which could not be written to the new file.
                "".join(str(fields[name]) for name in digests.RECORD_FIELDS).encode("utf-8")
                runs[run] = {**fields, **_storable_state(fields)}
            except UNREADABLE:
                continue
        return runs

    def _insert_rows(self, runs: set[str]) -> None:
        """Insert all undamaged rows, batches and cache keys of these runs."""
        # If a row was replaced, the later version has the higher number, so it is inserted last.
        for _, row, stored_digest in sorted(self._content.rows, key=_number):
            with suppress(*UNREADABLE):
                if row.run in runs and not row.is_damaged(stored_digest, needs_digest=self._examples_need_digests):
                    self._insert("rows", f"{ROW_COLUMNS}, outcomes, digest", row.with_digest())
        for batch in self._content.batches:
            with suppress(*UNREADABLE):
                if batch.run in runs and not batch.is_damaged():
                    self._insert("batches", BATCH_COLUMNS, batch)
        for run, example_id, keys, stored_digest in self._content.keys:
            # Cache keys are a JSON list. Anything else is a record of another table with as many columns.
            if run not in runs or not keys.startswith("["):
                continue
            with suppress(*UNREADABLE):
                expected = digests.keys_digest(run, example_id, keys)
                if stored_digest == expected or (stored_digest is None and not self._examples_need_digests):
                    self._insert("asked", "run, id, keys, digest", (run, example_id, keys, expected))

    def _insert_responses(self) -> None:
        """Insert all undamaged answers."""
        for _, response, stored_digest in sorted(self._content.responses, key=_number):
            with suppress(*UNREADABLE):
                if not response.is_damaged(stored_digest, needs_digest=self._examples_need_digests):
                    self._insert("responses", f"{RESPONSE_COLUMNS}, digest", response.with_digest())

    def _complete(self, run: str, fields: Mapping[str, Any]) -> None:
        """Keep results and status of a run if they and all examples are undamaged; otherwise mark it as interrupted."""
        parts = self._content.digests.get(run, {})
        is_whole = self._is_whole(run, fields, parts)
        with self._database.transaction():
            self._database.set_digest(run, digests.RECORD, digests.record_digest(fields))
            if is_whole:
                self._database.set_digest(run, digests.RESULTS, digests.results_digest(run, fields["results"]))
                self._database.set_digest(run, digests.STATE, digests.state_digest(fields))
                if digests.ROWS in parts:
                    self._database.set_digest(run, digests.ROWS, self._store.counts_text(run))
            else:
                # If examples are lost, the results could not be reproduced from the others, so they are removed.
                self._database.execute("UPDATE runs SET results = '[]' WHERE id = ?", (run,))
            self._insert_spending(run, parts)
            if digests.ANNOTATION in parts:
                self._database.set_digest(run, digests.ANNOTATION, parts[digests.ANNOTATION])
        if not is_whole:
            self._store.set_status(
                run, "interrupted", "repaired after damage; some examples or results could not be saved"
            )
            self._repair.incomplete.append(run)

    def _is_whole(self, run: str, fields: Mapping[str, Any], parts: Mapping[str, str]) -> bool:
        """Return whether the results, the status and all examples of a run are undamaged."""
        if run in self._content.ambiguous:
            return False
        try:
            needs_state = digests.STATE in parts or self._needs_digests
            if needs_state and parts.get(digests.STATE) != digests.state_digest(fields):
                return False
            if not set(parts) - {digests.ANNOTATION}:
                if run in self._runs_with_digests or self._content.has_all_digests:
                    return False
                # The run is from a version without digests. Only the structure of the file shows whether it is damaged.
                return self._content.is_sound and isinstance(json.loads(fields["results"]), list)
            if digests.RESULTS not in parts:
                return bool(fields["results"] == "[]" and fields["status"] != "done")
            if parts[digests.RESULTS] != digests.results_digest(run, fields["results"]):
                return False
            if digests.ROWS not in parts:
                return bool(fields["status"] != "done")
            return digests.counts_match(parts[digests.ROWS], json.loads(self._store.counts_text(run)))
        except UNREADABLE:
            return False

    def _insert_spending(self, run: str, parts: Mapping[str, str]) -> None:
        """Insert the tokens and the cost of a run if they are undamaged. ``parts`` are the digests of the run."""
        for spent_by, *amounts in self._content.spending:
            if spent_by != run:
                continue
            with suppress(*UNREADABLE):
                expected = digests.spending_digest(run, tuple(amounts))
                stored = parts.get(digests.SPENDING)
                if stored == expected or (stored is None and not self._examples_need_digests):
                    columns = "run, answers, tokens_in, tokens_out, usd"
                    self._insert("spending", columns, (run, *amounts))
                    self._database.set_digest(run, digests.SPENDING, expected)


def _storable_state(fields: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the columns that the digest of the record does not cover, converted to texts that SQLite can store."""
    state: dict[str, str | None] = {}
    for name in ("status", "note", "created", "results", "finished"):
        state[name] = digests.decoded_cell(fields[name]).encode("utf-8", "backslashreplace").decode()
    if fields["finished"] is None:
        state["finished"] = None
    return state


def _number(entry: tuple[Any, ...]) -> int:
    """Return the number of a record, by which records are sorted in the order in which they were written."""
    return int(entry[0])
