"""Returns the examples of a run page by page. SQLite filters and searches them, so only one page is read completely."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.storage.reading import RowReader
from lmassay.storage.single_rows import UNREADABLE
from lmassay.types import Row, RowBatch

# The columns of a row in which a text is searched: those that are JSON, and those that are plain text.
_JSON_COLUMNS = ("inputs", "reference", "groups", "unscored", "details")
_PLAIN_COLUMNS = ("id", "error")


@dataclass(frozen=True, slots=True)
class ExampleFilter:
    """Conditions on the examples of a run; all of them must be met."""

    state: str = ""
    """``scored``, ``unscored`` or ``error``; empty for all states."""
    metric: str = ""
    """If given, the example must have a score of this metric, between ``low`` and ``high`` if these are given."""
    low: float | None = None
    high: float | None = None
    text: str = ""
    """A text that must occur in the id, the error, an answer, or a text among the inputs, reference, groups, details or
    reasons for missing scores. Upper and lower case are not distinguished."""

    def accepts_score(self, values: Mapping[str, float]) -> bool:
        """Return whether the scores of an example meet the condition on the metric."""
        if not self.metric:
            return True
        value = values.get(self.metric)
        if value is None:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True)
class ExamplePage:
    """Some of the examples that meet a filter."""

    rows: Sequence[tuple[int, Row]]
    """The examples with their positions in the data."""
    total: int
    """The number of all examples that meet the filter."""


def example_page(store: RowReader, run: str, wanted: ExampleFilter, start: int, size: int) -> ExamplePage:
    """Return up to ``size`` of the examples that meet a filter, in the order of the data.

    ``start`` is the number of the first one among those that meet the filter, counted from 0.
    """
    with store.reading(run):
        positions = sorted([*_single_positions(store, run, wanted), *_batch_positions(store, run, wanted)])
        rows = examples_at(store, run, positions[start : start + size])
    return ExamplePage(rows, len(positions))


def examples_at(store: RowReader, run: str, positions: Sequence[int]) -> list[tuple[int, Row]]:
    """Return the examples at these positions, each with its position. Positions without an example are left out."""
    rows: dict[int, Row] = {}
    with store.reading(run):
        marks = ", ".join("?" * len(positions))
        for stored, is_damaged in store.single_rows(run, f"position IN ({marks})", positions):
            if is_damaged:
                raise store.example_error(run, stored.id)
            rows[stored.position] = store.parsed_row(stored)
        missing = [position for position in positions if position not in rows]
        if missing:
            rows |= _batch_rows(store, run, missing)
    return sorted(rows.items())


# --- examples that are stored one by one ------------------------------------------------------------------------------


def _single_positions(store: RowReader, run: str, wanted: ExampleFilter) -> Iterator[int]:
    """Yield the positions of the single rows that meet a filter."""
    conditions = ["run = ?"]
    values: list[Any] = [run]
    if wanted.state:
        conditions.append("state = ?")
        values.append(wanted.state)
    if wanted.metric:
        conditions.append("meets_score(scores)")
        store.database.connection.create_function("meets_score", 1, _score_condition(wanted))
    if wanted.text:
        needle = _Needle(wanted.text)
        store.database.connection.create_function("has_text", 1, needle.is_in_text)
        store.database.connection.create_function("has_value", 1, needle.is_in_json)
        alternatives = [f"has_text({column})" for column in _PLAIN_COLUMNS]
        alternatives += [f"has_value({column})" for column in _JSON_COLUMNS]
        if store.database.has_asked:
            alternatives.append(
                "EXISTS (SELECT 1 FROM asked, json_each(asked.keys) AS used, responses"
                " WHERE asked.run = rows.run AND asked.id = rows.id AND responses.key = used.value"
                " AND has_value(responses.response))"
            )
        conditions.append(f"({' OR '.join(alternatives)})")
    query = f"SELECT position FROM rows WHERE {' AND '.join(conditions)}"  # noqa: S608 - fixed texts
    for (position,) in store.database.execute(query, values):
        yield position


def _score_condition(wanted: ExampleFilter) -> Any:
    """Return an SQL function of the stored scores (JSON) that tells whether they meet the condition on the metric."""

    def meets(scores: Any) -> bool:
        try:
            return wanted.accepts_score(json.loads(scores))
        except UNREADABLE:
            # The row is damaged. It counts as a match, so that it is read and its damage is reported.
            return True

    return meets


class _Needle:
    """A text to search for; upper and lower case are not distinguished."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        # The form of the text inside JSON. Most stored values do not contain it and so need not be parsed.
        self._in_json = json.dumps(text, ensure_ascii=False)[1:-1].casefold()

    def is_in_text(self, text: Any) -> bool:
        """Return whether the text occurs in a plain text."""
        return isinstance(text, str) and self._text in text.casefold()

    def is_in_json(self, stored: Any) -> bool:
        """Return whether the text occurs in a value inside a JSON text, or the JSON is damaged."""
        if not isinstance(stored, str) or self._in_json not in stored.casefold():
            return False
        try:
            # Only values are searched, not the names of inputs and details.
            return self.is_in_value(json.loads(stored))
        except UNREADABLE:
            return True

    def is_in_value(self, value: Any) -> bool:
        """Return whether the text occurs in a value, or in a value inside a list or mapping."""
        if isinstance(value, Mapping):
            return any(map(self.is_in_value, value.values()))
        if isinstance(value, list | tuple):
            return any(map(self.is_in_value, value))
        return isinstance(value, str) and self._text in value.casefold()


