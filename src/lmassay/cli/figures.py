"""Options and help of ``lmassay figures``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, results_option


@click.command(
    epilog="Example: lmassay figures -o figures --format pdf --width two-column",
    short_help="Write the figures of a report for a paper: SVG, PDF, PNG.",
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("figures"),
    show_default=True,
    help="Folder to write to.",
)
@click.option(
    "--format",
    "formats",
    metavar="FORMATS",
    default="svg",
    show_default=True,
    help="svg, pdf or png, or several: svg,pdf",
)
@click.option(
    "--width",
    metavar="WIDTH",
    default="one-column",
    show_default=True,
    help="one-column (84 mm), two-column (178 mm) or a length such as 77mm or 6.3in.",
)
@click.option(
    "--style",
    type=click.Choice(("colour", "grey")),
    default="colour",
    show_default=True,
    help="Colours that readers with any kind of colour vision can distinguish, or greys.",
)
@click.option(
    "--text",
    "text_form",
    type=click.Choice(("outlines", "text")),
    default="outlines",
    show_default=True,
    help="SVG: draw texts as outlines, which look the same everywhere, or keep them as texts that can be edited.",
)
@click.option("--only", multiple=True, metavar="TEXT", help="Only figures whose name contains this; repeatable.")
@click.option("--list", "list_only", is_flag=True, help="List the names of the figures; write nothing.")
@click.option("--all", "every", is_flag=True, help="Figures of all runs in the folder.")
@results_option
@calls("lmassay.cli.actions.figures:figures")
def figures() -> None:
    """Write each figure of a report to a file. Without RUN, the report is about all runs of the latest command.

    Figures are laid out for the chosen width, with text of at least 7 pt. PDF files embed their fonts. The same runs
    always give the same bytes, so figures can be kept under version control. PDF, PNG and outlines need pip install
    'lmassay[figures]'.
    """
