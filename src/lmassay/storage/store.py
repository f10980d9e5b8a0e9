"""One SQLite file a results folder: the record of every run, and the cache of every answer.

Answers are committed one by one as they arrive, rows batch by batch, so a killed run loses only what was in flight.
A run in progress holds a lock that the operating system drops when the process dies, so nobody writes to a live run
and a dead one can be told from a live one.

Records, results, rows and answers are written with a digest, which is verified when they are read: a disk that loses a
bit, or a hand that edits the file, must not become a result. A run whose record or results do not match is called
damaged and shows no numbers; reading a row that does not match is an error; an answer that does not match is asked for
again. What versions before schema 4 wrote has no digests and is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lmassay.errors import StoreError, closest
from lmassay.storage.locks import exclusive, is_held
from lmassay.storage.provenance import command_line
from lmassay.types import (
    Example,
    NewRun,
    Outcome,
    PerTestScores,
    Provenance,
    Request,
    Response,
    Result,
    Row,
    RunRecord,
    Score,
    Slot,
    State,
    canonical,
    compact,
    digest,
    provenance_from_dict,
    response_as_dict,
    response_from_dict,
)

STORE_FILE = "lmassay.sqlite"
SCHEMA = 5
APPLICATION_ID = 0x6C6D6173  # "lmas"
# Tables with texts keep their row numbers: without them, SQLite gives every row beyond a kilobyte a page of its own.
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
# Since schema 2. A sum over many answers, one of whose prices is unknown, is unknown: that is what NULL does.
SPENDING = """
CREATE TABLE IF NOT EXISTS spending (
  run TEXT PRIMARY KEY, answers INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, usd REAL
) WITHOUT ROWID
"""
# Since schema 3: under which keys the answers to an example's questions are kept.
ASKED = "CREATE TABLE IF NOT EXISTS asked (run TEXT, id TEXT, keys TEXT NOT NULL, PRIMARY KEY (run, id)) WITHOUT ROWID"
# Since schema 4: digests of the parts of a run ("record", "results"), and how many rows its results rest on ("rows").
# Rows and answers have their digests in a column.
DIGESTS = """
CREATE TABLE IF NOT EXISTS digests (
  run TEXT, part TEXT, value TEXT NOT NULL, PRIMARY KEY (run, part)
) WITHOUT ROWID
"""
_WITH_DIGESTS = 4
# Since schema 5: a column of rows with the scores by label, for the few metrics that have such outcomes.
_WITH_OUTCOMES = 5
MOST_CACHED_CANDIDATES = 64
# Bytes. A damaged text is to be noticed, not a forger to be kept out.
_CHECK = 8


def is_cacheable_response(response: Response) -> bool:
    """Only answers are remembered; an error, a refusal or an empty answer may be different the next time."""
    return response.usable and response.finish in ("stop", "length")


def is_cacheable_request(request: Request) -> bool:
    """Hundreds of words a blank would fill a disk with answers that a local model gives again in milliseconds; what
    was made of them is in the rows."""
    return not isinstance(request, Slot) or len(request.candidates) <= MOST_CACHED_CANDIDATES


@dataclass(frozen=True, slots=True)
class Spending:
    """What was asked of a model behind an API; ``usd`` is None where the prices are unknown."""

    answers: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0

    def describe(self) -> str:
        cost = "cost unknown (give the model's prices)" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.answers:,} answers, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}"


class Store:
    """The results folder. One process may write a run; any number may read."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.folder = folder
        self.file = folder / STORE_FILE
        if create:
            _make_writable(folder)
        elif not self.file.is_file():
            raise StoreError(f"there are no results in {folder}; run something first, or give --results FOLDER")
        with _plain_errors(self.file):
            self._db = self._connect()
            self._open_schema(create)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- runs -----------------------------------------------------------------------------------------------------

    def new_id(self, label: str) -> str:
        """An id for a run that starts now: sortable, readable, safe as a file name."""
        return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{_slug(label)}-{secrets.token_hex(3)}"

    def add_run(self, run: NewRun, status: str = "running") -> None:
        """Record a run that starts now (hold its lock before, so that nobody takes it for a dead one) or waits."""
        with _plain_errors(self.file), self._transaction():
            self._insert_run(run, status)

    def _insert_run(self, run: NewRun, status: str) -> None:
        record = {
            "id": run.id,
            "sweep": run.sweep,
            "name": run.name,
            "task": run.task,
            "model": run.model,
            "label": run.label,
            # As written: the order of its keys may be part of what is asked.
            "config": json.dumps(run.config, allow_nan=False),
            "signature": run.signature,
            "provenance": canonical(run.provenance.as_dict()),
            "planned": run.planned,
        }
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._db.execute(
            "INSERT INTO runs (id, sweep, name, task, model, label, config, signature, provenance, planned, status,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*record.values(), status, created),
        )
        self._set_digest(run.id, "record", _record_digest(record))

    def add_waiting(self, runs: Sequence[NewRun]) -> None:
        """Record runs that wait for their turn, all or none."""
        with _plain_errors(self.file), self._transaction():
            for run in runs:
                self._insert_run(run, "waiting")

    def set_status(self, run: str, status: str, note: str = "") -> None:
        finished = None if status in ("running", "waiting") else datetime.now(UTC).isoformat(timespec="seconds")
        with _plain_errors(self.file):
            self._db.execute(
                "UPDATE runs SET status = ?, note = ?, finished = ? WHERE id = ?", (status, note, finished, run)
            )

    def set_signature(self, run: str, signature: str, depends_on: Mapping[str, str]) -> None:
        """Record anew what the numbers of a run depend on."""
        with _plain_errors(self.file), self._transaction():
            query = f"SELECT {', '.join(_RECORD)} FROM runs WHERE id = ?"  # noqa: S608
            (row,) = self._db.execute(query, (run,))
            record = dict(zip(_RECORD, row, strict=True))
            provenance = {**json.loads(record["provenance"]), "signature": dict(depends_on)}
            record |= {"signature": signature, "provenance": canonical(provenance)}
            self._db.execute(
                "UPDATE runs SET signature = ?, provenance = ? WHERE id = ?", (signature, record["provenance"], run)
            )
            if "record" in self._digests(run):
                self._set_digest(run, "record", _record_digest(record))

    def set_results(self, run: str, results: Sequence[Result]) -> None:
        stored = canonical([result.as_dict() for result in results])
        with _plain_errors(self.file), self._transaction():
            self._db.execute("UPDATE runs SET results = ? WHERE id = ?", (stored, run))
            self._set_digest(run, "results", digest(run, stored))
            (rows,) = self._db.execute("SELECT COUNT(*) FROM rows WHERE run = ?", (run,)).fetchone()
            self._set_digest(run, "rows", str(rows))

    def runs(self) -> list[RunRecord]:
        """All runs, in the order in which they were recorded; one that says it is running but whose process is gone is
        called interrupted."""
        with _plain_errors(self.file):
            # SQLite numbers rows as they are inserted. The clock is no guide: it may be wrong, or be set back.
            found = self._db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY rowid").fetchall()  # noqa: S608
            digests = self._all_digests()
        return [self._record(row, digests) for row in found]

    def run(self, name: str) -> RunRecord:
        """A run by its id, a unique beginning or end of it, or ``latest``."""
        runs = self.runs()
        if name == "latest" and runs:
            return runs[-1]
        exact = [r for r in runs if r.id == name]
        matches = exact or [r for r in runs if name and (r.id.startswith(name) or r.id.endswith(name))]
        if len(matches) == 1:
            return matches[0]
        if matches:
            some = ", ".join(r.id for r in matches[:5])
            raise StoreError(f"'{name}' fits {len(matches)} runs ({some} …); write more of it")
        if not runs:
            raise StoreError(f"there are no runs in {self.folder} yet; `lmassay run` makes them")
        meant = closest(name, ["latest", *(r.id for r in runs), *(r.id.rpartition("-")[2] for r in runs)])
        hint = f"; did you mean '{meant}'?" if meant else "; `lmassay ls` shows all"
        raise StoreError(f"there is no run '{name}' in {self.folder}{hint}")

    @contextmanager
    def lock(self, run: str) -> Iterator[None]:
        """Hold a run for this process; the lock ends with the process, however it ends."""
        with exclusive(self._lock_file(run), f"the run {run}"):
            yield

    @contextmanager
    def lock_sweep(self, sweep: str) -> Iterator[None]:
        """Hold all runs of a command for this process, those that wait included."""
        with exclusive(self._lock_file(f"sweep-{sweep}"), f"the sweep {sweep}"):
            yield
            self.forget_lock(f"sweep-{sweep}")

    def forget_lock(self, run: str) -> None:
        """Tidy up after a run that is complete and will not be locked again; call it while holding the lock."""
        with suppress(OSError):
            self._lock_file(run).unlink(missing_ok=True)

    def errors(self, run: str, most: int = 3) -> list[tuple[str, int]]:
        """The most frequent errors of a run's examples, with their counts."""
        query = (
            "SELECT error, COUNT(*) AS n FROM rows WHERE run = ? AND state = 'error'"
            " GROUP BY error ORDER BY n DESC, error LIMIT ?"
        )
        with _plain_errors(self.file):
            return [(str(error), int(n)) for error, n in self._db.execute(query, (run, most))]

    # --- answers --------------------------------------------------------------------------------------------------

    def cached(self, keys: Iterable[str]) -> dict[str, Response]:
        """Those of the answers that are known."""
        found: dict[str, Response] = {}
        with _plain_errors(self.file):
            for key in keys:
                response = self._answer(key)
                if response is not None:
                    found[key] = response_from_dict(json.loads(response))
        return found

    def cached_keys(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose answers are known."""
        with _plain_errors(self.file):
            return {key for key in keys if self._answer(key) is not None}

    def _answer(self, key: str) -> str | None:
        """A stored answer as JSON; None if there is none, or if it is not what was written."""
        query = f"SELECT response, {self._digest_column} FROM responses WHERE key = ?"  # noqa: S608
        row = self._db.execute(query, (key,)).fetchone()
        if row is None or (row[1] is not None and row[1] != _check(f"{key}\n{row[0]}")):
            return None
        return str(row[0])

    def add_response(self, key: str, run: str, model: str, request: Mapping[str, Any], response: Response) -> None:
        """Keep an answer at once: it may have been paid for."""
        stored = compact(response_as_dict(response))
        with _plain_errors(self.file):
            self._db.execute(
                "INSERT OR REPLACE INTO responses (key, model, request, response, run, created, digest)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, model, compact(request), stored, run, _now(), _check(f"{key}\n{stored}")),
            )

    def spend(self, run: str, response: Response, usd: float | None) -> None:
        """Count what an answer took, be it kept or not."""
        with _plain_errors(self.file):
            self._db.execute(
                "INSERT INTO spending VALUES (?, 1, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET answers = answers + 1,"
                " tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,"
                " usd = usd + excluded.usd",
                (run, response.tokens_in or 0, response.tokens_out or 0, usd),
            )

    def spending(self, *, run: str | None = None, sweep: str | None = None) -> Spending | None:
        """What a run, or all runs of a command, asked of models behind an API; None if nothing."""
        with _plain_errors(self.file):
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'spending'").fetchone():
                return None
            found = self._db.execute(
                "SELECT SUM(answers), SUM(tokens_in), SUM(tokens_out), SUM(usd), COUNT(*) - COUNT(usd) FROM spending"
                " WHERE run = ? OR run IN (SELECT id FROM runs WHERE sweep = ?)",
                (run, sweep),
            ).fetchone()
        answers, tokens_in, tokens_out, usd, unknown = found
        return Spending(answers, tokens_in, tokens_out, None if unknown else usd) if answers else None

    # --- rows -----------------------------------------------------------------------------------------------------

    def add_rows(
        self, run: str, rows: Iterable[tuple[int, Row]], asked: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Keep a batch of judged examples, all or none; ``asked`` has the keys of the answers to each."""
        with _plain_errors(self.file), self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO asked VALUES (?, ?, ?)",
                ((run, _writable(i), compact(list(keys))) for i, keys in (asked or {}).items() if keys),
            )
            self._db.executemany(
                f"INSERT OR REPLACE INTO rows ({_ROW_COLUMNS}, outcomes, digest)"  # noqa: S608
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (_StoredRow.of(run, position, row).with_digest() for position, row in rows),
            )
            # The number of rows that went with the results is no longer the number there is.
            self._db.execute("DELETE FROM digests WHERE run = ? AND part = 'rows'", (run,))

    def finished_ids(self, run: str) -> set[str]:
        """Examples that need no further work; those in error are tried again."""
        with _plain_errors(self.file):
            return {i for (i,) in self._db.execute("SELECT id FROM rows WHERE run = ? AND state != 'error'", (run,))}

    def drop_damaged_rows(self, run: str) -> int:
        """Delete the rows that are not what was written, so that their examples are judged again; how many there were.

        Hold the run's lock.
        """
        with _plain_errors(self.file):
            damaged = list(self._damaged_rows(run))
            with self._transaction():
                self._db.executemany("DELETE FROM rows WHERE rowid = ?", ((number,) for number in damaged))
        return len(damaged)

    def rows_are_whole(self, run: str) -> bool:
        """Whether all rows of a run are there and are what was written."""
        with _plain_errors(self.file):
            expected = self._digests(run).get("rows")
            (count,) = self._db.execute("SELECT COUNT(*) FROM rows WHERE run = ?", (run,)).fetchone()
            return expected in (None, str(count)) and next(self._damaged_rows(run), None) is None

    def _damaged_rows(self, run: str) -> Iterator[int]:
        """The row numbers of a run's rows that do not match their digests."""
        needs_digest = "record" in self._digests(run)
        query = f"SELECT rowid, {self._row_columns} FROM rows WHERE run = ?"  # noqa: S608
        for number, *columns, stored in self._db.execute(query, (run,)):
            row = _StoredRow(*columns)
            if row.is_damaged(stored, needs_digest=needs_digest):
                yield number

    def rows(self, run: str) -> Iterator[Row]:
        """All rows of a run, in the order of its data."""
        query = f"SELECT {self._row_columns} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
        with _plain_errors(self.file):
            digests = self._digests(run)
            needs_digest = "record" in digests
            count = 0
            for *columns, stored in self._db.execute(query, (run,)):
                row = _StoredRow(*columns)
                if row.is_damaged(stored, needs_digest=needs_digest):
                    raise self._damaged(run, f"its example '{row.id}' is")
                count += 1
                yield row.parsed()
            self._check_count(run, count, digests)

    def score_rows(self, run: str, *, with_test_scores: bool = False) -> Iterator[Row]:
        """Yield the rows without their texts, which is all that statistics need.

        ``with_test_scores`` adds the scores on single tests.
        """
        if with_test_scores:
            # They are part of the details, which are read only if asked for: they make up most of a large run.
            for row in self.rows(run):
                example = Example(row.example.id, {}, None, row.example.groups)
                score = Score(row.score.values, test_scores=row.score.test_scores)
                yield Row(example, row.state, score, row.error)
            return
        query = (
            "SELECT id, position, state, groups, scores, error,"  # noqa: S608
            f" {self._outcomes_column}, {self._digest_column} FROM rows"
            " WHERE run = ? ORDER BY position"
        )
        with _plain_errors(self.file):
            digests = self._digests(run)
            needs_digest = "record" in digests
            count = 0
            for i, position, state, groups, scores, error, outcomes, stored in self._db.execute(query, (run,)):
                if stored is None:
                    is_damaged = needs_digest
                else:
                    found = _check_of_scores(run, i, position, state, groups, scores, error, outcomes)
                    is_damaged = stored[:_CHECK] != found
                if is_damaged:
                    raise self._damaged(run, f"its example '{i}' is")
                count += 1
                score = Score(json.loads(scores), outcomes=_outcomes_of(outcomes))
                yield Row(Example(i, {}, None, json.loads(groups)), state, score, error)
            self._check_count(run, count, digests)

    def _check_count(self, run: str, count: int, digests: Mapping[str, str]) -> None:
        expected = digests.get("rows")
        if expected is not None and expected != str(count):
            raise self._damaged(run, f"it has {count:,} examples, not {int(expected):,}, which is")

    def _damaged(self, run: str, what: str) -> StoreError:
        again = command_line("resume", run, "--results", self.folder)
        return StoreError(
            f"{self.file}: the run {run} is damaged: {what} not what lmassay wrote; judge the example again from the "
            f"stored answers: {again}"
        )

    def requests_and_responses(self, run: str) -> Iterator[tuple[str, list[tuple[dict[str, Any], Response]]]]:
        """What each example of a run made the model be asked, with the answers, as far as they are here; in order."""
        with _plain_errors(self.file):
            has = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'asked'").fetchone()
            keys = "(SELECT keys FROM asked WHERE asked.run = rows.run AND asked.id = rows.id)" if has else "NULL"
            query = f"SELECT id, {keys} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
            for i, listed in self._db.execute(query, (run,)):
                yield i, [pair for key in json.loads(listed or "[]") for pair in self._asked(key)]

    def _asked(self, key: str) -> Iterator[tuple[dict[str, Any], Response]]:
        response = self._answer(key)
        if response is not None:
            (request,) = self._db.execute("SELECT request FROM responses WHERE key = ?", (key,)).fetchone()
            yield json.loads(request), response_from_dict(json.loads(response))

    def count(self, run: str) -> dict[str, int]:
        """Rows by state."""
        with _plain_errors(self.file):
            found = self._db.execute("SELECT state, COUNT(*) FROM rows WHERE run = ? GROUP BY state", (run,)).fetchall()
        return {"scored": 0, "unscored": 0, "error": 0, **dict(found)}

    # --- inside ---------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if os.access(self.folder, os.W_OK):
            return sqlite3.connect(self.file, timeout=60, isolation_level=None)
        # Even reading wants to write beside the file. Where that is forbidden, the file alone is read, which is all
        # there is unless somebody else is still writing to it.
        log = self.file.with_name(f"{STORE_FILE}-wal")
        if log.is_file() and log.stat().st_size:
            raise StoreError(f"{self.file} is still being written and {self.folder} is closed to you; copy the folder")
        return sqlite3.connect(f"{self.file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)

    def _open_schema(self, create: bool) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        if version > SCHEMA and application == APPLICATION_ID:
            raise StoreError(f"{self.file} was written by a newer lmassay (schema {version} > {SCHEMA}); upgrade")
        (tables,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreError(f"{self.file} is a database of something else; choose another --results folder")
        if not tables and not create:
            raise StoreError(f"{self.file} is empty; run something first, or give --results FOLDER")
        if create:
            self._db.execute("PRAGMA journal_mode = WAL")
            # NORMAL survives a killed process; only a power cut may cost the last commits.
            self._db.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            with self._transaction():
                # Two processes may arrive here together; the second finds the tables made.
                (tables,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
                if not tables:
                    for statement in TABLES.strip().split(";\n"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if create and version < SCHEMA:
            with self._transaction():
                self._db.execute(SPENDING)
                self._db.execute(ASKED)
                self._db.execute(DIGESTS)
                for table in ("rows", "responses"):
                    self._add_column(table, "digest BLOB")
                self._add_column("rows", "outcomes TEXT")
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
            version = SCHEMA
        self._has_digests = version >= _WITH_DIGESTS
        self._digest_column = "digest" if self._has_digests else "NULL"
        self._outcomes_column = "outcomes" if version >= _WITH_OUTCOMES else "NULL"

    def _add_column(self, table: str, declaration: str) -> None:
        # Two processes may arrive here together; the second finds the column made.
        columns = [name for _, name, *_ in self._db.execute(f"PRAGMA table_info({table})")]
        if declaration.split()[0] not in columns:
            self._db.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")

    @property
    def _row_columns(self) -> str:
        """The columns of a stored row and its digest; what an earlier version did not keep is NULL."""
        return f"{_ROW_COLUMNS}, {self._outcomes_column}, {self._digest_column}"

    def _all_digests(self) -> dict[str, dict[str, str]]:
        """The digests of every run, by part."""
        digests: dict[str, dict[str, str]] = {}
        if self._has_digests:
            for run, part, value in self._db.execute("SELECT run, part, value FROM digests"):
                digests.setdefault(run, {})[part] = value
        return digests

    def _digests(self, run: str) -> dict[str, str]:
        """The digests of one run, by part."""
        if not self._has_digests:
            return {}
        return dict(self._db.execute("SELECT part, value FROM digests WHERE run = ?", (run,)).fetchall())

    def _set_digest(self, run: str, part: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (run, part, value))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _record(self, row: tuple[Any, ...], digests: Mapping[str, Mapping[str, str]]) -> RunRecord:
        fields: dict[str, Any] = dict(zip(_COLUMNS.split(", "), row, strict=True))
        if fields["status"] == "running" and not is_held(self._lock_file(fields["id"])):
            fields["status"] = "interrupted"
        known = digests.get(fields["id"], {})
        has_new_record = "record" in known
        if has_new_record and known["record"] != _record_digest(fields):
            return self._damaged_record(fields, "is not what lmassay wrote")
        # A run that an earlier version recorded has digests of results that were computed since then, if any.
        expected = known.get("results", _no_results(fields["id"]) if has_new_record else None)
        if expected not in (None, digest(fields["id"], fields["results"])):
            again = command_line("resume", fields["id"], "--results", self.folder)
            note = f"its results are not what lmassay wrote; compute them again from the stored examples: {again}"
            fields |= {"results": "[]", "status": DAMAGED, "note": note}
        try:
            return RunRecord(**{**fields, **_parsed_columns(fields)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return self._damaged_record(fields, f"cannot be read ({error})")

    def _damaged_record(self, fields: Mapping[str, Any], what: str) -> RunRecord:
        """A run of which nothing can be trusted: it is listed, without configuration and numbers."""
        note = f"its record {what}; restore {self.file} from a backup, or start a new run"
        nothing = {"config": {}, "provenance": Provenance(), "results": []}
        return RunRecord(**{**fields, **nothing, "status": DAMAGED, "note": note})

    def _lock_file(self, run: str) -> Path:
        return self.folder / ".locks" / run


_ON_TESTS = "on_tests"
_COLUMNS = (
    "id, sweep, name, task, model, label, status, config, signature, "
    "provenance, results, note, planned, created, finished"
)


DAMAGED = "damaged"
"""The status of a run whose record or results are not what was written."""
# What a run's record says from the beginning to the end; status, note and times change.
_RECORD = ("id", "sweep", "name", "task", "model", "label", "config", "signature", "provenance", "planned")
_ROW_COLUMNS = "run, id, position, state, inputs, reference, groups, scores, unscored, details, error"


class _StoredRow(NamedTuple):
    """A row as it stands in the table; a tuple, because there may be hundreds of thousands."""

    run: str
    id: str
    position: int
    state: State
    inputs: str
    reference: str
    groups: str
    scores: str
    unscored: str
    details: str
    error: str | None
    outcomes: str | None = None

    @staticmethod
    def of(run: str, position: int, row: Row) -> _StoredRow:
        return _StoredRow(
            run,
            _writable(row.example.id),
            position,
            row.state,
            compact(dict(row.example.inputs)),
            compact(row.example.reference),
            compact(dict(row.example.groups)),
            compact(dict(row.score.values)),
            compact(dict(row.score.unscored)),
            compact(_stored_details(row.score)),
            None if row.error is None else _writable(row.error),
            _stored_outcomes(row.score.outcomes),
        )

    def parsed(self) -> Row:
        example = Example(self.id, json.loads(self.inputs), json.loads(self.reference), json.loads(self.groups))
        details = json.loads(self.details)
        on_tests = _on_tests(details.pop(_ON_TESTS, None))
        outcomes = _outcomes_of(self.outcomes)
        score = Score(json.loads(self.scores), json.loads(self.unscored), details, outcomes, on_tests)
        return Row(example, self.state, score, self.error)

    def digest(self) -> bytes:
        """One digest of what statistics need, and one of the texts, which statistics do not read."""
        run, i, position, state, inputs, reference, groups, scores, unscored, details, error, outcomes = self
        verdict = _check_of_scores(run, i, position, state, groups, scores, error, outcomes)
        return verdict + _check(f"{inputs}\n{reference}\n{unscored}\n{details}")

    def with_digest(self) -> tuple[Any, ...]:
        return (*self, self.digest())

    def is_damaged(self, stored: bytes | None, *, needs_digest: bool) -> bool:
        return needs_digest if stored is None else stored != self.digest()


def _check_of_scores(
    run: str, i: str, position: int, state: str, groups: str, scores: str, error: str | None, outcomes: str | None
) -> bytes:
    text = f"{run}\n{i}\n{position}\n{state}\n{groups}\n{scores}\n{error or ''}"
    # Rows without outcomes have the digest that they had in schema 4.
    return _check(text if outcomes is None else f"{text}\n{outcomes}")


def _check(text: str) -> bytes:
    """A short digest."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_CHECK).digest()


def _no_results(run: str) -> str:
    """The digest of a run's results before there are any."""
    return digest(run, "[]")


def _record_digest(fields: Mapping[str, Any]) -> str:
    return digest(*(fields[name] for name in _RECORD))


def _parsed_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a run that are JSON."""
    return {
        "config": json.loads(fields["config"]),
        "provenance": provenance_from_dict(json.loads(fields["provenance"])),
        "results": [Result(**stored) for stored in json.loads(fields["results"])],
    }


def _make_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-test-{secrets.token_hex(4)}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise StoreError(f"cannot write to the results folder {folder}: {error.strerror or error}") from error


@contextmanager
def _plain_errors(file: Path) -> Iterator[None]:
    """SQLite's errors in words that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            text = f"{text}: the disk is full or the file may not grow; make room, then `lmassay resume`"
        elif "locked" in text:
            text = "another process holds the file; try again when it is done"
        raise StoreError(f"{file}: {text}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{file} is damaged or no lmassay store ({error}); move it away, or try sqlite3's .recover on it"
        ) from error


def _stored_details(score: Score) -> dict[str, Any]:
    """The details with the scores on single tests, which have no column of their own: few tasks have any."""
    if score.test_scores is None:
        return dict(score.details)
    return {**score.details, _ON_TESTS: score.test_scores.as_dict()}


def _on_tests(stored: Mapping[str, Any] | None) -> PerTestScores | None:
    return None if stored is None else PerTestScores(**stored)


def _writable(text: str) -> str:
    """A lone surrogate has no UTF-8: it is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _stored_outcomes(outcomes: Mapping[str, Sequence[Outcome]]) -> str | None:
    """Without the names of their fields, which would take more room than what they hold."""
    if not outcomes:
        return None
    listed: dict[str, list[tuple[str, float, float]]] = {}
    for metric, found in outcomes.items():
        listed[metric] = [(outcome.label, outcome.value, outcome.rows) for outcome in found]
    return compact(listed)


def _outcomes_of(stored: str | None) -> dict[str, list[Outcome]]:
    """The inverse of :func:`_stored_outcomes`; earlier versions stored none."""
    if stored is None:
        return {}
    return {metric: [Outcome(*values) for values in listed] for metric, listed in json.loads(stored).items()}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32] or "run"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
