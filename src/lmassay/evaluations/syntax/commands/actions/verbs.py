"""What ``lmassay verbs`` does: build a verb list for EW and MW."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lmassay.cli.console import say, warn
from lmassay.cli.endings import format_by_ending
from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.lemmas import Lemma, build_verb_list, read_verbs
from lmassay.evaluations.syntax.unimorph import PLURAL, SINGULAR, LexiconVerbs, is_lexicon, verbs_of_lexicon
from lmassay.storage.files import STANDARD_INPUT, atomic_write, forbid_overwriting, open_text

# How many of the dropped forms are shown as examples.
_EXAMPLES = 3
_STANDARD_OUTPUT = Path("-")


def verbs(
    source: Path,
    present: Path | None,
    source_format: Literal["auto", "bases", "unimorph"],
    singular: str | None,
    plural: str | None,
    output: Path,
) -> None:
    """Build a verb list for EW and MW from SOURCE: a lexicon in UniMorph's format, or base forms of English verbs."""
    if present == source == STANDARD_INPUT:
        raise ConfigError("standard input can be read only once; give a file for SOURCE or for --with")
    # -o may name the same file as --with, to which the new verbs are then added, but not the same file as SOURCE.
    forbid_overwriting({"-o": output}, {"SOURCE": source})
    # A path without an ending may be a pipe. But - is refused: it would become the name of a file, although it means
    # standard output in other commands.
    if output.suffix or output == _STANDARD_OUTPUT:
        format_by_ending(output, {".csv": "csv"})
    bases: list[str] = []
    lemmas: list[Lemma] = [] if present is None else list(read_verbs(present).lemmas)
    # Opened once, because it may be a pipe.
    file = open_text(source, "verbs")
    if source_format == "unimorph" or (source_format == "auto" and is_lexicon(file)):
        from_lexicon = verbs_of_lexicon(file, singular or SINGULAR, plural or PLURAL)
        lemmas += from_lexicon.lemmas
        _report_dropped(from_lexicon)
    elif singular is not None or plural is not None:
        raise ConfigError(
            f"--singular and --plural are for a lexicon of lemma, form and features; {file.name} is read as base forms"
        )
    else:
        for line in file.read():
            bases += line.split()
    text = build_verb_list(bases, lemmas)
    with atomic_write(output) as stream:
        stream.write(text)
    count = text.count("\n") - 1
    say(f"{count} {'verb' if count == 1 else 'verbs'} written to {output}")


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
