"""The digests that the store writes with its data, so that damage is noticed when the data is read.

The table ``digests`` has one digest for each of several parts of a run. The digests of rows, batches, answers and cache
keys are in a column of their tables. A digest detects damage; it is not meant to prevent forgery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lmassay.types import canonical, digest

RECORD = "record"
"""The columns that are written when a run is recorded. Later, only its signature and provenance may change."""
STATE = "state"
"""Status, note and times of a run (since schema 7)."""
RESULTS = "results"
"""The results of a run."""
ROWS = "rows"
"""Not a digest: the number of examples of each state from which the results were computed (before schema 7: only the
total)."""
SPENDING = "spending"
"""The tokens and the cost of a run (since schema 7)."""
ANNOTATION = "annotation"
"""Not a digest: the user's note and tags with their own digest, see :mod:`lmassay.storage.annotations`."""
PARTS = (RECORD, STATE, RESULTS, ROWS, SPENDING, ANNOTATION)
SHORT_SIZE = 8
"""The number of bytes of the digest of a row's scores, of its texts, or of an answer."""
# The columns of a run that are covered by the digests of its record and of its state.
RECORD_FIELDS = ("id", "sweep", "name", "task", "model", "label", "config", "signature", "provenance", "planned")
_STATE_FIELDS = ("id", "status", "note", "created", "finished")
ASKED = "asked"
"""The key in the counts of a run for the number of examples whose requests are recorded."""


def record_digest(fields: Mapping[str, Any]) -> str:
    """Return the digest of :data:`RECORD_FIELDS`."""
    return digest(*(fields[name] for name in RECORD_FIELDS))


def state_digest(fields: Mapping[str, Any]) -> str:
    """Return the digest of the columns of a run that change when its status changes."""
    return digest(*(fields[name] for name in _STATE_FIELDS))


def results_digest(run: str, results: str) -> str:
    """Return the digest of the results of a run, which are JSON."""
    return digest(run, results)


def spending_digest(run: str, amounts: tuple[Any, ...]) -> str:
    """Return the digest of the tokens and the cost of a run."""
    return digest(run, *amounts)


def counts_text(counts: Mapping[str, int]) -> str:
    """Return the numbers of examples of each state as the text that is stored."""
    return canonical(dict(counts))


def counts_match(stored: str, counts: Mapping[str, int]) -> bool:
    """Return whether a run has as many examples of each state as it had when its results were computed."""
    if stored.isdigit():
        # Before schema 7, only the total was stored.
        return int(stored) == total_of(counts)
    return stored == counts_text(counts)


def total_of(counts: Mapping[str, int]) -> int:
    """Return the number of examples in all states."""
    return sum(number for state, number in counts.items() if state != ASKED)


def expected_total(stored: str) -> int | None:
    """Return the number of examples that a run should have; None if it cannot be read."""
    try:
        counts = json.loads(stored)
        return counts if isinstance(counts, int) else total_of(counts)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def short_digest(text: str) -> bytes:
    """Return a short digest of a text, which takes little space because a store has very many of them."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SHORT_SIZE).digest()


def keys_digest(run: str, example_id: str, keys: str) -> bytes:
    """Return the digest of the cache keys of the answers to an example's requests."""
    return short_digest(f"{run}\n{example_id}\n{keys}")


def decoded_cell(value: Any) -> str:
    """Return the text of a cell that was read as bytes; bytes that are not UTF-8 are replaced by escapes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)
