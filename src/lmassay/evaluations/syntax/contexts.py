"""Distinct contexts out of rows: what a model is asked once, however many verbs the data try in it.

Template sets reuse a few nouns, so their rows count for less than they seem to: contexts are clustered by the noun
that the verb agrees with. Where the data do not name it, it is found: in contexts of one file and length, the position
whose word alone tells whether the verb is singular or plural, and whose words come back again and again.
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

# Words that come back this often, on average, are the fillers of a template; in free text nearly all are rare.
_REUSED = 4.0


def agreement_nouns(contexts: Sequence[tuple[tuple[str, ...], Number | None]]) -> list[str | None]:
    """The noun that each (left words, number) agrees with, in lower case and without its plural s; None if unknown."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, (left, number) in enumerate(contexts):
        if left and number is not None:
            by_length[len(left)].append(place)
    nouns: list[str | None] = [None] * len(contexts)
    for length, places in by_length.items():
        position = _controller([contexts[place] for place in places], length)
        if position is None:
            continue
        words = {contexts[place][0][position].lower() for place in places}
        for place in places:
            nouns[place] = _without_plural(contexts[place][0][position].lower(), words)
    return nouns


def _controller(contexts: Sequence[tuple[tuple[str, ...], Number | None]], length: int) -> int | None:
    best: tuple[int, int] | None = None
    for position in range(length):
        numbers: dict[str, set[Number | None]] = defaultdict(set)
        counts: Counter[str] = Counter()
        for left, number in contexts:
            word = left[position].lower()
            numbers[word].add(number)
            counts[word] += 1
        decided = all(len(found) == 1 for found in numbers.values())
        both = len({number for found in numbers.values() for number in found}) > 1
        reused = len(contexts) / len(counts) >= _REUSED
        # A verb in a relative clause may tell the number too; there are more nouns than verbs.
        if decided and both and reused and (best is None or len(counts) > best[0]):
            best = (len(counts), position)
    return None if best is None else best[1]


def _without_plural(word: str, words: set[str]) -> str:
    return word[:-1] if word.endswith("s") and word[:-1] in words else word


# --- contexts ---------------------------------------------------------------------------------------------------------

# Pairs whose forms are not in a verb list but whose number is plain.
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
    """What kind of word differs, where the data tell; EW and MW ask about verbs."""
    noun: str = ""
    """What it agrees with; empty if the data neither name nor show it."""
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    numbers: set[Number] = field(default_factory=set)
    """All that its rows say; in clean data one."""


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
    stop_at_bad_rows: bool
    cluster: str


Rows = Iterable[tuple[str, int, MinimalPair]]


def gather(
    rows: Rows, whole: Rows | None, verbs: VerbList, manner: ContextOptions
) -> tuple[list[Context], list[DroppedRow]]:
    """Contexts in the order of their first rows; the first row decides the number of a context, as in the original.

    ``whole`` are all rows where ``rows`` are the first of them only: agreement nouns show in many sentences.
    """
    number_of = {form: n for lemma in verbs.lemmas for form, n in _numbers(lemma.singular, lemma.plural)}
    contexts: dict[tuple[str, str, str], Context] = {}
    dropped: list[DroppedRow] = []
    kept: list[tuple[Context, NounEvidence]] = []
    for construction, number, pair in rows:
        try:
            blank = split_at_difference(pair.good, pair.bad)
        except NoSingleDifference as problem:
            if manner.stop_at_bad_rows:
                raise DataError(
                    f"{pair.where}: {problem}; score whole sentences instead (task: minimal_pairs), or count such rows "
                    "as unscored (bad_rows: count)"
                ) from None
            dropped.append(DroppedRow(construction, pair, str(problem)))
            continue
        left, right = text_around(blank, manner.capitalize, manner.period)
        key = (construction, left, right if manner.sees_right else "")
        line = _line(construction, pair, blank, number_of)
        template = str(pair.fields.get("template") or pair.fields.get("UID") or pair.file)
        contrast = str(pair.fields.get("contrast", "verb"))
        context = contexts.setdefault(key, Context(*key, line.number, template, contrast))
        context.rows.append((number, blank.good, blank.bad))
        context.numbers |= {line.number} if line.number else set()
        context.noun = context.noun or _named(pair, manner.cluster)
        kept.append((context, line))
    if manner.cluster == "auto":
        _find_nouns(kept, whole, number_of)
    elif manner.cluster != "none" and kept and not any(context.noun for context, _ in kept):
        raise DataError(
            f"task.clusters: no row has the field '{manner.cluster}'; write auto, none or a field of the data"
        )
    return list(contexts.values()), dropped


