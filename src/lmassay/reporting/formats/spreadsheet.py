"""CSV that is safe to open in a spreadsheet, and the results of runs as one tidy table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

from lmassay.types import RunRecord
from lmassay.types.controls import replace_controls

# Spreadsheets run a cell that begins with one of these as a formula. An apostrophe before it makes it text.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Return a value as a cell.

    Numbers stay numbers, None becomes an empty cell, and lists and mappings become JSON. Text can never be run as a
    formula and has no control characters.

    >>> [cell(value) for value in (-0.5, None, "-0.5 points", {"a": 1})]
    [-0.5, '', "'-0.5 points", '{"a": 1}']
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # People print CSV files on a terminal, too.
    text = replace_controls(text)
    if text.startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text


def write_csv(stream: IO[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write a line of column names and a line per row; values are converted by :func:`cell`.

    Returns the number of rows.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([cell(column) for column in columns])
    count = 0
    for row in rows:
        writer.writerow([cell(value) for value in row])
        count += 1
    return count


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return as text what :func:`write_csv` writes."""
    stream = io.StringIO()
    write_csv(stream, columns, rows)
    return stream.getvalue()


_RUN_COLUMNS = ("run", "task", "model", "label", "status")
_RESULT_COLUMNS = ("metric", "group", "value", "low", "high", "n", "n_error", "n_unscored", "method", "clusters")
COLUMNS = (*_RUN_COLUMNS, *_RESULT_COLUMNS, "confidence", "signature", "tags", "note")


def results_csv(records: Sequence[RunRecord]) -> str:
    """Return CSV with one line per result: the run, the interval, the counts, the signature, tags and note.

    Numbers are not rounded; a missing number is an empty cell. A run without results has one line with its status.
    """
    rows: list[list[Any]] = []
    for record in records:
        run = [record.id, record.task, record.model, record.label, record.status]
        computed_with = [record.settings.confidence, record.signature]
        annotation = [" ".join(record.annotation.tags) or None, record.annotation.note or None]
        results: list[dict[str, Any]] = [result.as_dict() for result in record.results]
        if not results:
            results.append({})
        for result in results:
            rows.append([*run, *(result.get(column) for column in _RESULT_COLUMNS), *computed_with, *annotation])
    return csv_text(COLUMNS, rows)
