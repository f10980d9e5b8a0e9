"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from lmassay.cli.console import is_narrow, plain, print_table
from lmassay.report.numbers import interval_text, short_text, value_text
from lmassay.store import RunRecord, Store

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_RESULTS = "results"
_NARROW_METRICS = 3


def results_option(function: F) -> F:
    """``--results FOLDER``: where runs are kept."""
    return click.option(
        "--results",
        type=click.Path(path_type=Path, file_okay=False),
        default=lambda: Path(os.environ.get("LMASSAY_RESULTS", DEFAULT_RESULTS)),
        show_default=f"$LMASSAY_RESULTS or ./{DEFAULT_RESULTS}",
        help="Folder that holds the runs.",
    )(function)


def json_option(function: F) -> F:
    """``--json``: a machine-readable answer."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(function)


def chosen_runs(store: Store, names: Sequence[str]) -> list[RunRecord]:
    """The named runs, or all of the latest command's."""
    if names:
        return list({record.id: record for record in (store.run(name) for name in names)}.values())
    latest = store.run("latest")
    return [record for record in store.runs() if record.sweep == latest.sweep]


def print_run(record: RunRecord, store: Store) -> None:
    """A run's results with all that they rest on."""
    state = record.status + (f" ({record.note})" if record.note else "")
    print_table(
        f"{record.id}  {record.task}: {record.label} on {record.model}, {state}",
        ("metric", "group", "value", interval_title(record), "n", "errors", "unscored"),
        [
            (r["metric"], r["group"], value_text(r), interval_text(r), r["n"], r["n_error"], r["n_unscored"])
            for r in record.results
        ],
        right=(2, 3, 4, 5, 6),
    )
    for text, number in store.errors(record.id):
        click.echo(plain(f"error      {number} × {text}"))
    click.echo(plain(f"signature  {record.signature}"))


def print_runs(records: Sequence[RunRecord]) -> None:
    """Several runs in one table: a row each, a column a metric (the spread of a metric is left to ``lmassay show``)."""
    narrow = is_narrow()
    overall = [{r["metric"]: r for r in record.results if r["group"] == "overall"} for record in records]
    metrics = [m for m in dict.fromkeys(m for found in overall for m in found) if "." not in m]
    shown = metrics[:_NARROW_METRICS] if narrow else metrics
    rows = []
    for record, found in zip(records, overall, strict=True):
        cells = [short_text(found[m], "\n" if narrow else " ") if m in found else "" for m in shown]
        first = next(iter(record.results), {"n": 0, "n_error": 0, "n_unscored": 0})
        counts = [first["n"], first["n_error"], first["n_unscored"]]
        names = [f"{record.label}\n{record.model}"] if narrow else [record.label, record.model]
        # Enough of the id to name the run by.
        rows.append([*names, *cells, *counts, record.id.rpartition("-")[2]])
    heads = ["label", *shown, "n", "err", "uns"] if narrow else ["label", "model", *shown, "n", "errors", "unscored"]
    numbers = range(1 if narrow else 2, len(heads))
    print_table(
        f"{len(records)} runs; values with their intervals, all there is to a run: lmassay show RUN",
        [*heads, "run"],
        rows,
        right=numbers,
        whole=(*numbers, len(heads)),
    )


def interval_title(record: RunRecord) -> str:
    """The heading of an interval column, with its confidence."""
    return f"{100 * record.config.get('confidence', 0.95):g} % interval"
