"""The results folder: one SQLite file with the records of all runs and a cache of all answers.

Scored examples are stored in one of two forms. *Rows* are for examples that sent requests: each is one record in the
table ``rows``, and the cache keys of its answers are in the table ``asked``. *Batches* are for tasks that score many
examples at once without requests: a batch is one record in the table ``batches`` and holds thousands of consecutive
examples by columns, which is much smaller and faster.

Each answer is committed as soon as it arrives, and rows are committed several at a time, so a run that is killed loses
only the requests whose answers had not arrived. A run in progress holds a lock that the operating system releases when
the process dies. So no two processes write to the same run, and an interrupted run can be distinguished from a running
one.

Records, results, rows and answers are stored with a digest, which is verified when they are read, so that a defective
disk or a manual edit cannot change a result unnoticed. A run whose record or results do not match is called damaged and
shows no numbers; reading a row that does not match is an error; an answer that does not match is requested again.
Before schema 4, no digests were written; such data is read without verification.

Secrets are blanked out here, before anything is written. In configurations, results, examples and answers, these are
the API keys that the process knows; in names, labels, signatures, provenance, notes and errors, also everything that
looks like an API key. The ids of runs and examples are not changed, because data are found by them. Reports and exports
are written from the store, so the same texts are blanked out there.
"""

from __future__ import annotations

import heapq
import json
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from lmassay.errors import DamageError, StoreError, closest
from lmassay.redaction import redact, redacted_value, remember_environment, value_without_keys
from lmassay.storage import digests
from lmassay.storage.annotations import store_annotation
from lmassay.storage.batches import BATCH_COLUMNS, StoredBatch
from lmassay.storage.blanking import (
    altered_response_key,
    batch_without_keys,
    json_without_keys,
    record_without_keys,
)
from lmassay.storage.database import OWN_ANSWER_MARK, STORE_FILE, Database, one_line, plain_errors
from lmassay.storage.digests import (
    RECORD_FIELDS,
    decoded_cell,
    keys_digest,
    record_digest,
    results_digest,
    spending_digest,
    state_digest,
)
from lmassay.storage.file_names import run_file
from lmassay.storage.locks import LOCKS, REPAIR_LOCK, exclusive, is_held
from lmassay.storage.provenance import command_line
from lmassay.storage.reading import RowReader, position_of
from lmassay.storage.records import DAMAGED, RECORD_QUERY, RECORDS_QUERY, StoredRecord, lost_record
from lmassay.storage.responses import RESPONSE_COLUMNS, StoredResponse, is_damaged_response
from lmassay.storage.single_rows import ROW_COLUMNS, UNREADABLE, StoredRow, writable
from lmassay.types import (
    Annotation,
    NewRun,
    Request,
    Response,
    Result,
    Row,
    RowBatch,
    RunRecord,
    Slot,
    canonical,
    compact,
    response_as_dict,
    response_from_dict,
)
from lmassay.types.wording import counted

__all__ = [
    "DAMAGED",
    "STORE_FILE",
    "Spending",
    "Store",
    "is_cacheable_request",
    "is_cacheable_response",
]

# Answers with the probabilities of more candidate words are not stored: see ``is_cacheable_request``.
MAX_CACHED_CANDIDATES = 64
_MAX_LISTED_RUNS = 5
# The id of a run begins with the time at which it was recorded.
_ID_TIME_FORMAT = "%Y%m%d-%H%M%S"
_TIME_IN_ID = re.compile(r"\d{8}-\d{6}(?=-)")
# SQLite allows at least 999 values in a statement.
_KEYS_IN_A_QUERY = 500
_RESPONSE_INSERTION = f"INSERT OR REPLACE INTO responses ({RESPONSE_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_SPENDING_QUERY = "SELECT answers, tokens_in, tokens_out, usd FROM spending WHERE run = ?"


_ExampleExchanges = tuple[str, list[tuple[dict[str, Any], Response]]]
"""The id of an example with its requests and responses."""


def is_cacheable_response(response: Response) -> bool:
    """Return whether other runs may use a response. Errors, refusals and empty answers may be different next time."""
    return response.usable and response.finish in ("stop", "length")


def is_cacheable_request(request: Request) -> bool:
    """Return whether the answer to a request is worth storing.

    Answers with the probabilities of many candidate words, or with the logits of the whole vocabulary, would fill the
    disk, and a local model computes them again in milliseconds. The scores that are computed from them are stored with
    the examples.
    """
    if not isinstance(request, Slot):
        return True
    return len(request.candidates) <= MAX_CACHED_CANDIDATES and not request.full_logits


