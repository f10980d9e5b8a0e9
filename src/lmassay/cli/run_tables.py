"""Terminal tables of runs: one run with all its results, or several runs with one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
from rich.cells import cell_len

from lmassay.cli.console import without_controls
from lmassay.cli.table_output import (
    fits,
    least_width,
    print_sentence,
    print_table,
    stdout_console,
    wrapped,
)
from lmassay.reporting.numbers import (
    clusters_text,
    counted_unit,
    interval_text,
    no_interval_notes,
    short_text,
    unscored_text,
    value_text,
)
from lmassay.reporting.overview import Overview, in_parts, overview_of
from lmassay.reporting.run_labels import label_runs
from lmassay.statistics.observations import label_in_plural
from lmassay.storage.commands import command_on_results
from lmassay.storage.store import DAMAGED, Spending, Store
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.wording import counted, enumerated

# How many metrics a narrow terminal has room for.
_NARROW_METRICS = 3
# At most this many runs of one status are named below the table.
_MAX_NAMED_RUNS = 6
_MIN_LABEL_WIDTH = 12
# A word of a label that is longer may be broken.
_MAX_WORD_WIDTH = 20
_MIN_NAME_WIDTH = 10


def interval_title(record: RunRecord) -> str:
    """Return the header of an interval column, such as ``95 % interval``."""
    return f"{100 * record.config.get('confidence', 0.95):g} % interval"


# The end of the note that the runner writes if no example has a score; the reasons follow in parentheses.
_NONE_SCORED = " could be scored"


def brief_note(record: RunRecord) -> str:
    """Return why a run is not done, without the reasons why examples are unscored, which are printed below.

    The reason is ``record.note``. The note that the user wrote is ``record.annotation.note``.
    """
    beginning, reasons_follow, _ = record.note.partition(f"{_NONE_SCORED} (")
    if not reasons_follow:
        return record.note
    return f"{beginning}{_NONE_SCORED}"


# --- one run ----------------------------------------------------------------------------------------------------------


def print_run(record: RunRecord, store: Store, *, everything: bool = False, with_signature: bool = False) -> None:
    """Print the results of a run, its most frequent errors, why examples are unscored, its cost, tags and note.

    A task with many results declares which metrics come first. Only these are printed, by group, unless ``everything``
    is set.
    """
    state = record.status
    if record.note:
        state += f" ({brief_note(record)})"
    title = f"{record.id}  {record.task}: {record.title}, {state}"
    overview = None if everything else overview_of(record)
    if overview is None:
        _print_results(title, record)
    else:
        _print_overview(title, record, overview, store)
    if record.status == DAMAGED:
        return
    for text, number in store.errors(record.id):
        click.echo(without_controls(f"error      {number} × {text}"))
    reasons = unscored_text(store.unscored_reasons(record), record.unit)
    if reasons:
        click.echo(without_controls(f"unscored   {reasons}"))
    spending = store.spending(run=record.id)
    if spending is not None:
        click.echo(without_controls(f"spent      {spending.describe()}"))
    if record.annotation.tags:
        click.echo(without_controls(f"tags       {' '.join(record.annotation.tags)}"))
    if record.annotation.note:
        # Further lines of a note are indented under the first.
        note = record.annotation.note.replace("\n", "\n           ")
        for line in f"note       {note}".split("\n"):
            click.echo(without_controls(line))
    if with_signature:
        click.echo(without_controls(f"signature  {record.signature}"))


def print_total_spending(amounts: Sequence[Spending]) -> None:
    """Print what several runs spent together; nothing if at most one of them spent something."""
    if len(amounts) < 2:
        return
    total = Spending()
    for spent in amounts:
        total = total.plus(spent)
    print_sentence(f"spent by {counted(len(amounts), 'run')}: {total.describe()}")


def _print_results(title: str, record: RunRecord) -> None:
    """Print every result, one per row. A run that failed or has not begun has no results."""
    if not record.results:
        print_sentence(title)
        return
    headers = ["metric", "group", "value", interval_title(record), "n", "errors", "unscored"]
    has_clusters = any(result.clusters for result in record.results)
    if has_clusters:
        headers.append("clusters")
    rows: list[list[object]] = []
    for result in record.results:
        row: list[object] = [result.metric, result.group, value_text(result), interval_text(result)]
        row += [result.n, result.n_error, result.n_unscored]
        if has_clusters:
            row.append(clusters_text(result))
        rows.append(row)
    print_table(title, headers, rows, right=(2, 3, 4, 5, 6))


def _print_overview(title: str, record: RunRecord, overview: Overview, store: Store) -> None:
    """Print one row per group and one column per metric, and the command that prints the remaining results."""
    title = f"{title}; values with {interval_title(record)}s"
    for part in in_parts(overview, _fits_terminal):
        _print_overview_part(title, part)
        title = ""
    printed_results: list[Result] = []
    for _, _, results in overview.rows:
        printed_results += [results[metric] for metric in overview.metrics if metric in results]
    for note in no_interval_notes(printed_results):
        print_sentence(note)
    name_width = max([_MIN_NAME_WIDTH, *(len(name) for name, _ in overview.lines)])
    for name, text in overview.lines:
        click.echo(without_controls(f"{name:<{name_width}} {text}"))
    if overview.left_out:
        command = command_on_results(store.folder, "show", _short_id(record), "--all")
        more = counted(overview.left_out, "further result")
        click.echo(without_controls(f"{'more':<{name_width}} {more}: {command}"))


def _print_overview_part(title: str, overview: Overview) -> None:
    """Print a part of an overview as a table that fits on the terminal."""
    headers = _overview_headers(overview, " ")
    rows = _overview_rows(overview, " ")
    if sum(_column_widths(headers, rows)) > stdout_console().width:
        # Put the interval below the value, and wrap the labels in the space that is left.
        headers = _overview_headers(overview, "\n")
        rows = _overview_rows(overview, "\n")
        label_width = stdout_console().width - sum(_column_widths(headers, rows)[1:])
        for row in rows:
            row[0] = "\n".join(_wrapped_label(str(row[0]), label_width))
    # Columns of numbers; the first column has the groups.
    numeric_columns = range(1, len(headers))
    print_table(title, headers, rows, right=numeric_columns, whole=numeric_columns)


def _fits_terminal(overview: Overview) -> bool:
    """Return whether the terminal has room for all columns and the words of the labels."""
    rows = _overview_rows(overview, "\n")
    widths = _column_widths(_overview_headers(overview, "\n"), rows)
    label_width = _MIN_LABEL_WIDTH
    for row in rows:
        label = str(row[0])
        label_width = max(label_width, len(_indent(label)) + least_width(label, _MAX_WORD_WIDTH))
    return sum(widths[1:]) + label_width <= stdout_console().width


def _overview_headers(overview: Overview, separator: str) -> list[str]:
    """Return the headers. Those of counts have two words; ``separator``, a space or a line break, is between them."""
    headers = ["group", *overview.metrics]
    if len(overview.counted) == 1:
        headers.append("n")
    else:
        headers += [f"n{separator}{metric}" for metric in overview.counted]
    # The number of labels that examples share, such as verb pairs.
    for name in overview.crossed.values():
        headers.append(label_in_plural(name).replace(" ", separator))
    return headers


def _overview_rows(overview: Overview, separator: str) -> list[list[object]]:
    """Return the rows; ``separator`` is between a value and its interval."""
    rows: list[list[object]] = []
    for depth, label, results in overview.rows:
        row: list[object] = ["  " * depth + label]
        # A group that has no result of a metric has an empty cell.
        for metric in overview.metrics:
            row.append(short_text(results[metric], separator) if metric in results else "")
        for metric in overview.counted:
            row.append(results[metric].n if metric in results else "")
        for metric, name in overview.crossed.items():
            row.append(results[metric].clusters.get(name, "") if metric in results else "")
        rows.append(row)
    return rows


def _column_widths(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[int]:
    """Return the width of each column, with the two spaces before the next one."""
    widths = []
    for column in zip(headers, *rows, strict=True):
        lines: list[str] = []
        for cell in column:
            lines += str(cell).split("\n")
        widths.append(max(map(cell_len, lines)) + 2)
    return widths


def _wrapped_label(label: str, width: int) -> list[str]:
    """Return the lines of a label. Lines after the first are indented, if their longest word leaves room for that."""
    width = max(width, _MIN_LABEL_WIDTH)
    if cell_len(label) <= width:
        return [label]
    indent = _indent(label)
    further_indent = f"{indent} "
    if len(further_indent) + least_width(label, _MAX_WORD_WIDTH) > width:
        further_indent = indent
    first, *others = wrapped(label.strip(), width - len(further_indent)).split("\n")
    return [f"{indent}{first}", *(f"{further_indent}{line}" for line in others)]


def _indent(label: str) -> str:
    return label[: len(label) - len(label.lstrip())]


# --- several runs -----------------------------------------------------------------------------------------------------


def print_runs(records: Sequence[RunRecord], store: Store) -> None:
    """Print several runs in one table: a row for each run, a column for each main metric."""
    labelled = label_runs(records)
    records = labelled.records
    table = _table_of_runs(records, store, narrow=False)
    if not fits(table.headers, table.rows):
        table = _table_of_runs(records, store, narrow=True)
    # The columns between those that name the run and the last one, which has its id.
    numeric_columns = range(table.name_columns, len(table.headers) - 1)
    command = command_on_results(store.folder, "show", "RUN")
    print_table(
        f"{counted(len(records), 'run')}; full results of a run: {command}",
        table.headers,
        table.rows,
        right=numeric_columns,
        whole=(*numeric_columns, len(table.headers) - 1),
    )
    ids_by_status: dict[str, list[str]] = {}
    for record in records:
        if not record.results and record.status != "done":
            ids_by_status.setdefault(record.status, []).append(_short_id(record))
    for status, ids in ids_by_status.items():
        # Without this line, a row without numbers would look like a run without examples.
        print_sentence(f"{status}: {enumerated(ids, _MAX_NAMED_RUNS)}")
    for note in [*labelled.notes, *no_interval_notes(table.results)]:
        print_sentence(note)
    for metric in _metrics_that_count_rows(records):
        print_sentence(f"n, errors and unscored are those of {metric} and count rows; an example may have several.")
    has_several_tasks = len({record.task for record in records}) > 1
    for record in records:
        reasons = "" if record.status == DAMAGED else unscored_text(store.unscored_reasons(record), record.unit)
        if reasons:
            # Runs of several tasks on the same data have the same label, so the task is named, too.
            task = f"{record.task}: " if has_several_tasks else ""
            print_sentence(f"{task}{record.title}: unscored: {reasons}")
    amounts = [store.spending(run=record.id) for record in records if record.status != DAMAGED]
    print_total_spending([spent for spent in amounts if spent is not None])


@dataclass(frozen=True, slots=True)
class _RunsTable:
    """A table with a row for each run."""

    headers: list[str]
    rows: list[list[object]]
    name_columns: int
    """How many columns, from the left, name the run."""
    results: list[Result]
    """The results that the cells show."""


def _table_of_runs(records: Sequence[RunRecord], store: Store, *, narrow: bool) -> _RunsTable:
    """Return the table of runs; in the narrow form, the model is below the label, and the interval below the value."""
    overall = [_overall_results(record) for record in records]
    metrics = _main_metrics(records, overall)
    if narrow:
        metrics = metrics[:_NARROW_METRICS]
    # A task that names its headline metrics has few columns but long labels, so its counts share one column.
    counts_share_column = narrow and any(record.design.headline for record in records)
    separator = "\n" if narrow else " "
    rows = []
    printed_results: list[Result] = []
    for record, results in zip(records, overall, strict=True):
        row: list[object] = []
        if narrow:
            row.append(f"{record.label}\n{record.model}" if record.has_model else record.label)
        else:
            row += [record.label, record.model_cell]
        for metric in metrics:
            if metric in results:
                row.append(short_text(results[metric], separator))
                printed_results.append(results[metric])
            else:
                row.append("")
        n, errors, unscored = _counts(record, store)
        if counts_share_column:
            row.append(f"{n}\n{errors}/{unscored}")
        else:
            row += [n, errors, unscored]
        row.append(_short_id(record))
        rows.append(row)
    names = ["label"] if narrow else ["label", "model"]
    counts = ["n", "errors", "unscored"]
    if counts_share_column:
        counts = ["n\nerr/uns"]
    elif narrow:
        counts = ["n", "err", "uns"]
    return _RunsTable([*names, *metrics, *counts, "run"], rows, len(names), printed_results)


def _overall_results(record: RunRecord) -> dict[str, Result]:
    """Return the results over all examples by metric."""
    return {result.metric: result for result in record.results if result.group == OVERALL}


def _short_id(record: RunRecord) -> str:
    """Return the end of a run's id, which is enough to name the run in a command."""
    return record.id.rpartition("-")[2]


