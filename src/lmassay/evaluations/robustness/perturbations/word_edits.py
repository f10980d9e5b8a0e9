"""Slips with whole words: ``wordswap``, ``worddrop``. Punctuation stays where it is."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from lmassay.evaluations.robustness.perturbations.graphemes import Units, graphemes, tokens, whole


@dataclass(frozen=True, slots=True)
class _Token:
    """A token with the white space before it: ``gap``, ``lead``, ``core``, ``trail`` in that order."""

    gap: Units
    lead: Units = ()
    core: Units = ()
    trail: Units = ()
    eligible: bool = False

    @property
    def units(self) -> Units:
        return self.gap + self.lead + self.core + self.trail


def wordswap(text: str, rng: random.Random, rate: float) -> str:
    """Swap neighbouring words: from left to right, a word changes places with the next one with probability ``rate``.

    Both must be eligible and unequal; a word that has moved does not move again. So at rate 1 the words change places
    in pairs, and at most the last one of an odd number stays. White space and punctuation stay in place.

    >>> wordswap("Well, that was quick!", random.Random(0), 1)
    'that, Well quick was!'
    """
    row = _parse(text)
    chances = [rng.random() for _ in row]
    place = 0
    while place < len(row) - 1:
        swapped = _swapped(row[place], row[place + 1]) if chances[place] < rate else None
        # The token after the pair is looked at too: it must not merge with what now stands before it.
        if swapped and whole(_units([*swapped, *row[place + 2 : place + 3]])):
            row[place : place + 2] = swapped
            place += 1
        place += 1
    return "".join(_units(row))


def worddrop(text: str, rng: random.Random, rate: float) -> str:
    """Leave out each eligible word with the probability ``rate``, but never the last that remains.

    One of the two spaces around it goes too. Punctuation after the word moves to the word before, punctuation before
    it to the word after; what encloses it (``(word)``), or has no neighbour to move to, is dropped with it.

    >>> worddrop("I know, I know.", random.Random(1), 0.5)
    'know, I.'
    """
    row = _parse(text)
    chances = [rng.random() if token.eligible else 1.0 for token in row]
    eligible = [i for i, token in enumerate(row) if token.eligible]
    spared = max(eligible, key=chances.__getitem__, default=-1)
    kept: list[_Token] = []
    for i, token in enumerate(row):
        if chances[i] < rate and i != spared:
            last, following = _close_up(kept[-1:], token, row[i + 1])
            if whole(_units([*last, following])):
                kept[-1:] = last
                row[i + 1] = following
                continue
        kept.append(token)
    return "".join(_units(kept))


def _parse(text: str) -> list[_Token]:
    """The tokens of a text; the last one is empty and carries the white space at the end."""
    units = graphemes(text)
    row, done = [], 0
    for t in tokens(units):
        lead, core = units[t.start : t.core_start], units[t.core_start : t.core_stop]
        trail = units[t.core_stop : t.stop]
        row.append(_Token(tuple(units[done : t.start]), tuple(lead), tuple(core), tuple(trail), t.eligible))
        done = t.stop
    return [*row, _Token(tuple(units[done:]))]


def _swapped(one: _Token, two: _Token) -> list[_Token] | None:
    if one.eligible and two.eligible and one.core != two.core:
        return [replace(one, core=two.core), replace(two, core=one.core)]
    return None


def _close_up(last: list[_Token], token: _Token, following: _Token) -> tuple[list[_Token], _Token]:
    """What the neighbours become when ``token`` goes; ``last`` is empty if it is the first."""
    at_end = not following.core
    if token.trail and not token.lead and last:
        return [replace(last[0], trail=last[0].trail + token.trail)], following
    if token.lead and not token.trail and not at_end:
        return last, replace(following, gap=token.gap, lead=token.lead + following.lead)
    if at_end and last:
        return last, following
    return last, replace(following, gap=token.gap)


def _units(row: list[_Token]) -> list[str]:
    return [unit for token in row for unit in token.units]
