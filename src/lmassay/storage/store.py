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

import heapq
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from lmassay.errors import StoreError, closest
from lmassay.redaction import redact, redacted_value, value_without_keys
from lmassay.storage.batches import BATCH_COLUMNS, StoredBatch
from lmassay.storage.blanking import altered_response_key, batch_without_keys, json_without_keys
from lmassay.storage.database import STORE_FILE, Database, plain_errors
from lmassay.storage.locks import exclusive, is_held
from lmassay.storage.provenance import command_line
from lmassay.storage.reading import RowReader, position_of
from lmassay.storage.records import DAMAGED, DIGESTED_COLUMNS, RECORD_COLUMNS, parsed_columns, record_digest
from lmassay.storage.single_rows import ROW_COLUMNS, StoredRow, short_digest, writable
from lmassay.types import (
    NewRun,
    Provenance,
    Request,
    Response,
    Result,
    Row,
    RowBatch,
    RunRecord,
    Slot,
    canonical,
    compact,
    digest,
    response_as_dict,
    response_from_dict,
)

__all__ = [
    "DAMAGED",
    "STORE_FILE",
    "Spending",
    "Store",
    "is_cacheable_request",
    "is_cacheable_response",
    "response_digest",
]

MAX_CACHED_CANDIDATES = 64
_MAX_LISTED_RUNS = 5


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


