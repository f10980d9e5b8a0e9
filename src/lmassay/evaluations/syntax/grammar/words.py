"""The lexicon of a grammar: features, words in all their forms, and the forms that follow from spelling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lmassay.evaluations.syntax.grammar.source import Misfit

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
class Cell:
    """A word in one of its forms, with the value of every feature it has. There is one object for each."""

    lemma: str
    text: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Category:
    """Words that can stand in the same slot: all inflect for the same features and have the same other ones.

    ``contrast`` is what rows say is contrasted where a contrast stands on one of these words.
    """

    name: str
    inflects: tuple[str, ...]
    inborn: tuple[str, ...]
    cells: tuple[Cell, ...]
    contrast: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        return self.inflects + self.inborn

    def form(self, cell: Cell, changes: Mapping[str, str]) -> Cell:
        """The same word with other values of features it inflects for."""
        return self._paradigms[(cell.lemma, *(changes.get(f) or cell.values[f] for f in self.inflects))]

    @cached_property
    def _paradigms(self) -> dict[tuple[str, ...], Cell]:
        return {(cell.lemma, *(cell.values[f] for f in self.inflects)): cell for cell in self.cells}


def word_cells(
    lemma: str,
    forms: Forms,
    inflects: Sequence[Feature],
    inborn: Mapping[str, str],
    readers: Mapping[str, Callable[[str], str]],
) -> list[Cell]:
    """A word in every form; ``readers`` give the features that are read off the spelling of each form."""
    cells = []
    for combination in itertools.product(*(feature.values for feature in inflects)):
        keys = [key for key in forms if key <= set(combination)]
        wanted = " ".join(combination)
        if not keys:
            raise Misfit(f"the word '{lemma}' has no form for '{wanted}'; write {{{lemma}: {{{wanted}: …}}}}")
        if len(keys) > 1:
            raise Misfit(f"the word '{lemma}' has more than one form for '{wanted}'; leave one of them out")
        text = forms[keys[0]]
        values = {feature.name: value for feature, value in zip(inflects, combination, strict=True)}
        values |= inborn
        values |= {name: read(text) for name, read in readers.items()}
        cells.append(Cell(lemma, text, values))
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
            raise Misfit(f"'{text}' does not end in a Hangul syllable; leave 'hangul' out and give the value")
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
