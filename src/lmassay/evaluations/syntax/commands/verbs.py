"""The command ``lmassay verbs``: build a verb list for EW and MW."""

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
@click.option("--with", "present", type=click.Path(path_type=Path), help="Verb list to join with the new verbs.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="CSV file to write.")
def verbs(bases: Path, present: Path | None, output: Path) -> None:
    """Build a verb list for EW and MW from the base forms in the file BASES, any number per line.

    The verbs are conjugated and sorted; duplicates are removed. The CSV file has refining-tse's columns idx, sing, plur
    and freq. The column idx is numbered, which it is not in refining-tse's own list.
    """
    words: list[str] = []
    for line in open_text(bases, "verbs").read():
        words += line.split()
    known = [] if present is None else list(read_verbs(present).lemmas)
    text = build_verb_list(words, known)
    with atomic_write(output) as stream:
        stream.write(text)
    say(f"{text.count(chr(10)) - 1} verbs written to {output}")
