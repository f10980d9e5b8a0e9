"""Options and help of ``lmassay table``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.filters import filter_options
from lmassay.cli.options import calls, results_option
from lmassay.cli.table_options import table_options


@click.command(
    epilog="Example: lmassay table --rows model --columns task.attack --metric success -o table.tex",
    short_help="Write a table: rows, columns and metrics as you choose.",
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@table_options
@click.option("--label", metavar="LABEL", default="", help="LaTeX: label for references, such as tab:attacks.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write: .tex, .md, .csv or .html.  [default: print the table]",
)
@filter_options
@results_option
@calls("lmassay.cli.actions.table:table")
def table() -> None:
    """Print or write a table of runs; without RUN and filters, of all runs of the latest command.

    KEY is one of: model, label, task, metric; a key of the configuration that the runs differ in, such as task.attack
    (or just attack), method or seed; or a group of examples, such as category. Join two keys with a comma.

    The best number of a column, or of a row if the columns are models, is bold if it is significantly better than
    all others. The tests are paired, on the examples that the runs share, and adjusted by Holm's method. Numbers that
    tie with the best are marked with †, and so is the best; if all numbers tie, the caption says so.
    """
