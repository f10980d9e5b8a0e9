"""``lmassay export``"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from lmassay.cli.common import results_option
from lmassay.cli.console import say
from lmassay.data import atomic_write
from lmassay.report.export import write_csv, write_jsonl
from lmassay.store import Store

_WRITERS = {"jsonl": write_jsonl, "csv": write_csv}


@click.command(epilog="Example: lmassay export latest --format csv -o rows.csv", short_help="Write a run's rows.")
@click.argument("run", metavar="RUN")
@click.option("--format", "form", type=click.Choice(sorted(_WRITERS)), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; standard output if not given.")
@results_option
def export(run: str, form: str, output: Path | None, results: Path) -> None:
    """Write every example of a run with its state, scores, texts and error."""
    with Store(results) as store:
        record = store.run(run)
        if output is None:
            if isinstance(sys.stdout, io.TextIOWrapper):
                # Data, not words for a person: UTF-8 whatever the console shows.
                sys.stdout.reconfigure(encoding="utf-8", newline="")
            _WRITERS[form](lambda: store.rows(record.id), sys.stdout)
            return
        with atomic_write(output, newline="") as stream:
            count = _WRITERS[form](lambda: store.rows(record.id), stream)
        say(f"{count} rows of {record.id} written to {output}")
