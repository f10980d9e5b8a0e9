"""What ``lmassay protocol`` does: print or write the tables of the FewNLU protocol."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmassay.cli.console import print_json, say
from lmassay.cli.endings import format_by_ending
from lmassay.cli.options import chosen_runs
from lmassay.cli.table_output import print_sentence, print_table, print_wide_table
from lmassay.errors import UserError
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
    from lmassay.evaluations.fewshot.report.tables import ProtocolTable

_ENDINGS = {".md": "md", ".markdown": "md", ".tex": "tex", ".csv": "csv", ".json": "json"}
_MAX_NOTES = 12
_MAX_NOTES_IN_BRIEF = 4


def protocol(
    runs: Sequence[str], all_runs: bool, form: str | None, output: Path | None, results: Path, as_json: bool
) -> None:
    """Evaluate few-shot runs by the FewNLU protocol and print or write its tables."""
    from lmassay.evaluations.fewshot.protocol.studies import read_studies

    if all_runs and runs:
        raise UserError("--all evaluates every few-shot run; give either --all or names of runs")
    if output == Path("-"):
        output = None
    form = _output_format(form, output, as_json)
    with Store(results, for_display=True) as store:
        records = store.runs() if all_runs else chosen_runs(store, runs)
        studies = read_studies(store, records)
    if not studies:
        location = f"in {results}" if all_runs else "among these"
        raise UserError(f"there is no few-shot run {location}; see `lmassay ls`, or give --all for all runs")
    if form != "text":
        _write(studies, form, output)
        return
    for number, study in enumerate(studies):
        if number:
            click.echo()
        print_study(study)
    _print_costs(studies)


def _output_format(form: str | None, output: Path | None, as_json: bool) -> str:
    """Return the format that the options ask for: ``text`` for the terminal, or the format of a document."""
    if as_json:
        if form not in (None, "text"):
            raise UserError(f"--json and --format {form}: give only one of them")
        return "json"
    if output is None:
        return form or "text"
    if form is None:
        return format_by_ending(output, _ENDINGS, advice=", or give --format md, tex or csv")
    if form == "text":
        raise UserError("--format text is for the terminal; -o needs --format md, tex or csv")
    return form


def print_verdicts(store: Store, records: Sequence[RunRecord]) -> None:
    """Print the three criteria of runs that have just finished, if several of them are few-shot runs."""
    if len(records) < 2:
        return
    from lmassay.evaluations.fewshot.protocol.studies import read_studies

    studies = read_studies(store, records)
    for study in studies:
        click.echo()
        print_study(study, brief=True)
    _print_costs(studies)


def print_study(study: Study, *, brief: bool = False) -> None:
    """Print all tables of a method and model; ``brief`` leaves out the explanations."""
    from lmassay.evaluations.fewshot.report.tables import (
        comparison_tables,
        criteria_table,
        explanation,
        stability_note,
    )

    print_sentence(study.title)
    if not brief:
        print_sentence(explanation(study))
    for strategy in study.main_strategies:
        click.echo()
        _print_protocol_table(criteria_table(strategy))
        if strategy.curves and not brief:
            print_sentence(stability_note(strategy))
        _print_selected(strategy)
        _print_notes(strategy, _MAX_NOTES_IN_BRIEF if brief else _MAX_NOTES)
    if len(study.strategies) > 1:
        for table in comparison_tables(study):
            click.echo()
            _print_protocol_table(table)


def _print_costs(studies: Sequence[Study]) -> None:
    """Print the scores of all methods and models with their cost in one table."""
    from lmassay.evaluations.fewshot.report.costs import COLUMNS, EXPLANATION, TITLE, cost_texts

    if not studies:
        return
    click.echo()
    print_table(TITLE, COLUMNS, cost_texts(studies), right=(2, 3, 4, 5, 6), whole=(2, 3))
    print_sentence(EXPLANATION)


def _print_protocol_table(table: ProtocolTable) -> None:
    """Print a protocol table with intervals and n below their numbers."""
    from lmassay.evaluations.fewshot.report.tables import printed_cells

    rows = []
    for row in table.rows:
        shared_n, cells = printed_cells(row)
        texts = [f"{row.name}\n  {shared_n}" if shared_n else row.name]
        for cell in cells:
            lines = []
            for number in cell:
                lines += [number.text, *number.small]
            texts.append("\n".join(lines))
        rows.append(texts)
    print_wide_table(table.title, ["", *table.columns], rows)


def _print_selected(strategy: Strategy) -> None:
    from lmassay.evaluations.fewshot.report.tables import estimate_text, examples_text, selected_name, splits_text

    rows = []
    for task, verdict in strategy.verdicts.items():
        row = [
            task,
            selected_name(verdict).replace(", ", "\n"),
            estimate_text(verdict.dev),
            f"{splits_text(verdict)}\n{len(verdict.configurations)}",
            examples_text(verdict),
        ]
        # Intervals are printed below their numbers.
        rows.append([cell.replace(" [", "\n[") for cell in row])
    headers = ("task", "selected", "dev", "splits\nconfigs", "train/dev/\ntest")
    print_table("", headers, rows, right=(2, 3, 4), whole=(2, 3))


def _print_notes(strategy: Strategy, limit: int) -> None:
    from lmassay.evaluations.fewshot.report.tables import notes

    texts = notes(strategy)
    for text in texts[:limit]:
        print_sentence(f"note: {text}")
    if len(texts) > limit:
        print_sentence(f"note: {len(texts) - limit} more notes; `lmassay protocol --format md` prints all")


def _json_text(studies: Sequence[Study]) -> str:
    from lmassay.evaluations.fewshot.report import formats

    return json.dumps(formats.document(studies), indent=2, allow_nan=False) + "\n"


def _write(studies: Sequence[Study], form: str, output: Path | None) -> None:
    from lmassay.evaluations.fewshot.report import formats

    if form == "json" and output is None:
        print_json(formats.document(studies))
        return
    writers = {"md": formats.markdown, "tex": formats.latex, "csv": formats.csv_text, "json": _json_text}
    text = writers[form](studies)
    if output is not None:
        with atomic_write(output, newline="") as stream:
            stream.write(text)
        say(f"written to {output}")
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The output is read by programs, so it is UTF-8, whatever the encoding of the console.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
    sys.stdout.write(text)
