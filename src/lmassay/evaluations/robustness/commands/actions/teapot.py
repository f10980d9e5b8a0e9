"""What ``lmassay teapot`` does."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lmassay.cli.console import warn
from lmassay.evaluations.robustness.teapot.options import command_line_parser


def teapot(arguments: Sequence[str]) -> int:
    """Evaluate an attack as TEAPOT's own command does; return the exit code."""
    try:
        # argparse exits after it has printed the help or an error. Parsing the arguments before the program is imported
        # makes both fast.
        command_line_parser().parse_known_args(arguments)
        from lmassay.cli.progress import progress_bar
        from lmassay.evaluations.robustness.teapot.program import run

        with progress_bar("scoring") as advance:
            output = run(list(arguments), advance)
    except SystemExit as stop:
        if isinstance(stop.code, int):
            return stop.code
        return 2
    for warning in output.warnings:
        warn(warning)
    click.echo(output.text, nl=False)
    return 0
