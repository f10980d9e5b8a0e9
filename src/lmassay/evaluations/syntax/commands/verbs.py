"""``lmassay verbs``"""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.console import say
from lmassay.evaluations.syntax.lemmas import build_verb_list, read_verbs
from lmassay.storage.files import atomic_write, open_text


@click.command(
    epilog="Example: lmassay verbs bases.txt --with combined_verb_list.csv -o verbs.csv",
    short_help="Build a verb list.",
)
@click.argument("bases", type=click.Path(path_type=Path))
@click.option("--with", "present", type=click.Path(path_type=Path), help="A verb list to join the new verbs with.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The CSV file to write.")
def verbs(bases: Path, present: Path | None, output: Path) -> None:
    """Build a list of verbs for EW and MW from base forms, any number a line: conjugated, sorted, without duplicates.

    The file has the columns idx, sing, plur and freq of refining-tse, with numbers in idx: its own list has none there.
    """
    words = [word for line in open_text(bases, "verbs").read() for word in line.split()]
    known = [] if present is None else list(read_verbs(present).lemmas)
    text = build_verb_list(words, known)
    with atomic_write(output) as stream:
        stream.write(text)
    say(f"{text.count(chr(10)) - 1} verbs written to {output}")
