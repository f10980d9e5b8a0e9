"""Options and help of ``lmassay init``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls


@click.command(
    epilog="Example: lmassay init bias --model smollm2 -o bias.yaml",
    short_help="Write a sample configuration or start a plug-in.",
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=offer("lmassay.cli.actions.init:names"))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; for starting points other than tasks, the folder to write to.  [default: NAME.yaml, or the "
    "current folder]",
)
@click.option(
    "--model",
    help="Model to evaluate, named as for `lmassay card`: smollm2, openai:NAME, a folder, file.py:Class …",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("-y", "--yes", is_flag=True, help="Run the commands that the configuration needs first, without asking.")
@calls("lmassay.cli.actions.init:init")
def init() -> None:
    """Write a sample configuration with a comment on every option, or the beginning of your own plug-in.

    NAME is a task (robustness, syntax, minimal_pairs, bias, fewshot) or another starting point (scorer, model, task …).
    If you leave it out, lmassay lists everything that it can write.

    A configuration can be run as it is written, with sample data and a tiny model in a Python file. Then replace both
    with your own, or name a model with --model. If that model needs an installation or a download, lmassay prints the
    commands to run first. On a terminal it offers to run them; with --yes it runs them.
    """
