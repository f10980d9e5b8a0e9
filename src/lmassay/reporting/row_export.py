"""A run's rows as JSON lines or CSV."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import IO, Any

from lmassay.reporting.formats import spreadsheet
from lmassay.types import Row

Rows = Callable[[], Iterable[Row]]
"""Gives the rows anew each time it is called."""


def row_as_dict(row: Row) -> dict[str, Any]:
    """One example, as JSON; ``outcomes`` only where a metric has them."""
    data = {
        "id": row.example.id,
        "state": row.state,
        "scores": dict(row.score.values),
        "unscored": dict(row.score.unscored),
        "error": row.error,
        "inputs": dict(row.example.inputs),
        "reference": row.example.reference,
        "groups": dict(row.example.groups),
        "details": dict(row.score.details),
    }
    if row.score.outcomes:
        listed: dict[str, list[dict[str, Any]]] = {}
        for metric, outcomes in row.score.outcomes.items():
            listed[metric] = [dataclasses.asdict(outcome) for outcome in outcomes]
        data["outcomes"] = listed
    return data


def write_jsonl(read: Rows, stream: IO[str]) -> int:
    """One JSON object a line; returns how many."""
    count = 0
    for count, row in enumerate(read(), 1):  # noqa: B007 - the last count is the result
        stream.write(_json_line(row) + "\n")
    return count


def write_csv(read: Rows, stream: IO[str]) -> int:
    """Flat columns; numbers stay numbers, and text that a spreadsheet would run is quoted."""
    # The header comes first but rows may differ, so they are read twice rather than held in memory.
    columns = list(dict.fromkeys(column for row in read() for column in _flatten(row)))
    flat_rows = map(_flatten, read())
    return spreadsheet.write_csv(stream, columns, ([flat.get(column) for column in columns] for flat in flat_rows))


def _flatten(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {"id": row.example.id, "state": row.state, **row.score.values}
    parts = {**row.example.inputs, "reference": row.example.reference, **row.example.groups, **row.score.details}
    # An input may be called like a score: it must not take its place.
    flat |= {(f"text.{n}" if n in flat else n): value for n, value in parts.items() if value is not None}
    if row.score.unscored:
        flat["unscored"] = dict(row.score.unscored)
    if row.error is not None:
        flat["error"] = row.error
    return flat


def _json_line(row: Row) -> str:
    line = json.dumps(row_as_dict(row), ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped it is still JSON.
        return json.dumps(row_as_dict(row))
    return line
