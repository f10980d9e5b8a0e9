"""The lexicon of a grammar: features, words in all their forms, forms that follow from spelling, read from its file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmassay.errors import did_you_mean
from lmassay.evaluations.syntax.grammar.source import (
    GrammarMistake,
    GrammarSource,
    check_keys,
    check_no_repetition,
    text,
    texts,
)

Forms = Mapping[frozenset[str], str]
"""Values → text. A key may leave values open: {hon} stands for every combination with hon."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something words agree in. Values with a label mark the pairs of a set (-1 singular, -2 plural)."""

    name: str
    values: tuple[str, ...]
    labels: Mapping[str, int]

    def others(self, value: str) -> tuple[str, ...]:
        return tuple(other for other in self.values if other != value)


@dataclass(frozen=True, slots=True, eq=False)
class WordForm:
    """A word in one of its forms, with the value of every feature it has. There is one object for each."""

    lemma: str
    text: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class WordCategory:
    """Words that can stand in the same slot: all inflect for the same features and have the same other ones.

    ``contrast`` is what rows say is contrasted where a contrast stands on one of these words.
    """

    name: str
    inflects: tuple[str, ...]
    inborn: tuple[str, ...]
    cells: tuple[WordForm, ...]
    contrast: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        return self.inflects + self.inborn

    def form(self, cell: WordForm, changes: Mapping[str, str]) -> WordForm:
        """The same word with other values of features it inflects for."""
        return self._paradigms[(cell.lemma, *(changes.get(f) or cell.values[f] for f in self.inflects))]

    @cached_property
    def _paradigms(self) -> dict[tuple[str, ...], WordForm]:
        return {(cell.lemma, *(cell.values[f] for f in self.inflects)): cell for cell in self.cells}


def word_cells(
    lemma: str,
    forms: Forms,
    inflects: Sequence[Feature],
    inborn: Mapping[str, str],
    readers: Mapping[str, Callable[[str], str]],
) -> list[WordForm]:
    """A word in every form; ``readers`` give the features that are read off the spelling of each form."""
    cells = []
    for combination in itertools.product(*(feature.values for feature in inflects)):
        keys = [key for key in forms if key <= set(combination)]
        wanted = " ".join(combination)
        if not keys:
            raise GrammarMistake(f"the word '{lemma}' has no form for '{wanted}'; write {{{lemma}: {{{wanted}: …}}}}")
        if len(keys) > 1:
            raise GrammarMistake(f"the word '{lemma}' has more than one form for '{wanted}'; leave one of them out")
        text = forms[keys[0]]
        values = {feature.name: value for feature, value in zip(inflects, combination, strict=True)}
        values |= inborn
        values |= {name: read(text) for name, read in readers.items()}
        cells.append(WordForm(lemma, text, values))
    return cells


def english_noun(lemma: str, irregular: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Singular and plural; of several words the last one inflects.

    >>> english_noun("taxi driver", {})
    ('taxi driver', 'taxi drivers')
    """
    rest, _, head = lemma.rpartition(" ")
    forms = irregular.get(head) or (head, _with_s(head, ("s", "x", "z", "ch", "sh")))
    return _joined(rest, forms[0]), _joined(rest, forms[1])


def english_verb(lemma: str, irregular: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Third person singular and plural, present; of several words the first one inflects.

    >>> english_verb("carry the bag", {})
    ('carries the bag', 'carry the bag')
    """
    head, _, rest = lemma.partition(" ")
    forms = irregular.get(head) or (_with_s(head, ("s", "x", "z", "ch", "sh", "o")), head)
    return _joined(forms[0], rest), _joined(forms[1], rest)


def hangul_final(feature: Feature) -> Callable[[str], str]:
    """A reader of final consonants: the feature's first value for a word that ends in one, else its second."""

    def read(text: str) -> str:
        last = text[-1:]
        if not "가" <= last <= "힣":
            raise GrammarMistake(f"'{text}' does not end in a Hangul syllable; leave 'hangul' out and give the value")
        # Syllables are numbered in blocks of 28 finals, none first (Unicode, section 3.12).
        return feature.values[0] if (ord(last) - ord("가")) % 28 else feature.values[1]

    return read


VERB = "verb"
"""The contrast of verbs, for which the syntax task has measures of their own."""

NUMBER_RULES = {"english noun": english_noun, "english verb": english_verb}
READERS = {"hangul": hangul_final}


def _with_s(word: str, hissing: tuple[str, ...]) -> str:
    if word.endswith(hissing):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "i", "o", "u"):
        return word[:-1] + "ies"
    return word + "s"


def _joined(left: str, right: str) -> str:
    return f"{left} {right}".strip()


# --- read from the file: features, irregular words, categories --------------------------------------------------------

ROW_KEYS = ("sentence_good", "sentence_bad", "label", "construction", "template", "noun", "contrast", "attractor")
_LABELS = (-1, -2)
_CATEGORY = ("words", "inflects", "includes", "contrast")

