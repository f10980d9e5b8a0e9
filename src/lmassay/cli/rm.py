"""Options and help of ``lmassay rm``."""

from __future__ import annotations

import click

from lmassay.cli.filters import filter_options
from lmassay.cli.options import calls, json_option, results_option


@click.command(epilog="Example: lmassay rm --status failed --yes", short_help="Remove runs from a results folder.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@filter_options
@click.option("--answers", is_flag=True, help="Also delete cached answers that no other run uses.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@results_option
@json_option
@calls("lmassay.cli.actions.rm:rm")
def rm() -> None:
    """Remove runs with their examples, results, costs, notes and trained models.

    Name runs, or select them with the same options as in `lmassay ls`. On a terminal, the command lists the runs and
    asks for confirmation; otherwise it requires --yes. A run in progress cannot be removed.

    Cached answers stay, so that a repeated run does not request (and pay for) them again; --answers deletes those that
    no other run uses.
    """
