"""The command ``lmassay verbs``: build a verb list for EW and MW."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from lmassay.cli.console import say, warn
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.lemmas import Lemma, build_verb_list, read_verbs
from lmassay.evaluations.syntax.unimorph import PLURAL, SINGULAR, LexiconVerbs, is_lexicon, verbs_of_lexicon
from lmassay.storage.files import atomic_write, open_text

# How many of the dropped forms are shown as examples.
_EXAMPLES = 3


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
def verbs(
    source: Path,
    present: Path | None,
    source_format: Literal["auto", "bases", "unimorph"],
    singular: str | None,
    plural: str | None,
    output: Path,
) -> None:
    """Build a verb list for EW and MW from SOURCE: a lexicon in UniMorph's format, or base forms of English verbs.

    A lexicon has rows of lemma, form and features with tabs between them, such as gehen, geht, V;IND;PRS;3;SG. Forms of
    several words and forms that are both singular and plural are dropped and counted. A file of base forms has any
    number per line; lmassay conjugates them.

    The list is sorted, without duplicates, and has refining-tse's columns idx, sing, plur and freq. Unlike in
    refining-tse's own list, the column idx numbers the rows.
    """
    bases: list[str] = []
    lemmas: list[Lemma] = [] if present is None else list(read_verbs(present).lemmas)
    if source_format == "unimorph" or (source_format == "auto" and is_lexicon(source)):
        from_lexicon = verbs_of_lexicon(source, singular or SINGULAR, plural or PLURAL)
        lemmas += from_lexicon.lemmas
        _report_dropped(from_lexicon)
    elif singular is not None or plural is not None:
        raise ConfigError(
            f"--singular and --plural are for a lexicon of lemma, form and features; {source} has no such columns"
        )
    else:
        for line in open_text(source, "verbs").read():
            bases += line.split()
    text = build_verb_list(bases, lemmas)
    with atomic_write(output) as stream:
        stream.write(text)
    say(f"{text.count(chr(10)) - 1} verbs written to {output}")


def _report_dropped(verbs: LexiconVerbs) -> None:
    """Say what the lexicon has that the list does not, with a few examples of each kind."""
    for reason, dropped in verbs.dropped.items():
        examples = list(dict.fromkeys(dropped))[:_EXAMPLES]
        more = ", …" if len(set(dropped)) > len(examples) else ""
        say(f"dropped: {len(dropped)} {reason} ({', '.join(examples)}{more})")
    if len(verbs.genders) > 1:
        warn(
            f"the verbs agree in gender ({', '.join(sorted(verbs.genders))}); if the subjects of your sentences have "
            "one gender, add it to --singular and --plural"
        )
