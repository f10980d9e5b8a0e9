"""``lmassay report``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.common import chosen_runs, results_option
from lmassay.cli.console import say
from lmassay.data import atomic_write
from lmassay.errors import UserError
from lmassay.store import Store


@click.command(epilog="Example: lmassay report latest -o report.html", short_help="Write an HTML report.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="Page to write.",
)
@click.option("--all", "every", is_flag=True, help="Report all runs in the folder.")
@results_option
def report(runs: Sequence[str], output: Path, every: bool, results: Path) -> None:
    """Write one self-contained page: tables, figures, examples, provenance. No RUN: all of the last command's."""
    from lmassay.report.page import render

    if every and runs:
        raise UserError("--all reports every run; leave out either it or the names")
    with Store(results) as store:
        page = render(store, store.runs() if every else chosen_runs(store, runs))
    with atomic_write(output) as stream:
        stream.write(page)
    say(f"report written to {output.resolve()}")
