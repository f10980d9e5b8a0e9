"""The lexicon of a grammar: features, and words in all their forms, some of which follow from spelling rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmassay.errors import did_you_mean
from lmassay.evaluations.syntax.english_spelling import NOUN_ENDINGS_WITH_ES, VERB_ENDINGS_WITH_ES, with_s
from lmassay.evaluations.syntax.grammar.source import (
    GrammarMistake,
    GrammarSource,
    check_keys,
    check_no_repetition,
    text,
    texts,
    within,
)

Forms = Mapping[frozenset[str], str]
"""Values of features → text. A key may leave features open: {hon} is for every combination with hon."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A property that words agree in. Values with a label mark the pairs of a set (-1 singular, -2 plural)."""

    name: str
    values: tuple[str, ...]
    labels: Mapping[str, int]

    def others(self, value: str) -> tuple[str, ...]:
        """Return the values of the feature other than this one."""
        return tuple(other for other in self.values if other != value)


@dataclass(frozen=True, slots=True, eq=False)
class WordForm:
    """A word in one of its forms, with the value of every feature it has. There is one object for each form."""

    lemma: str
    text: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class WordCategory:
    """Words that can fill the same slot: all inflect for the same features and have the same inherent ones.

    ``contrast`` is the kind of word that a row states as contrasted if the contrast is on one of these words.
    """

    name: str
    inflects: tuple[str, ...]
    inherent: tuple[str, ...]
    forms: tuple[WordForm, ...]
    contrast: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the words inflect for, then those that each word has by itself."""
        return self.inflects + self.inherent

    def form(self, form: WordForm, changes: Mapping[str, str]) -> WordForm:
        """Return the same word with other values of features it inflects for."""
        values = [changes.get(feature) or form.values[feature] for feature in self.inflects]
        return self._paradigms[(form.lemma, *values)]

    @cached_property
    def _paradigms(self) -> dict[tuple[str, ...], WordForm]:
        """(lemma, value of each inflected feature …) → form."""
        paradigms = {}
        for form in self.forms:
            values = [form.values[feature] for feature in self.inflects]
            paradigms[(form.lemma, *values)] = form
        return paradigms


def word_forms(
    lemma: str,
    forms: Forms,
    inflects: Sequence[Feature],
    inherent: Mapping[str, str],
    readers: Mapping[str, Callable[[str], str]],
) -> list[WordForm]:
    """Return a word in every form; ``readers`` give the features that follow from the spelling of each form."""
    inflected = []
    value_lists = [feature.values for feature in inflects]
    for combination in itertools.product(*value_lists):
        # A form that leaves a feature open serves all its values, so its key need only be a part of the combination.
        keys = [key for key in forms if key <= set(combination)]
        wanted = " ".join(combination)
        if not keys:
            raise GrammarMistake(f"the word '{lemma}' has no form for '{wanted}'; write {{{lemma}: {{{wanted}: …}}}}")
        if len(keys) > 1:
            raise GrammarMistake(f"the word '{lemma}' has more than one form for '{wanted}'; leave one of them out")
        text = forms[keys[0]]
        values: dict[str, str] = {}
        for feature, value in zip(inflects, combination, strict=True):
            values[feature.name] = value
        values |= inherent
        for name, read in readers.items():
            values[name] = read(text)
        inflected.append(WordForm(lemma, text, values))
    return inflected


def english_noun(lemma: str, irregular: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return singular and plural; of several words the last one inflects.

    >>> english_noun("taxi driver", {})
    ('taxi driver', 'taxi drivers')
    """
    modifiers, _, head = lemma.rpartition(" ")
    if head in irregular:
        singular, plural = irregular[head]
    else:
        singular = head
        plural = with_s(head, NOUN_ENDINGS_WITH_ES)
    return _joined(modifiers, singular), _joined(modifiers, plural)


