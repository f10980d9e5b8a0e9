"""The units that perturbations work on (grapheme clusters, tokens and words), and edits of a word.

*Tokens* are separated by white space. A token is not eligible if it contains a number, a character of markup, of an
address or of an identifier, or any character between its letters other than an apostrophe, a hyphen and the like. So
URLs, e-mail addresses, ``@names``, ``<tags>``, ``3pm`` and ``e.g.`` are not eligible. A token without its outer
punctuation is its *core*; the runs of letters in the core are *words*: ``(l'homme,`` has the core ``l'homme`` and the
words ``l`` and ``homme``. In a script without spaces, a whole run of letters is one word.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import regex  # type: ignore[import-untyped,unused-ignore]

T = TypeVar("T")
Kind = Literal["space", "letter", "number", "other"]
Form = Literal["NFC", "NFD"]
Units = tuple[str, ...]

_GRAPHEME = regex.compile(r"\X")
# Emoji are subtracted because some, such as ℹ, count as letters in Unicode. The joiners shape Persian and Indic words.
_LETTER = regex.compile(r"(?V1)[\p{L}--\p{Extended_Pictographic}][\p{L}\p{M}\u200c\u200d]*")
_NUMBER = regex.compile(r"\p{N}")

# What may be between the letters of an eligible token.
_LINKS = frozenset("'’‘`-‐‑‒–—·…" + "・、。「」『』《》，！？；：（）")
# What must not be anywhere in an eligible token.
_MARKUP = frozenset("@#/\\_<>{}$%=&~^|")


@dataclass(frozen=True, slots=True)
class Token:
    """Where a token and its core begin and end, counted in graphemes; and whether it may be changed."""

    start: int
    core_start: int
    core_stop: int
    stop: int
    eligible: bool


@dataclass(frozen=True, slots=True)
class WordEdit:
    """A part of a word, counted in graphemes, and what may replace it."""

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
    """What kind of grapheme this is."""
    if unit[0].isspace():
        return "space"
    if _LETTER.fullmatch(unit):
        return "letter"
    if _NUMBER.search(unit):
        return "number"
    return "other"


def tokens(units: Sequence[str], starts: Set[int] = frozenset()) -> list[Token]:
    """The tokens of a text, including those that are not eligible (whose core is the whole token).

    A token ends at white space and before each position in ``starts``, which are the beginnings of words in a script
    without spaces.
    """
    kinds = [kind_of(unit) for unit in units]
    tokens_of_text = []
    start = 0
    while start < len(units):
        stop = start
        while stop < len(units) and kinds[stop] != "space" and (stop == start or stop not in starts):
            stop += 1
        if stop > start:
            tokens_of_text.append(_token(units, kinds, start, stop))
        # A space is skipped. In a script without spaces, the next token begins right where this one stops.
        is_space = stop < len(units) and kinds[stop] == "space"
        start = stop + 1 if is_space else stop
    return tokens_of_text


def words(units: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Start and stop of every word of every eligible token."""
    for token in tokens(units):
        if not token.eligible:
            continue
        start = token.core_start
        while start < token.core_stop:
            stop = start
            while stop < token.core_stop and kind_of(units[stop]) == "letter":
                stop += 1
            if stop > start:
                yield start, stop
            start = stop + 1


def edit_words(text: str, rng: random.Random, rate: float, propose: Callable[[Units], Sequence[WordEdit]]) -> str:
    """Make one of the proposed edits in each word, with the probability ``rate`` per word.

    Every word consumes three random numbers, whether it is changed or not. So with the same seed, a higher rate changes
    the same words in the same way, and some more.
    """
    units = graphemes(text)
    form = form_of(text)
    pieces: list[str] = []
    done = 0
    for start, stop in words(units):
        chance = rng.random()
        edit_fraction = rng.random()
        choice_fraction = rng.random()
        if chance >= rate:
            continue
        # The random edit and choice are tried first, and the others only if they do not fit.
        for proposed in _rotated(propose(tuple(units[start:stop])), edit_fraction):
            choices = _rotated(proposed.choices, choice_fraction)
            edit = WordEdit(start + proposed.start, start + proposed.stop, choices)
            new_units = _first_fit(units, edit, form)
            if new_units is not None:
                pieces += units[done : edit.start]
                pieces += new_units
                done = edit.stop
                break
    return "".join([*pieces, *units[done:]])


def form_of(text: str) -> Form | None:
    """The normalisation form that a text is in and must stay in; plain ASCII counts as NFC."""
    if unicodedata.is_normalized("NFC", text):
        return "NFC"
    if unicodedata.is_normalized("NFD", text):
        return "NFD"
    return None


def composed(unit: str) -> str:
    """A grapheme in NFC, the form in which letters are looked up."""
    return unicodedata.normalize("NFC", unit)


def stay_separate(units: Sequence[str]) -> bool:
    """Whether these graphemes stay as they are when they are joined to a text: none is split, and none are merged."""
    text = "".join(units)
    return text.isascii() or graphemes(text) == list(units)


def _token(units: Sequence[str], kinds: Sequence[Kind], start: int, stop: int) -> Token:
    """The token from ``start`` to ``stop``, with its core if it is eligible."""
    not_eligible = Token(start, start, stop, stop, eligible=False)
    inner = [position for position in range(start, stop) if kinds[position] in ("letter", "number")]
    if not inner or not _MARKUP.isdisjoint(units[start:stop]):
        return not_eligible
    # Punctuation around a word is not a part of it. But with a digit or a sign inside, the token is not a plain word.
    core_start = inner[0]
    core_stop = inner[-1] + 1
    for position in range(core_start, core_stop):
        if kinds[position] != "letter" and units[position] not in _LINKS:
            return not_eligible
    return Token(start, core_start, core_stop, stop, eligible=True)


def _first_fit(units: Sequence[str], edit: WordEdit, form: Form | None) -> Units | None:
    """The first choice that changes something and does not merge with its neighbours."""
    old = tuple(units[edit.start : edit.stop])
    before = units[max(edit.start - 1, 0) : edit.start]
    after = units[edit.stop : edit.stop + 1]
    for choice in edit.choices:
        new = choice
        if form is not None:
            new = tuple(unicodedata.normalize(form, unit) for unit in choice)
        if new != old and stay_separate([*before, *new, *after]):
            return new
    return None


def _rotated(items: Sequence[T], fraction: float) -> list[T]:
    """All items, beginning with the one that a fraction in [0, 1) selects."""
    first = int(fraction * len(items))
    return [*items[first:], *items[:first]]
