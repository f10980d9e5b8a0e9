"""What ``lmassay table`` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lmassay.cli.console import say, warn
from lmassay.cli.damage import damage_messages, warn_about_damage
from lmassay.cli.options import chosen_runs
from lmassay.cli.table_options import TableOptions
from lmassay.cli.table_output import print_sentence, print_wide_table
from lmassay.errors import UserError
from lmassay.reporting.run_labels import label_runs
from lmassay.reporting.run_table import RunTable, run_table
from lmassay.storage.files import atomic_write
from lmassay.storage.run_filter import RunFilter
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted, enumerated

_MAX_NAMED = 6


def table(
    runs: Sequence[str],
    table: TableOptions,
    label: str,
    output: Path | None,
    selected: RunFilter,
    results: Path,
) -> None:
    """Print or write a table of runs."""
    write = None if output is None else _writer(output, label)
    if label and (output is None or output.suffix.lower() != ".tex"):
        raise UserError("--label is for LaTeX; write a .tex file with -o")
    with Store(results, for_display=True) as store:
        chosen = store.runs() if selected and not runs else chosen_runs(store, runs)
        records = _usable(selected.select(chosen), results)
        results_table = run_table(store, label_runs(records).records, table.layout())
    if write is None or output is None:
        _print(results_table)
        return
    text = write(results_table)
    with atomic_write(output) as stream:
        stream.write(text)
    say(f"table written to {output.resolve()}")


def _usable(records: Sequence[RunRecord], results: Path) -> list[RunRecord]:
    """Return the runs that have results, and print warnings about the others."""
    usable = []
    without_results: list[str] = []
    warn_about_damage(damage_messages(records), results)
    for record in records:
        if record.status == DAMAGED:
            continue
        if not record.results:
            without_results.append(f"{record.id} ({record.status})")
        else:
            if record.status != "done":
                warn(f"the run {record.id} is {record.status}: {record.note}")
            usable.append(record)
    if without_results:
        # One line, even if a whole sweep has failed.
        verb = "has" if len(without_results) == 1 else "have"
        warn(f"{counted(len(without_results), 'run')} {verb} no results: {enumerated(without_results, _MAX_NAMED)}")
    if not usable:
        raise UserError("no run with results matches; see `lmassay ls`")
    return usable


def _print(results_table: RunTable) -> None:
    """Print a table on standard output, followed by its notes."""
    headers = [results_table.row_key, *("\n".join(column) for column in results_table.columns)]
    rows = []
    for row in results_table.rows:
        cells = [row]
        for column in results_table.columns:
            cells.append("\n".join([results_table.text(row, column, bold="*"), *results_table.small(row, column)]))
        rows.append(cells)
    print_wide_table(results_table.title, headers, rows)
    # A terminal may not show bold type, so the best numbers are printed between asterisks.
    for note in results_table.notes:
        print_sentence(note.replace("Bold:", "* *:"))


def _writer(output: Path, label: str) -> Callable[[RunTable], str]:
    """Return the function that turns a table into text, in the format that the ending of the file stands for."""
    ending = output.suffix.lower()
    if ending == ".tex":
        from lmassay.reporting.formats.latex import floating_table

        return lambda results_table: floating_table(results_table.block(), label)
    if ending == ".md":
        from lmassay.reporting.formats.markdown import table_text

        return lambda results_table: table_text(results_table.block())
    if ending == ".csv":
        return RunTable.csv
    if ending in (".html", ".htm"):
        return _as_page
    raise UserError(f"-o {output}: the name must end in .tex, .md, .csv or .html")


def _as_page(results_table: RunTable) -> str:
    from markupsafe import Markup

    from lmassay.reporting.html_document import document, environment

    body = environment().from_string("<main>{{ show(block) }}</main>").render(block=results_table.block())
    return document(results_table.title, Markup(body))  # noqa: S704 - the template escaped it
