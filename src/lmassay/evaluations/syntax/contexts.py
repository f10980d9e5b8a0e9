"""Collect the distinct contexts of the data: one request per context, however many verbs are compared in it.

The metrics that need them, TSE, EW and MW, are defined in :mod:`.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.syntax.lemmas import VerbList
from lmassay.evaluations.syntax.nouns import agreement_nouns
from lmassay.evaluations.syntax.numbers import InferredNumbers, Observation, Place, number_of_pair, numbers_of_forms
from lmassay.evaluations.syntax.pairs import (
    BlankedPair,
    MinimalPair,
    NoSingleDifference,
    Number,
    split_at_difference,
    text_around,
)
from lmassay.types import Example, digest

# Why a row is not scored.
_DIFFERS_AFTER_VERB = "words after the verb differ as well, and this model sees them"


@dataclass(slots=True)
class VerbContext:
    """A sentence with a blank, and the rows of the data that have this context."""

    construction: str
    left: str
    right: str
    number: Number | None
    template: str = ""
    """The template that its first row was made from, if the data name it; otherwise its paradigm or file."""
    contrast: str = "verb"
    """The kind of word that differs, if the data state it. EW and MW are computed for verbs only."""
    noun: str = ""
    """The noun that the verb agrees with, or the value of the field that ``clusters`` names; empty if it is unknown."""
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    """(row number, right verb, wrong verb)."""
    numbers: set[Number] = field(default_factory=set)
    """All grammatical numbers of its rows; in clean data there is only one."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row that has no blank that this model can be tested at, and why."""

    construction: str
    pair: MinimalPair
    reason: str


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How rows become contexts."""

    capitalize: bool
    """Whether the first word gets a capital letter."""
    period: bool
    """Whether the sentence gets a full stop."""
    sees_right: bool
    """Whether the model sees the text after the blank. If not, contexts that differ only there are merged."""
    stop_at_bad_rows: bool
    """Whether a row without a blank is an error. If not, it is dropped and reported as unscored."""
    cluster: str
    """``auto`` (the agreement noun), ``none``, or the field of the data that names the cluster of a row."""


Rows = Iterable[tuple[str, int, MinimalPair]]
"""(construction, row number, pair)."""


@dataclass(frozen=True, slots=True)
class BlankedRow:
    """A row of the data that has a blank."""

    place: Place
    row: int
    pair: MinimalPair
    blanked: BlankedPair


def gather_contexts(
    rows: Rows, all_rows: Rows | None, verbs: VerbList, options: ContextOptions
) -> tuple[list[VerbContext], list[DroppedRow]]:
    """Return the contexts in the order of their first rows, and the rows that have no blank.

    The first row with a known number determines the number of a context, as in the original. If ``rows`` are a sample,
    pass all rows of the data as ``all_rows``: agreement nouns can be recognised only among many sentences.
    """
    number_of_form = numbers_of_forms(verbs)
    blanked_rows, dropped = _blanked_rows(rows, options)
    evidence_rows = blanked_rows
    if all_rows is not None:
        evidence_rows = list(_all_blanked_rows(all_rows))
    inferred = InferredNumbers(_observations(evidence_rows, number_of_form))
    contexts: dict[tuple[str, str, str], VerbContext] = {}
    context_of_row: list[VerbContext] = []
    for blanked_row in blanked_rows:
        pair = blanked_row.pair
        blanked = blanked_row.blanked
        construction, _ = blanked_row.place
        left, right = text_around(blanked, options.capitalize, options.period)
        visible_right = right if options.sees_right else ""
        key = (construction, left, visible_right)
        number = _number(blanked_row, number_of_form, inferred)
        context = contexts.get(key)
        if context is None:
            template = str(pair.fields.get("template") or pair.fields.get("UID") or pair.file)
            contrast = str(pair.fields.get("contrast", "verb"))
            context = VerbContext(construction, left, visible_right, number, template, contrast)
            contexts[key] = context
        context.rows.append((blanked_row.row, blanked.good, blanked.bad))
        if number:
            # The first row decides, as in the original; the set shows whether rows contradict each other.
            context.number = context.number or number
            context.numbers.add(number)
        context.noun = context.noun or _named_noun(pair, options.cluster)
        context_of_row.append(context)
    if options.cluster == "auto":
        noun_of = _nouns(evidence_rows, number_of_form, inferred)
        for context, blanked_row in zip(context_of_row, blanked_rows, strict=True):
            noun = noun_of.get((blanked_row.place, blanked_row.blanked.left), "")
            context.noun = context.noun or noun
    elif options.cluster != "none" and contexts and not any(context.noun for context in contexts.values()):
        raise DataError(
            f"task.clusters: no row has the field '{options.cluster}'; write auto, none or a field of the data"
        )
    return list(contexts.values()), dropped


def _blanked_rows(rows: Rows, options: ContextOptions) -> tuple[list[BlankedRow], list[DroppedRow]]:
    """Return the rows with a blank, and the rows that are dropped because they have none."""
    blanked_rows: list[BlankedRow] = []
    dropped: list[DroppedRow] = []
    for construction, row, pair in rows:
        try:
            blanked = split_at_difference(pair.good, pair.bad, first=pair.blank == "first")
        except NoSingleDifference as problem:
            if options.stop_at_bad_rows:
                raise DataError(
                    f"{pair.where}: {problem}; score whole sentences instead (task: minimal_pairs), count such rows as "
                    "unscored (bad_rows: count), or put the blank at the first word that differs (columns: {blank: "
                    "first})"
                ) from None
            dropped.append(DroppedRow(construction, pair, str(problem)))
            continue
        if blanked.differs_after and options.sees_right:
            # The text after the blank is that of the right sentence, which would give the answer away.
            dropped.append(DroppedRow(construction, pair, _DIFFERS_AFTER_VERB))
            continue
        blanked_rows.append(BlankedRow((construction, pair.file), row, pair, blanked))
    return blanked_rows, dropped


def _all_blanked_rows(rows: Rows) -> Iterator[BlankedRow]:
    """Yield the rows that have a blank. Others are no mistake here: these rows are evidence and are not scored."""
    for construction, row, pair in rows:
        with suppress(NoSingleDifference):
            blanked = split_at_difference(pair.good, pair.bad, first=pair.blank == "first")
            yield BlankedRow((construction, pair.file), row, pair, blanked)


def _observations(rows: Sequence[BlankedRow], number_of_form: Mapping[str, Number]) -> Iterator[Observation]:
    """Yield what the rows reveal about grammatical numbers; nothing if the number of every row is known."""
    numbers = [row.pair.number or number_of_pair(row.blanked, number_of_form) for row in rows]
    if None not in numbers:
        return
    for row, number in zip(rows, numbers, strict=True):
        yield Observation(row.place, row.blanked.left, row.blanked.good, row.blanked.bad, number)


def _number(row: BlankedRow, number_of_form: Mapping[str, Number], inferred: InferredNumbers) -> Number | None:
    """Return the grammatical number of the right verb: from the label, from the verb list, or from other rows."""
    if row.pair.number:
        return row.pair.number
    listed = number_of_pair(row.blanked, number_of_form)
    if listed:
        return listed
    return inferred.number(row.place, row.blanked.left)


def _named_noun(pair: MinimalPair, cluster: str) -> str:
    """Return the noun, or the value of the field ``cluster``, that the data state; else an empty text."""
    if cluster == "none":
        return ""
    field_name = cluster
    if cluster == "auto":
        field_name = "noun"
    noun = pair.fields.get(field_name)
    if noun is None:
        return ""
    return str(noun)


def _nouns(
    rows: Sequence[BlankedRow], number_of_form: Mapping[str, Number], inferred: InferredNumbers
) -> dict[tuple[Place, tuple[str, ...]], str]:
    """Find the nouns of contexts whose data do not name them, file by file: (place, words before the verb) → noun."""
    by_place: dict[Place, list[BlankedRow]] = {}
    for row in rows:
        if "noun" not in row.pair.fields:
            by_place.setdefault(row.place, []).append(row)
    noun_of: dict[tuple[Place, tuple[str, ...]], str] = {}
    for place, place_rows in by_place.items():
        numbers: list[str | None] = [_number(row, number_of_form, inferred) for row in place_rows]
        if not any(numbers):
            # The noun is the word that changes with the number. For that, it need not be known which number it is.
            numbers = _sides(place_rows, inferred)
        lefts = [row.blanked.left for row in place_rows]
        nouns = agreement_nouns(list(zip(lefts, numbers, strict=True)))
        for left, noun in zip(lefts, nouns, strict=True):
            if noun:
                noun_of[place, left] = noun
    return noun_of


def _sides(rows: Sequence[BlankedRow], inferred: InferredNumbers) -> list[str | None]:
    """Return labels that are equal for rows with the same number, although it is unknown which label is the singular.

    If some rows cannot be compared with the others, all labels are None.
    """
    sides = [inferred.side(row.place, row.blanked.left) for row in rows]
    if len(set(sides)) > 2:
        # Some rows have no verb in common with the others, so their sides cannot be compared.
        return [None] * len(rows)
    return sides


def verb_pair(good: str, bad: str) -> str:
    """Return the name of a pair of verb forms, whichever of the two is right.

    >>> verb_pair("laughs", "laugh")
    'laugh/laughs'
    """
    return "/".join(sorted((good.lower(), bad.lower())))


def as_example(context: VerbContext) -> Example:
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
        # A masked and a causal model are compared by this group, because only the former sees the text on the right.
        "left": digest(context.construction, context.left)[:12],
        "rows": str(len(context.rows)),
    }
    return Example(example_id, inputs, context.number, groups)


def as_unscored_example(row: DroppedRow) -> Example:
    """Return a row without a blank as an example that is reported as unscored and not sent to the model."""
    inputs = {"good": row.pair.good, "bad": row.pair.bad, "problem": row.reason, "where": row.pair.where}
    groups = {"construction": row.construction, "number": "unknown", "noun": f"bad {row.pair.where}", "rows": "1"}
    return Example(f"bad-{digest(row.construction, row.pair.where)[:16]}", inputs, None, groups)
