"""All results of the runs as one tidy table: a number a line, with what it rests on and was computed with."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from lmassay.reporting.formats.spreadsheet import cell
from lmassay.types import RunRecord

_OF_RUN = ("run", "task", "model", "label", "status")
_OF_RESULT = ("metric", "group", "value", "low", "high", "n", "n_error", "n_unscored")
COLUMNS = (*_OF_RUN, *_OF_RESULT, "confidence", "signature")


def results_csv(records: Sequence[RunRecord]) -> str:
    """Numbers in full; empty where there is none. A run without results has a line that says its status."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        run = [record.id, record.task, record.model, record.label, record.status]
        rest = [record.settings.confidence, record.signature]
        rows = [result.as_dict() for result in record.results] or [{}]
        for row in rows:
            values = [row.get(key) for key in _OF_RESULT]
            writer.writerow([cell(value) for value in [*run, *values, *rest]])
    return stream.getvalue()
