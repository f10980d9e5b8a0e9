"""Gather the distinct contexts of the data: a model is asked once per context, however many verbs are tried in it.

Template sets reuse a few nouns, so their contexts are not independent: they are clustered by the noun that the verb
agrees with. If the data do not name that noun, it is found: among the contexts of one file and length, it is the
position whose word alone determines whether the verb is singular or plural, and whose words are repeated often.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.syntax.lemmas import VerbList
from lmassay.evaluations.syntax.pairs import (
    BlankedPair,
    MinimalPair,
    NoSingleDifference,
    Number,
    split_at_difference,
    text_around,
)
from lmassay.types import Example, digest

# --- agreement nouns --------------------------------------------------------------------------------------------------

# Words that occur this often on average fill the slot of a template; in free text nearly all words are rare.
_REPETITIONS_OF_TEMPLATES = 4.0


def agreement_nouns(contexts: Sequence[tuple[tuple[str, ...], Number | None]]) -> list[str | None]:
    """Return the noun that each context agrees with, in lower case and singular; None if it is unknown.

    A context is given by the words to the left of the verb and the verb's number.
    """
    indices_by_length: dict[int, list[int]] = defaultdict(list)
    for index, (left, number) in enumerate(contexts):
        if left and number is not None:
            indices_by_length[len(left)].append(index)
    nouns: list[str | None] = [None] * len(contexts)
    for length, indices in indices_by_length.items():
        position = _noun_position([contexts[index] for index in indices], length)
        if position is None:
            continue
        words = {contexts[index][0][position].lower() for index in indices}
        for index in indices:
            nouns[index] = _without_plural(contexts[index][0][position].lower(), words)
    return nouns


def _noun_position(contexts: Sequence[tuple[tuple[str, ...], Number | None]], length: int) -> int | None:
    """Return the position whose words determine the number of the verb and are repeated; None if there is none."""
    best_position: int | None = None
    most_words = 0
    for position in range(length):
        numbers_of_word: dict[str, set[Number | None]] = defaultdict(set)
        counts: Counter[str] = Counter()
        for left, number in contexts:
            word = left[position].lower()
            numbers_of_word[word].add(number)
            counts[word] += 1
        determines_number = all(len(numbers) == 1 for numbers in numbers_of_word.values())
        all_numbers: set[Number | None] = set().union(*numbers_of_word.values())
        is_repeated = len(contexts) / len(counts) >= _REPETITIONS_OF_TEMPLATES
        if not determines_number or len(all_numbers) < 2 or not is_repeated:
            continue
        # A verb in a relative clause may determine the number as well; there are more nouns than verbs.
        if len(counts) > most_words:
            best_position, most_words = position, len(counts)
    return best_position


def _without_plural(word: str, words: set[str]) -> str:
    return word[:-1] if word.endswith("s") and word[:-1] in words else word


# --- contexts ---------------------------------------------------------------------------------------------------------

# Verb forms that are not in a verb list but whose number is clear.
_SINGULAR = frozenset({"is", "was", "has", "does", "isn't", "wasn't", "hasn't", "doesn't"})
_PLURAL = frozenset({"are", "were", "have", "do", "aren't", "weren't", "haven't", "don't"})


@dataclass(slots=True)
class Context:
    """A sentence with a blank, and the rows of the data that it stands for: (row, right verb, wrong verb)."""

    construction: str
    left: str
    right: str
    number: Number | None
    template: str = ""
    contrast: str = "verb"
    """What kind of word differs, if the data say it; EW and MW are about verbs."""
    noun: str = ""
    """The noun that the verb agrees with; empty if it is unknown."""
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    numbers: set[Number] = field(default_factory=set)
    """All numbers that its rows say; in clean data there is one."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row that has no blank, and why."""

    construction: str
    pair: MinimalPair
    reason: str


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How rows become contexts."""

    capitalize: bool
    period: bool
    sees_right: bool
    """Whether the model sees the text behind the blank. If not, contexts that differ only there are one."""
    stop_at_bad_rows: bool
    cluster: str


Rows = Iterable[tuple[str, int, MinimalPair]]
"""(construction, row number, pair)."""


@dataclass(frozen=True, slots=True)
class NounEvidence:
    """What the agreement noun of a row is found from: its file, the words before the verb, and the verb's number."""

    construction: str
    file: str
    left: tuple[str, ...]
    number: Number | None


