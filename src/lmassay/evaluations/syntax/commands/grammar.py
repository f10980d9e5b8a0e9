"""Options and help of ``lmassay grammar`` and its commands ``write``, ``show`` and ``list``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls

_GRAMMARS = "lmassay.evaluations.syntax.grammar.grammar:shipped_grammars"


@click.group(
    epilog="Example: lmassay grammar write english -o pairs --max 400 --seed 1",
    short_help="Write minimal pairs from a grammar.",
)
def grammar() -> None:
    """Write minimal pairs from a grammar: your own YAML file, or one that comes with lmassay."""


@grammar.command(
    epilog="Example: lmassay grammar write marvin-linzen -o pairs --only simple_agrmt,sent_comp",
    short_help="Write one file of pairs per construction.",
)
@click.argument("source", metavar="GRAMMAR", shell_complete=offer(_GRAMMARS))
@click.option(
    "-o",
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the files CONSTRUCTION.jsonl.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    help="Write a balanced sample of at most this many pairs per construction.",
)
@click.option("--only", metavar="NAME,...", help="Write only these constructions.")
@calls("lmassay.evaluations.syntax.commands.actions.grammar:write")
def write() -> None:
    """Write the pairs of GRAMMAR as JSON Lines. GRAMMAR is a YAML file or a name from `lmassay grammar list`."""


@grammar.command(
    epilog="Example: lmassay grammar show korean", short_help="Show a grammar's constructions with two pairs each."
)
@click.argument("source", metavar="GRAMMAR", shell_complete=offer(_GRAMMARS))
@calls("lmassay.evaluations.syntax.commands.actions.grammar:show")
def show() -> None:
    """Show each construction of GRAMMAR: how many pairs and clusters (nouns) it has, and two of its pairs.

    A pair is one sentence in which the good word is followed by a slash and the bad one: "laughs/*laugh".
    """


@grammar.command("list", epilog="Example: lmassay grammar list", short_help="List the grammars that come with lmassay.")
@calls("lmassay.evaluations.syntax.commands.actions.grammar:list_")
def list_() -> None:
    """List the grammars that come with lmassay."""