Features = Mapping[str, Feature]
Reader = Callable[[str], str]


def read_features(source: GrammarSource, entries: Mapping[str, Any]) -> dict[str, Feature]:
    """``number: {sg: -1, pl: -2}`` or ``final: [closed, open]``."""
    features: dict[str, Feature] = {}
    owners: dict[str, str] = {}
    for name, entry in entries.items():
        with source.at(f"features.{name}"):
            if name in (*ROW_KEYS, *_CATEGORY):
                raise GrammarMistake(f"'{name}' means something else in a grammar; choose another name")
            feature = _feature(name, entry)
            for value in feature.values:
                if value in owners:
                    raise GrammarMistake(
                        f"'{value}' is a value of {owners[value]} already; a value belongs to one feature"
                    )
            owners |= dict.fromkeys(feature.values, name)
            features[name] = feature
    return features


def _feature(name: str, entry: Any) -> Feature:
    if not isinstance(entry, list | dict) or len(entry) < 2:
        raise GrammarMistake("give two or more values, [closed, open], or values with labels, {sg: -1, pl: -2}")
    values = tuple(text(item) for item in entry)
    check_no_repetition(values)
    for value in values:
        if not re.fullmatch(r"\w+", value):
            raise GrammarMistake(f"the value '{value}' must be one word of letters and digits")
    labels = entry if isinstance(entry, dict) else {}
    if any(label not in _LABELS or not isinstance(label, int) for label in labels.values()):
        raise GrammarMistake(f"labels are {_LABELS[0]} (singular) and {_LABELS[1]} (plural)")
    if len(set(labels.values())) < len(labels):
        raise GrammarMistake(
            "two values have the same label; give one of them -1 and the other -2, or a list without labels"
        )
    return Feature(name, values, labels)


def read_irregular(source: GrammarSource, entries: Mapping[str, Any], features: Features) -> dict[str, tuple[str, str]]:
    """Words that the English rules would get wrong, alone or inside a longer entry such as 'be tall'."""
    irregular: dict[str, tuple[str, str]] = {}
    for word, forms in entries.items():
        with source.at(f"irregular.{word}"):
            values = _number(features).values
            if not isinstance(forms, dict) or set(forms) != set(values):
                raise GrammarMistake(f"give all of its forms: {{{values[0]}: …, {values[1]}: …}}")
            irregular[word] = (text(forms[values[0]]), text(forms[values[1]]))
    return irregular


def _number(features: Features) -> Feature:
    feature = features.get("number")
    if feature is None or len(feature.values) != 2:
        raise GrammarMistake("English inflection needs a feature number with two values: number: {sg: -1, pl: -2}")
    return feature


def read_lexicon(
    source: GrammarSource, entries: Mapping[str, Any], features: Features, irregular: Mapping[str, tuple[str, str]]
) -> dict[str, WordCategory]:
    """The categories with all forms of their words."""
    categories: dict[str, WordCategory] = {}
    unions: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        with source.at(f"lexicon.{name}"):
            if isinstance(entry, list):
                entry = {"words": entry}
            if not isinstance(entry, dict):
                raise GrammarMistake("give a list of words, or a mapping with the key 'words'")
            check_keys(entry, (*_CATEGORY, *features))
            if "includes" in entry:
                unions[name] = entry
            else:
                categories[name] = _CategoryReader(entry, features, irregular).read(name)
    plain = dict(categories)
    for name, entry in unions.items():
        with source.at(f"lexicon.{name}.includes"):
            categories[name] = _union(name, entry, plain)
    return categories


def _union(name: str, entry: Mapping[str, Any], plain: Mapping[str, WordCategory]) -> WordCategory:
    if set(entry) - {"includes", "contrast"}:
        raise GrammarMistake("a category that includes others has no words or features of its own")
    parts = texts(entry["includes"])
    for part in parts:
        if part not in plain:
            raise GrammarMistake(f"there is no category '{part}' with words of its own{did_you_mean(part, plain)}")
    first, *others = (plain[part] for part in parts)
    for other in others:
        if (other.inflects, other.inborn) != (first.inflects, first.inborn):
            raise GrammarMistake(f"'{first.name}' and '{other.name}' have different features; give them the same")
    cells = tuple(cell for part in parts for cell in plain[part].cells)
    check_no_repetition(lemma for part in parts for lemma in dict.fromkeys(cell.lemma for cell in plain[part].cells))
    verbs = all(plain[part].contrast == VERB for part in parts)
    return WordCategory(name, first.inflects, first.inborn, cells, _contrast(name, entry, verbs=verbs))


def _contrast(name: str, entry: Mapping[str, Any], *, verbs: bool) -> str:
    """What the category says, else 'verb' for verbs, by inflection or by name, else the name."""
    if "contrast" in entry:
        said = text(entry["contrast"]).strip().lower()
        if not said:
            raise GrammarMistake("contrast: give a word such as 'verb', or leave the key out")
        return said
    return VERB if verbs or name.lower().startswith(VERB) else name.lower()


