"""Batches of scored examples in the form in which they are stored: two packed parts, each with a digest.

Statistics need only ids, groups and scores. The texts are in a separate part, so that statistics need not read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from lmassay.storage.packing import Column, pack, unpack
from lmassay.types import RowBatch

# Since schema 6. The texts are the last column, because SQLite reads a row from the left and stops at the last column
# of the query.
BATCHES = """
CREATE TABLE IF NOT EXISTS batches (
  run TEXT NOT NULL, first INTEGER NOT NULL, examples INTEGER NOT NULL, scores_digest BLOB NOT NULL,
  scores BLOB NOT NULL, texts_digest BLOB NOT NULL, texts BLOB NOT NULL, PRIMARY KEY (run, first)
)
"""
BATCH_COLUMNS = "run, first, examples, scores_digest, scores, texts_digest, texts"
# The columns are read as bytes even if an editor for SQLite has stored them as text; the digest shows such a change.
_SCORES_READ = "CAST(scores_digest AS BLOB), CAST(scores AS BLOB)"
_BATCH_READ = f"{_SCORES_READ}, CAST(texts_digest AS BLOB), CAST(texts AS BLOB)"
SCORES_QUERY = f"SELECT run, first, examples, {_SCORES_READ} FROM batches WHERE run = ? ORDER BY first"  # noqa: S608
BATCHES_QUERY = f"SELECT run, first, examples, {_BATCH_READ} FROM batches WHERE run = ? ORDER BY first"  # noqa: S608
BATCH_QUERY = f"SELECT run, first, examples, {_BATCH_READ} FROM batches WHERE run = ? AND first = ?"  # noqa: S608
# In bytes. The digest detects damage; it is not meant to prevent forgery.
_DIGEST_SIZE = 16
_IDS = "ids"
_REFERENCES = "references"


class StoredScores(NamedTuple):
    """The part of a batch that statistics read, with the columns of :data:`SCORES_QUERY`."""

    run: str
    first: int
    """The position of the first example in the data, counted from 0."""
    examples: int
    """The number of examples."""
    scores_digest: bytes
    scores: bytes

    def is_damaged(self) -> bool:
        """Return whether the digest does not match."""
        return self.scores_digest != _digest(self.run, self.first, self.examples, self.scores)

    def parsed(self) -> RowBatch:
        """Return the batch without its texts."""
        return _batch(self.first, unpack(self.scores))


class StoredBatch(NamedTuple):
    """A row of the table, in the order of :data:`BATCH_COLUMNS`. See :class:`StoredScores` for the first columns."""

    run: str
    first: int
    examples: int
    scores_digest: bytes
    scores: bytes
    texts_digest: bytes
    texts: bytes

    @staticmethod
    def of(run: str, batch: RowBatch) -> StoredBatch:
        """Return a batch of a run in the form in which it is stored."""
        groups = _named("groups", batch.groups)
        scores = pack({_IDS: batch.ids, **groups, **_named("values", batch.values)}, labels=groups)
        texts: dict[str, Column] = {**_named("inputs", batch.inputs), **_named("details", batch.details)}
        if batch.references is not None:
            texts[_REFERENCES] = batch.references
        packed_texts = pack(texts)
        first = batch.first
        examples = len(batch)
        return StoredBatch(
            run,
            first,
            examples,
            _digest(run, first, examples, scores),
            scores,
            _digest(run, first, examples, packed_texts),
            packed_texts,
        )

    def is_damaged(self) -> bool:
        """Return whether a digest does not match."""
        if self.scores_digest != _digest(self.run, self.first, self.examples, self.scores):
            return True
        return self.texts_digest != _digest(self.run, self.first, self.examples, self.texts)

    def parsed(self) -> RowBatch:
        """Return the batch."""
        return _batch(self.first, {**unpack(self.scores), **unpack(self.texts)})


def positions_text(first: int, examples: int) -> str:
    """Return which examples a batch has, counted from 1 and such as ``examples 1 to 5,000``, for messages."""
    return f"examples {first + 1:,} to {first + examples:,}"


def _digest(run: str, first: int, examples: int, packed: bytes) -> bytes:
    state = hashlib.blake2b(f"{run}\n{first}\n{examples}\n".encode(), digest_size=_DIGEST_SIZE)
    state.update(packed)
    return state.digest()


def _named(kind: str, columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns with the kind in front of their names, sorted by name like all other stored mappings."""
    return {f"{kind}/{name}": columns[name] for name in sorted(columns)}


def _of_kind(kind: str, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the columns of a kind, without the kind in front of their names."""
    prefix = f"{kind}/"
    return {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}


def _batch(first: int, columns: Mapping[str, Column]) -> RowBatch:
    return RowBatch(
        first=first,
        ids=cast("Sequence[str]", columns[_IDS]),
        values=_of_kind("values", columns),
        groups=_of_kind("groups", columns),
        inputs=_of_kind("inputs", columns),
        references=cast("Sequence[Any] | None", columns.get(_REFERENCES)),
        details=_of_kind("details", columns),
    )