# --- examples that are stored in batches ------------------------------------------------------------------------------


def _batch_positions(store: RowReader, run: str, wanted: ExampleFilter) -> Iterator[int]:
    """Yield the positions of the examples in batches that meet a filter."""
    # Batches contain only scored examples.
    if wanted.state not in ("", "scored"):
        return
    if not wanted.metric and not wanted.text:
        for positions in store.finished_positions(run):
            yield from positions
        return
    # The texts of batches are read only if there is a text to search for.
    batches = store.batches(run) if wanted.text else store.verified_score_batches(run)
    for batch in batches:
        yield from _matching_positions(batch, wanted)


def _matching_positions(batch: RowBatch, wanted: ExampleFilter) -> Iterator[int]:
    """Yield the positions of the examples of one batch that meet a filter."""
    if not wanted.text:
        # Comparing whole columns takes a hundredth of the time of comparing row by row.
        yield from _positions_by_score(batch, wanted)
        return
    needle = _Needle(wanted.text)
    for position, row in enumerate(batch.rows(), start=batch.first):
        if not wanted.accepts_score(row.score.values):
            continue
        texts = [row.example.id, row.example.inputs, row.example.reference, row.example.groups, row.score.details]
        if needle.is_in_value(texts):
            yield position


def _positions_by_score(batch: RowBatch, wanted: ExampleFilter) -> list[int]:
    """Return the positions of the examples of one batch that meet the condition on the metric."""
    scores = batch.values.get(wanted.metric)
    if scores is None:
        return []
    # NaN, which marks a missing score, is not equal to itself.
    matches = scores == scores
    if wanted.low is not None:
        matches &= scores >= wanted.low
    if wanted.high is not None:
        matches &= scores <= wanted.high
    return [batch.first + int(index) for index in matches.nonzero()[0]]


def _batch_rows(store: RowReader, run: str, positions: Iterable[int]) -> dict[int, Row]:
    """Return a dict from position to example, for those of the positions that are in a batch."""
    ranges = store.finished_positions(run)
    starts = [stored.start for stored in ranges]
    # A dict from the first position of a batch to the wanted positions in this batch.
    by_batch: dict[int, list[int]] = {}
    for position in positions:
        number = bisect_right(starts, position) - 1
        if number >= 0 and position in ranges[number]:
            by_batch.setdefault(starts[number], []).append(position)
    rows: dict[int, Row] = {}
    for first, positions_in_batch in by_batch.items():
        batch = store.batch_at(run, first)
        selected = batch.selected([position - first for position in positions_in_batch])
        rows |= dict(zip(positions_in_batch, selected.rows(), strict=True))
    return rows
