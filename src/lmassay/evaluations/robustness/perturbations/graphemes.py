"""What the perturbations work on: grapheme clusters, tokens, words, and one change in a word.

A *token* stands between white space. It is off limits if it has a number in it, a sign of markup, of an address or of
an identifier, or any sign between its letters but an apostrophe, a hyphen and their like: URLs, e-mail addresses,
``@names``, ``<tags>``, ``3pm``, ``e.g.``. What is left when its outer punctuation is set aside is its *core*; the runs
of letters in the core are *words*: ``(l'homme,`` has the core ``l'homme`` and the words ``l`` and ``homme``.
Where a script has no spaces, a whole run of letters is one word.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import regex  # type: ignore[import-untyped,unused-ignore]

T = TypeVar("T")
Kind = Literal["space", "letter", "number", "other"]
Form = Literal["NFC", "NFD"]
Units = tuple[str, ...]

_GRAPHEME = regex.compile(r"\X")
# ℹ is a letter to Unicode and an emoji to people; hence the subtraction. The two joiners shape Persian and Indic words.
_LETTER = regex.compile(r"(?V1)[\p{L}--\p{Extended_Pictographic}][\p{L}\p{M}\u200c\u200d]*")
_NUMBER = regex.compile(r"\p{N}")

_LINKS = frozenset("'’‘`-‐‑‒–—·…" + "・、。「」『』《》，！？；：（）")
_MARKUP = frozenset("@#/\\_<>{}$%=&~^|")


@dataclass(frozen=True, slots=True)
class Token:
    """Where a token and its core begin and end, counted in graphemes."""

    start: int
    core_start: int
    core_stop: int
    stop: int
    eligible: bool


@dataclass(frozen=True, slots=True)
class WordEdit:
    """A stretch of a word, and what may stand there instead."""

    start: int
    stop: int
    choices: Sequence[Units]


def graphemes(text: str) -> list[str]:
    """The user-perceived characters of a text.

    >>> graphemes("né👩‍🚀")
    ['n', 'é', '👩\u200d🚀']
    """
    return list(_GRAPHEME.findall(text))


@lru_cache(maxsize=8192)
def kind_of(unit: str) -> Kind:
    """What sort of grapheme this is."""
    if unit[0].isspace():
        return "space"
    if _LETTER.fullmatch(unit):
        return "letter"
    return "number" if _NUMBER.search(unit) else "other"


def tokens(units: Sequence[str]) -> list[Token]:
    """The tokens of a text, those off limits included (with everything as their core)."""
    kinds = [kind_of(unit) for unit in units]
    found = []
    start = 0
    while start < len(units):
        stop = start
        while stop < len(units) and kinds[stop] != "space":
            stop += 1
        if stop > start:
            found.append(_token(units, kinds, start, stop))
        start = stop + 1
    return found


def words(units: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start and stop of every word."""
    for token in tokens(units):
        start = token.core_start
        while token.eligible and start < token.core_stop:
            stop = start
            while stop < token.core_stop and kind_of(units[stop]) == "letter":
                stop += 1
            if stop > start:
                yield start, stop
            start = stop + 1


def edit_words(text: str, rng: random.Random, rate: float, propose: Callable[[Units], Sequence[WordEdit]]) -> str:
    """Make one of the proposed changes in each word, with the probability ``rate`` a word.

    Every word uses up three random numbers, changed or not. So a higher rate with the same seed changes the same words
    in the same way, and some more.
    """
    units = graphemes(text)
    form = form_of(text)
    pieces: list[str] = []
    done = 0
    for start, stop in words(units):
        chance, where, which = rng.random(), rng.random(), rng.random()
        if chance >= rate:
            continue
        for change in _from(propose(tuple(units[start:stop])), where):
            change = WordEdit(start + change.start, start + change.stop, _from(change.choices, which))
            new = _first_fit(units, change, form)
            if new is not None:
                pieces += [*units[done : change.start], *new]
                done = change.stop
                break
    return "".join([*pieces, *units[done:]])


def form_of(text: str) -> Form | None:
    """The normalisation form that a text is in and must stay in; plain ASCII counts as NFC."""
    if unicodedata.is_normalized("NFC", text):
        return "NFC"
    return "NFD" if unicodedata.is_normalized("NFD", text) else None


def composed(unit: str) -> str:
    """A grapheme in NFC, in which letters are looked up."""
    return unicodedata.normalize("NFC", unit)


def whole(units: Sequence[str]) -> bool:
    """True if these graphemes, written one after another, are still these graphemes: none torn, none merged."""
    text = "".join(units)
    return text.isascii() or graphemes(text) == list(units)


def _token(units: Sequence[str], kinds: Sequence[Kind], start: int, stop: int) -> Token:
    inner = [i for i in range(start, stop) if kinds[i] in ("letter", "number")]
    if not inner or not _MARKUP.isdisjoint(units[start:stop]):
        return Token(start, start, stop, stop, eligible=False)
    first, last = inner[0], inner[-1] + 1
    if not all(kinds[i] == "letter" or units[i] in _LINKS for i in range(first, last)):
        return Token(start, start, stop, stop, eligible=False)
    return Token(start, first, last, stop, eligible=True)


def _first_fit(units: Sequence[str], change: WordEdit, form: Form | None) -> Units | None:
    """The first choice that changes something and leaves its surroundings whole."""
    before, after = units[max(change.start - 1, 0) : change.start], units[change.stop : change.stop + 1]
    for choice in change.choices:
        new = tuple(unicodedata.normalize(form, unit) for unit in choice) if form else choice
        if new != tuple(units[change.start : change.stop]) and whole([*before, *new, *after]):
            return new
    return None


def _from(items: Sequence[T], fraction: float) -> list[T]:
    """All items, beginning with one picked by a fraction in [0, 1)."""
    first = int(fraction * len(items))
    return [*items[first:], *items[:first]]
