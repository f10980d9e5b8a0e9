"""What ``lmassay ls`` does."""

from __future__ import annotations

from pathlib import Path

from lmassay.cli.console import print_json, warn
from lmassay.cli.tables import is_narrow, print_sentence, print_table
from lmassay.reporting.numbers import short_text
from lmassay.reporting.run_labels import label_runs
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import Result, RunRecord


def ls(results: Path, as_json: bool) -> None:
    """List the runs in a results folder with their main result."""
    with Store(results) as store:
        runs = store.runs()
    for record in runs:
        if record.status == DAMAGED:
            warn(f"the run {record.id} is damaged: {record.note}")
    if as_json:
        print_json({"runs": [record.as_json() for record in runs]})
        return
    narrow = is_narrow()
    labelled = label_runs(runs)
    rows = [_row(record, narrow) for record in labelled.records]
    headers = ["run", "label", "status", "result", "n"]
    if not narrow:
        headers.insert(2, "model")
    print_table("", headers, rows, right=(len(headers) - 1,), whole=(0,))
    for note in labelled.notes:
        print_sentence(note)


def _row(record: RunRecord, narrow: bool) -> list[object]:
    label = f"{record.task}: {record.label}"
    if narrow:
        # The end of an id is enough to name a run, and the model goes below the label.
        row: list[object] = [record.id.rpartition("-")[2], f"{label}\n{record.model}"]
    else:
        row = [record.id, label, record.model]
    row.append(record.status)
    result = _main_result(record)
    if result is None:
        return [*row, "", ""]
    text = short_text(result, "\n" if narrow else " ")
    return [*row, f"{result.metric} {text}", result.n]


def _main_result(record: RunRecord) -> Result | None:
    """Return the result of the first headline metric; without headline metrics, the first result."""
    for metric in record.design.headline:
        result = record.result(metric)
        if result is not None:
            return result
    if record.results:
        return record.results[0]
    return None
