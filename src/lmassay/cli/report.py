"""Options and help of ``lmassay report``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, results_option
from lmassay.cli.table_options import table_options


@click.command(
    epilog="Example: lmassay report --all -o report.html",
    short_help="Write a report: HTML, Markdown, LaTeX, CSV or figures.",
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File or folder to write to; - for standard output.  [default: report.html, or report with the ending of "
    "--format]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("html", "md", "tex", "csv")),
    help="HTML page, Markdown, LaTeX, or all results as CSV.  [default: by the ending of -o]",
)
@click.option("--fragment", is_flag=True, help="LaTeX: write only the tables, to include them in your own document.")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Write each figure to this folder.")
@click.option(
    "--figure-format",
    "figure_formats",
    type=click.Choice(("svg", "png", "pdf")),
    multiple=True,
    help="Format of the figures; repeatable.  [default: svg; pdf for LaTeX]",
)
@click.option("--all", "every", is_flag=True, help="Report on all runs in the folder.")
@table_options
@results_option
@calls("lmassay.cli.actions.report:report")
def report() -> None:
    """Write a report about runs; without RUN, about all runs of the latest command.

    The HTML page is one self-contained file with tables, figures, examples and provenance. Markdown and LaTeX have the
    same tables, and CSV has all results.

    --figures writes the figures to files; a Markdown or LaTeX report then includes them. Used without -o and --format,
    it writes only the figures.

    --rows, --columns or --metric put a table of your choice at the beginning of the report. --digits, --interval, --n,
    --caption and --alpha describe this table, as for `lmassay table`.
    """
