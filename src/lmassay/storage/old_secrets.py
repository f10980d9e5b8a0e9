"""Finds and blanks out secrets that earlier versions stored."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmassay.errors import StoreError
from lmassay.redaction import config_without_keys, redact, redacted_value
from lmassay.storage import digests
from lmassay.storage.annotations import annotation_text
from lmassay.storage.batches import BATCH_COLUMNS, StoredBatch
from lmassay.storage.blanking import altered_response_key, batch_without_keys, json_without_keys
from lmassay.storage.database import STORE_FILE, plain_errors
from lmassay.storage.digests import record_digest, results_digest, state_digest
from lmassay.storage.migration import RECORD_COLUMNS
from lmassay.storage.responses import RESPONSE_COLUMNS, StoredResponse
from lmassay.storage.single_rows import StoredRow
from lmassay.storage.store import Store
from lmassay.types import Annotation, canonical

_Update = list[tuple[str, tuple[Any, ...]]]
"""The SQL statements, with their values, that change one record and its digests."""


def count_secrets(store: Store) -> int:
    """Return how many records, rows, batches and answers contain secrets."""
    with plain_errors(store.file):
        return len(list(_updates(store)))


def blank_secrets(store: Store) -> tuple[int, Path]:
    """Blank out the secrets that this version would not store, and update the digests.

    Returns the number of changed records, rows, batches and answers, and the path of a copy of the original file.
    Damaged records are not changed, because a new digest would hide the damage.
    """
    for record in store.runs():
        if record.status == "running":
            raise StoreError(f"{store.file}: the run {record.id} is in progress; try again when it has finished")
    backup = store.file.with_name(f"{STORE_FILE}.with-secrets-{secrets.token_hex(3)}")
    with plain_errors(store.file):
        store.database.copy_to(backup)
        with store.database.transaction():
            updates = list(_updates(store))
            for update in updates:
                for statement, values in update:
                    store.database.execute(statement, values)
        # SQLite keeps deleted texts in free pages and in its log until the file is written again.
        store.database.execute("VACUUM")
        store.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return len(updates), backup


def _updates(store: Store) -> Iterator[_Update]:
    """Yield the statements that blank out secrets, one list for each record, row, batch and answer with a secret."""
    for record in store.database.execute(f"SELECT {RECORD_COLUMNS} FROM runs ORDER BY rowid").fetchall():  # noqa: S608
        # All columns are texts or numbers; bytes are damage.
        if not any(isinstance(value, bytes) for value in record):
            yield from _record_updates(store, dict(zip(RECORD_COLUMNS.split(", "), record, strict=True)))
    yield from _annotation_updates(store)
    yield from _row_updates(store)
    yield from _batch_updates(store)
    yield from _response_updates(store)


def _row_updates(store: Store) -> Iterator[_Update]:
    rows = store.database.execute(f"SELECT rowid, {store.row_columns} FROM rows")  # noqa: S608
    for number, *columns, stored_digest in rows:
        row = StoredRow(*columns)
        if row.is_damaged(stored_digest, needs_digest=False):
            continue
        clean_row = row.without_secrets()
        if clean_row != row:
            names = [*StoredRow._fields, "digest"]
            assignments = ", ".join(f"{name} = ?" for name in names)
            statement = f"UPDATE rows SET {assignments} WHERE rowid = ?"  # noqa: S608
            yield [(statement, (*clean_row.with_digest(), number))]


def _batch_updates(store: Store) -> Iterator[_Update]:
    for run in store.runs_in_batches():
        for stored_batch in store.stored_batches(run):
            if stored_batch.is_damaged():
                continue
            batch = stored_batch.parsed()
            clean_batch = batch_without_keys(batch)
            if clean_batch is batch:
                # This process knows no API keys, so there is nothing to blank out. Packing the batch again only to
                # compare it would take most of the time.
                continue
            clean_stored_batch = StoredBatch.of(run, clean_batch)
            if clean_stored_batch != stored_batch:
                statement = f"INSERT OR REPLACE INTO batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
                yield [(statement, clean_stored_batch)]


def _record_updates(store: Store, fields: Mapping[str, Any]) -> Iterator[_Update]:
    """Yield the statements that blank out secrets in the record of a run; none if it is damaged or has no secrets."""
    run = fields["id"]
    stored_digests = store.database.digests(run)
    # Stores of early versions have no digests. If there is one that does not match, nothing is changed, because a new
    # digest would hide the damage.
    if stored_digests.get(digests.RECORD) not in (None, record_digest(fields)):
        return
    try:
        config = json.loads(fields["config"])
        provenance = json.loads(fields["provenance"])
    except (ValueError, RecursionError):
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
    new_digests: dict[str, str] = {}
    if stored_digests.get(digests.STATE) == state_digest(fields):
        new_digests[digests.STATE] = state_digest(clean_fields)
    if stored_digests.get(digests.RESULTS) in (None, results_digest(run, fields["results"])):
        clean_fields["results"] = json_without_keys(fields["results"])
        new_digests[digests.RESULTS] = results_digest(run, clean_fields["results"])
    if clean_fields == fields:
        return
    names = ("name", "model", "label", "signature", "note", "config", "provenance", "results")
    assignments = ", ".join(f"{name} = ?" for name in names)
    values = (*(clean_fields[name] for name in names), run)
    update: _Update = [(f"UPDATE runs SET {assignments} WHERE id = ?", values)]  # noqa: S608
    new_digests[digests.RECORD] = record_digest(clean_fields)
    for part, value in new_digests.items():
        if part in stored_digests:
            update.append(("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (run, part, value)))
    yield update


def _annotation_updates(store: Store) -> Iterator[_Update]:
    for record in store.runs():
        note = redact(record.annotation.note)
        tags = tuple(redact(tag) for tag in record.annotation.tags)
        if Annotation(note, tags) != record.annotation:
            text = annotation_text(record.id, Annotation(note, tags))
            yield [("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (record.id, digests.ANNOTATION, text))]


def _response_updates(store: Store) -> Iterator[_Update]:
    needs_digest = store.database.has_all_digests
    # Many answers come from few models, so each name is redacted only once.
    clean_name = functools.cache(redact)
    query = f"SELECT {RESPONSE_COLUMNS}, {store.database.digest_column} FROM responses"  # noqa: S608
    for *columns, stored_digest in store.database.execute(query):
        stored = StoredResponse(*columns)
        if stored.is_damaged(stored_digest, needs_digest=needs_digest):
            continue
        clean = stored._replace(
            model=clean_name(stored.model),
            request=json_without_keys(stored.request),
            response=json_without_keys(stored.response),
        )
        if clean == stored:
            continue
        if clean.response != stored.response:
            # An altered answer gets another key, so that it is not used instead of asking the model.
            clean = clean._replace(key=altered_response_key(stored.key))
        assignments = ", ".join(f"{name} = ?" for name in (*StoredResponse._fields, "digest"))
        statement = f"UPDATE OR REPLACE responses SET {assignments} WHERE key = ?"  # noqa: S608
        yield [(statement, (*clean.with_digest(), stored.key))]
