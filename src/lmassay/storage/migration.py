"""Adds the digests that a store of an older schema lacks.

A stored digest that does not match its data is not replaced, so that earlier damage is still noticed.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from lmassay.storage import digests
from lmassay.storage.responses import RESPONSE_COLUMNS, StoredResponse, is_damaged_response
from lmassay.storage.single_rows import ROW_COLUMNS, StoredRow
from lmassay.types.json_text import is_utf8

RECORD_COLUMNS = (
    "id, sweep, name, task, model, label, status, config, signature, "
    "provenance, results, note, planned, created, finished"
)
_CHUNK = 1000
# The exceptions that computing a digest or looking up a run raises for a value that lmassay never stores.
_NOT_STORED = (ValueError, TypeError, OverflowError)


def add_missing_digests(connection: sqlite3.Connection) -> None:
    """Add digests to everything that has none. The caller must have begun a transaction."""
    text_factory = connection.text_factory
    # A text that is not UTF-8 must not stop the upgrade; it is reported as damage when it is read.
    connection.text_factory = _readable_text
    try:
        for values in connection.execute(f"SELECT {RECORD_COLUMNS} FROM runs").fetchall():  # noqa: S608
            fields = dict(zip(RECORD_COLUMNS.split(", "), values, strict=True))
            # Not all digests can be computed for a run with a damaged id or with a value that lmassay never stores. The
            # missing digests cause the run to be reported as damaged.
            with suppress(*_NOT_STORED):
                _add_digests_of_run(connection, fields)
        _add_digests_of_responses(connection)
        _add_digests_of_keys(connection)
    finally:
        connection.text_factory = text_factory


def _readable_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _add_digests_of_run(connection: sqlite3.Connection, fields: dict[str, Any]) -> None:
    """Add the missing digests of a run and its rows. ``fields`` is a dict from column to value of the run."""
    run = fields["id"]
    query = "SELECT part, value FROM digests WHERE run = ?"
    stored: dict[str, str] = dict(connection.execute(query, (run,)).fetchall())
    added: dict[str, str] = {}
    if digests.RECORD not in stored:
        # The run is older than schema 4.
        added[digests.RECORD] = digests.record_digest(fields)
        if digests.RESULTS not in stored:
            added[digests.RESULTS] = digests.results_digest(run, fields["results"])
        _add_digests_of_rows(connection, run)
    if digests.STATE not in stored:
        added[digests.STATE] = digests.state_digest(fields)
    # Before schema 7, only the total number of examples was stored. If it is right, the counts by state replace it.
    counts = stored_counts(connection, run)
    if digests.ROWS in stored and digests.counts_match(stored[digests.ROWS], counts):
        added[digests.ROWS] = digests.counts_text(counts)
    amounts = connection.execute(
        "SELECT answers, tokens_in, tokens_out, usd FROM spending WHERE run = ?", (run,)
    ).fetchone()
    if amounts is not None and digests.SPENDING not in stored:
        added[digests.SPENDING] = digests.spending_digest(run, amounts)
    for part, value in added.items():
        connection.execute("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (run, part, value))


def stored_counts(connection: sqlite3.Connection, run: str) -> dict[str, int]:
    """Return the number of examples of each state, and of those whose requests are recorded."""
    query = "SELECT state, COUNT(*) FROM rows WHERE run = ? GROUP BY state"
    counts = {"scored": 0, "unscored": 0, "error": 0}
    counts.update(connection.execute(query, (run,)).fetchall())
    (in_batches,) = connection.execute("SELECT TOTAL(examples) FROM batches WHERE run = ?", (run,)).fetchone()
    counts["scored"] += int(in_batches)
    (counts[digests.ASKED],) = connection.execute("SELECT COUNT(*) FROM asked WHERE run = ?", (run,)).fetchone()
    return counts


def _add_digests_of_rows(connection: sqlite3.Connection, run: str) -> None:
    query = f"SELECT rowid, {ROW_COLUMNS}, outcomes FROM rows WHERE run = ? AND digest IS NULL"  # noqa: S608
    for number, *columns in connection.execute(query, (run,)).fetchall():
        row = StoredRow(*columns)
        connection.execute("UPDATE rows SET digest = ? WHERE rowid = ?", (row.digest(), number))


def _add_digests_of_responses(connection: sqlite3.Connection) -> None:
    """Add the digests of answers.

    Before schema 7, a digest covered the answer but not its request. If it matches, it is replaced by a digest that
    covers both.
    """
    query = f"SELECT rowid, {RESPONSE_COLUMNS}, digest FROM responses WHERE rowid > ? ORDER BY rowid LIMIT {_CHUNK}"  # noqa: S608
    last = -1
    while True:
        rows = connection.execute(query, (last,)).fetchall()
        if not rows:
            return
        updates = []
        for number, *columns, stored_digest in rows:
            response = StoredResponse(*columns)
            if not is_damaged_response(response.key, response.response, stored_digest, needs_digest=False):
                updates.append((response.digest(), number))
            last = number
        connection.executemany("UPDATE responses SET digest = ? WHERE rowid = ?", updates)


def _add_digests_of_keys(connection: sqlite3.Connection) -> None:
    updates = []
    for run, example_id, keys in connection.execute("SELECT run, id, keys FROM asked WHERE digest IS NULL"):
        # A row with a damaged id cannot be selected by its id. It stays without a digest, so it is reported as damaged.
        if is_utf8(str(run)) and is_utf8(str(example_id)):
            updates.append((digests.keys_digest(run, example_id, keys), run, example_id))
    connection.executemany("UPDATE asked SET digest = ? WHERE run = ? AND id = ?", updates)
