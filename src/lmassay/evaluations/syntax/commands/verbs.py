"""Options and help of ``lmassay verbs``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls
from lmassay.evaluations.syntax.unimorph import PLURAL, SINGULAR


@click.command(
    epilog="Example: lmassay verbs deu --singular 'V;IND;PRS;3;SG' --plural 'V;IND;PRS;3;PL' -o german.csv",
    short_help="Build a verb list.",
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--with", "present", type=click.Path(path_type=Path), help="Verb list to join with the new verbs.")
@click.option(
    "--format",
    "source_format",
    type=click.Choice(["auto", "bases", "unimorph"]),
    default="auto",
    show_default=True,
    help="bases: base forms of English verbs. unimorph: a lexicon of any language. auto: by the number of columns.",
)
@click.option(
    "--singular", metavar="FEATURES", help=f"Features of the singular form in a lexicon.  [default: {SINGULAR}]"
)
@click.option("--plural", metavar="FEATURES", help=f"Features of the plural form in a lexicon.  [default: {PLURAL}]")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="CSV file to write.")
@calls("lmassay.evaluations.syntax.commands.actions.verbs:verbs")
def verbs() -> None:
    """Build a verb list for EW and MW from SOURCE: a lexicon in UniMorph's format, or base forms of English verbs.

    A lexicon has tab-separated rows of lemma, form and features, such as gehen, geht, V;IND;PRS;3;SG. Forms of
    several words and forms that are both singular and plural are dropped and counted. A file of base forms may have
    several on a line; lmassay conjugates them. SOURCE may be compressed with gzip; - is standard input.

    The list is sorted, without duplicates, and has refining-tse's columns idx, sing, plur and freq. Unlike in
    refining-tse's own list, the column idx numbers the rows.
    """