def gather(
    rows: Rows, all_rows: Rows | None, verbs: VerbList, options: ContextOptions
) -> tuple[list[Context], list[DroppedRow]]:
    """Return the contexts in the order of their first rows, and the rows that have no blank.

    The first row decides about the number of a context, as in the original. If ``rows`` are only the first of many,
    ``all_rows`` are all of them: agreement nouns can be recognised only among many sentences.
    """
    number_of_form: dict[str, Number] = {}
    for lemma in verbs.lemmas:
        number_of_form[lemma.singular] = "singular"
        number_of_form[lemma.plural] = "plural"
    contexts: dict[tuple[str, str, str], Context] = {}
    dropped: list[DroppedRow] = []
    contexts_with_evidence: list[tuple[Context, NounEvidence]] = []
    for construction, number, pair in rows:
        try:
            blanked = split_at_difference(pair.good, pair.bad)
        except NoSingleDifference as problem:
            if options.stop_at_bad_rows:
                raise DataError(
                    f"{pair.where}: {problem}; score whole sentences instead (task: minimal_pairs), or count such rows "
                    "as unscored (bad_rows: count)"
                ) from None
            dropped.append(DroppedRow(construction, pair, str(problem)))
            continue
        left, right = text_around(blanked, options.capitalize, options.period)
        key = (construction, left, right if options.sees_right else "")
        evidence = _noun_evidence(construction, pair, blanked, number_of_form)
        context = contexts.get(key)
        if context is None:
            template = str(pair.fields.get("template") or pair.fields.get("UID") or pair.file)
            contrast = str(pair.fields.get("contrast", "verb"))
            context = contexts[key] = Context(*key, evidence.number, template, contrast)
        context.rows.append((number, blanked.good, blanked.bad))
        if evidence.number:
            context.numbers.add(evidence.number)
        context.noun = context.noun or _named_noun(pair, options.cluster)
        contexts_with_evidence.append((context, evidence))
    if options.cluster == "auto":
        _find_nouns(contexts_with_evidence, all_rows, number_of_form)
    elif options.cluster != "none" and contexts and not any(context.noun for context in contexts.values()):
        raise DataError(
            f"task.clusters: no row has the field '{options.cluster}'; write auto, none or a field of the data"
        )
    return list(contexts.values()), dropped


def _noun_evidence(
    construction: str, pair: MinimalPair, blanked: BlankedPair, number_of_form: Mapping[str, Number]
) -> NounEvidence:
    number = pair.number or _inferred_number(blanked, number_of_form)
    return NounEvidence(construction, pair.file, blanked.left, number)


def _named_noun(pair: MinimalPair, cluster: str) -> str:
    if cluster == "none":
        return ""
    noun = pair.fields.get("noun" if cluster == "auto" else cluster)
    return "" if noun is None else str(noun)


def _find_nouns(
    contexts_with_evidence: Sequence[tuple[Context, NounEvidence]],
    all_rows: Rows | None,
    number_of_form: Mapping[str, Number],
) -> None:
    """Find the nouns of contexts whose data do not name them, file by file."""
    evidence_to_use = [evidence for context, evidence in contexts_with_evidence if not context.noun]
    if not evidence_to_use:
        return
    if all_rows is not None:
        files = {evidence.file for evidence in evidence_to_use}
        all_evidence = _all_evidence(all_rows, number_of_form)
        evidence_to_use = [evidence for evidence in all_evidence if evidence.file in files]
    by_file: dict[tuple[str, str], list[NounEvidence]] = {}
    for evidence in evidence_to_use:
        by_file.setdefault((evidence.construction, evidence.file), []).append(evidence)
    noun_of: dict[NounEvidence, str] = {}
    for of_file in by_file.values():
        nouns = agreement_nouns([(evidence.left, evidence.number) for evidence in of_file])
        for evidence, noun in zip(of_file, nouns, strict=True):
            if noun:
                noun_of[evidence] = noun
    for context, evidence in contexts_with_evidence:
        context.noun = context.noun or noun_of.get(evidence, "")


def _all_evidence(rows: Rows, number_of_form: Mapping[str, Number]) -> Iterator[NounEvidence]:
    for construction, _, pair in rows:
        with suppress(NoSingleDifference):
            yield _noun_evidence(construction, pair, split_at_difference(pair.good, pair.bad), number_of_form)


def _inferred_number(blanked: BlankedPair, number_of_form: Mapping[str, Number]) -> Number | None:
    """Return the number of the right verb, if the two forms are a singular and a plural."""
    good, bad = blanked.good.lower(), blanked.bad.lower()
    if good in _SINGULAR and bad in _PLURAL:
        return "singular"
    if good in _PLURAL and bad in _SINGULAR:
        return "plural"
    good_number, bad_number = number_of_form.get(good), number_of_form.get(bad)
    if good_number is None or bad_number is None or good_number == bad_number:
        return None
    return good_number


def verb_pair(good: str, bad: str) -> str:
    """Return the name of a pair of verb forms, whichever of the two is right.

    >>> verb_pair("laughs", "laugh")
    'laugh/laughs'
    """
    return "/".join(sorted((good.lower(), bad.lower())))


def as_example(context: Context) -> Example:
    """Return a context as an example of the task."""
    example_id = digest(context.construction, context.left, context.right)[:16]
    inputs: dict[str, Any] = {
        "left": context.left,
        "right": context.right,
        "rows": [list(row) for row in context.rows],
        "contrast": context.contrast,
    }
    groups = {
        "construction": context.construction,
        "number": context.number or "unknown",
        # A context without a known noun is its own cluster.
        "noun": context.noun or f"{context.left}_{context.right}",
        "left": digest(context.construction, context.left)[:12],
        "rows": str(len(context.rows)),
    }
    return Example(example_id, inputs, context.number, groups)


def as_unscored_example(row: DroppedRow) -> Example:
    """Return a row without a blank as an example that is not asked."""
    inputs = {"good": row.pair.good, "bad": row.pair.bad, "problem": row.reason, "where": row.pair.where}
    groups = {"construction": row.construction, "number": "unknown", "noun": f"bad {row.pair.where}", "rows": "1"}
    return Example(f"bad-{digest(row.construction, row.pair.where)[:16]}", inputs, None, groups)
