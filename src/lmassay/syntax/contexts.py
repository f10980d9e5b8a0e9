"""Distinct contexts out of rows: what a model is asked once, however many verbs the data try in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmassay.errors import DataError
from lmassay.syntax.clusters import agreement_nouns
from lmassay.syntax.lemmas import VerbList
from lmassay.syntax.pairs import Blank, NoBlank, Number, Pair, split_at_difference, text_around
from lmassay.types import Example, digest

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
    left_words: tuple[str, ...]
    template: str
    cluster: str = ""
    rows: list[tuple[int, str, str]] = field(default_factory=list)
    numbers: set[Number] = field(default_factory=set)
    """All that its rows say; in clean data one."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that has no blank, and why."""

    construction: str
    pair: Pair
    reason: str


@dataclass(frozen=True, slots=True)
class Manner:
    """How rows become contexts."""

    capitalize: bool
    period: bool
    sees_right: bool
    stop_at_bad_rows: bool
    cluster: str


def gather(
    rows: Iterator[tuple[str, int, Pair]], verbs: VerbList, manner: Manner
) -> tuple[list[Context], list[Dropped]]:
    """Contexts in the order of their first rows; the first row decides the number of a context, as in the original."""
    number_of = {form: n for lemma in verbs.lemmas for form, n in _numbers(lemma.singular, lemma.plural)}
    contexts: dict[tuple[str, str, str], Context] = {}
    dropped: list[Dropped] = []
    kept: list[tuple[Context, Blank, Number | None, str, str | None]] = []
    for construction, number, pair in rows:
        try:
            blank = split_at_difference(pair.good, pair.bad)
        except NoBlank as problem:
            if manner.stop_at_bad_rows:
                raise DataError(
                    f"{pair.where}: {problem}; score whole sentences instead (task: minimal_pairs), or count such rows "
                    "as unscored (bad_rows: count)"
                ) from None
            dropped.append(Dropped(construction, pair, str(problem)))
            continue
        left, right = text_around(blank, manner.capitalize, manner.period)
        key = (construction, left, right if manner.sees_right else "")
        agreeing = pair.number or _inferred(blank, number_of)
        if key not in contexts:
            template = str(pair.fields.get("template") or pair.fields.get("UID") or pair.file)
            contexts[key] = Context(construction, left, key[2], agreeing, blank.left, template)
        contexts[key].rows.append((number, blank.good, blank.bad))
        contexts[key].numbers |= {agreeing} if agreeing else set()
        named = pair.fields.get(manner.cluster if manner.cluster not in ("auto", "none") else "noun")
        kept.append((contexts[key], blank, agreeing, pair.file, None if named is None else str(named)))
    _name_clusters(kept, manner.cluster)
    return list(contexts.values()), dropped


def _numbers(singular: str, plural: str) -> list[tuple[str, Number]]:
    return [(singular, "singular"), (plural, "plural")]


def _inferred(blank: Blank, number_of: Mapping[str, Number]) -> Number | None:
    good, bad = blank.good.lower(), blank.bad.lower()
    if good in _SINGULAR and bad in _PLURAL:
        return "singular"
    if good in _PLURAL and bad in _SINGULAR:
        return "plural"
    found = number_of.get(good)
    return found if found is not None and number_of.get(bad) not in (None, found) else None


def _name_clusters(kept: Sequence[tuple[Context, Blank, Number | None, str, str | None]], cluster: str) -> None:
    """The agreement noun: named by the data, or found; a context without one stands for itself."""
    by_file: dict[tuple[str, str], list[int]] = {}
    for place, (context, _, _, file, named) in enumerate(kept):
        if named is not None and cluster != "none":
            context.cluster = context.cluster or named
        elif cluster == "auto":
            by_file.setdefault((context.construction, file), []).append(place)
    if cluster not in ("auto", "none") and kept and not any(named for *_, named in kept):
        raise DataError(f"task.cluster: no row has the field '{cluster}'; write auto, none or a field of the data")
    for places in by_file.values():
        nouns = agreement_nouns([(kept[place][1].left, kept[place][2]) for place in places])
        for place, noun in zip(places, nouns, strict=True):
            context = kept[place][0]
            context.cluster = context.cluster or noun or ""
    for context, *_ in kept:
        context.cluster = context.cluster or f"{context.left}_{context.right}"


def as_example(context: Context) -> Example:
    key = digest(context.construction, context.left, context.right)[:16]
    inputs: dict[str, Any] = {
        "left": context.left,
        "right": context.right,
        "rows": [list(row) for row in context.rows],
    }
    groups = {"construction": context.construction, "number": context.number or "unknown", "noun": context.cluster}
    return Example(key, inputs, context.number, groups)


def as_unscored_example(row: Dropped) -> Example:
    inputs = {"good": row.pair.good, "bad": row.pair.bad, "problem": row.reason, "where": row.pair.where}
    groups = {"construction": row.construction, "number": "unknown", "noun": f"bad {row.pair.where}"}
    return Example(f"bad-{digest(row.construction, row.pair.where)[:16]}", inputs, None, groups)
