"""A template with its lexicon: slots in the order in which they can be filled, and the pairs that come out."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lmassay.evaluations.syntax.grammar.words import Category, Cell, Feature

Filled = dict[str, Cell]
"""Slot → the word in it."""


@dataclass(frozen=True, slots=True)
class Link:
    """The slot has the same value of a feature as another slot, or (``swap``) the other one."""

    feature: str
    target: str
    swap: Mapping[str, str] | None = None

    def value(self, filled: Mapping[str, Cell]) -> str:
        value = filled[self.target].values[self.feature]
        return self.swap[value] if self.swap else value


@dataclass(frozen=True)
class Slot:
    """A place for a word, and what the word must be like."""

    name: str
    category: Category
    cells: tuple[Cell, ...]
    links: tuple[Link, ...] = ()
    different: tuple[str, ...] = ()
    recorded: bool = False

    def link(self, feature: str) -> Link | None:
        return next((link for link in self.links if link.feature == feature), None)

    def candidates(self, filled: Mapping[str, Cell]) -> Sequence[Cell]:
        """The words that fit what stands in the other slots."""
        found = self._groups.get(tuple(link.value(filled) for link in self.links), ())
        if self.different:
            taken = {filled[name].lemma for name in self.different}
            return [cell for cell in found if cell.lemma not in taken]
        return found

    def follow(self, cell: Cell, filled: Mapping[str, Cell]) -> Cell:
        """The same word in the form that the other slots now ask for."""
        changes = {x.feature: x.value(filled) for x in self.links if x.feature in self.category.inflects}
        return self.category.form(cell, changes)

    @property
    def most(self) -> int:
        """No more words than this fit in at a time."""
        return max(map(len, self._groups.values()), default=0)

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], list[Cell]]:
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(tuple(cell.values[link.feature] for link in self.links), []).append(cell)
        return groups


@dataclass(frozen=True, slots=True)
class Pair:
    """A minimal pair; ``side`` is the contrast's value in the good sentence."""

    good: str
    bad: str
    template: str
    side: str
    noun: str
    contrast: str
    attractor: str | None
    factors: Mapping[str, str]


@dataclass(frozen=True)
class Template:
    """One pattern. ``slots`` stand in an order in which each depends on earlier ones only."""

    name: str
    pattern: str
    order: tuple[str, ...]
    slots: tuple[Slot, ...]
    contrast: Slot
    feature: Feature
    head: Slot
    attractors: tuple[Slot, ...]

    @property
    def bound(self) -> int:
        """No more pairs than this come out."""
        return math.prod(slot.most for slot in self.slots) * (len(self.feature.values) - 1)

    def pairs(self, rng: random.Random | None = None) -> Iterator[Pair]:
        """Every pair, in the order of the lexicon; with ``rng``, from a random one on."""
        for filled in self._fill(0, {}, rng):
            good = self._text(filled)
            wrong = self._wrong[filled[self.contrast.name]]
            for cell in rng.sample(wrong, len(wrong)) if rng else wrong:
                bad = self._text(self._with(filled, self.contrast, cell))
                if bad != good and not self._is_right_too(bad, filled):
                    yield self._pair(good, bad, filled)

    def _fill(self, index: int, filled: Filled, rng: random.Random | None) -> Iterator[Filled]:
        if index == len(self.slots):
            yield filled
            return
        slot = self.slots[index]
        cells = slot.candidates(filled)
        start = rng.randrange(len(cells)) if rng and cells else 0
        for step in range(len(cells)):
            filled[slot.name] = cells[(start + step) % len(cells)]
            yield from self._fill(index + 1, filled, rng)

    def _with(self, filled: Filled, slot: Slot, cell: Cell) -> Filled:
        """The same words with another form in one slot, and in the slots that agree with it."""
        changed = {**filled, slot.name: cell}
        for other in self._followers[slot.name]:
            changed[other.name] = other.follow(changed[other.name], changed)
        return changed

    def _is_right_too(self, bad: str, filled: Filled) -> bool:
        """Whether the bad sentence has a good reading: 'the sheep jump' is wrong of one sheep only."""
        root = self._root
        readings = self._other_readings.get(filled[root.name], ())
        return any(self._text(self._with(filled, root, reading)) == bad for reading in readings)

    def _pair(self, good: str, bad: str, filled: Filled) -> Pair:
        side = filled[self.contrast.name].values[self.feature.name]
        head = filled[self.head.name]
        factors = {name: head.values[name] for name in self.head.category.inborn}
        for slot in self._recorded:
            factors[slot.name] = filled[slot.name].text or "none"
        attractor = None
        if self.attractors:
            same = all(filled[slot.name].values[self.feature.name] == side for slot in self.attractors)
            attractor = "match" if same else "mismatch"
        elif self.feature.labels:
            attractor = "none"
        return Pair(good, bad, self.name, side, head.lemma, self.contrast.category.contrast, attractor, factors)

    def _text(self, filled: Filled) -> str:
        return " ".join((self.pattern % tuple([filled[name].text for name in self.order])).split())

    @cached_property
    def _root(self) -> Slot:
        return root_of(self.contrast, self.feature.name, {slot.name: slot for slot in self.slots})

    @cached_property
    def _wrong(self) -> dict[Cell, list[Cell]]:
        """Right form → the wrong ones, in the slot with the contrast."""
        return {cell: self._other_forms(self.contrast, cell) for cell in self.contrast.cells}

    @cached_property
    def _other_readings(self) -> dict[Cell, list[Cell]]:
        """Words that do not show the value they have, such as 'sheep', where the contrast depends on them."""
        root = self._root
        if root is self.contrast or self.feature.name not in root.category.inflects:
            return {}
        same = {cell: [o for o in self._other_forms(root, cell) if o.text == cell.text] for cell in root.cells}
        return {cell: others for cell, others in same.items() if others}

    def _other_forms(self, slot: Slot, cell: Cell) -> list[Cell]:
        name = self.feature.name
        return [slot.category.form(cell, {name: value}) for value in self.feature.others(cell.values[name])]

    @cached_property
    def _recorded(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.recorded]

    @cached_property
    def _followers(self) -> dict[str, list[Slot]]:
        """Slot → the slots that take their form from it, directly or through others."""
        followers: dict[str, list[Slot]] = {}
        for slot in self.slots:
            reached = {slot.name}
            followers[slot.name] = []
            for other in self.slots:
                if other is not slot and any(link.target in reached for link in other.links):
                    reached.add(other.name)
                    followers[slot.name].append(other)
        return followers


def root_of(slot: Slot, feature: str, slots: Mapping[str, Slot]) -> Slot:
    """The slot that decides about a feature, at the end of the chain of agreement."""
    while (link := slot.link(feature)) is not None:
        slot = slots[link.target]
    return slot
