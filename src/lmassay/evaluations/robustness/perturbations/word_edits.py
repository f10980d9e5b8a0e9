"""Perturbations of whole words: ``wordswap`` and ``worddrop``. Punctuation stays where it is.

Words are separated by white space. Chinese, Japanese and Thai are written without it: the option ``segment`` names the
language, and BudouX divides the text into words (in Japanese, into words with their particles).
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from lmassay.errors import MissingExtra
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, graphemes, stay_separate, tokens

Segment = Literal["spaces", "zh", "zh-hant", "ja", "th"]
SEGMENTS = ("spaces", "zh", "zh-hant", "ja", "th")


@dataclass(frozen=True, slots=True)
class _SpacedToken:
    """A token with the white space before it: ``gap``, ``lead``, ``core`` and ``trail``, in that order.

    ``lead`` and ``trail`` are the punctuation around the core.
    """

    gap: Units
    lead: Units = ()
    core: Units = ()
    trail: Units = ()
    eligible: bool = False

    @property
    def units(self) -> Units:
        return self.gap + self.lead + self.core + self.trail


def wordswap(text: str, rng: random.Random, rate: float, *, segment: Segment = "spaces") -> str:
    """Swap neighbouring words: from left to right, a word changes places with the next one with probability ``rate``.

    Both must be eligible and unequal. A word that has moved does not move again, so at rate 1 words change places in
    pairs, and the last one of an odd number stays. White space and punctuation stay in place. ``segment`` divides
    Chinese (``zh``), traditional Chinese (``zh-hant``), Japanese (``ja``) or Thai (``th``) into words.

    >>> wordswap("Well, that was quick!", random.Random(0), 1)
    'that, Well quick was!'
    """
    row = _parse(text, segment)
    chances = [rng.random() for _ in row]
    index = 0
    while index < len(row) - 1:
        swapped = _swapped(row[index], row[index + 1]) if chances[index] < rate else None
        # The token after the pair is checked, too: it must not merge with what now precedes it.
        if swapped and stay_separate(_units([*swapped, *row[index + 2 : index + 3]])):
            row[index : index + 2] = swapped
            index += 1
        index += 1
    return "".join(_units(row))


def worddrop(text: str, rng: random.Random, rate: float, *, segment: Segment = "spaces") -> str:
    """Leave out each eligible word with the probability ``rate``, but always keep one of them.

    One of the two spaces around the word is left out as well. Punctuation after the word moves to the word before,
    punctuation before it to the word after. Punctuation on both sides (``(word)``), or without a neighbour to move to,
    is left out with the word. ``segment`` is as for ``wordswap``.

    >>> worddrop("I know, I know.", random.Random(1), 0.5)
    'know, I.'
    """
    row = _parse(text, segment)
    chances: list[float] = []
    eligible: list[int] = []
    for index, token in enumerate(row):
        if token.eligible:
            eligible.append(index)
            chances.append(rng.random())
        else:
            chances.append(1.0)
    # The word that is always kept: the one with the highest random number, so the last that a rising rate would drop.
    spared = max(eligible, key=chances.__getitem__, default=-1)
    kept: list[_SpacedToken] = []
    for index, token in enumerate(row):
        if chances[index] < rate and index != spared:
            last, following = _close_up(kept[-1:], token, row[index + 1])
            if stay_separate(_units([*last, following])):
                kept[-1:] = last
                row[index + 1] = following
                continue
        kept.append(token)
    return "".join(_units(kept))


def _parse(text: str, segment: Segment) -> list[_SpacedToken]:
    """The tokens of a text, and an empty one at the end, which has the white space after the last word."""
    units = graphemes(text)
    one_of("segment", segment, SEGMENTS)
    tokens_of_text = tokens(units)
    if segment != "spaces":
        tokens_of_text = tokens(units, _word_starts(units, segment))
    row = []
    done = 0
    for token in tokens_of_text:
        row.append(
            _SpacedToken(
                gap=tuple(units[done : token.start]),
                lead=tuple(units[token.start : token.core_start]),
                core=tuple(units[token.core_start : token.core_stop]),
                trail=tuple(units[token.core_stop : token.stop]),
                eligible=token.eligible,
            )
        )
        done = token.stop
    row.append(_SpacedToken(gap=tuple(units[done:])))
    return row


def _word_starts(units: Sequence[str], language: str) -> frozenset[int]:
    """The positions, counted in graphemes, at which the words of a text without spaces begin."""
    starts = set()
    # BudouX counts characters, and a grapheme may have several.
    length = 0
    ends = set()
    for word in _segmenter(language).parse("".join(units)):
        length += len(word)
        ends.add(length)
    length = 0
    for index, unit in enumerate(units):
        length += len(unit)
        if length in ends and not _are_one_word(units[index : index + 2]):
            starts.add(index + 1)
    return frozenset(starts)


def _are_one_word(neighbours: Sequence[str]) -> bool:
    """Whether two graphemes are within a word of a script with spaces, such as ``Python``, which BudouX may divide."""
    if len(neighbours) < 2:
        return False
    return all(unit[0].isalnum() and not _is_without_spaces(unit[0]) for unit in neighbours)


def _is_without_spaces(letter: str) -> bool:
    """Whether a letter is of a script without spaces between words: Chinese and Japanese letters are wide."""
    is_thai = "\u0e00" <= letter <= "\u0e7f"
    return is_thai or unicodedata.east_asian_width(letter) in ("W", "F")


@lru_cache(maxsize=len(SEGMENTS))
def _segmenter(language: str) -> Any:
    try:
        import budoux
    except ImportError:
        raise MissingExtra(f"dividing text into words with segment: {language}", "segment") from None
    parsers = {
        "zh": budoux.load_default_simplified_chinese_parser,
        "zh-hant": budoux.load_default_traditional_chinese_parser,
        "ja": budoux.load_default_japanese_parser,
        "th": budoux.load_default_thai_parser,
    }
    return parsers[language]()


def _swapped(one: _SpacedToken, two: _SpacedToken) -> list[_SpacedToken] | None:
    """Two tokens with their cores swapped; None if one of them is not eligible or both have the same core."""
    if one.eligible and two.eligible and one.core != two.core:
        return [replace(one, core=two.core), replace(two, core=one.core)]
    return None


def _close_up(
    last: list[_SpacedToken], token: _SpacedToken, following: _SpacedToken
) -> tuple[list[_SpacedToken], _SpacedToken]:
    """Return the token before and the token after ``token`` as they are without it.

    ``last`` has the token before it, or is empty if ``token`` is the first.
    """
    # Only the empty token at the end has no core.
    at_end = not following.core
    if token.trail and not token.lead and last:
        return [replace(last[0], trail=last[0].trail + token.trail)], following
    if token.lead and not token.trail and not at_end:
        return last, replace(following, gap=token.gap, lead=token.lead + following.lead)
    if at_end and last:
        return last, following
    return last, replace(following, gap=token.gap)


def _units(row: list[_SpacedToken]) -> list[str]:
    """The graphemes of all tokens, including the white space between them."""
    return [unit for token in row for unit in token.units]
