"""Options and help of ``lmassay ls``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, json_option, results_option


@click.command(epilog="Example: lmassay ls --results results", short_help="List the runs in a results folder.")
@results_option
@json_option
@calls("lmassay.cli.actions.ls:ls")
def ls() -> None:
    """List the runs in a results folder with their main result."""
