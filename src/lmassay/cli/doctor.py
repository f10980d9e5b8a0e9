"""Options and help of ``lmassay doctor``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, json_option


@click.command(epilog="Example: lmassay doctor", short_help="Check the installation.")
@json_option
@calls("lmassay.cli.actions.doctor:doctor")
def doctor() -> None:
    """Check what is installed, what is missing and how to get it.

    The exit code is 1 if something is broken; missing optional packages are not an error.
    """
