"""Options that several verbs share."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.cells import cell_len

from lmassay.cli.console import is_narrow, out, plain, print_table, sentence
from lmassay.reporting.numbers import clusters_text, interval_text, no_interval_notes, short_text, value_text
from lmassay.reporting.overview import Overview, in_parts, overview_of
from lmassay.reporting.shown import shown_together
from lmassay.statistics.observations import label_in_plural
from lmassay.storage.provenance import command_line
from lmassay.storage.store import Store
from lmassay.types import RunRecord

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_RESULTS = "results"
_NARROW_METRICS = 3
_LEAST_LABEL = 12


def results_option(function: F) -> F:
    """``--results FOLDER``: where runs are kept."""
    return click.option(
        "--results",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_results,
        show_default=f"$LMASSAY_RESULTS or ./{DEFAULT_RESULTS}",
        help="Folder that holds the runs.",
    )(function)


def default_results() -> Path:
    """Where runs are kept unless a command says otherwise."""
    return Path(os.environ.get("LMASSAY_RESULTS", DEFAULT_RESULTS))


def json_option(function: F) -> F:
    """``--json``: a machine-readable answer."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")(function)


def chosen_runs(store: Store, names: Sequence[str]) -> list[RunRecord]:
    """The named runs, or all of the latest command's."""
    if names:
        return list({record.id: record for record in (store.run(name) for name in names)}.values())
    latest = store.run("latest")
    return [record for record in store.runs() if record.sweep == latest.sweep]


def print_run(record: RunRecord, store: Store, *, everything: bool = False) -> None:
    """A run's results with what they rest on: all of them, or by group the metrics that its task puts first."""
    state = record.status + (f" ({record.note})" if record.note else "")
    title = f"{record.id}  {record.task}: {record.label} on {record.model}, {state}"
    overview = None if everything else overview_of(record)
    if overview is None:
        _print_results(title, record)
    else:
        _print_overview(title, record, overview, store)
    for text, number in store.errors(record.id):
        click.echo(plain(f"error      {number} × {text}"))
    spent = store.spending(run=record.id)
    if spent is not None:
        click.echo(plain(f"spent      {spent.told()}"))
    click.echo(plain(f"signature  {record.signature}"))


def _print_results(title: str, record: RunRecord) -> None:
    heads = ["metric", "group", "value", interval_title(record), "n", "errors", "unscored"]
    rows: list[list[object]] = []
    for r in record.results:
        rows.append([r.metric, r.group, value_text(r), interval_text(r), r.n, r.n_error, r.n_unscored])
    if any(r.clusters for r in record.results):
        heads.append("clusters")
        for row, r in zip(rows, record.results, strict=True):
            row.append(clusters_text(r))
    print_table(title, heads, rows, right=(2, 3, 4, 5, 6))


def _print_overview(title: str, record: RunRecord, overview: Overview, store: Store) -> None:
    """One row a group, one column a metric; what is left out is named with the way to see it."""
    title = f"{title}; values with their {interval_title(record)}s"
    for part in in_parts(overview, _fits):
        _print_part(title, part)
        title = ""
    printed = [found[metric] for _, _, found in overview.rows for metric in overview.metrics if metric in found]
    for note in no_interval_notes(printed):
        sentence(note)
    longest = max([10, *(len(name) for name, _ in overview.lines)])
    for name, text in overview.lines:
        click.echo(plain(f"{name:<{longest}} {text}"))
    if overview.left_out:
        where = [] if store.folder == default_results() else ["--results", store.folder]
        command = command_line("show", record.id.rpartition("-")[2], "--all", *where)
        click.echo(plain(f"{'more':<{longest}} {overview.left_out} further results: {command}"))


def _print_part(title: str, overview: Overview) -> None:
    columns = _overview_columns(overview, " ")
    rows = _overview_rows(overview, " ")
    if sum(_widths(columns, rows)) > out().width:
        columns = _overview_columns(overview, "\n")
        rows = _overview_rows(overview, "\n")
        room = out().width - sum(_widths(columns, rows)[1:])
        rows = [["\n".join(_folded(str(label), room)), *cells] for label, *cells in rows]
    numbers = range(1, len(columns))
    print_table(title, columns, rows, right=numbers, whole=numbers)


