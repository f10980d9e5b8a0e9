"""The examples of a run as JSON lines or CSV."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from lmassay.reporting.formats import spreadsheet
from lmassay.types import Row
from lmassay.types.controls import escape_controls_in_json

RowReader = Callable[[], Iterable[Row]]
"""A function that reads the rows from the beginning each time it is called."""

# One encoder for all rows, because json.dumps with an option would create one for every row.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def row_as_dict(row: Row) -> dict[str, Any]:
    """Return one example in the form in which it is written as JSON.

    The key ``outcomes`` is present only if the value of a metric is a mean over several outcomes, which it then lists.
    """
    data: dict[str, Any] = {
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
        outcomes_by_metric: dict[str, list[dict[str, Any]]] = {}
        for metric, outcomes in row.score.outcomes.items():
            outcomes_by_metric[metric] = [dataclasses.asdict(outcome) for outcome in outcomes]
        data["outcomes"] = outcomes_by_metric
    return data


def write_jsonl(read_rows: RowReader, stream: IO[str]) -> int:
    """Write one JSON object per line; returns the number of rows."""
    count = 0
    for row in read_rows():
        stream.write(_json_line(row) + "\n")
        count += 1
    return count


def write_csv(read_rows: RowReader, stream: IO[str]) -> int:
    """Write flat columns; returns the number of rows.

    Numbers stay numbers. Text that a spreadsheet would run as a formula begins with an additional apostrophe.
    """
    # The header comes first but rows may differ, so they are read twice rather than held in memory.
    columns: dict[str, None] = {}
    for row in read_rows():
        columns |= dict.fromkeys(_flatten(row))
    return spreadsheet.write_csv(stream, list(columns), _csv_rows(read_rows, list(columns)))


def _csv_rows(read_rows: RowReader, columns: list[str]) -> Iterator[list[Any]]:
    for row in read_rows():
        flat = _flatten(row)
        yield [flat.get(column) for column in columns]


def _flatten(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {"id": row.example.id, "state": row.state, **row.score.values}
    reserved = set(flat)
    texts = {**row.example.inputs, "reference": row.example.reference, **row.example.groups, **row.score.details}
    for name, value in texts.items():
        if value is None:
            continue
        # An input or a detail may have the same name as a score, and must not overwrite it.
        column = f"text.{name}" if name in reserved else name
        flat[column] = value
    if row.score.unscored:
        flat["unscored"] = dict(row.score.unscored)
    if row.error is not None:
        flat["error"] = row.error
    return flat


def _json_line(row: Row) -> str:
    return escape_controls_in_json(_ENCODER.encode(row_as_dict(row)))
