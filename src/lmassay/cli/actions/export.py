"""What ``lmassay export`` does."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from lmassay.cli.console import say, without_controls
from lmassay.cli.endings import format_by_ending
from lmassay.errors import UserError
from lmassay.interchange.every_eval_ever import Evaluator, write_evaluation
from lmassay.reporting.row_export import write_csv, write_jsonl
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

_WRITERS = {"jsonl": write_jsonl, "csv": write_csv}
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_STANDARD_OUTPUT = Path("-")
_LM_EVAL, _EVERY_EVAL_EVER = "lm-eval", "every-eval-ever"


def export(
    run: str, form: str | None, output: Path | None, organization: str, relationship: str, results: Path
) -> None:
    """Export a run: every example with its state, scores, texts and error, or in the format of another tool."""
    output = None if output == _STANDARD_OUTPUT else output
    form = form or _format_of(output)
    if form == _EVERY_EVAL_EVER and output is not None and not output.is_dir():
        format_by_ending(output, {".json": form}, without_ending=form, advice="; a name without an ending is a folder")
    with Store(results, for_display=True) as store:
        record = store.run(run)
        if form == _LM_EVAL:
            _export_logs(store, record, _required_output(output, form, "FOLDER"))
        elif form == _EVERY_EVAL_EVER:
            _export_evaluation(store, record, _required_output(output, form, "FILE.json"), organization, relationship)
        else:
            _export_rows(store, record, form, output)


def _format_of(output: Path | None) -> str:
    """Return the format that the ending of the output file stands for; JSON Lines if it has no ending."""
    if output is None:
        return "jsonl"
    return format_by_ending(output, _ENDINGS, without_ending="jsonl", advice="; give --format for others")


def _export_rows(store: Store, record: RunRecord, form: str, output: Path | None) -> None:
    """Write the examples of a run as JSON Lines or CSV, to a file or to standard output."""
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # The rows are data, so they are UTF-8 whatever the console can show.
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
        _WRITERS[form](lambda: store.rows(record.id), sys.stdout)
        return
    with atomic_write(output, newline="") as stream:
        count = _WRITERS[form](lambda: store.rows(record.id), stream)
    say(f"{counted(count, 'row')} of {record.id} written to {output}")


def _export_logs(store: Store, record: RunRecord, folder: Path) -> None:
    """Write a run as log files of lm-evaluation-harness."""
    from lmassay.interchange.lm_eval.log_export import write_logs

    if folder.is_file():
        raise UserError(f"-o {folder} is a file; give a folder, because a run is written as several log files")
    written = write_logs(store, record, folder)
    for file in written.files:
        click.echo(without_controls(file))
    left_out = ""
    if written.left_out:
        left_out = f"; {counted(written.left_out, 'example')} without a score left out"
    say(f"{counted(written.samples, 'sample')} of {record.id} written{left_out}")


def _export_evaluation(store: Store, record: RunRecord, target: Path, organization: str, relationship: str) -> None:
    """Write a run in the format of Every Eval Ever."""
    written = write_evaluation(store, record, target, Evaluator(organization, relationship))
    click.echo(without_controls(written.file))
    if written.samples:
        click.echo(without_controls(written.samples))
    results = counted(written.results, "result")
    instances = counted(written.instances, "instance")
    say(f"{results} and {instances} of {record.id} written")


def _required_output(output: Path | None, form: str, kind: str) -> Path:
    if output is None:
        raise UserError(f"--format {form} writes files; say where with -o {kind}")
    return output