def _counts(record: RunRecord, store: Store) -> tuple[int, int, int]:
    """Return the numbers of examples that were scored, have errors, and are unscored.

    The numbers are those of the first result. If a run has no results, its examples are counted.
    """
    if record.results:
        first = record.results[0]
        return first.n, first.n_error, first.n_unscored
    by_state = store.count(record.id)
    return by_state["scored"], by_state["error"], by_state["unscored"]


def _metrics_that_count_rows(records: Sequence[RunRecord]) -> list[str]:
    """Return the metrics whose counts :func:`_counts` returns, if they count something other than examples."""
    metrics: dict[str, None] = {}
    for record in records:
        if record.results:
            metric = record.results[0].metric
            if counted_unit(record, metric) != record.unit:
                metrics[metric] = None
    return list(metrics)


def _main_metrics(records: Sequence[RunRecord], overall: Sequence[Mapping[str, Result]]) -> list[str]:
    """Return the headline metrics of the tasks; of a task without any, all its metrics.

    Statistics of a metric, such as ``d_tgt.std``, are left to ``lmassay show``.
    """
    metrics: dict[str, None] = {}
    for record, results in zip(records, overall, strict=True):
        if record.design.headline:
            main_metrics = [metric for metric in record.design.headline if metric in results]
        else:
            main_metrics = [metric for metric in results if "." not in metric]
        metrics |= dict.fromkeys(main_metrics)
    return list(metrics)
