"""A run's rows as JSON lines or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from lmassay.types import Row

# Spreadsheets run a cell that begins with one of these; a quote in front makes it text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def row_as_dict(row: Row) -> dict[str, Any]:
    """One example, as JSON."""
    return {
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


def write_jsonl(rows: Iterable[Row], stream: IO[str]) -> int:
    """One JSON object a line; returns how many."""
    count = 0
    for row in rows:
        stream.write(json.dumps(row_as_dict(row), ensure_ascii=_needs_ascii(row)) + "\n")
        count += 1
    return count


def write_csv(rows: Iterable[Row], stream: IO[str]) -> int:
    """Flat columns; numbers stay numbers, and text that a spreadsheet would run is quoted."""
    flat = _Flat(rows)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(flat.columns)
    count = 0
    for row in flat:
        writer.writerow([_cell(row.get(column)) for column in flat.columns])
        count += 1
    return count


class _Flat:
    """Rows with nested fields flattened; columns are those of the first rows, then in order of appearance."""

    def __init__(self, rows: Iterable[Row]) -> None:
        # CSV needs its header first, so the rows are flattened once; texts stay in memory as long as this lives.
        self._rows = [_flatten(row) for row in rows]
        self.columns = list(dict.fromkeys(column for row in self._rows for column in row))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


def _flatten(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {"id": row.example.id, "state": row.state, **row.score.values}
    parts = {**row.example.inputs, "reference": row.example.reference, **row.example.groups, **row.score.details}
    flat |= {name: value for name, value in parts.items() if value is not None}
    if row.score.unscored:
        flat["unscored"] = dict(row.score.unscored)
    if row.error is not None:
        flat["error"] = row.error
    return flat


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _needs_ascii(row: Row) -> bool:
    try:
        json.dumps(row_as_dict(row), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