def _fits(overview: Overview) -> bool:
    """True if the terminal has room for all columns and the beginning of a label."""
    widths = _widths(_overview_columns(overview, "\n"), _overview_rows(overview, "\n"))
    return sum(widths[1:]) + _LEAST_LABEL <= out().width


def _overview_columns(overview: Overview, between: str) -> list[str]:
    """The headings of counts have several words, with a space or the end of a line between them."""
    heads = ["n"] if len(overview.counted) == 1 else [f"n{between}{metric}" for metric in overview.counted]
    labels = [label_in_plural(name).replace(" ", between) for name in overview.crossed.values()]
    return ["group", *overview.metrics, *heads, *labels]


def _overview_rows(overview: Overview, between: str) -> list[list[object]]:
    rows: list[list[object]] = []
    for depth, label, found in overview.rows:
        row: list[object] = ["  " * depth + label]
        for metric in overview.metrics:
            row.append(short_text(found[metric], between) if metric in found else "")
        for metric in overview.counted:
            row.append(found[metric].n if metric in found else "")
        for metric, name in overview.crossed.items():
            row.append(found[metric].clusters.get(name, "") if metric in found else "")
        rows.append(row)
    return rows


def _widths(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[int]:
    """Of each column, with the two spaces before the next."""
    lines = [[line for cell in column for line in str(cell).split("\n")] for column in zip(columns, *rows, strict=True)]
    return [max(map(cell_len, found)) + 2 for found in lines]


def _folded(label: str, room: int) -> list[str]:
    """The lines of a label that hang under its beginning."""
    indent = label[: len(label) - len(label.lstrip())]
    return textwrap.wrap(label, max(room, _LEAST_LABEL), subsequent_indent=f"{indent} ") or [label]


def print_runs(records: Sequence[RunRecord], store: Store) -> None:
    """Several runs in one table: a row each, a column a metric (the spread of a metric is left to ``lmassay show``)."""
    narrow = is_narrow()
    shown_runs = shown_together(records)
    records = shown_runs.records
    overall = [{r.metric: r for r in record.results if r.group == "overall"} for record in records]
    metrics = _columns(records, overall)
    shown = metrics[:_NARROW_METRICS] if narrow else metrics
    # A task that names its headline has long labels rather than many metrics: its counts share a column.
    folded = narrow and any(record.design.headline for record in records)
    rows = []
    for record, found in zip(records, overall, strict=True):
        cells = [short_text(found[m], "\n" if narrow else " ") if m in found else "" for m in shown]
        n, errors, unscored = _counts(record, store)
        counts = [f"{n}\n{errors}/{unscored}"] if folded else [n, errors, unscored]
        names = [f"{record.label}\n{record.model}"] if narrow else [record.label, record.model]
        # Enough of the id to name the run by.
        rows.append([*names, *cells, *counts, record.id.rpartition("-")[2]])
    counted = ["n\nerr/uns"] if folded else ["n", "err", "uns"] if narrow else ["n", "errors", "unscored"]
    heads = [*(["label"] if narrow else ["label", "model"]), *shown, *counted]
    numbers = range(1 if narrow else 2, len(heads))
    print_table(
        f"{len(records)} runs; values with their intervals, all there is to a run: lmassay show RUN",
        [*heads, "run"],
        rows,
        right=numbers,
        whole=(*numbers, len(heads)),
    )
    printed = [found[metric] for found in overall for metric in shown if metric in found]
    for note in [*shown_runs.notes, *no_interval_notes(printed)]:
        sentence(note)


def _counts(record: RunRecord, store: Store) -> tuple[int, int, int]:
    """Of the first result; a run without any has its examples counted."""
    first = next(iter(record.results), None)
    if first is not None:
        return first.n, first.n_error, first.n_unscored
    found = store.count(record.id)
    return found["scored"], found["error"], found["unscored"]


def _columns(records: Sequence[RunRecord], overall: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics that the tasks put first; all of a task that does not say, but for the spread of a metric."""
    wanted: dict[str, None] = {}
    for record, found in zip(records, overall, strict=True):
        headline = record.design.headline or [metric for metric in found if "." not in metric]
        wanted |= dict.fromkeys(metric for metric in headline if metric in found)
    return list(wanted)


def interval_title(record: RunRecord) -> str:
    """The heading of an interval column, with its confidence."""
    return f"{100 * record.config.get('confidence', 0.95):g} % interval"
