"""Options and help of ``lmassay merge``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option


@click.command(
    epilog="Example: lmassay merge machine1/results machine2/results -o results",
    short_help="Merge results folders of several machines.",
)
@click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Results folder to write. It may already contain runs.",
)
@json_option
@calls("lmassay.cli.actions.merge:merge")
def merge() -> None:
    """Merge results folders into one: runs, examples, answers, costs and trained models.

    A run that is in several folders is copied once. If the copies differ, this is a conflict: the complete copy is
    kept, or else the one with more finished examples, or else the first one. Conflicts, and everything that could not
    be copied, are listed, and the exit code is 1. The folders themselves are not changed.
    """
