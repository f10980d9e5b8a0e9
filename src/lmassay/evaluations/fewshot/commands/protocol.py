"""``lmassay protocol``"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len

from lmassay.cli.common import chosen_runs, json_option, results_option
from lmassay.cli.console import out, plain, print_json, print_table, say
from lmassay.errors import UserError
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.protocol.table import ProtocolTable
    from lmassay.evaluations.fewshot.report.judged import JudgedArm, JudgedStudy

_MOST_NOTES = {False: 12, True: 4}
"""In full and in brief."""


@click.command(epilog="Example: lmassay protocol --format tex -o table.tex", short_help="Judge few-shot runs.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Judge all few-shot runs in the folder together.")
@click.option("--format", "form", type=click.Choice(["text", "md", "tex", "csv"]), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; standard output if not given.")
@results_option
@json_option
def protocol(runs: Sequence[str], every: bool, form: str, output: Path | None, results: Path, as_json: bool) -> None:
    """Judge few-shot runs by FewNLU's three criteria: test of the selected configuration, dev-test correlation and
    stability over K, one table a strategy, then strategies against each other. No RUN: all of the last command's.

    Runs that differ in hyper-parameters alone are the configurations that one is selected from. A training that failed
    or was not reached is reported, and never counted as a score.
    """
    from lmassay.evaluations.fewshot.report.judged import judged_studies

    if every and runs:
        raise UserError("--all judges every few-shot run; leave out either it or the names")
    if as_json and form != "text":
        raise UserError(f"--json and --format {form}: give one of them")
    if output is not None and form == "text":
        raise UserError("-o goes with --format md, tex or csv")
    with Store(results) as store:
        chosen = store.runs() if every else chosen_runs(store, runs)
        judged = judged_studies(store, chosen)
    if not judged:
        where = f"in {results}" if every else "among these"
        raise UserError(f"there is no few-shot run {where}; see `lmassay ls`, or give --all for all of the folder")
    if as_json or form != "text":
        _write(judged, "json" if as_json else form, output)
        return
    for number, study in enumerate(judged):
        click.echo("\n" if number else "", nl=False)
        print_study(study)


def print_verdicts(store: Store, records: Sequence[RunRecord]) -> None:
    """The three criteria of runs that were just done, if there are several few-shot runs among them."""
    if len(records) < 2:
        return
    from lmassay.evaluations.fewshot.report.judged import judged_studies

    for study in judged_studies(store, records):
        click.echo()
        print_study(study, brief=True)


def print_study(judged: JudgedStudy, *, brief: bool = False) -> None:
    """All tables of a method and model; ``brief`` leaves out what explains them."""
    from lmassay.evaluations.fewshot.report.forms import what_it_is
    from lmassay.evaluations.fewshot.report.tables import comparisons, criteria, stability_note

    _say_wrapped(judged.title)
    if not brief:
        _say_wrapped(what_it_is(judged))
    for arm in judged.families:
        table = criteria(arm)
        click.echo()
        _print(table)
        if arm.curves and not brief:
            _say_wrapped(stability_note(arm))
        _print_selected(arm)
        _print_notes(arm, _MOST_NOTES[brief])
    if len(judged.arms) > 1:
        for table in comparisons(judged):
            click.echo()
            _print(table)


def _print(table: ProtocolTable) -> None:
    """A protocol table in as many parts as the terminal is narrow."""
    from lmassay.evaluations.fewshot.report.tables import cells

    rows = []
    for row in table.rows:
        shared, found = cells(row)
        texts = ["\n".join(text for line in cell for text in (line.text, *line.small)) for cell in found]
        rows.append([f"{row.name}\n  {shared}" if shared else row.name, *texts])
    heads = ["", *table.columns]
    widths = [_width([head, *(row[place] for row in rows)]) for place, head in enumerate(heads)]
    title, start = table.title, 1
    while start < len(heads):
        end = start + 1
        while end < len(heads) and widths[0] + sum(widths[start : end + 1]) <= out().width:
            end += 1
        numbers = range(1, end - start + 1)
        shown = [[row[0], *row[start:end]] for row in rows]
        print_table(title, [heads[0], *heads[start:end]], shown, right=numbers, whole=(0, *numbers))
        title, start = "", end


def _width(cells: Sequence[str]) -> int:
    return max(cell_len(line) for cell in cells for line in cell.split("\n")) + 2


def _print_selected(arm: JudgedArm) -> None:
    from lmassay.evaluations.fewshot.report.tables import selected, spread_text

    rows = [
        [s.task, s.configuration.replace(", ", "\n"), spread_text(s.dev), f"{s.splits}\n{s.configurations}", s.examples]
        for s in selected(arm)
    ]
    heads = ("task", "selected", "dev", "splits\nconfigs", "train/dev/\ntest")
    print_table("", heads, [[cell.replace(" [", "\n[") for cell in row] for row in rows], right=(2, 3, 4), whole=(2, 3))


def _print_notes(arm: JudgedArm, most: int) -> None:
    from lmassay.evaluations.fewshot.report.tables import notes

    found = notes(arm)
    for note in found[:most]:
        _say_wrapped(f"note: {note}")
    if len(found) > most:
        _say_wrapped(f"note: {len(found) - most} more: lmassay protocol --format md")


def _say_wrapped(text: str) -> None:
    out().print(plain(text), markup=False)


def _write(judged: Sequence[JudgedStudy], form: str, output: Path | None) -> None:
    from lmassay.evaluations.fewshot.report import forms

    if form == "json":
        print_json(forms.document(judged))
        return
    text = {"md": forms.markdown, "tex": forms.latex, "csv": forms.csv_text}[form](judged)
    if output is not None:
        with atomic_write(output, newline="") as stream:
            stream.write(text)
        say(f"written to {output}")
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Data, not words for a person: UTF-8 whatever the console shows.
        sys.stdout.reconfigure(encoding="utf-8", newline="")
    sys.stdout.write(text)
