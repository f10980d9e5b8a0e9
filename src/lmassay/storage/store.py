"""One SQLite file a results folder: the record of every run, and the cache of every answer.

Answers are committed one by one as they arrive, rows batch by batch, so a killed run loses only what was in flight.
A run in progress holds a lock that the operating system drops when the process dies, so nobody writes to a live run
and a dead one can be told from a live one.
"""

from __future__ import annotations

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
from typing import Any

from lmassay.errors import StoreError, closest
from lmassay.storage.locks import exclusive, is_held
from lmassay.types import (
    Example,
    NewRun,
    OnTests,
    Request,
    Response,
    Result,
    Row,
    RunRecord,
    Score,
    Slot,
    canonical,
    compact,
    provenance_of,
    response_as_dict,
    response_from_dict,
)

FILE = "lmassay.sqlite"
SCHEMA = 3
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
MOST_CACHED_CANDIDATES = 64


def keeps(response: Response) -> bool:
    """Only answers are remembered; an error, a refusal or an empty answer may be different the next time."""
    return response.usable and response.finish in ("stop", "length")


def fits_cache(request: Request) -> bool:
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

    def told(self) -> str:
        cost = "cost unknown (give the model's prices)" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.answers:,} answers, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}"


class Store:
    """The results folder. One process may write a run; any number may read."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.folder = folder
        self.file = folder / FILE
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
        with _plain_errors(self.file):
            self._db.execute(
                "INSERT INTO runs (id, sweep, name, task, model, label, status, config, signature, provenance, planned,"
                " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.sweep,
                    run.name,
                    run.task,
                    run.model,
                    run.label,
                    status,
                    # As written: the order of its keys may be part of what is asked.
                    json.dumps(run.config, allow_nan=False),
                    run.signature,
                    canonical(run.provenance.as_dict()),
                    run.planned,
                    datetime.now(UTC).isoformat(timespec="seconds"),
                ),
            )

    def add_waiting(self, runs: Sequence[NewRun]) -> None:
        """Record runs that wait for their turn, all or none."""
        with _plain_errors(self.file), self._transaction():
            for run in runs:
                self.add_run(run, "waiting")

    def set_status(self, run: str, status: str, note: str = "") -> None:
        finished = None if status in ("running", "waiting") else datetime.now(UTC).isoformat(timespec="seconds")
        with _plain_errors(self.file):
            self._db.execute(
                "UPDATE runs SET status = ?, note = ?, finished = ? WHERE id = ?", (status, note, finished, run)
            )

    def set_results(self, run: str, results: Sequence[Result]) -> None:
        stored = canonical([result.as_dict() for result in results])
        with _plain_errors(self.file):
            self._db.execute("UPDATE runs SET results = ? WHERE id = ?", (stored, run))

    def runs(self) -> list[RunRecord]:
        """All runs, oldest first; one that says it is running but whose process is gone is called interrupted."""
        with _plain_errors(self.file):
            found = self._db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY created, rowid").fetchall()  # noqa: S608
        return [self._record(row) for row in found]

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
                row = self._db.execute("SELECT response FROM responses WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = response_from_dict(json.loads(row[0]))
        return found

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose answers are known."""
        with _plain_errors(self.file):
            found = (self._db.execute("SELECT key FROM responses WHERE key = ?", (key,)).fetchone() for key in keys)
            return {row[0] for row in found if row is not None}

    def add_response(self, key: str, run: str, model: str, request: Mapping[str, Any], response: Response) -> None:
        """Keep an answer at once: it may have been paid for."""
        with _plain_errors(self.file):
            self._db.execute(
                "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)",
                (key, model, compact(request), compact(response_as_dict(response)), run, _now()),
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
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
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
                    )
                    for position, row in rows
                ),
            )

    def finished_ids(self, run: str) -> set[str]:
        """Examples that need no further work; those in error are tried again."""
        with _plain_errors(self.file):
            return {i for (i,) in self._db.execute("SELECT id FROM rows WHERE run = ? AND state != 'error'", (run,))}

    def rows(self, run: str) -> Iterator[Row]:
        """All rows of a run, in the order of its data."""
        query = (
            "SELECT id, state, inputs, reference, groups, scores, unscored, details, error FROM rows"
            " WHERE run = ? ORDER BY position"
        )
        with _plain_errors(self.file):
            for i, state, *texts, error in self._db.execute(query, (run,)):
                inputs, reference, groups, scores, unscored, details = map(json.loads, texts)
                on_tests = _on_tests(details.pop(_ON_TESTS, None))
                yield Row(Example(i, inputs, reference, groups), state, Score(scores, unscored, details, on_tests), error)

    def score_rows(self, run: str, *, on_tests: bool = False) -> Iterator[Row]:
        """The rows without their texts: all that statistics need. ``on_tests`` adds the scores on single tests."""
        # Details are read only if asked for: they make up most of a large run.
        query = _SCORES_ON_TESTS if on_tests else _SCORES
        with _plain_errors(self.file):
            for i, state, groups, scores, tested, error in self._db.execute(query, (run,)):
                score = Score(json.loads(scores), on_tests=_on_tests(json.loads(tested or "null")))
                yield Row(Example(i, {}, None, json.loads(groups)), state, score, error)

    def asked(self, run: str) -> Iterator[tuple[str, list[tuple[dict[str, Any], Response]]]]:
        """What each example of a run made the model be asked, with the answers, as far as they are here; in order."""
        with _plain_errors(self.file):
            has = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'asked'").fetchone()
            keys = "(SELECT keys FROM asked WHERE asked.run = rows.run AND asked.id = rows.id)" if has else "NULL"
            query = f"SELECT id, {keys} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
            for i, listed in self._db.execute(query, (run,)):
                yield i, [pair for key in json.loads(listed or "[]") for pair in self._asked(key)]

    def _asked(self, key: str) -> Iterator[tuple[dict[str, Any], Response]]:
        query = "SELECT request, response FROM responses WHERE key = ?"
        for request, response in self._db.execute(query, (key,)):
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
        log = self.file.with_name(f"{FILE}-wal")
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
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")

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

    def _record(self, row: tuple[Any, ...]) -> RunRecord:
        fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
        fields["config"] = json.loads(fields["config"])
        fields["provenance"] = provenance_of(json.loads(fields["provenance"]))
        fields["results"] = [Result(**stored) for stored in json.loads(fields["results"])]
        if fields["status"] == "running" and not is_held(self._lock_file(fields["id"])):
            fields["status"] = "interrupted"
        return RunRecord(**fields)

    def _lock_file(self, run: str) -> Path:
        return self.folder / ".locks" / run


_ON_TESTS = "on_tests"
_SCORES = "SELECT id, state, groups, scores, NULL, error FROM rows WHERE run = ? ORDER BY position"
_SCORES_ON_TESTS = _SCORES.replace("NULL", f"json_extract(details, '$.{_ON_TESTS}')")
_COLUMNS = (
    "id, sweep, name, task, model, label, status, config, signature, "
    "provenance, results, note, planned, created, finished"
)


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
    if score.on_tests is None:
        return dict(score.details)
    return {**score.details, _ON_TESTS: score.on_tests.as_dict()}


def _on_tests(stored: Mapping[str, Any] | None) -> OnTests | None:
    return None if stored is None else OnTests(**stored)


def _writable(text: str) -> str:
    """A lone surrogate has no UTF-8: it is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32] or "run"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
