"""CSV that a spreadsheet may open: its cells, and the results of runs as one tidy table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

from lmassay.types import RunRecord

# Spreadsheets run a cell that begins with one of these; a quote in front makes it text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Numbers stay numbers, nothing is empty, lists and mappings are JSON; text is never a formula.

    >>> [cell(value) for value in (-0.5, None, "-0.5 points", {"a": 1})]
    [-0.5, '', "'-0.5 points", '{"a": 1}']
    """
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def write_csv(stream: IO[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """A line of column names and one for each row, cells as :func:`cell` gives them; returns how many rows."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(cell, columns))
    count = 0
    for row in rows:
        writer.writerow(map(cell, row))
        count += 1
    return count


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """What :func:`write_csv` writes."""
    stream = io.StringIO()
    write_csv(stream, columns, rows)
    return stream.getvalue()


_OF_RUN = ("run", "task", "model", "label", "status")
_OF_RESULT = ("metric", "group", "value", "low", "high", "n", "n_error", "n_unscored", "method", "clusters")
COLUMNS = (*_OF_RUN, *_OF_RESULT, "confidence", "signature")


def results_csv(records: Sequence[RunRecord]) -> str:
    """A number a line, with what it rests on and was computed with.

    Numbers are given in full; empty where there is none. A run without results has a line that says its status.
    """
    rows: list[list[Any]] = []
    for record in records:
        run = [record.id, record.task, record.model, record.label, record.status]
        rest = [record.settings.confidence, record.signature]
        for result in [result.as_dict() for result in record.results] or [{}]:
            rows.append([*run, *(result.get(key) for key in _OF_RESULT), *rest])
    return csv_text(COLUMNS, rows)