def english_verb(lemma: str, irregular: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return third person singular and plural, present; of several words the first one inflects.

    >>> english_verb("carry the bag", {})
    ('carries the bag', 'carry the bag')
    """
    head, _, object_ = lemma.partition(" ")
    if head in irregular:
        singular, plural = irregular[head]
    else:
        singular = with_s(head, VERB_ENDINGS_WITH_ES)
        plural = head
    return _joined(singular, object_), _joined(plural, object_)


def hangul_final(feature: Feature) -> Callable[[str], str]:
    """Return a reader of final consonants: the feature's first value for a word that ends in one, else the second."""

    def read(text: str) -> str:
        last = text[-1:]
        if not "가" <= last <= "힣":
            raise GrammarMistake(f"'{text}' does not end in a Hangul syllable; leave 'hangul' out and give the value")
        # Syllables are numbered in blocks of 28 finals, "no final" first (Unicode Standard, section 3.12).
        has_final = (ord(last) - ord("가")) % 28 != 0
        return feature.values[0] if has_final else feature.values[1]

    return read


VERB = "verb"
"""The contrast of verbs, for which the syntax task has its own metrics."""

NUMBER_RULES = {"english noun": english_noun, "english verb": english_verb}
READERS = {"hangul": hangul_final}


def _joined(left: str, right: str) -> str:
    """Join the inflected word to the rest of its entry, which may be empty."""
    return f"{left} {right}".strip()


# --- read from the file: features, irregular words, categories --------------------------------------------------------

ROW_KEYS = ("sentence_good", "sentence_bad", "label", "construction", "template", "noun", "contrast", "attractor")
_LABELS = (-1, -2)
_CATEGORY_KEYS = ("words", "inflects", "includes", "contrast")

Features = Mapping[str, Feature]
Reader = Callable[[str], str]


def read_features(source: GrammarSource, entries: Mapping[str, Any]) -> dict[str, Feature]:
    """Read ``number: {sg: -1, pl: -2}`` or ``final: [closed, open]``."""
    features: dict[str, Feature] = {}
    owners: dict[str, str] = {}
    for name, entry in entries.items():
        with source.at(f"features.{name}"):
            if name in (*ROW_KEYS, *_CATEGORY_KEYS):
                raise GrammarMistake(f"'{name}' has another meaning in a grammar; choose another name")
            feature = _feature(name, entry)
            for value in feature.values:
                # A template names values without their features ({Noun pl}), so a value must say which feature it is.
                if value in owners:
                    raise GrammarMistake(
                        f"'{value}' is already a value of {owners[value]}; a value belongs to one feature"
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
    """Read words that the English rules would inflect wrongly, alone or inside a longer entry such as 'be tall'."""
    irregular: dict[str, tuple[str, str]] = {}
    for word, forms in entries.items():
        with source.at(f"irregular.{word}"):
            singular, plural = _number(features).values
            if not isinstance(forms, dict) or set(forms) != {singular, plural}:
                raise GrammarMistake(f"give all of its forms: {{{singular}: …, {plural}: …}}")
            irregular[word] = (text(forms[singular]), text(forms[plural]))
    return irregular


def _number(features: Features) -> Feature:
    """Return the feature ``number``, which the English rules need."""
    feature = features.get("number")
    if feature is None or len(feature.values) != 2:
        raise GrammarMistake("English inflection needs a feature number with two values: number: {sg: -1, pl: -2}")
    return feature


def read_lexicon(
    source: GrammarSource, entries: Mapping[str, Any], features: Features, irregular: Mapping[str, tuple[str, str]]
) -> dict[str, WordCategory]:
    """Read the categories with all forms of their words."""
    categories: dict[str, WordCategory] = {}
    unions: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        with source.at(f"lexicon.{name}"):
            words_key = ".words"
            if isinstance(entry, list):
                entry = {"words": entry}
                words_key = ""
            if not isinstance(entry, dict):
                raise GrammarMistake("give a list of words, or a mapping with the key 'words'")
            check_keys(entry, (*_CATEGORY_KEYS, *features))
            if "includes" in entry:
                unions[name] = entry
            else:
                categories[name] = _CategoryReader(entry, features, irregular, words_key).read(name)
    # A union may include only categories with their own words, not other unions, so the order in the file is free and
    # there are no cycles.
    plain = dict(categories)
    for name, entry in unions.items():
        with source.at(f"lexicon.{name}.includes"):
            categories[name] = _union(name, entry, plain)
    return categories


def _union(name: str, entry: Mapping[str, Any], plain: Mapping[str, WordCategory]) -> WordCategory:
    """Return a category that includes the words of others."""
    if set(entry) - {"includes", "contrast"}:
        raise GrammarMistake("a category that includes others cannot have its own words or features")
    members = []
    for part in texts(entry["includes"]):
        if part not in plain:
            raise GrammarMistake(f"there is no category '{part}' with its own words{did_you_mean(part, plain)}")
        members.append(plain[part])
    first, *others = members
    for other in others:
        # A slot of the union must know which features its word has, whichever word it is.
        if (other.inflects, other.inherent) != (first.inflects, first.inherent):
            raise GrammarMistake(f"'{first.name}' and '{other.name}' have different features; give them the same")
    forms: list[WordForm] = []
    lemmas: list[str] = []
    for member in members:
        forms += member.forms
        lemmas += dict.fromkeys(form.lemma for form in member.forms)
    check_no_repetition(lemmas)
    are_verbs = all(member.contrast == VERB for member in members)
    contrast = _contrast(name, entry, are_verbs=are_verbs)
    return WordCategory(name, first.inflects, first.inherent, tuple(forms), contrast)


def _contrast(name: str, entry: Mapping[str, Any], *, are_verbs: bool) -> str:
    """Return the category's key ``contrast``; without it, 'verb' for verbs and the name of the category for others.

    A category has verbs if its words inflect as English verbs, or if its name begins with "verb".
    """
    if "contrast" in entry:
        with within(".contrast"):
            contrast = text(entry["contrast"]).strip().lower()
            if not contrast:
                raise GrammarMistake("contrast: give a word such as 'verb', or leave the key out")
        return contrast
    if are_verbs or name.lower().startswith(VERB):
        return VERB
    return name.lower()


@dataclass(frozen=True, slots=True)
class _Word:
    """An entry of a category's words: its forms, and its ``own`` values of features that others may not share."""

    lemma: str
    forms: dict[frozenset[str], str]
    own: dict[str, str]


def _check_features(forms: Iterable[WordForm], features: Iterable[str]) -> None:
    """Raise if a word lacks a feature that other words of its category have."""
    for form in forms:
        for feature in features:
            if feature not in form.values:
                raise GrammarMistake(
                    f"other words have the feature {feature}; write {{{form.lemma}: {{{feature}: …}}}} too"
                )


class _CategoryReader:
    """Reads one category: what its words inflect for, their inherent features, and the words.

    ``words_key`` is the path of the list of words below the category: ``.words``, or empty if the category is a list.
    """

    def __init__(
        self,
        entry: Mapping[str, Any],
        features: Features,
        irregular: Mapping[str, tuple[str, str]],
        words_key: str,
    ) -> None:
        self._entry = entry
        self._words_key = words_key
        self._features = features
        self._irregular = irregular
        inflects = entry.get("inflects", [])
        self._rule = NUMBER_RULES.get(inflects) if isinstance(inflects, str) else None
        with within(".inflects"):
            self._inflects: Sequence[Feature] = [_number(features)] if self._rule else self._inflected(inflects)

    def read(self, name: str) -> WordCategory:
        """Return the category with all forms of its words."""
        items = self._entry.get("words")
        if not isinstance(items, list) or not items:
            raise GrammarMistake("the category has no words; give a list such as words: [author, pilot]")
        inherent, readers = self._inherent()
        # The forms of each word, in the order of the list.
        forms_of_words: list[list[WordForm]] = []
        lemmas: set[str] = set()
        for index, item in enumerate(items):
            with self._at_word(index):
                word = self._word(item)
                if word.lemma in lemmas:
                    raise GrammarMistake(f"'{word.lemma}' appears twice; leave one of them out")
                lemmas.add(word.lemma)
                own = inherent | word.own
                forms_of_words.append(word_forms(word.lemma, word.forms, self._inflects, own, readers))
        # Agreement compares features, so a word that lacks one would agree with nothing, without a message.
        forms = list(itertools.chain.from_iterable(forms_of_words))
        all_features: dict[str, None] = {}
        for form in forms:
            all_features |= dict.fromkeys(form.values)
        for index, forms_of_word in enumerate(forms_of_words):
            with self._at_word(index):
                _check_features(forms_of_word, all_features)
        inflected = tuple(feature.name for feature in self._inflects)
        own_features = []
        for feature in self._features:
            if feature in all_features and feature not in inflected:
                own_features.append(feature)
        contrast = _contrast(name, self._entry, are_verbs=self._rule is english_verb)
        return WordCategory(name, inflected, tuple(own_features), tuple(forms), contrast)

    def _at_word(self, index: int) -> AbstractContextManager[None]:
        """Report mistakes with the line of a word."""
        return within(f"{self._words_key}[{index}]")

    def _inflected(self, names: Any) -> list[Feature]:
        """Return the features that ``inflects`` names."""
        feature_names = texts(names) if names else []
        for name in feature_names:
            if name not in self._features:
                hint = did_you_mean(name, [*NUMBER_RULES, *self._features])
                raise GrammarMistake(f"inflects: '{name}' is neither a feature nor a rule{hint}")
        check_no_repetition(feature_names)
        return [self._features[name] for name in feature_names]

    def _inherent(self) -> tuple[dict[str, str], dict[str, Reader]]:
        """Return the features that the category gives to its words, and those that follow from their spelling."""
        inherent: dict[str, str] = {}
        readers: dict[str, Reader] = {}
        for name, feature in self._features.items():
            if name not in self._entry:
                continue
            with within(f".{name}"):
                value = text(self._entry[name])
                if value not in READERS:
                    inherent[name] = self._value(name, value)
                    continue
                if len(feature.values) != 2:
                    raise GrammarMistake(f"'{value}' needs a feature with two values; {name} has more")
                readers[name] = READERS[value](feature)
        return inherent, readers

    def _word(self, item: Any) -> _Word:
        """Read an entry of the list of words: its forms, and the features that are given for it."""
        lemma, details = self._lemma_and_details(item)
        forms: dict[frozenset[str], str] = {}
        own: dict[str, str] = {}
        for name, value in details.items():
            if name in self._features:
                own[name] = self._value(name, text(value))
            else:
                forms[self._form_key(name)] = text(value)
        if not lemma:
            # A word that has only forms, such as {sg: himself, pl: themselves}, is named after the first of them.
            lemma = next(iter(forms.values()), "")
        if not lemma.strip():
            raise GrammarMistake(
                f"{item!r} is a word without a form; write it as text, or as {{word: {{feature: value}}}}"
            )
        if self._rule:
            regular = self._rule(lemma, self._irregular)
            for value, form in zip(self._inflects[0].values, regular, strict=True):
                # A form that the word gives itself (child: {pl: children}) takes precedence over the rule.
                forms.setdefault(frozenset([value]), form)
        elif not self._inflects:
            forms[frozenset()] = lemma
        return _Word(lemma, forms, own)

    @staticmethod
    def _lemma_and_details(item: Any) -> tuple[str, Mapping[str, Any]]:
        """Return the parts of ``author``, ``child: {pl: children}``, or of forms alone: ``{closed: 이, open: 가}``."""
        if not isinstance(item, dict):
            return text(item), {}
        if len(item) == 1:
            ((lemma, details),) = item.items()
            # Otherwise the only entry is a form: {closed: 이}.
            if isinstance(details, dict):
                return lemma, details
        return "", item

    def _form_key(self, name: str) -> frozenset[str]:
        """Return the values that a form is for, such as ``plain closed``, as a key of :data:`Forms`."""
        values: list[str] = []
        for feature in self._inflects:
            values += feature.values
        parts = name.split()
        for part in parts:
            if part not in values:
                hint = did_you_mean(part, [*values, *self._features])
                raise GrammarMistake(f"'{part}' is neither a feature nor a value that these words inflect for{hint}")
        return frozenset(parts)

    def _value(self, feature: str, value: str) -> str:
        """Return a value of a feature that the words do not inflect for, after checking it."""
        values = self._features[feature].values
        if value not in values:
            raise GrammarMistake(f"'{value}' is not a value of {feature}{did_you_mean(value, values)}")
        if feature in (inflected.name for inflected in self._inflects):
            raise GrammarMistake(
                f"the words inflect for {feature}, so it cannot be fixed as well; leave one of the two out"
            )
        return value
