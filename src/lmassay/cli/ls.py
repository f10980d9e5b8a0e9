"""``lmassay ls``"""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.common import json_option, results_option
from lmassay.cli.console import is_narrow, print_json, print_table
from lmassay.report.numbers import short_text
from lmassay.store import RunRecord, Store


@click.command(epilog="Example: lmassay ls --results results", short_help="List the runs.")
@results_option
@json_option
def ls(results: Path, as_json: bool) -> None:
    """List the runs in a results folder with their first result."""
    with Store(results) as store:
        runs = store.runs()
    if as_json:
        print_json({"runs": [record.as_json() for record in runs]})
        return
    columns = ("run", "label", "model", "status", "first result", "n")
    between = "\n" if is_narrow() else " "
    print_table("", columns, [_row(record, between) for record in runs], right=(5,), whole=(0,))


def _row(record: RunRecord, between: str) -> tuple[object, ...]:
    head = (record.id, f"{record.task}:{between}{record.label}", record.model, record.status)
    if not record.results:
        return (*head, "", "")
    first = record.results[0]
    return (*head, f"{first['metric']} {short_text(first, between)}", first["n"])
