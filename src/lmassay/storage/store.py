"""The results folder: one SQLite file with the records of all runs and a cache of all answers.

Answers are committed one by one as they arrive, rows batch by batch, so a run that is killed loses only the requests
that were on their way. A run in progress holds a lock that the operating system releases when the process dies. So no
two processes write to the same run, and an interrupted run can be distinguished from a running one.

Records, results, rows and answers are stored with a digest, which is verified when they are read, so that a defective
disk or a manual edit cannot change a result unnoticed. A run whose record or results do not match is called damaged and
shows no numbers; reading a row that does not match is an error; an answer that does not match is requested again.
Versions before schema 4 did not write digests; their data is read as it is.

Secrets are blanked here, before anything is written: in rows and answers the keys in use, in records, notes and errors
also everything that looks like a key. Reports and exports are written from the store, so they have no secrets either.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import re
import secrets
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lmassay.errors import StoreError, closest
from lmassay.redaction import (
    config_without_keys,
    has_keys_in_use,
    redact,
    redacted_value,
    value_without_keys,
    without_keys,
)
from lmassay.storage.batches import (
    BATCH_COLUMNS,
    BATCH_QUERY,
    BATCHES,
    BATCHES_QUERY,
    SCORES_QUERY,
    StoredBatch,
    StoredScores,
    positions_text,
)
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
    RowBatch,
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
SCHEMA = 6
APPLICATION_ID = 0x6C6D6173  # "lmas"
# Tables with long texts are not WITHOUT ROWID: in such tables, every row beyond a kilobyte would take a whole page.
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
# Since schema 2. If the price of one answer is unknown, so is the sum: in SQL, adding NULL gives NULL.
SPENDING = """
CREATE TABLE IF NOT EXISTS spending (
  run TEXT PRIMARY KEY, answers INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, usd REAL
) WITHOUT ROWID
"""
# Since schema 3: the keys under which the responses to an example's requests are stored.
ASKED = "CREATE TABLE IF NOT EXISTS asked (run TEXT, id TEXT, keys TEXT NOT NULL, PRIMARY KEY (run, id)) WITHOUT ROWID"
# Since schema 4: digests of the parts of a run ("record", "results"), and the number of its rows ("rows"). The digests
# of rows and answers are in a column of their tables.
DIGESTS = """
CREATE TABLE IF NOT EXISTS digests (
  run TEXT, part TEXT, value TEXT NOT NULL, PRIMARY KEY (run, part)
) WITHOUT ROWID
"""
_FIRST_SCHEMA_WITH_DIGESTS = 4
# Since schema 5: a column of rows with the outcomes, for the few metrics that have them: a metric's mean per label
# within an example, e.g. per verb pair.
_FIRST_SCHEMA_WITH_OUTCOMES = 5
# Since schema 6: batches of scored examples as columns, see lmassay.storage.batches.
_FIRST_SCHEMA_WITH_BATCHES = 6
MAX_CACHED_CANDIDATES = 64
# Bytes. The digest detects damage; it is not meant to prevent forgery.
_DIGEST_SIZE = 8
_MAX_LISTED_RUNS = 5


_Update = list[tuple[str, tuple[Any, ...]]]
"""SQL statements with their values that belong together."""
_ExampleExchanges = tuple[str, list[tuple[dict[str, Any], Response]]]
"""The id of an example with its requests and responses."""


def is_cacheable_response(response: Response) -> bool:
    """Return whether other runs may use a response. Errors, refusals and empty answers may be different next time."""
    return response.usable and response.finish in ("stop", "length")


def is_cacheable_request(request: Request) -> bool:
    """Return whether the answer to a request is worth storing.

    Answers about hundreds of candidate words would fill the disk, and a local model gives them again in milliseconds.
    The scores that are computed from them are in the rows.
    """
    if not isinstance(request, Slot):
        return True
    return len(request.candidates) <= MAX_CACHED_CANDIDATES and not request.full_logits


@dataclass(frozen=True, slots=True)
class Spending:
    """The tokens and the cost of answers of a model behind an API."""

    answers: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    """The cost; None if the prices are unknown."""

    def describe(self) -> str:
        """Return the numbers as one line of text."""
        cost = "cost unknown (give the model's prices)" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.answers:,} answers, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}"


class Store:
    """A results folder. One process may write to a run; any number may read it.

    Use it as a context manager: ``with Store(Path("results")) as store: …``.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open a results folder. With ``create``, it is created if necessary, and an old schema is updated."""
        self.folder = folder
        self.file = folder / STORE_FILE
        if create:
            _create_and_check_writable(folder)
        elif not self.file.is_file():
            raise StoreError(f"there are no results in {folder}; run something first, or give --results FOLDER")
        with plain_errors(self.file):
            self._db = self._connect()
            self._open_schema(create)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- runs -----------------------------------------------------------------------------------------------------

    def new_id(self, label: str) -> str:
        """Return an id for a run that starts now: sortable, readable, and safe as a file name."""
        return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{_slug(redact(label))}-{secrets.token_hex(3)}"

    def add_run(self, run: NewRun, status: str = "running") -> None:
        """Record a run. Hold its lock, so that no other process considers it interrupted."""
        with plain_errors(self.file), self._transaction():
            self._insert_run(run, status)

    def _insert_run(self, run: NewRun, status: str) -> None:
        record = {
            "id": run.id,
            "sweep": run.sweep,
            "name": redact(run.name),
            "task": run.task,
            "model": redact(run.model),
            "label": redact(run.label),
            # In the original order of keys, which may affect the requests.
            "config": json.dumps(value_without_keys(run.config), allow_nan=False),
            "signature": redact(run.signature),
            "provenance": canonical(redacted_value(run.provenance.as_dict())),
            "planned": run.planned,
        }
        created = datetime.now(UTC).isoformat(timespec="seconds")
        # The keys are in the order of the columns below.
        self._db.execute(
            "INSERT INTO runs (id, sweep, name, task, model, label, config, signature, provenance, planned, status,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*record.values(), status, created),
        )
        self._set_digest(run.id, "record", _record_digest(record))

    def add_waiting(self, runs: Sequence[NewRun]) -> None:
        """Record runs that wait for their turn; either all are recorded or none."""
        with plain_errors(self.file), self._transaction():
            for run in runs:
                self._insert_run(run, "waiting")

    def set_status(self, run: str, status: str, note: str = "") -> None:
        """Set the status of a run and a note that explains it."""
        finished = None if status in ("running", "waiting") else datetime.now(UTC).isoformat(timespec="seconds")
        with plain_errors(self.file):
            self._db.execute(
                "UPDATE runs SET status = ?, note = ?, finished = ? WHERE id = ?", (status, redact(note), finished, run)
            )

    def set_signature(self, run: str, signature: str, signature_parts: Mapping[str, str]) -> None:
        """Replace a run's signature, and the dict of its parts in the provenance."""
        with plain_errors(self.file), self._transaction():
            query = f"SELECT {', '.join(_RECORD)} FROM runs WHERE id = ?"  # noqa: S608
            (row,) = self._db.execute(query, (run,))
            record = dict(zip(_RECORD, row, strict=True))
            stored_parts = redacted_value(signature_parts)
            provenance = {**json.loads(record["provenance"]), "signature": stored_parts}
            record |= {"signature": redact(signature), "provenance": canonical(provenance)}
            self._db.execute(
                "UPDATE runs SET signature = ?, provenance = ? WHERE id = ?",
                (record["signature"], record["provenance"], run),
            )
            if "record" in self._digests(run):
                self._set_digest(run, "record", _record_digest(record))

    def set_results(self, run: str, results: Sequence[Result]) -> None:
        """Store the results of a run, and how many rows they were computed from."""
        stored = _json_without_keys(canonical([result.as_dict() for result in results]))
        with plain_errors(self.file), self._transaction():
            self._db.execute("UPDATE runs SET results = ? WHERE id = ?", (stored, run))
            self._set_digest(run, "results", digest(run, stored))
            self._set_digest(run, "rows", str(self._count_rows(run)))

    def runs(self) -> list[RunRecord]:
        """Return all runs in the order in which they were recorded.

        A run that is marked as running although its process is gone gets the status ``interrupted``.
        """
        with plain_errors(self.file):
            # SQLite numbers rows as they are inserted. The times are not reliable: a clock may be wrong or set back.
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY rowid").fetchall()  # noqa: S608
            digests = self._all_digests()
        return [self._record(row, digests) for row in rows]

    def run(self, name: str) -> RunRecord:
        """Return a run by its id, by a unique beginning or end of its id, or by ``latest``."""
        runs = self.runs()
        if name == "latest" and runs:
            return runs[-1]
        matches = _matching_runs(name, runs)
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(run.id for run in matches[:_MAX_LISTED_RUNS])
            raise StoreError(f"'{name}' matches {len(matches)} runs ({ids} …); write more of the id")
        if not runs:
            raise StoreError(f"there are no runs in {self.folder} yet; start one with `lmassay run`")
        raise StoreError(f"there is no run '{name}' in {self.folder}; {_suggestion(name, runs)}")

    @contextmanager
    def lock(self, run: str) -> Iterator[None]:
        """Lock a run for this process. The lock ends with the process, however it ends."""
        with exclusive(self._lock_file(run), f"the run {run}"):
            yield

    @contextmanager
    def lock_sweep(self, sweep: str) -> Iterator[None]:
        """Lock all runs of a command for this process, including those that wait for their turn."""
        with exclusive(self._lock_file(f"sweep-{sweep}"), f"the sweep {sweep}"):
            yield
            self.forget_lock(f"sweep-{sweep}")

    def forget_lock(self, run: str) -> None:
        """Remove the lock file of a run that is complete; call it while holding the lock."""
        with suppress(OSError):
            self._lock_file(run).unlink(missing_ok=True)

    def errors(self, run: str, limit: int = 3) -> list[tuple[str, int]]:
        """Return the most frequent errors of a run's examples, with their counts."""
        query = (
            "SELECT error, COUNT(*) AS n FROM rows WHERE run = ? AND state = 'error'"
            " GROUP BY error ORDER BY n DESC, error LIMIT ?"
        )
        with plain_errors(self.file):
            return [(str(error), int(count)) for error, count in self._db.execute(query, (run, limit))]

    # --- answers --------------------------------------------------------------------------------------------------

    def cached(self, keys: Iterable[str]) -> dict[str, Response]:
        """Return the stored responses to those of the keys that have one."""
        responses: dict[str, Response] = {}
        with plain_errors(self.file):
            for key in keys:
                stored = self._stored_response(key)
                if stored is not None:
                    responses[key] = response_from_dict(json.loads(stored))
        return responses

    def cached_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have a stored response."""
        with plain_errors(self.file):
            return {key for key in keys if self._stored_response(key) is not None}

    def _stored_response(self, key: str) -> str | None:
        """Return a stored response as JSON; None if there is none or it is damaged."""
        query = f"SELECT response, {self._digest_column} FROM responses WHERE key = ?"  # noqa: S608
        row = self._db.execute(query, (key,)).fetchone()
        if row is None:
            return None
        response, stored_digest = row
        if stored_digest is not None and stored_digest != response_digest(key, str(response)):
            return None
        return str(response)

    def add_response(self, key: str, run: str, model: str, request: Mapping[str, Any], response: Response) -> None:
        """Store a response immediately, because it may have been paid for.

        If it contains a key, the key is blanked out, and the response is not used again: a task would score another
        text than the model's.
        """
        original = compact(response_as_dict(response))
        stored = _json_without_keys(original)
        if stored != original:
            key = _altered_response_key(key)
        stored_request = _json_without_keys(compact(request))
        with plain_errors(self.file):
            self._db.execute(
                "INSERT OR REPLACE INTO responses (key, model, request, response, run, created, digest)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, redact(model), stored_request, stored, run, _now(), response_digest(key, stored)),
            )

    def add_spending(self, run: str, response: Response, usd: float | None) -> None:
        """Add the tokens and the cost of a response to what the run has spent, whether it is stored or not."""
        # A request that failed may have cost tokens, but it is not an answer.
        answers = 0 if response.error else 1
        with plain_errors(self.file):
            self._db.execute(
                "INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET"
                " answers = answers + excluded.answers, tokens_in = tokens_in + excluded.tokens_in,"
                " tokens_out = tokens_out + excluded.tokens_out, usd = usd + excluded.usd",
                (run, answers, response.tokens_in or 0, response.tokens_out or 0, usd),
            )

    def spending(self, *, run: str | None = None, sweep: str | None = None) -> Spending | None:
        """Return what a run, or all runs of a command, spent on models behind an API; None if nothing."""
        with plain_errors(self.file):
            # Stores of schema 1 do not have the table.
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'spending'").fetchone():
                return None
            sums = self._db.execute(
                "SELECT SUM(answers), SUM(tokens_in), SUM(tokens_out), SUM(usd), COUNT(*) - COUNT(usd) FROM spending"
                " WHERE run = ? OR run IN (SELECT id FROM runs WHERE sweep = ?)",
                (run, sweep),
            ).fetchone()
        answers, tokens_in, tokens_out, usd, unknown_costs = sums
        if not answers and not tokens_in and not tokens_out:
            return None
        return Spending(answers, tokens_in, tokens_out, None if unknown_costs else usd)

    # --- rows -----------------------------------------------------------------------------------------------------

    def add_rows(
        self, run: str, rows: Iterable[tuple[int, Row]], response_keys: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Store a batch of scored examples, each with its position; either all are stored or none.

        ``response_keys`` has the keys of the responses to each example.
        """
        stored_keys = []
        for example_id, keys in (response_keys or {}).items():
            if keys:
                stored_keys.append((run, _writable(example_id), compact(list(keys))))
        with plain_errors(self.file), self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO asked VALUES (?, ?, ?)", stored_keys)
            self._db.executemany(
                f"INSERT OR REPLACE INTO rows ({_ROW_COLUMNS}, outcomes, digest)"  # noqa: S608
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (_StoredRow.of(run, position, row).with_digest() for position, row in rows),
            )
            self._forget_row_count(run)

    def add_batch(self, run: str, batch: RowBatch) -> None:
        """Store consecutive examples that are scored, as columns."""
        with plain_errors(self.file), self._transaction():
            self._db.execute(
                f"INSERT OR REPLACE INTO batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                StoredBatch.of(run, _batch_without_keys(batch)),
            )
            self._forget_row_count(run)

    def _forget_row_count(self, run: str) -> None:
        # The number of rows that was recorded with the results is no longer valid.
        self._db.execute("DELETE FROM digests WHERE run = ? AND part = 'rows'", (run,))

    def finished_ids(self, run: str) -> set[str]:
        """Return the ids of examples that need no further work; those in error are tried again."""
        query = "SELECT id FROM rows WHERE run = ? AND state != 'error'"
        with plain_errors(self.file):
            ids = {example_id for (example_id,) in self._db.execute(query, (run,))}
        for batch in self._score_batches(run):
            ids.update(batch.ids)
        return ids

    def finished_positions(self, run: str) -> list[range]:
        """Return the positions of the examples that are stored in batches, in their order."""
        if not self._has_batches:
            return []
        query = "SELECT first, examples FROM batches WHERE run = ? ORDER BY first"
        with plain_errors(self.file):
            return [range(first, first + examples) for first, examples in self._db.execute(query, (run,))]

    def has_single_rows(self, run: str) -> bool:
        """Return whether a run has examples that are not stored in batches."""
        with plain_errors(self.file):
            return self._db.execute("SELECT 1 FROM rows WHERE run = ? LIMIT 1", (run,)).fetchone() is not None

    def drop_damaged_rows(self, run: str) -> int:
        """Delete damaged rows and batches, so that their examples are scored again; return how many there were.

        Hold the run's lock.
        """
        with plain_errors(self.file):
            damaged_rows = list(self._damaged_rows(run))
            damaged_batches = list(self._damaged_batches(run))
            with self._transaction():
                self._db.executemany("DELETE FROM rows WHERE rowid = ?", ((number,) for number in damaged_rows))
                self._db.executemany(
                    "DELETE FROM batches WHERE run = ? AND first = ?",
                    ((batch.run, batch.first) for batch in damaged_batches),
                )
        return len(damaged_rows) + sum(batch.examples for batch in damaged_batches)

    def rows_are_whole(self, run: str) -> bool:
        """Return whether all rows of a run are there and undamaged."""
        with plain_errors(self.file):
            expected = self._digests(run).get("rows")
            if expected not in (None, str(self._count_rows(run))):
                return False
            return next(self._damaged_rows(run), None) is None and next(self._damaged_batches(run), None) is None

    def _count_rows(self, run: str) -> int:
        (count,) = self._db.execute("SELECT COUNT(*) FROM rows WHERE run = ?", (run,)).fetchone()
        return int(count) + self._count_in_batches(run)

    def _count_in_batches(self, run: str) -> int:
        if not self._has_batches:
            return 0
        (count,) = self._db.execute("SELECT TOTAL(examples) FROM batches WHERE run = ?", (run,)).fetchone()
        return int(count)

    def _damaged_rows(self, run: str) -> Iterator[int]:
        """Yield the row numbers of rows that do not match their digests."""
        # A run that was recorded with a digest must have digests in all its rows.
        needs_digest = "record" in self._digests(run)
        query = f"SELECT rowid, {self._row_columns} FROM rows WHERE run = ?"  # noqa: S608
        for number, *columns, stored_digest in self._db.execute(query, (run,)):
            row = _StoredRow(*columns)
            if row.is_damaged(stored_digest, needs_digest=needs_digest):
                yield number

    def _damaged_batches(self, run: str) -> Iterator[StoredBatch]:
        """Yield the batches that do not match their digests."""
        for batch in self._stored_batches(run):
            if batch.is_damaged():
                yield batch

    def _stored_batches(self, run: str) -> Iterator[StoredBatch]:
        if not self._has_batches:
            return
        for columns in self._db.execute(BATCHES_QUERY, (run,)):
            yield StoredBatch(*columns)

    def _stored_batch(self, run: str, first: int) -> Iterator[StoredBatch]:
        """Yield the batch that begins at a position."""
        for columns in self._db.execute(BATCH_QUERY, (run, first)):
            yield StoredBatch(*columns)

    def _stored_scores(self, run: str) -> Iterator[StoredScores]:
        if not self._has_batches:
            return
        for columns in self._db.execute(SCORES_QUERY, (run,)):
            yield StoredScores(*columns)

    def _batches(self, run: str) -> Iterator[RowBatch]:
        return self._verified_batches(run, self._stored_batches(run))

    def _score_batches(self, run: str) -> Iterator[RowBatch]:
        return self._verified_batches(run, self._stored_scores(run))

    def _verified_batches(self, run: str, batches: Iterable[StoredBatch | StoredScores]) -> Iterator[RowBatch]:
        with plain_errors(self.file):
            for batch in batches:
                if batch.is_damaged():
                    which = positions_text(batch.first, batch.examples)
                    raise self._damage_error(run, f"{which} are not what lmassay wrote")
                yield batch.parsed()

    def rows(self, run: str) -> Iterator[Row]:
        """Yield all rows of a run in the order of its data. Raises StoreError if one is damaged or missing."""
        return self._in_order(run, self._single_rows(run), self._batches(run))

    def selected_rows(self, run: str, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield some rows of a run, in the order of its data. Batches without such rows are neither read nor verified.

        ``numbers`` are sorted and count the rows of :meth:`rows` from 0.
        """
        if self.has_single_rows(run):
            wanted = set(numbers)
            for number, row in enumerate(self.rows(run)):
                if number in wanted:
                    yield row
            return
        start = 0
        for positions in self.finished_positions(run):
            low = bisect_left(numbers, start)
            high = bisect_left(numbers, start + len(positions))
            if low < high:
                (batch,) = self._verified_batches(run, self._stored_batch(run, positions.start))
                yield from batch.selected([number - start for number in numbers[low:high]]).rows()
            start += len(positions)

    def _in_order(self, run: str, single_rows: Iterable[tuple[int, Row]], batches: Iterable[RowBatch]) -> Iterator[Row]:
        """Yield rows with their positions and the rows of batches in the order of the data, and count them."""
        digests = self._digests(run)
        count = 0
        rows_of_batches = (pair for batch in batches for pair in enumerate(batch.rows(), start=batch.first))
        for _, row in heapq.merge(single_rows, rows_of_batches, key=_position):
            count += 1
            yield row
        self._check_count(run, count, digests)

    def _single_rows(self, run: str) -> Iterator[tuple[int, Row]]:
        query = f"SELECT {self._row_columns} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
        with plain_errors(self.file):
            needs_digest = "record" in self._digests(run)
            for *columns, stored_digest in self._db.execute(query, (run,)):
                row = _StoredRow(*columns)
                if row.is_damaged(stored_digest, needs_digest=needs_digest):
                    raise self._damage_error(run, f"example '{row.id}' is not what lmassay wrote")
                yield row.position, row.parsed()

    def score_rows(self, run: str, *, with_test_scores: bool = False) -> Iterator[Row]:
        """Yield the rows without their texts, which is all that statistics need.

        ``with_test_scores`` adds the score on each test item (few-shot).
        """
        if with_test_scores:
            # They are stored with the details, which make up most of a large run and are otherwise not read.
            for row in self.rows(run):
                example = Example(row.example.id, {}, None, row.example.groups)
                score = Score(row.score.values, test_scores=row.score.test_scores)
                yield Row(example, row.state, score, row.error)
            return
        yield from self._in_order(run, self._single_score_rows(run), self._score_batches(run))

    def score_batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run without their texts. Raises StoreError if one is damaged or missing.

        It is for runs whose examples are all in batches, see :meth:`has_single_rows`.
        """
        count = 0
        for batch in self._score_batches(run):
            count += len(batch)
            yield batch
        self._check_count(run, count, self._digests(run))

    def _single_score_rows(self, run: str) -> Iterator[tuple[int, Row]]:
        query = (
            "SELECT id, position, state, groups, scores, error,"  # noqa: S608
            f" {self._outcomes_column}, {self._digest_column} FROM rows"
            " WHERE run = ? ORDER BY position"
        )
        with plain_errors(self.file):
            needs_digest = "record" in self._digests(run)
            for stored_row in self._db.execute(query, (run,)):
                example_id, position, state, groups, scores, error, outcomes, stored_digest = stored_row
                if stored_digest is None:
                    is_damaged = needs_digest
                else:
                    # The first half of a row's digest covers these columns.
                    computed = _digest_of_scores(run, example_id, position, state, groups, scores, error, outcomes)
                    is_damaged = stored_digest[:_DIGEST_SIZE] != computed
                if is_damaged:
                    raise self._damage_error(run, f"example '{example_id}' is not what lmassay wrote")
                score = Score(json.loads(scores), outcomes=_parsed_outcomes(outcomes))
                yield position, Row(Example(example_id, {}, None, json.loads(groups)), state, score, error)

    def _check_count(self, run: str, count: int, digests: Mapping[str, str]) -> None:
        expected = digests.get("rows")
        if expected is not None and expected != str(count):
            raise self._damage_error(run, f"it has {count:,} examples instead of {int(expected):,}")

    def _damage_error(self, run: str, problem: str) -> StoreError:
        """Return the error about a damaged run; ``problem`` is a clause that says what is damaged."""
        again = command_line("resume", run, "--results", self.folder)
        return StoreError(
            f"{self.file}: the run {run} is damaged: {problem}; score the examples again from the stored answers: "
            f"{again}"
        )

    def requests_and_responses(self, run: str) -> Iterator[_ExampleExchanges]:
        """Yield each example's id with its requests and responses, as far as they are stored.

        The examples come in the order of the data. Those in batches have none: no model was asked.
        """
        for _, exchanges in heapq.merge(self._exchanges(run), self._examples_without_exchanges(run), key=_position):
            yield exchanges

    def _examples_without_exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        for batch in self._score_batches(run):
            for position, example_id in enumerate(batch.ids, start=batch.first):
                yield position, (example_id, [])

    def _exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        with plain_errors(self.file):
            # Stores before schema 3 do not have the table.
            has_keys = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'asked'").fetchone()
            keys_column = "NULL"
            if has_keys:
                keys_column = "(SELECT keys FROM asked WHERE asked.run = rows.run AND asked.id = rows.id)"
            query = f"SELECT position, id, {keys_column} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
            for position, example_id, stored_keys in self._db.execute(query, (run,)):
                pairs: list[tuple[dict[str, Any], Response]] = []
                for key in json.loads(stored_keys or "[]"):
                    response = self._stored_response(key)
                    if response is None:
                        key = _altered_response_key(key)
                        response = self._stored_response(key)
                    if response is not None:
                        (request,) = self._db.execute("SELECT request FROM responses WHERE key = ?", (key,)).fetchone()
                        pairs.append((json.loads(request), response_from_dict(json.loads(response))))
                yield position, (example_id, pairs)

    def count(self, run: str) -> dict[str, int]:
        """Return the number of rows in each state."""
        query = "SELECT state, COUNT(*) FROM rows WHERE run = ? GROUP BY state"
        with plain_errors(self.file):
            counts = {"scored": 0, "unscored": 0, "error": 0, **dict(self._db.execute(query, (run,)).fetchall())}
            counts["scored"] += self._count_in_batches(run)
        return counts

    def runs_in_batches(self) -> list[str]:
        """Return the ids of the runs that have examples in batches."""
        if not self._has_batches:
            return []
        with plain_errors(self.file):
            query = "SELECT DISTINCT run FROM batches ORDER BY run"
            return [run for (run,) in self._db.execute(query)]

    def copy_with_single_rows(self, folder: Path, limit: int) -> None:
        """Copy the store to a new folder, with a row for each example also where this store has batches.

        It is for tools that read the tables themselves. At most the first ``limit`` examples in batches of each run
        are copied.
        """
        with Store(folder, create=True) as copy, plain_errors(self.file):
            copy._db.execute("ATTACH ? AS original", (str(self.file),))
            for table in ("runs", "responses", "rows", "spending", "asked", "digests"):
                names = [name for _, name, *_ in copy._db.execute(f"PRAGMA table_info({table})")]
                columns = ", ".join(names)
                copy._db.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM original.{table}")  # noqa: S608
            copy._db.execute("DETACH original")
            for run in self.runs_in_batches():
                for rows in _rows_up_to(self._batches(run), limit):
                    copy.add_rows(run, rows)

    # --- secrets that earlier versions stored ---------------------------------------------------------------------

    def count_secrets(self) -> int:
        """Return how many records, rows, batches and answers contain secrets."""
        with plain_errors(self.file):
            return len(list(self._without_secrets()))

    def blank_secrets(self) -> tuple[int, Path]:
        """Blank out secrets as if everything were stored again, and update the digests.

        Returns how many records, rows, batches and answers were changed, and the file with a copy of the original.
        Damaged ones stay as they are: a new digest would hide the damage.
        """
        for record in self.runs():
            if record.status == "running":
                raise StoreError(f"{self.file}: the run {record.id} is in progress; try again when it has finished")
        backup = self.file.with_name(f"{STORE_FILE}.with-secrets-{secrets.token_hex(3)}")
        with plain_errors(self.file):
            self._copy_to(backup)
            with self._transaction():
                updates = list(self._without_secrets())
                for update in updates:
                    for statement, values in update:
                        self._db.execute(statement, values)
            # SQLite keeps deleted texts in free pages and in its log until the file is written again.
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(updates), backup

    def _without_secrets(self) -> Iterator[_Update]:
        """Yield what to change in each record, row, batch and answer that contains a secret."""
        for record in self._db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY rowid").fetchall():  # noqa: S608
            yield from self._record_without_secrets(dict(zip(_COLUMNS.split(", "), record, strict=True)))
        rows = self._db.execute(f"SELECT rowid, {self._row_columns} FROM rows")  # noqa: S608
        for number, *columns, stored_digest in rows:
            row = _StoredRow(*columns)
            clean_row = row.without_secrets()
            if clean_row != row and not row.is_damaged(stored_digest, needs_digest=False):
                names = [*_StoredRow._fields, "digest"]
                assignments = ", ".join(f"{name} = ?" for name in names)
                statement = f"UPDATE rows SET {assignments} WHERE rowid = ?"  # noqa: S608
                yield [(statement, (*clean_row.with_digest(), number))]
        for run in self.runs_in_batches():
            for stored_batch in self._stored_batches(run):
                if stored_batch.is_damaged():
                    continue
                clean_batch = StoredBatch.of(run, _batch_without_keys(stored_batch.parsed()))
                if clean_batch != stored_batch:
                    statement = f"INSERT OR REPLACE INTO batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
                    yield [(statement, clean_batch)]
        yield from self._responses_without_secrets()

    def _record_without_secrets(self, fields: Mapping[str, Any]) -> Iterator[_Update]:
        run = fields["id"]
        digests = self._digests(run)
        if digests.get("record") not in (None, _record_digest(fields)):
            return
        try:
            config = json.loads(fields["config"])
            provenance = json.loads(fields["provenance"])
        except ValueError:
            return
        clean_fields = {**fields}
        for name in ("name", "model", "label", "signature", "note"):
            clean_fields[name] = redact(fields[name])
        clean_config = config_without_keys(config)
        if clean_config != config:
            clean_fields["config"] = json.dumps(clean_config, allow_nan=False)
        clean_provenance = redacted_value(provenance)
        if clean_provenance != provenance:
            clean_fields["provenance"] = canonical(clean_provenance)
        if digests.get("results") in (None, digest(run, fields["results"])):
            clean_fields["results"] = _json_without_keys(fields["results"])
        if clean_fields == fields:
            return
        names = ("name", "model", "label", "signature", "note", "config", "provenance", "results")
        assignments = ", ".join(f"{name} = ?" for name in names)
        values = (*(clean_fields[name] for name in names), run)
        update: _Update = [(f"UPDATE runs SET {assignments} WHERE id = ?", values)]  # noqa: S608
        new_digests = {"record": _record_digest(clean_fields), "results": digest(run, clean_fields["results"])}
        for part, value in new_digests.items():
            if part in digests:
                update.append(("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (run, part, value)))
        yield update

    def _responses_without_secrets(self) -> Iterator[_Update]:
        query = f"SELECT key, model, request, response, {self._digest_column} FROM responses"  # noqa: S608
        for key, model, request, response, stored_digest in self._db.execute(query):
            if stored_digest not in (None, response_digest(key, response)):
                continue
            clean_response = _json_without_keys(response)
            clean_request = _json_without_keys(request)
            clean_model = redact(model)
            if (clean_model, clean_request, clean_response) == (model, request, response):
                continue
            # An altered answer must not be used instead of asking the model.
            new_key = key if clean_response == response else _altered_response_key(key)
            assignments = "key = ?, model = ?, request = ?, response = ?, digest = ?"
            statement = f"UPDATE OR REPLACE responses SET {assignments} WHERE key = ?"  # noqa: S608
            new_digest = response_digest(new_key, clean_response)
            yield [(statement, (new_key, clean_model, clean_request, clean_response, new_digest, key))]

    # --- internals ------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if os.access(self.folder, os.W_OK):
            return sqlite3.connect(self.file, timeout=60, isolation_level=None)
        # Even for reading, SQLite writes files next to the store. In a read-only folder, only the file itself is read,
        # which is complete unless another process is still writing to it.
        log = self.file.with_name(f"{STORE_FILE}-wal")
        if log.is_file() and log.stat().st_size:
            raise StoreError(
                f"{self.file} is still being written, and you cannot write to {self.folder}; copy the folder"
            )
        return sqlite3.connect(f"{self.file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)

    def _open_schema(self, create: bool) -> None:
        # First: if another process is just creating the tables, what is read below belongs to these tables.
        (tables,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        if version > SCHEMA and application == APPLICATION_ID:
            raise StoreError(f"{self.file} was written by a newer lmassay (schema {version} > {SCHEMA}); upgrade")
        if tables and application != APPLICATION_ID:
            raise StoreError(f"{self.file} is a database of another program; choose another --results folder")
        if not tables and not create:
            raise StoreError(f"{self.file} is empty; run something first, or give --results FOLDER")
        if create:
            self._db.execute("PRAGMA journal_mode = WAL")
            # With NORMAL, a killed process loses nothing; only a power failure may lose the last commits.
            self._db.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            with self._transaction():
                # Two processes may get here at the same time; the second one finds the tables.
                (tables,) = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
                if not tables:
                    for statement in TABLES.strip().split(";\n"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if create and version < SCHEMA:
            if tables and version:
                self._back_up(version)
            with self._transaction():
                self._db.execute(SPENDING)
                self._db.execute(ASKED)
                self._db.execute(DIGESTS)
                self._db.execute(BATCHES)
                for table in ("rows", "responses"):
                    self._add_column(table, "digest BLOB")
                self._add_column("rows", "outcomes TEXT")
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
            version = SCHEMA
        self._has_digests = version >= _FIRST_SCHEMA_WITH_DIGESTS
        self._has_batches = version >= _FIRST_SCHEMA_WITH_BATCHES
        self._digest_column = "digest" if self._has_digests else "NULL"
        self._outcomes_column = "outcomes" if version >= _FIRST_SCHEMA_WITH_OUTCOMES else "NULL"

    def _back_up(self, version: int) -> None:
        """Copy the file before its schema is updated, so that an earlier version of lmassay can still read the copy."""
        backup = self.file.with_name(f"{STORE_FILE}.schema-{version}")
        if not backup.exists():
            self._copy_to(backup)

    def _copy_to(self, backup: Path) -> None:
        # The copy gets its name when it is complete. Two processes may get here at the same time.
        unfinished = self.file.with_name(f".{backup.name}-{secrets.token_hex(4)}")
        try:
            with closing(sqlite3.connect(unfinished)) as copy:
                self._db.backup(copy)
            unfinished.replace(backup)
        finally:
            unfinished.unlink(missing_ok=True)

    def _add_column(self, table: str, declaration: str) -> None:
        # Two processes may get here at the same time; the second one finds the column.
        columns = [name for _, name, *_ in self._db.execute(f"PRAGMA table_info({table})")]
        if declaration.split()[0] not in columns:
            self._db.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")

    @property
    def _row_columns(self) -> str:
        """The columns of a stored row and its digest; NULL for columns that an old store does not have."""
        return f"{_ROW_COLUMNS}, {self._outcomes_column}, {self._digest_column}"

    def _all_digests(self) -> dict[str, dict[str, str]]:
        """Return the digests of every run by part."""
        digests: dict[str, dict[str, str]] = {}
        if self._has_digests:
            for run, part, value in self._db.execute("SELECT run, part, value FROM digests"):
                digests.setdefault(run, {})[part] = value
        return digests

    def _digests(self, run: str) -> dict[str, str]:
        """Return the digests of one run by part."""
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
        digests_of_run = digests.get(fields["id"], {})
        has_record_digest = "record" in digests_of_run
        if has_record_digest and digests_of_run["record"] != _record_digest(fields):
            return self._damaged_record(fields, "is not what lmassay wrote")
        # A run that was recorded before schema 4 has a digest of its results only if they were computed later.
        expected = digests_of_run.get("results")
        if expected is None and has_record_digest:
            # The results have not been computed, so they must be empty.
            expected = digest(fields["id"], "[]")
        if expected not in (None, digest(fields["id"], fields["results"])):
            again = command_line("resume", fields["id"], "--results", self.folder)
            note = f"its results are not what lmassay wrote; compute them again from the stored examples: {again}"
            fields |= {"results": "[]", "status": DAMAGED, "note": note}
        try:
            return RunRecord(**{**fields, **_parsed_columns(fields)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return self._damaged_record(fields, f"cannot be read ({error})")

    def _damaged_record(self, fields: Mapping[str, Any], what: str) -> RunRecord:
        """Return a run whose record cannot be trusted; it is listed without configuration and numbers."""
        note = f"its record {what}; restore {self.file} from a backup, or start a new run"
        empty = {"config": {}, "provenance": Provenance(), "results": []}
        return RunRecord(**{**fields, **empty, "status": DAMAGED, "note": note})

    def _lock_file(self, run: str) -> Path:
        return self.folder / ".locks" / run


# The key under which the score on each test item (few-shot) is stored among the details.
_TEST_SCORES = "on_tests"
_COLUMNS = (
    "id, sweep, name, task, model, label, status, config, signature, "
    "provenance, results, note, planned, created, finished"
)


DAMAGED = "damaged"
"""The status of a run whose record or results are not what was written."""
# The columns of a run that never change, which its digest covers; status, note and times change.
_RECORD = ("id", "sweep", "name", "task", "model", "label", "config", "signature", "provenance", "planned")
_ROW_COLUMNS = "run, id, position, state, inputs, reference, groups, scores, unscored, details, error"


class _StoredRow(NamedTuple):
    """A row of the table. It is a tuple for speed, because there may be hundreds of thousands."""

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
        """Return an example of a run in the form in which it is stored."""
        outcomes = _stored_outcomes(row.score.outcomes)
        return _StoredRow(
            run,
            _writable(row.example.id),
            position,
            row.state,
            _json_without_keys(compact(dict(row.example.inputs))),
            _json_without_keys(compact(row.example.reference)),
            _json_without_keys(compact(dict(row.example.groups))),
            compact(dict(row.score.values)),
            _json_without_keys(compact(dict(row.score.unscored))),
            _json_without_keys(compact(_stored_details(row.score))),
            None if row.error is None else _writable(redact(row.error)),
            None if outcomes is None else _json_without_keys(outcomes),
        )

    def parsed(self) -> Row:
        """Return the row as an example with its score."""
        example = Example(self.id, json.loads(self.inputs), json.loads(self.reference), json.loads(self.groups))
        details = json.loads(self.details)
        stored_test_scores = details.pop(_TEST_SCORES, None)
        score = Score(
            values=json.loads(self.scores),
            unscored=json.loads(self.unscored),
            details=details,
            outcomes=_parsed_outcomes(self.outcomes),
            test_scores=None if stored_test_scores is None else PerTestScores(**stored_test_scores),
        )
        return Row(example, self.state, score, self.error)

    def digest(self) -> bytes:
        """Return a digest of the columns that statistics need, followed by one of the texts, which they do not read."""
        of_scores = _digest_of_scores(
            self.run, self.id, self.position, self.state, self.groups, self.scores, self.error, self.outcomes
        )
        return of_scores + _short_digest(f"{self.inputs}\n{self.reference}\n{self.unscored}\n{self.details}")

    def without_secrets(self) -> _StoredRow:
        """Return the row as it would be stored now."""
        return self._replace(
            inputs=_json_without_keys(self.inputs),
            reference=_json_without_keys(self.reference),
            groups=_json_without_keys(self.groups),
            unscored=_json_without_keys(self.unscored),
            details=_json_without_keys(self.details),
            error=None if self.error is None else redact(self.error),
            outcomes=None if self.outcomes is None else _json_without_keys(self.outcomes),
        )

    def with_digest(self) -> tuple[Any, ...]:
        """Return all columns and the digest."""
        return (*self, self.digest())

    def is_damaged(self, stored_digest: bytes | None, *, needs_digest: bool) -> bool:
        """Return whether the stored digest does not match; rows of old stores may have none."""
        if stored_digest is None:
            return needs_digest
        return stored_digest != self.digest()


def _digest_of_scores(
    run: str,
    example_id: str,
    position: int,
    state: str,
    groups: str,
    scores: str,
    error: str | None,
    outcomes: str | None,
) -> bytes:
    text = f"{run}\n{example_id}\n{position}\n{state}\n{groups}\n{scores}\n{error or ''}"
    # Rows without outcomes have the same digest as in schema 4.
    return _short_digest(text if outcomes is None else f"{text}\n{outcomes}")


def _short_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_SIZE).digest()


def response_digest(key: str, response: str) -> bytes:
    """Return the digest of a stored response, which is JSON."""
    return _short_digest(f"{key}\n{response}")


def _record_digest(fields: Mapping[str, Any]) -> str:
    return digest(*(fields[name] for name in _RECORD))


def _parsed_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parsed values of the columns that contain JSON."""
    return {
        "config": json.loads(fields["config"]),
        "provenance": provenance_from_dict(json.loads(fields["provenance"])),
        "results": [Result(**stored) for stored in json.loads(fields["results"])],
    }


def _create_and_check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-test-{secrets.token_hex(4)}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise StoreError(f"cannot write to the results folder {folder}: {error.strerror or error}") from error


@contextmanager
def plain_errors(file: Path) -> Iterator[None]:
    """Turn errors of SQLite into messages that say what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            text = f"{text}: the disk is full or the file may not grow; free some space, then `lmassay resume`"
        elif "locked" in text:
            text = "another process is using the file; try again when it is done"
        raise StoreError(f"{file}: {text}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{file} is damaged or not an lmassay store ({error}); move it away, or try sqlite3's .recover on it"
        ) from error


def _stored_details(score: Score) -> dict[str, Any]:
    """Return the details with the score on each test item (few-shot), which has no column because it is rare."""
    if score.test_scores is None:
        return dict(score.details)
    return {**score.details, _TEST_SCORES: score.test_scores.as_dict()}


def _json_without_keys(text: str) -> str:
    """Return JSON without the keys in use.

    The values are read only if there is a key in the text. In the text itself, a key that is a number could not be told
    from other numbers.
    """
    if without_keys(text) == text:
        return text
    return compact(value_without_keys(json.loads(text)))


def _batch_without_keys(batch: RowBatch) -> RowBatch:
    """Return a batch without the keys in use. Most runs that are scored in batches ask no model and have no keys."""
    if not has_keys_in_use():
        return batch
    return replace(
        batch,
        groups=_columns_without_keys(batch.groups),
        inputs=_columns_without_keys(batch.inputs),
        references=None if batch.references is None else value_without_keys(list(batch.references)),
        details=_columns_without_keys(batch.details),
    )


def _columns_without_keys(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {name: value_without_keys(list(column)) for name, column in columns.items()}


def _altered_response_key(key: str) -> str:
    """Return the key under which a response is stored that is shown, but never used instead of asking the model."""
    return f"{key}-redacted"


def _writable(text: str) -> str:
    """Return a text that can be written as UTF-8; a lone surrogate is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _stored_outcomes(outcomes: Mapping[str, Sequence[Outcome]]) -> str | None:
    """Return outcomes as JSON, without the names of the fields, which would take more space than the values."""
    if not outcomes:
        return None
    data: dict[str, list[tuple[str, float, float]]] = {}
    for metric, outcomes_of_metric in outcomes.items():
        data[metric] = [(outcome.label, outcome.value, outcome.rows) for outcome in outcomes_of_metric]
    return compact(data)


def _parsed_outcomes(stored: str | None) -> dict[str, list[Outcome]]:
    """Read what :func:`_stored_outcomes` wrote; early versions stored no outcomes."""
    outcomes: dict[str, list[Outcome]] = {}
    if stored is not None:
        for metric, rows in json.loads(stored).items():
            outcomes[metric] = [Outcome(*values) for values in rows]
    return outcomes


def _rows_up_to(batches: Iterable[RowBatch], limit: int) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows of each batch with their positions, until there are ``limit`` rows."""
    for batch in batches:
        if limit <= 0:
            return
        yield list(islice(enumerate(batch.rows(), start=batch.first), limit))
        limit -= len(batch)


def _position(entry: tuple[int, object]) -> int:
    """Return the position of an entry, by which rows and batches are merged."""
    return entry[0]


def _matching_runs(name: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the run with this id; without one, all runs whose id begins or ends with the name."""
    for run in runs:
        if run.id == name:
            return [run]
    if not name:
        return []
    return [run for run in runs if run.id.startswith(name) or run.id.endswith(name)]


def _suggestion(name: str, runs: Sequence[RunRecord]) -> str:
    """Return what to do about a name that no run has."""
    known_names = ["latest"]
    for run in runs:
        known_names.append(run.id)
    for run in runs:
        known_names.append(run.id.rpartition("-")[2])
    meant = closest(name, known_names)
    if meant is None:
        return "`lmassay ls` lists all"
    return f"did you mean '{meant}'?"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32] or "run"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
