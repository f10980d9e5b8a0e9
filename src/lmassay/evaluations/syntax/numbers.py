"""Infer whether the right verb of a pair is singular or plural, where the data have no labels.

Both forms of a verb that is in the verb list have a known number. Other verbs get theirs from the sentences: verbs that
are right after the same words have the same number, and the two forms of a pair have different ones. One verb of the
list is therefore enough for all verbs that are tried in the same contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lmassay.evaluations.syntax.lemmas import VerbList
from lmassay.evaluations.syntax.pairs import BlankedPair, Number

# Verb forms that are not in a verb list but whose number is clear.
_SINGULAR = frozenset({"is", "was", "has", "does", "isn't", "wasn't", "hasn't", "doesn't"})
_PLURAL = frozenset({"are", "were", "have", "do", "aren't", "weren't", "haven't", "don't"})
_NUMBERS: tuple[Number, Number] = ("singular", "plural")

Place = tuple[str, str]
"""A construction and a file: rows of different places are not compared."""


def numbers_of_forms(verbs: VerbList) -> dict[str, Number]:
    """Return the number of every form of a verb list, in lower case; forms of both numbers are left out."""
    number_of_form: dict[str, Number] = {}
    ambiguous: set[str] = set()
    for lemma in verbs.lemmas:
        forms = (lemma.singular.lower(), lemma.plural.lower())
        for form, number in zip(forms, _NUMBERS, strict=True):
            # A singular of one lemma may be the plural of another; such a form says nothing.
            if number_of_form.setdefault(form, number) != number:
                ambiguous.add(form)
    for form in ambiguous:
        del number_of_form[form]
    return number_of_form


def number_of_pair(blanked: BlankedPair, number_of_form: Mapping[str, Number]) -> Number | None:
    """Return the number of the right verb, if the two forms are known to be a singular and a plural."""
    good = blanked.good.lower()
    bad = blanked.bad.lower()
    if good in _SINGULAR and bad in _PLURAL:
        return "singular"
    if good in _PLURAL and bad in _SINGULAR:
        return "plural"
    good_number = number_of_form.get(good)
    bad_number = number_of_form.get(bad)
    if good_number is None or bad_number is None or good_number == bad_number:
        return None
    return good_number


@dataclass(frozen=True, slots=True)
class Observation:
    """The words before a verb, its right and its wrong form, and the grammatical number of the right one, if known."""

    place: Place
    left: tuple[str, ...]
    good: str
    bad: str
    number: Number | None


class InferredNumbers:
    """The numbers that follow from all observations together.

    The words before a verb and the pairs of forms are the nodes of a graph. An observation joins two nodes and says
    whether they are on the same side: the words require the alphabetically first form of the pair, or the second. A
    known number says which side is the singular. If observations contradict each other, nothing follows for their
    component.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        # Disjoint sets with parity: a node's parent, and whether it is on the parent's side.
        self._parents: dict[object, tuple[object, bool]] = {}
        self._contradictory: set[object] = set()
        self._number_of_root: dict[object, Number] = {}
        rows = [row for row in observations if row.left]
        for row in rows:
            self._join(row)
        for row in rows:
            self._label(row)

    def number(self, place: Place, left: tuple[str, ...]) -> Number | None:
        """Return the number of the right verb after these words; None if it does not follow."""
        root, is_same_side = self._root(_left_node(place, left))
        number = self._number_of_root.get(root)
        if number is None or root in self._contradictory:
            return None
        return number if is_same_side else _other(number)

    def side(self, place: Place, left: tuple[str, ...]) -> str | None:
        """Return a name that is equal for words that require the same number, even if it is unknown which number."""
        root, is_same_side = self._root(_left_node(place, left))
        if root in self._contradictory:
            return None
        return f"{root}, {is_same_side}"

    def _join(self, row: Observation) -> None:
        good = row.good.lower()
        first, second = sorted((good, row.bad.lower()))
        pair_root, pair_side = self._root(("pair", row.place, first, second))
        left_root, left_side = self._root(_left_node(row.place, row.left))
        # The observation: the words and the pair are on the same side if the right form is the first of the pair.
        requires_first = good == first
        are_on_one_side = pair_side == left_side
        if pair_root == left_root:
            # Both are in one set already, so earlier observations have decided whether they are on one side.
            if are_on_one_side != requires_first:
                self._contradictory.add(pair_root)
            return
        # The sets are joined with the side of one root relative to the other that makes the observation true.
        self._parents[left_root] = (pair_root, are_on_one_side == requires_first)
        if left_root in self._contradictory:
            self._contradictory.add(pair_root)

    def _label(self, row: Observation) -> None:
        if row.number is None:
            return
        root, is_same_side = self._root(_left_node(row.place, row.left))
        number = row.number if is_same_side else _other(row.number)
        if self._number_of_root.setdefault(root, number) != number:
            self._contradictory.add(root)

    def _root(self, node: object) -> tuple[object, bool]:
        """Return the representative of a node's set, and whether the node is on its side."""
        path: list[tuple[object, bool]] = []
        while node in self._parents:
            parent, is_same_side = self._parents[node]
            path.append((node, is_same_side))
            node = parent
        # Shorten the path, so that the next search is fast.
        side = True
        for member, is_same_side in reversed(path):
            side = side == is_same_side
            self._parents[member] = (node, side)
        return node, side


def _left_node(place: Place, left: tuple[str, ...]) -> object:
    return ("left", place, tuple(word.lower() for word in left))


def _other(number: Number) -> Number:
    return "plural" if number == "singular" else "singular"