@dataclass(frozen=True, slots=True)
class _Word:
    lemma: str
    forms: dict[frozenset[str], str]
    own: dict[str, str]


class _CategoryReader:
    """One category: what its words inflect for, which features they are born with, and the words."""

    def __init__(self, entry: Mapping[str, Any], features: Features, irregular: Mapping[str, tuple[str, str]]) -> None:
        self._entry, self._features, self._irregular = entry, features, irregular
        inflects = entry.get("inflects", [])
        self._rule = NUMBER_RULES.get(inflects) if isinstance(inflects, str) else None
        self._inflects: Sequence[Feature] = [_number(features)] if self._rule else self._inflected(inflects)

    def read(self, name: str) -> WordCategory:
        words = self._entry.get("words")
        if not isinstance(words, list) or not words:
            raise GrammarMistake("the category has no words; give a list such as words: [author, pilot]")
        inborn, readers = self._inborn()
        found = [self._word(item) for item in words]
        check_no_repetition(word.lemma for word in found)
        cells = [
            cell
            for word in found
            for cell in word_cells(word.lemma, word.forms, self._inflects, inborn | word.own, readers)
        ]
        inflected = tuple(feature.name for feature in self._inflects)
        every = {feature: None for cell in cells for feature in cell.values}
        for cell in cells:
            for lacking in every:
                if lacking not in cell.values:
                    raise GrammarMistake(f"other words have a {lacking}; write {{{cell.lemma}: {{{lacking}: …}}}} too")
        own = tuple(feature for feature in self._features if feature in every and feature not in inflected)
        verbs = self._rule is english_verb
        return WordCategory(name, inflected, own, tuple(cells), _contrast(name, self._entry, verbs=verbs))

    def _inflected(self, names: Any) -> list[Feature]:
        found = texts(names) if names else []
        for name in found:
            if name not in self._features:
                hint = did_you_mean(name, [*NUMBER_RULES, *self._features])
                raise GrammarMistake(f"inflects: '{name}' is neither a feature nor a rule{hint}")
        check_no_repetition(found)
        return [self._features[name] for name in found]

    def _inborn(self) -> tuple[dict[str, str], dict[str, Reader]]:
        """The features that the category gives to its words, and those that are read off their spelling."""
        inborn: dict[str, str] = {}
        readers: dict[str, Reader] = {}
        for name in (name for name in self._features if name in self._entry):
            value = text(self._entry[name])
            if value in READERS:
                if len(self._features[name].values) != 2:
                    raise GrammarMistake(f"'{value}' needs a feature with two values; {name} has more")
                readers[name] = READERS[value](self._features[name])
            else:
                inborn[name] = self._value(name, value)
        return inborn, readers

    def _word(self, item: Any) -> _Word:
        lemma, details = self._lemma_and_details(item)
        forms: dict[frozenset[str], str] = {}
        own: dict[str, str] = {}
        for name, value in details.items():
            if name in self._features:
                own[name] = self._value(name, text(value))
            else:
                forms[self._form_key(name)] = text(value)
        if not lemma:
            lemma = next(iter(forms.values()), "")
        if not lemma.strip():
            raise GrammarMistake(
                f"{item!r} is a word without a form; write it as text, or as {{word: {{feature: value}}}}"
            )
        if self._rule:
            regular = self._rule(lemma, self._irregular)
            for value, form in zip(self._inflects[0].values, regular, strict=True):
                forms.setdefault(frozenset([value]), form)
        elif not self._inflects:
            forms[frozenset()] = lemma
        return _Word(lemma, forms, own)

    @staticmethod
    def _lemma_and_details(item: Any) -> tuple[str, Mapping[str, Any]]:
        """``author``, ``child: {pl: children}``, or only forms: ``{closed: 이, open: 가}``."""
        if not isinstance(item, dict):
            return text(item), {}
        (first, inside), *more = item.items() or [("", None)]
        if isinstance(inside, dict) and not more:
            return first, inside
        return "", item

    def _form_key(self, name: str) -> frozenset[str]:
        known = {value for feature in self._inflects for value in feature.values}
        for part in name.split():
            if part not in known:
                hint = did_you_mean(part, [*known, *self._features])
                raise GrammarMistake(f"'{part}' is neither a feature nor a value that these words inflect for{hint}")
        return frozenset(name.split())

    def _value(self, feature: str, value: str) -> str:
        known = self._features[feature].values
        if value not in known:
            raise GrammarMistake(f"'{value}' is no value of {feature}{did_you_mean(value, known)}")
        if feature in (inflected.name for inflected in self._inflects):
            raise GrammarMistake(
                f"the words inflect for {feature}, so it cannot be fixed as well; leave one of the two out"
            )
        return value
