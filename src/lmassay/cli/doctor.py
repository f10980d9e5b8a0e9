"""Options and help of ``lmassay doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option


@click.command(epilog="Example: lmassay doctor", short_help="Check the installation or a results folder.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Check this results folder instead of the installation: for damage, and for secrets, which earlier versions"
    " may have stored. Secrets are recognised by the name of the option, by their shape, or because they are in your"
    " environment.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="With --results: save everything that is undamaged, and blank out secrets. The original file is kept under"
    " another name.",
)
@json_option
@calls("lmassay.cli.actions.doctor:doctor")
def doctor() -> None:
    """Check what is installed, what is missing and how to get it; with --results, check a results folder.

    The exit code is 1 if something is broken; missing optional packages are not an error.
    """