class Store(RowReader):
    """A results folder. One process may write to a run; any number may read it.

    Use it as a context manager: ``with Store(Path("results")) as store: …``.
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open a results folder. With ``create``, it is created if necessary, and an old schema is updated."""
        super().__init__(Database(folder, create=create))

    def close(self) -> None:
        """Close the file."""
        self.database.close()

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
        with plain_errors(self.file), self.database.transaction():
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
        self.database.execute(
            "INSERT INTO runs (id, sweep, name, task, model, label, config, signature, provenance, planned, status,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*record.values(), status, created),
        )
        self.database.set_digest(run.id, "record", record_digest(record))

    def add_waiting(self, runs: Sequence[NewRun]) -> None:
        """Record runs that wait for their turn; either all are recorded or none."""
        with plain_errors(self.file), self.database.transaction():
            for run in runs:
                self._insert_run(run, "waiting")

    def set_status(self, run: str, status: str, note: str = "") -> None:
        """Set the status of a run and a note that explains it."""
        finished = None if status in ("running", "waiting") else datetime.now(UTC).isoformat(timespec="seconds")
        with plain_errors(self.file):
            self.database.execute(
                "UPDATE runs SET status = ?, note = ?, finished = ? WHERE id = ?", (status, redact(note), finished, run)
            )

    def set_signature(self, run: str, signature: str, signature_parts: Mapping[str, str]) -> None:
        """Replace a run's signature, and the dict of its parts in the provenance."""
        with plain_errors(self.file), self.database.transaction():
            query = f"SELECT {', '.join(DIGESTED_COLUMNS)} FROM runs WHERE id = ?"  # noqa: S608
            (row,) = self.database.execute(query, (run,))
            record = dict(zip(DIGESTED_COLUMNS, row, strict=True))
            stored_parts = redacted_value(signature_parts)
            provenance = {**json.loads(record["provenance"]), "signature": stored_parts}
            record |= {"signature": redact(signature), "provenance": canonical(provenance)}
            self.database.execute(
                "UPDATE runs SET signature = ?, provenance = ? WHERE id = ?",
                (record["signature"], record["provenance"], run),
            )
            if "record" in self.database.digests(run):
                self.database.set_digest(run, "record", record_digest(record))

    def set_results(self, run: str, results: Sequence[Result]) -> None:
        """Store the results of a run, and how many rows they were computed from."""
        stored = json_without_keys(canonical([result.as_dict() for result in results]))
        with plain_errors(self.file), self.database.transaction():
            self.database.execute("UPDATE runs SET results = ? WHERE id = ?", (stored, run))
            self.database.set_digest(run, "results", digest(run, stored))
            self.database.set_digest(run, "rows", str(self.count_rows(run)))

    def runs(self) -> list[RunRecord]:
        """Return all runs in the order in which they were recorded.

        A run that is marked as running although its process is gone gets the status ``interrupted``.
        """
        with plain_errors(self.file):
            # SQLite numbers rows as they are inserted. The times are not reliable: a clock may be wrong or set back.
            rows = self.database.execute(f"SELECT {RECORD_COLUMNS} FROM runs ORDER BY rowid").fetchall()  # noqa: S608
            digests = self.database.all_digests()
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
        query = f"SELECT response, {self.database.digest_column} FROM responses WHERE key = ?"  # noqa: S608
        row = self.database.execute(query, (key,)).fetchone()
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
        stored = json_without_keys(original)
        if stored != original:
            key = altered_response_key(key)
        stored_request = json_without_keys(compact(request))
        with plain_errors(self.file):
            self.database.execute(
                "INSERT OR REPLACE INTO responses (key, model, request, response, run, created, digest)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, redact(model), stored_request, stored, run, _now(), response_digest(key, stored)),
            )

    def add_spending(self, run: str, response: Response, usd: float | None) -> None:
        """Add the tokens and the cost of a response to what the run has spent, whether it is stored or not."""
        # A request that failed may have cost tokens, but it is not an answer.
        answers = 0 if response.error else 1
        with plain_errors(self.file):
            self.database.execute(
                "INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET"
                " answers = answers + excluded.answers, tokens_in = tokens_in + excluded.tokens_in,"
                " tokens_out = tokens_out + excluded.tokens_out, usd = usd + excluded.usd",
                (run, answers, response.tokens_in or 0, response.tokens_out or 0, usd),
            )

    def spending(self, *, run: str | None = None, sweep: str | None = None) -> Spending | None:
        """Return what a run, or all runs of a command, spent on models behind an API; None if nothing."""
        with plain_errors(self.file):
            # Stores of schema 1 do not have the table.
            if not self.database.execute("SELECT 1 FROM sqlite_master WHERE name = 'spending'").fetchone():
                return None
            sums = self.database.execute(
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
                stored_keys.append((run, writable(example_id), compact(list(keys))))
        with plain_errors(self.file), self.database.transaction():
            self.database.executemany("INSERT OR REPLACE INTO asked VALUES (?, ?, ?)", stored_keys)
            self.database.executemany(
                f"INSERT OR REPLACE INTO rows ({ROW_COLUMNS}, outcomes, digest)"  # noqa: S608
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (StoredRow.of(run, position, row).with_digest() for position, row in rows),
            )
            self._forget_row_count(run)

    def add_batch(self, run: str, batch: RowBatch) -> None:
        """Store consecutive examples that are scored, as columns."""
        with plain_errors(self.file), self.database.transaction():
            self.database.execute(
                f"INSERT OR REPLACE INTO batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                StoredBatch.of(run, batch_without_keys(batch)),
            )
            self._forget_row_count(run)

    def _forget_row_count(self, run: str) -> None:
        # The number of rows that was recorded with the results is no longer valid.
        self.database.execute("DELETE FROM digests WHERE run = ? AND part = 'rows'", (run,))

    def drop_damaged_rows(self, run: str) -> int:
        """Delete damaged rows and batches, so that their examples are scored again; return how many there were.

        Hold the run's lock.
        """
        with plain_errors(self.file):
            damaged_rows = list(self.damaged_rows(run))
            damaged_batches = list(self.damaged_batches(run))
            with self.database.transaction():
                self.database.executemany("DELETE FROM rows WHERE rowid = ?", ((number,) for number in damaged_rows))
                self.database.executemany(
                    "DELETE FROM batches WHERE run = ? AND first = ?",
                    ((batch.run, batch.first) for batch in damaged_batches),
                )
        return len(damaged_rows) + sum(batch.examples for batch in damaged_batches)

    def requests_and_responses(self, run: str) -> Iterator[_ExampleExchanges]:
        """Yield each example's id with its requests and responses, as far as they are stored.

        The examples come in the order of the data. Those in batches have none: no model was asked.
        """
        for _, exchanges in heapq.merge(self._exchanges(run), self._examples_without_exchanges(run), key=position_of):
            yield exchanges

    def _examples_without_exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        for batch in self.verified_score_batches(run):
            for position, example_id in enumerate(batch.ids, start=batch.first):
                yield position, (example_id, [])

    def _exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        with plain_errors(self.file):
            # Stores before schema 3 do not have the table.
            has_keys = self.database.execute("SELECT 1 FROM sqlite_master WHERE name = 'asked'").fetchone()
            keys_column = "NULL"
            if has_keys:
                keys_column = "(SELECT keys FROM asked WHERE asked.run = rows.run AND asked.id = rows.id)"
            query = f"SELECT position, id, {keys_column} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
            for position, example_id, stored_keys in self.database.execute(query, (run,)):
                pairs: list[tuple[dict[str, Any], Response]] = []
                for key in json.loads(stored_keys or "[]"):
                    response = self._stored_response(key)
                    if response is None:
                        key = altered_response_key(key)
                        response = self._stored_response(key)
                    if response is not None:
                        (request,) = self.database.execute(
                            "SELECT request FROM responses WHERE key = ?", (key,)
                        ).fetchone()
                        pairs.append((json.loads(request), response_from_dict(json.loads(response))))
                yield position, (example_id, pairs)

    def copy_with_single_rows(self, folder: Path, limit: int) -> None:
        """Copy the store to a new folder, with a row for each example also where this store has batches.

        It is for tools that read the tables themselves. At most the first ``limit`` examples in batches of each run
        are copied.
        """
        with Store(folder, create=True) as copy, plain_errors(self.file):
            copy.database.execute("ATTACH ? AS original", (str(self.file),))
            for table in ("runs", "responses", "rows", "spending", "asked", "digests"):
                names = [name for _, name, *_ in copy.database.execute(f"PRAGMA table_info({table})")]
                columns = ", ".join(names)
                copy.database.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM original.{table}")  # noqa: S608
            copy.database.execute("DETACH original")
            for run in self.runs_in_batches():
                for rows in _rows_up_to(self.batches(run), limit):
                    copy.add_rows(run, rows)

    # --- internals ------------------------------------------------------------------------------------------------

    def _record(self, row: tuple[Any, ...], digests: Mapping[str, Mapping[str, str]]) -> RunRecord:
        fields: dict[str, Any] = dict(zip(RECORD_COLUMNS.split(", "), row, strict=True))
        if fields["status"] == "running" and not is_held(self._lock_file(fields["id"])):
            fields["status"] = "interrupted"
        digests_of_run = digests.get(fields["id"], {})
        has_record_digest = "record" in digests_of_run
        if has_record_digest and digests_of_run["record"] != record_digest(fields):
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
            return RunRecord(**{**fields, **parsed_columns(fields)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return self._damaged_record(fields, f"cannot be read ({error})")

    def _damaged_record(self, fields: Mapping[str, Any], what: str) -> RunRecord:
        """Return a run whose record cannot be trusted; it is listed without configuration and numbers."""
        note = f"its record {what}; restore {self.file} from a backup, or start a new run"
        empty = {"config": {}, "provenance": Provenance(), "results": []}
        return RunRecord(**{**fields, **empty, "status": DAMAGED, "note": note})

    def _lock_file(self, run: str) -> Path:
        return self.folder / ".locks" / run


def response_digest(key: str, response: str) -> bytes:
    """Return the digest of a stored response, which is JSON."""
    return short_digest(f"{key}\n{response}")


def _rows_up_to(batches: Iterable[RowBatch], limit: int) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows of each batch with their positions, until there are ``limit`` rows."""
    for batch in batches:
        if limit <= 0:
            return
        yield list(islice(enumerate(batch.rows(), start=batch.first), limit))
        limit -= len(batch)


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