@dataclass(frozen=True, slots=True)
class Spending:
    """The tokens and the cost of answers of a model behind an API."""

    answers: int = 0
    """The number of answers, without failed requests."""
    tokens_in: int = 0
    """The number of tokens in the prompts."""
    tokens_out: int = 0
    """The number of generated tokens."""
    usd: float | None = 0.0
    """The cost; None if the prices are unknown."""

    def plus(self, other: Spending) -> Spending:
        """Return the sum of both. If the cost of one is unknown, so is the sum."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Spending(
            self.answers + other.answers, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, usd
        )

    def describe(self) -> str:
        """Return the numbers as one line of text."""
        cost = "cost unknown (give the model's prices)" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{counted(self.answers, 'answer')}, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {cost}"


class Store(RowReader):
    """A results folder. Only one process at a time may write to a run; any number of processes may read it.

    Use it as a context manager: ``with Store(Path("results")) as store: …``.
    """

    def __init__(
        self, folder: Path, *, create: bool = False, read_only: bool = False, for_display: bool = False
    ) -> None:
        """Open a results folder.

        With ``create``, it is created if necessary, and an old schema is updated. With ``read_only``, SQLite refuses
        everything that would change it. With ``for_display``, the API keys in the environment and all others that the
        process knows are blanked out of what is read, because an old version may have stored them. This cannot wait
        until a page is finished: there, a key may be cut, wrapped or escaped, and would not be found.
        """
        if for_display:
            remember_environment()
        super().__init__(Database(folder, create=create), for_display=for_display)
        if read_only:
            self.database.execute("PRAGMA query_only = ON")

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
        return f"{datetime.now(UTC).strftime(_ID_TIME_FORMAT)}-{_slug(redact(label))}-{secrets.token_hex(3)}"

    def add_run(self, run: NewRun, status: str = "running") -> None:
        """Record a run. The caller must hold its lock; otherwise, other processes consider the run interrupted."""
        with plain_errors(self.file), self.database.transaction():
            self._insert_run(run, status)

    def _insert_run(self, run: NewRun, status: str) -> None:
        """Insert a run with its digests. The caller must have begun a transaction."""
        record = {
            "id": run.id,
            "sweep": run.sweep,
            "name": redact(run.name),
            "task": run.task,
            "model": redact(run.model),
            "label": redact(run.label),
            # Not ``canonical``, which sorts keys: their order in the configuration may affect the requests.
            "config": json.dumps(value_without_keys(run.config), allow_nan=False),
            "signature": redact(run.signature),
            "provenance": canonical(redacted_value(run.provenance.as_dict())),
            "planned": run.planned,
        }
        # Use the time that is in the id, so that the stored time can be restored from the id if it is damaged.
        created = _time_of_id(run.id) or datetime.now(UTC).isoformat(timespec="seconds")
        # The keys are in the order of the columns below.
        self.database.execute(
            "INSERT INTO runs (id, sweep, name, task, model, label, config, signature, provenance, planned, status,"
            " created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*record.values(), status, created),
        )
        state = {"id": run.id, "status": status, "note": "", "created": created, "finished": None}
        self.database.set_digest(run.id, digests.RECORD, record_digest(record))
        self.database.set_digest(run.id, digests.STATE, state_digest(state))

    def add_waiting(self, runs: Sequence[NewRun]) -> None:
        """Record runs that wait for other runs of the same command to finish; either all are recorded or none."""
        with plain_errors(self.file), self.database.transaction():
            for run in runs:
                self._insert_run(run, "waiting")

    def set_status(self, run: str, status: str, note: str = "") -> None:
        """Set the status of a run and a note that explains it."""
        finished = None
        if status not in ("running", "waiting"):
            finished = datetime.now(UTC).isoformat(timespec="seconds")
        safe_note = redact(note)
        # Status and digest are written in one transaction: after a crash between the two, they would not match, and the
        # run would look damaged.
        with plain_errors(self.file), self.database.transaction():
            created = self._creation_time(run)
            self.database.execute(
                "UPDATE runs SET status = ?, note = ?, finished = ? WHERE id = ?", (status, safe_note, finished, run)
            )
            if created is not None:
                state = {"id": run, "status": status, "note": safe_note, "created": created, "finished": finished}
                self.database.set_digest(run, digests.STATE, state_digest(state))

    def _creation_time(self, run: str) -> str | None:
        """The time at which a run was recorded; None if there is no such run.

        If the stored time is damaged, it is restored from the id of the run. Otherwise, the digest that is written next
        would confirm a wrong time.
        """
        query = "SELECT id, status, note, created, finished FROM runs WHERE id = ?"
        stored = self.database.execute(query, (run,)).fetchone()
        if stored is None:
            return None
        state = dict(zip(("id", "status", "note", "created", "finished"), stored, strict=True))
        is_intact = (state_digest(state),) == self.database.execute(
            "SELECT value FROM digests WHERE run = ? AND part = ?", (run, digests.STATE)
        ).fetchone()
        created = _time_of_id(run)
        if is_intact or created is None:
            return str(state["created"])
        self.database.execute("UPDATE runs SET created = ? WHERE id = ?", (created, run))
        return created

    def annotate(self, run: str, annotation: Annotation) -> None:
        """Replace the user's note and tags on a run; the run may be in progress."""
        tags = tuple(redact(tag) for tag in annotation.tags)
        with plain_errors(self.file), self.database.transaction():
            store_annotation(self.database, run, Annotation(redact(annotation.note), tags))

    def set_signature(self, run: str, signature: str, signature_parts: Mapping[str, str]) -> None:
        """Replace a run's signature, and the dict of its parts in the provenance."""
        with plain_errors(self.file), self.database.transaction():
            query = f"SELECT {', '.join(RECORD_FIELDS)} FROM runs WHERE id = ?"  # noqa: S608
            (row,) = self.database.execute(query, (run,))
            record = dict(zip(RECORD_FIELDS, row, strict=True))
            stored_parts = redacted_value(signature_parts)
            provenance = {**json.loads(record["provenance"]), "signature": stored_parts}
            record |= {"signature": redact(signature), "provenance": canonical(provenance)}
            self.database.execute(
                "UPDATE runs SET signature = ?, provenance = ? WHERE id = ?",
                (record["signature"], record["provenance"], run),
            )
            self.database.set_digest(run, digests.RECORD, record_digest(record))

    def set_results(self, run: str, results: Sequence[Result]) -> None:
        """Store the results of a run, and the numbers of rows from which they were computed."""
        stored = json_without_keys(canonical([result.as_dict() for result in results]))
        with plain_errors(self.file), self.database.transaction():
            self.database.execute("UPDATE runs SET results = ? WHERE id = ?", (stored, run))
            self.database.set_digest(run, digests.RESULTS, results_digest(run, stored))
            self.database.set_digest(run, digests.ROWS, self.counts_text(run))

    def runs(self) -> list[RunRecord]:
        """Return all runs in the order in which they were recorded.

        A run that is marked as running although its process is gone gets the status ``interrupted``.
        """
        with plain_errors(self.file):
            stored_digests = self.database.all_digests()
            stored_records = self._stored_records(stored_digests)
        records: dict[str, RunRecord] = {}
        for stored in stored_records:
            record = self._verified_record(stored)
            # A damaged file may contain a run twice. The undamaged record is used.
            if record.id not in records or records[record.id].status == DAMAGED:
                records[record.id] = record
        lost = [lost_record(run, self.file) for run in stored_digests if run not in records]
        return _with_lost_records(list(records.values()), lost)

    def _stored_records(self, stored_digests: Mapping[str, Mapping[str, str]]) -> list[StoredRecord]:
        """Read the records of all runs that can be read, in the order in which they were recorded."""
        records: list[StoredRecord] = []
        try:
            # The query sorts by the number that SQLite gives to each row when it is inserted. The stored times are not
            # a reliable order, because a clock may be wrong or set back.
            for columns in self.database.execute(RECORDS_QUERY):
                records.append(StoredRecord.of(columns, stored_digests))
        except sqlite3.DatabaseError:
            if not stored_digests:
                raise
            # A page of the table is damaged. Runs on other pages can still be found by their ids.
            present = {record.id for record in records}
            for run in stored_digests:
                if run not in present:
                    with suppress(sqlite3.DatabaseError):
                        for columns in self.database.execute(RECORD_QUERY, (run,)):
                            records.append(StoredRecord.of(columns, stored_digests))
        return records

    def _verified_record(self, stored: StoredRecord) -> RunRecord:
        """Return a run, for display without secrets; if it is not what was written, its status is ``damaged``."""
        record = self._checked_record(stored)
        return record_without_keys(record) if self.for_display else record

    def _checked_record(self, stored: StoredRecord) -> RunRecord:
        """Return a run with everything that was stored; if it is not what was written, its status is ``damaged``."""
        needs_digest = self.database.has_all_digests
        if stored.has_damaged_record(needs_digest=needs_digest):
            return stored.damaged(self.file, "is not what lmassay wrote")
        again = command_line("resume", stored.id, "--results", self.folder)
        try:
            if stored.has_damaged_results():
                note = f"its results are not what lmassay wrote; compute them again from the stored examples: {again}"
                return stored.parsed(results="[]", status=DAMAGED, note=note)
            if stored.has_damaged_state(needs_digest=needs_digest):
                note = f"its status is not what lmassay wrote; compute its results again: {again}"
                return stored.parsed(results="[]", status=DAMAGED, note=note)
            if stored.has_damaged_annotation():
                repair = command_line("doctor", "--results", self.folder, "--fix")
                note = f"its note or tags are not what lmassay wrote; `{repair}` removes them and keeps the results"
                return stored.parsed(results="[]", status=DAMAGED, note=note)
            # A process that was killed could not change the status, but the operating system released its lock.
            if stored.fields["status"] == "running" and not is_held(self._lock_file(stored.id)):
                return stored.parsed(status="interrupted")
            return stored.parsed()
        except UNREADABLE as error:
            return stored.damaged(self.file, f"cannot be read ({one_line(error)})")

    def with_damage(self, record: RunRecord) -> RunRecord:
        """Verify all examples and answers of a run, and return it.

        If something is damaged, the returned run has the status ``damaged``, the problem as its note, and no results.
        """
        if record.status == DAMAGED:
            return record
        damage = self.damage_of(record.id) or self.damage_of_answers(record.id)
        if damage is None:
            return record
        return replace(record, status=DAMAGED, note=damage.problem, results=[])

    def run(self, name: str) -> RunRecord:
        """Return a run by its id, by a unique beginning or end of its id, or by ``latest``."""
        # If the name is a complete id, the other runs need not be read.
        record = self._undamaged_run(name)
        if record is not None:
            return record
        runs = self.runs()
        if name == "latest" and runs:
            return runs[-1]
        matches = _matching_runs(name, runs)
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(run.id for run in matches[:_MAX_LISTED_RUNS])
            more = " …" if len(matches) > _MAX_LISTED_RUNS else ""
            raise StoreError(f"'{name}' matches {len(matches)} runs ({ids}{more}); write more of the id")
        if not runs:
            raise StoreError(f"there are no runs in {self.folder} yet; start one with `lmassay run`")
        raise StoreError(f"there is no run '{name}' in {self.folder}; {_suggestion(name, runs)}")

    def _undamaged_run(self, run: str) -> RunRecord | None:
        """Return the run with this id without reading all others; None if there is none, or if it is damaged."""
        with plain_errors(self.file):
            stored_digests = self.database.all_digests()
            try:
                rows = list(self.database.execute(RECORD_QUERY, (run,)))
            except sqlite3.DatabaseError:
                return None
        if len(rows) != 1:
            return None
        record = self._verified_record(StoredRecord.of(rows[0], stored_digests))
        # A damaged index may lead to another run.
        if record.id != run or record.status == DAMAGED:
            return None
        return record

    @contextmanager
    def lock(self, run: str) -> Iterator[None]:
        """Lock a run for this process. The operating system releases the lock when the process ends, even if killed."""
        with exclusive(self._lock_file(run), f"the run {run}"):
            yield

    @contextmanager
    def lock_sweep(self, sweep: str) -> Iterator[None]:
        """Lock all runs of a command for this process, including those that wait for their turn."""
        with exclusive(self._lock_file(f"sweep-{sweep}"), f"the sweep {sweep}"):
            if is_held(self._lock_file(REPAIR_LOCK)):
                raise StoreError(f"another process is repairing {self.file}; try again when it has finished")
            yield
            self.forget_lock(f"sweep-{sweep}")

    def forget_lock(self, run: str) -> None:
        """Remove the lock file of a run that is complete. The caller must hold the lock."""
        with suppress(OSError):
            self._lock_file(run).unlink(missing_ok=True)

    def is_in_progress(self, record: RunRecord) -> bool:
        """Return whether a process is working on this run, or on another run of the sweep in which this run waits.

        ``record`` must come from :meth:`runs` or :meth:`run`, which give a run the status ``interrupted`` if it is
        marked as running although its process is gone.
        """
        if record.status == "running":
            return True
        return record.status == "waiting" and is_held(self._lock_file(f"sweep-{record.sweep}"))

    # --- answers --------------------------------------------------------------------------------------------------

    def cached(self, keys: Iterable[str]) -> dict[str, Response]:
        """Return a dict from cache key to stored response, without the keys that have no intact response."""
        responses: dict[str, Response] = {}
        with plain_errors(self.file):
            for key in keys:
                stored = self._stored_response(key)
                if stored is not None:
                    # An answer that cannot be read is left out, so the model is asked again. This can only be an
                    # answer from an old store without digests, because damage was excluded by the digest otherwise.
                    with suppress(*UNREADABLE):
                        responses[key] = response_from_dict(json.loads(stored))
        return responses

    def own_answer_keys(self, run: str) -> dict[str, str]:
        """Return a dict from a request's cache key to the key of this run's own answer, if it has one.

        A run has its own answers to some requests if its folder was merged with another one that had different answers
        to the same requests.
        """
        own_keys: dict[str, str] = {}
        with plain_errors(self.file):
            query = "SELECT keys FROM asked WHERE run = ? AND keys LIKE ?"
            for (stored_keys,) in self.database.execute(query, (run, f"%{OWN_ANSWER_MARK}%")):
                # If the stored keys were edited and cannot be read, they are ignored, and the model is asked again.
                with suppress(*UNREADABLE):
                    for own_key in json.loads(stored_keys):
                        key, mark, _ = own_key.partition(OWN_ANSWER_MARK)
                        if mark:
                            own_keys[key] = own_key
        return own_keys

    def cached_keys(self, keys: Iterable[str]) -> set[str]:
        """Return the subset of the cache keys that have an intact stored response."""
        with plain_errors(self.file):
            return {key for key in keys if self._stored_response(key) is not None}

    def _stored_response(self, key: str) -> str | None:
        """Return a stored response as JSON; None if there is none or it is damaged."""
        query = f"SELECT CAST(response AS BLOB), {self.database.digest_column} FROM responses WHERE key = ?"  # noqa: S608
        row = self.database.execute(query, (key,)).fetchone()
        if row is None:
            return None
        response = decoded_cell(row[0])
        if is_damaged_response(key, response, row[1], needs_digest=self.database.has_all_digests):
            return None
        return response

    def add_response(self, key: str, run: str, model: str, request: Mapping[str, Any], response: Response) -> None:
        """Store a response under its cache key, and commit it immediately, because it may have been paid for.

        If the response contains an API key, the API key is blanked out, and the response is stored under another cache
        key, so that it is shown but never reused: otherwise, a task would score a text that the model did not write.
        """
        original = compact(response_as_dict(response))
        stored = json_without_keys(original)
        if stored != original:
            key = altered_response_key(key)
        stored_request = json_without_keys(compact(request))
        row = StoredResponse(key, redact(model), stored_request, stored, run, _now())
        with plain_errors(self.file):
            self.database.execute(_RESPONSE_INSERTION, row.with_digest())

    def add_spending(self, run: str, response: Response, usd: float | None) -> None:
        """Add the tokens and the cost of a response to those of the run, even if the response is not stored."""
        # A request that failed may have cost tokens, but it is not an answer.
        answers = 0 if response.error else 1
        with plain_errors(self.file), self.database.transaction():
            self.database.execute(
                "INSERT INTO spending VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET"
                " answers = answers + excluded.answers, tokens_in = tokens_in + excluded.tokens_in,"
                " tokens_out = tokens_out + excluded.tokens_out, usd = usd + excluded.usd",
                (run, answers, response.tokens_in or 0, response.tokens_out or 0, usd),
            )
            amounts = self.database.execute(_SPENDING_QUERY, (run,)).fetchone()
            self.database.set_digest(run, digests.SPENDING, spending_digest(run, amounts))

    def spending(self, *, run: str | None = None, sweep: str | None = None) -> Spending | None:
        """Return what one run, or all runs of a sweep, spent on models behind an API; None if no tokens were used.

        Give either ``run`` or ``sweep``. Raises DamageError if the numbers are damaged.
        """
        if not self.database.has_spending:
            return None
        runs = [run] if run is not None else self._runs_of_sweep(sweep)
        total = Spending()
        for member in runs:
            with self.reading(member):
                spent = self._verified_spending(member)
            if spent is not None:
                total = total.plus(spent)
        if not total.answers and not total.tokens_in and not total.tokens_out:
            return None
        return total

    def _runs_of_sweep(self, sweep: str | None) -> list[str]:
        with plain_errors(self.file):
            return [run for (run,) in self.database.execute("SELECT id FROM runs WHERE sweep = ?", (sweep,))]

    def _verified_spending(self, run: str) -> Spending | None:
        """Return what a run spent; None if nothing is stored. Raises DamageError if the numbers are damaged."""
        amounts = self.database.execute(_SPENDING_QUERY, (run,)).fetchone()
        expected = self.database.digests(run).get(digests.SPENDING)
        if amounts is None and expected is None:
            return None
        has_digest = expected is not None or self.database.has_all_digests
        if amounts is None or (has_digest and spending_digest(run, amounts) != expected):
            repair = command_line("doctor", "--results", self.folder, "--fix")
            problem = "what it spent is not what lmassay wrote"
            message = f"{self.file}: the run {run} is damaged: {problem}; `{repair}` removes only its costs"
            raise DamageError(message, problem)
        return Spending(*amounts)

    # --- rows -----------------------------------------------------------------------------------------------------

    def add_rows(
        self, run: str, rows: Iterable[tuple[int, Row]], response_keys: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Store scored examples as rows, each with its position in the data; either all are stored or none.

        ``response_keys`` is a dict from the id of an example to the cache keys of the responses to its requests.
        """
        stored_keys = []
        for example_id, keys in (response_keys or {}).items():
            if keys:
                stored_id = writable(example_id)
                keys_text = compact(list(keys))
                stored_keys.append((run, stored_id, keys_text, keys_digest(run, stored_id, keys_text)))
        with plain_errors(self.file), self.database.transaction():
            self.database.executemany(
                "INSERT OR REPLACE INTO asked (run, id, keys, digest) VALUES (?, ?, ?, ?)", stored_keys
            )
            self.database.executemany(
                f"INSERT OR REPLACE INTO rows ({ROW_COLUMNS}, outcomes, digest)"  # noqa: S608
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (StoredRow.of(run, position, row).with_digest() for position, row in rows),
            )
            self._forget_row_count(run)

    def add_batch(self, run: str, batch: RowBatch) -> None:
        """Store consecutive scored examples as one batch, which holds their scores and texts by columns."""
        with plain_errors(self.file), self.database.transaction():
            self.database.execute(
                f"INSERT OR REPLACE INTO batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                StoredBatch.of(run, batch_without_keys(batch)),
            )
            self._forget_row_count(run)

    def _forget_row_count(self, run: str) -> None:
        # The number of rows that was recorded with the results is no longer valid.
        self.database.execute("DELETE FROM digests WHERE run = ? AND part = ?", (run, digests.ROWS))

    def drop_damaged_rows(self, run: str) -> int:
        """Delete damaged rows and batches, so that their examples are scored again; return the number of examples.

        The caller must hold the run's lock.
        """
        with self.reading(run):
            # An example is also scored again if only the keys of its answers are damaged, because this restores them.
            damaged_ids = {example_id for example_id, _, is_damaged in self.stored_keys(run) if is_damaged}
            damaged_rows = []
            for row, is_damaged in self.single_rows(run):
                if is_damaged or row.id in damaged_ids:
                    damaged_rows.append(row)
            damaged_batches = [batch for batch in self.stored_batches(run) if batch.is_damaged()]
            with self.database.transaction():
                for example_id in damaged_ids:
                    self.database.execute("DELETE FROM asked WHERE run = ? AND id = ?", (run, example_id))
                for row in damaged_rows:
                    self.database.execute("DELETE FROM rows WHERE run = ? AND id IS ?", (run, row.id))
                for batch in damaged_batches:
                    self.database.execute("DELETE FROM batches WHERE run = ? AND first IS ?", (run, batch.first))
        examples_in_batches = sum(batch.examples for batch in damaged_batches if isinstance(batch.examples, int))
        return len(damaged_rows) + examples_in_batches

    def requests_and_responses(self, run: str) -> Iterator[_ExampleExchanges]:
        """Yield each example's id with its requests and responses. Requests without a stored response are left out.

        The examples come in the order of the data. Examples in batches have an empty list, because no requests were
        sent for them.
        """
        for _, exchanges in heapq.merge(self._exchanges(run), self._examples_without_exchanges(run), key=position_of):
            yield exchanges

    def _examples_without_exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        for batch in self.verified_score_batches(run):
            for position, example_id in enumerate(batch.ids, start=batch.first):
                yield position, (example_id, [])

    def _exchanges(self, run: str) -> Iterator[tuple[int, _ExampleExchanges]]:
        with self.reading(run):
            for position, row in self.single_score_rows(run):
                yield position, (row.example.id, self.exchanges_of(run, row.example.id))
            self.check_counts(run)

    def exchanges_of(self, run: str, example_id: str) -> list[tuple[dict[str, Any], Response]]:
        """Return the requests of one example with their responses. Requests without a stored response are left out."""
        pairs: list[tuple[dict[str, Any], Response]] = []
        with self.reading(run):
            for key in self._response_keys(run, example_id):
                stored = self._whole_response(run, key)
                if stored is None:
                    # A response from which an API key was blanked out has another cache key.
                    stored = self._whole_response(run, altered_response_key(key))
                if stored is None:
                    # Not damage: answers about many candidate words are not stored, and ``lmassay rm --answers``
                    # deletes answers.
                    continue
                request = json.loads(self.shown_json(stored.request))
                response = response_from_dict(json.loads(self.shown_json(stored.response)))
                pairs.append((request, response))
        return pairs

    def damage_of_answers(self, run: str) -> DamageError | None:
        """Verify all stored answers that a run used; return an error about the first damage, or None."""
        try:
            with self.reading(run):
                keys = self._all_response_keys(run)
                while chunk := list(islice(keys, _KEYS_IN_A_QUERY)):
                    missing = self._verified_keys(run, chunk)
                    self._verified_keys(run, [altered_response_key(key) for key in missing])
        except DamageError as error:
            return error
        return None

    def _all_response_keys(self, run: str) -> Iterator[str]:
        """Yield the cache keys of all answers that the run used."""
        for example_id, keys, is_damaged in self.stored_keys(run):
            if is_damaged:
                raise self._requests_error(run, example_id)
            yield from json.loads(keys)

    def _verified_keys(self, run: str, keys: Sequence[str]) -> list[str]:
        """Verify the responses that are stored under these keys; return the keys without a response."""
        columns = f"{RESPONSE_COLUMNS}, {self.database.digest_column}"
        places = ", ".join("?" * len(keys))
        query = f"SELECT {columns} FROM responses WHERE key IN ({places})"  # noqa: S608
        stored_keys = set()
        for *columns_of_response, stored_digest in self.database.execute(query, keys):
            stored_keys.add(self._verified_response(run, columns_of_response, stored_digest).key)
        return [key for key in keys if key not in stored_keys]

    def _response_keys(self, run: str, example_id: str) -> list[str]:
        """Return the cache keys of the answers to an example's requests; empty for a store before schema 3."""
        if not self.database.has_asked:
            return []
        query = f"SELECT keys, {self.database.asked_digest_column} FROM asked WHERE run = ? AND id = ?"  # noqa: S608
        row = self.database.execute(query, (run, example_id)).fetchone()
        if row is None:
            return []
        keys, stored_digest = row
        if self.database.has_all_digests and stored_digest != keys_digest(run, example_id, keys):
            raise self._requests_error(run, example_id)
        return list(json.loads(keys))

    def _requests_error(self, run: str, example_id: str) -> DamageError:
        return self.damage_error(run, f"the requests of example '{example_id}' are not what lmassay wrote")

    def _whole_response(self, run: str, key: str) -> StoredResponse | None:
        """Return a stored response with its request; None if there is none. Raises DamageError if it is damaged."""
        query = f"SELECT {RESPONSE_COLUMNS}, {self.database.digest_column} FROM responses WHERE key = ?"  # noqa: S608
        row = self.database.execute(query, (key,)).fetchone()
        if row is None:
            return None
        *columns, stored_digest = row
        return self._verified_response(run, columns, stored_digest)

    def _verified_response(self, run: str, columns: Sequence[str], stored_digest: bytes | None) -> StoredResponse:
        """Return a response whose digest matches. Raises DamageError if it does not."""
        response = StoredResponse(*columns)
        if response.is_damaged(stored_digest, needs_digest=self.database.has_all_digests):
            repair = command_line("doctor", "--results", self.folder, "--fix")
            problem = "one of its answers is not what lmassay wrote"
            message = f"{self.file}: the run {run} is damaged: {problem}; `{repair}` removes only this answer"
            raise DamageError(message, problem)
        return response

    def copy_with_single_rows(self, folder: Path, runs: Sequence[str], limit: int) -> None:
        """Copy runs to a new folder in which every example is a row; batches are converted to rows.

        The copy is for tools that read the tables with SQL. Of each run's examples in batches, only the first ``limit``
        are copied. Damaged answers are left out.
        """
        with Store(folder, create=True) as copy, plain_errors(self.file):
            copy.database.execute("ATTACH ? AS original", (str(self.file),))
            for table in ("runs", "rows", "spending", "asked", "digests"):
                columns = ", ".join(copy.database.common_columns(table, "original"))
                if not columns:
                    # A store with an old schema does not have this table.
                    continue
                insertion = f"INSERT OR REPLACE INTO {table} ({columns}) SELECT {columns} FROM original.{table}"  # noqa: S608
                key = "id" if table == "runs" else "run"
                for run in runs:
                    copy.database.execute(f"{insertion} WHERE {key} = ?", (run,))
            copy.database.execute("DETACH original")
            # All answers are copied, because the cache is shared by all runs. If it cannot be read, the copy is still
            # useful without answers.
            with suppress(sqlite3.DatabaseError), copy.database.transaction():
                copy.database.executemany(_RESPONSE_INSERTION, self._intact_responses())
            for run in runs:
                for rows in _rows_up_to(self.batches(run), limit):
                    copy.add_rows(run, rows)

    def _intact_responses(self) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of all answers that are not damaged, with the digests of the current schema."""
        # The cells are read as bytes: otherwise, a single text that is not UTF-8 would abort the query.
        columns = ", ".join(f"CAST({name} AS BLOB)" for name in StoredResponse._fields)
        query = f"SELECT {columns}, {self.database.digest_column} FROM responses"  # noqa: S608
        for *cells, stored_digest in self.database.execute(query):
            response = StoredResponse(*map(decoded_cell, cells))
            if not response.is_damaged(stored_digest, needs_digest=self.database.has_all_digests):
                yield response.with_digest()

    # --- internals ------------------------------------------------------------------------------------------------

    def _lock_file(self, run: str) -> Path:
        return run_file(self.folder / LOCKS, run)


def _with_lost_records(records: Sequence[RunRecord], lost: Sequence[RunRecord]) -> list[RunRecord]:
    """Return all runs in order. A lost run, of which only the id is left, is inserted by the time in its id."""
    ordered = list(records)
    for record in lost:
        later = (number for number, other in enumerate(ordered) if other.id > record.id)
        ordered.insert(next(later, len(ordered)), record)
    return ordered


def _rows_up_to(batches: Iterable[RowBatch], limit: int) -> Iterator[list[tuple[int, Row]]]:
    """Yield the rows of each batch with their positions, until there are ``limit`` rows."""
    for batch in batches:
        if limit <= 0:
            return
        yield list(islice(enumerate(batch.rows(), start=batch.first), limit))
        limit -= len(batch)


def _matching_runs(name: str, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the run whose id is ``name``; if there is none, all runs whose id begins or ends with it."""
    for run in runs:
        if run.id == name:
            return [run]
    if not name:
        return []
    return [run for run in runs if run.id.startswith(name) or run.id.endswith(name)]


def _suggestion(name: str, runs: Sequence[RunRecord]) -> str:
    """Return the part of an error message that suggests what to do about a name that no run has."""
    accepted_names = ["latest"]
    for run in runs:
        accepted_names.append(run.id)
    for run in runs:
        # The end of an id, which is random, is what users type most often.
        accepted_names.append(run.id.rpartition("-")[2])
    suggestion = closest(name, accepted_names)
    if suggestion is None:
        return "`lmassay ls` lists all runs"
    return f"did you mean '{suggestion}'?"


def _time_of_id(run: str) -> str | None:
    """Return the time with which the id of a run begins, in ISO format; None if it does not begin with a time."""
    digits = _TIME_IN_ID.match(run)
    if digits is None:
        return None
    try:
        time = datetime.strptime(digits[0], _ID_TIME_FORMAT)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC).isoformat(timespec="seconds")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32] or "run"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
