"""Options and help of ``lmassay init``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls


@click.command(
    epilog="Example: lmassay init bias --model smollm2 -o bias.yaml",
    short_help="Write a sample configuration with comments.",
)
@click.argument("task", metavar="[TASK]", required=False, shell_complete=offer("lmassay.cli.actions.init:samples"))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: TASK.yaml]")
@click.option(
    "--model",
    help="Model to evaluate, named as for `lmassay card`: smollm2, openai:NAME, a folder, file.py:Class …",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@calls("lmassay.cli.actions.init:init")
def init() -> None:
    """Write a sample configuration with a comment on every option.

    If the task reads files, sample data is written next to the configuration, so that it can be run immediately. Then
    replace the samples with your own model and data.

    TASK is the name of a task, see `lmassay tasks`. If you leave it out in a terminal, lmassay asks for it.
    """
