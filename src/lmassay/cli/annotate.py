"""Options and help of ``lmassay note`` and ``lmassay tag``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, json_option, results_option


@click.command(
    epilog='Example: lmassay note latest "prompt with a typo, do not cite"', short_help="Write a note on a run."
)
@click.argument("run", metavar="RUN")
@click.argument("text", metavar="[TEXT]", required=False)
@results_option
@json_option
@calls("lmassay.cli.actions.annotate:note")
def note() -> None:
    """Write a note on a run, in place of an earlier note; without TEXT, print the note.

    An empty TEXT ("") removes the note. `lmassay ls`, `show`, reports and exports to other tools show the note.
    """


@click.command(epilog="Example: lmassay tag latest baseline paper", short_help="Tag a run.")
@click.argument("run", metavar="RUN")
@click.argument("names", metavar="[TAG]...", nargs=-1)
@click.option("--remove", is_flag=True, help="Remove the tags instead of adding them.")
@results_option
@json_option
@calls("lmassay.cli.actions.annotate:tag")
def tag() -> None:
    """Add tags to a run, or remove tags with --remove; without TAG, print the tags.

    `lmassay ls --tag baseline` lists the runs with a tag.
    """
