"""``lmassay teapot``"""

from __future__ import annotations

from collections.abc import Sequence

import click

from lmassay.cli.console import warn
from lmassay.cli.progress import progress_bar


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="TEAPOT's own command line.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def teapot(arguments: Sequence[str]) -> int:
    """TEAPOT's command line as it was; -h prints its help."""
    from lmassay.evaluations.robustness.teapot.program import run

    try:
        with progress_bar("scoring") as advance:
            output = run(list(arguments), advance)
    except SystemExit as stop:
        # argparse ends this way after printing help or a wrong option.
        return stop.code if isinstance(stop.code, int) else 2
    for warning in output.warnings:
        warn(warning)
    click.echo(output.text, nl=False)
    return 0
