"""``lmassay ls``"""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.console import is_narrow, print_json, print_sentence, print_table, warn
from lmassay.cli.options import json_option, results_option
from lmassay.reporting.numbers import short_text
from lmassay.reporting.run_labels import label_runs
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import Result, RunRecord


@click.command(epilog="Example: lmassay ls --results results", short_help="List the runs.")
@results_option
@json_option
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
    shown = label_runs(runs)
    rows = [_row(record, narrow) for record in shown.records]
    heads = ["run", *(["label"] if narrow else ["label", "model"]), "status", "result", "n"]
    print_table("", heads, rows, right=(len(heads) - 1,), whole=(0,))
    for note in shown.notes:
        print_sentence(note)


def _row(record: RunRecord, narrow: bool) -> list[object]:
    label = f"{record.task}: {record.label}"
    main = _main_result(record)
    result = f"{main.metric} {short_text(main, chr(10) if narrow else ' ')}" if main is not None else ""
    # Where there is little room, the end of an id is enough to name a run by.
    names = [record.id.rpartition("-")[2], f"{label}\n{record.model}"] if narrow else [record.id, label, record.model]
    return [*names, record.status, result, "" if main is None else main.n]


def _main_result(record: RunRecord) -> Result | None:
    """The first of the metrics that the task puts first; else the first result."""
    for metric in record.design.headline:
        result = record.result(metric)
        if result is not None:
            return result
    return next(iter(record.results), None)