@dataclass(frozen=True, slots=True)
class NounEvidence:
    """What tells the agreement noun of a row: its file, the words before the verb, and the verb's number."""

    construction: str
    file: str
    left: tuple[str, ...]
    number: Number | None


def _line(construction: str, pair: MinimalPair, blank: BlankedPair, number_of: Mapping[str, Number]) -> NounEvidence:
    return NounEvidence(construction, pair.file, blank.left, pair.number or _inferred(blank, number_of))


def _named(pair: MinimalPair, cluster: str) -> str:
    if cluster == "none":
        return ""
    named = pair.fields.get("noun" if cluster == "auto" else cluster)
    return "" if named is None else str(named)


def _find_nouns(
    kept: Sequence[tuple[Context, NounEvidence]], whole: Rows | None, number_of: Mapping[str, Number]
) -> None:
    """Where the data do not name the nouns, look for them in each file."""
    lines = [line for context, line in kept if not context.noun]
    if not lines:
        return
    if whole is not None:
        wanted = {line.file for line in lines}
        lines = [line for line in _lines(whole, number_of) if line.file in wanted]
    by_file: dict[tuple[str, str], list[NounEvidence]] = {}
    for line in lines:
        by_file.setdefault((line.construction, line.file), []).append(line)
    found: dict[NounEvidence, str] = {}
    for group in by_file.values():
        nouns = agreement_nouns([(line.left, line.number) for line in group])
        found |= {line: noun for line, noun in zip(group, nouns, strict=True) if noun}
    for context, line in kept:
        context.noun = context.noun or found.get(line, "")


def _lines(rows: Rows, number_of: Mapping[str, Number]) -> Iterator[NounEvidence]:
    for construction, _, pair in rows:
        with suppress(NoSingleDifference):
            yield _line(construction, pair, split_at_difference(pair.good, pair.bad), number_of)


def _numbers(singular: str, plural: str) -> list[tuple[str, Number]]:
    return [(singular, "singular"), (plural, "plural")]


def _inferred(blank: BlankedPair, number_of: Mapping[str, Number]) -> Number | None:
    good, bad = blank.good.lower(), blank.bad.lower()
    if good in _SINGULAR and bad in _PLURAL:
        return "singular"
    if good in _PLURAL and bad in _SINGULAR:
        return "plural"
    found = number_of.get(good)
    return found if found is not None and number_of.get(bad) not in (None, found) else None


def verb_pair(good: str, bad: str) -> str:
    """The name of a pair of verbs, whichever of the two is right.

    >>> verb_pair("laughs", "laugh")
    'laugh/laughs'
    """
    return "/".join(sorted((good.lower(), bad.lower())))


def as_example(context: Context) -> Example:
    key = digest(context.construction, context.left, context.right)[:16]
    inputs: dict[str, Any] = {
        "left": context.left,
        "right": context.right,
        "rows": [list(row) for row in context.rows],
        "contrast": context.contrast,
    }
    groups = {
        "construction": context.construction,
        "number": context.number or "unknown",
        # A context without a noun stands for itself.
        "noun": context.noun or f"{context.left}_{context.right}",
        "left": digest(context.construction, context.left)[:12],
        "rows": str(len(context.rows)),
    }
    return Example(key, inputs, context.number, groups)


def as_unscored_example(row: DroppedRow) -> Example:
    inputs = {"good": row.pair.good, "bad": row.pair.bad, "problem": row.reason, "where": row.pair.where}
    groups = {"construction": row.construction, "number": "unknown", "noun": f"bad {row.pair.where}", "rows": "1"}
    return Example(f"bad-{digest(row.construction, row.pair.where)[:16]}", inputs, None, groups)
