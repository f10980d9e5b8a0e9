"""``lmassay report``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.common import chosen_runs, results_option
from lmassay.cli.console import say
from lmassay.data import atomic_write
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
@results_option
def report(runs: Sequence[str], output: Path, results: Path) -> None:
    """Write one self-contained page: tables, figures, examples, provenance. No RUN: all of the last command's."""
    from lmassay.report.page import render

    with Store(results) as store:
        page = render(store, chosen_runs(store, runs))
    with atomic_write(output) as stream:
        stream.write(page)
    say(f"report written to {output.resolve()}")
