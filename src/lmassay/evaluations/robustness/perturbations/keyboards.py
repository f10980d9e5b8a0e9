"""The perturbation ``keyboard``: hit the key next to the right one. Neighbours follow from the layout of the keys."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Literal

from lmassay.evaluations.robustness.perturbations import hangul
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, WordEdit, composed, edit_words

Layout = Literal["qwerty", "azerty", "qwertz", "dubeolsik"]

# Four rows of keys, as they print without and with shift. A dot is a key without a letter. (AZERTY needs caps lock for
# É, but this is the key that people use.)
_KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "qwerty": (("", ""), ("qwertyuiop", "QWERTYUIOP"), ("asdfghjkl", "ASDFGHJKL"), ("zxcvbnm", "ZXCVBNM")),
    "azerty": (
        (".é....è.çà", ".É....È.ÇÀ"),
        ("azertyuiop", "AZERTYUIOP"),
        ("qsdfghjklmù", "QSDFGHJKLMÙ"),
        ("wxcvbn", "WXCVBN"),
    ),
    "qwertz": (
        ("..........ß", "..........."),
        ("qwertzuiopü", "QWERTZUIOPÜ"),
        ("asdfghjklöä", "ASDFGHJKLÖÄ"),
        ("yxcvbnm", "YXCVBNM"),
    ),
    "dubeolsik": (
        ("", ""),
        ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅃㅉㄸㄲㅆㅛㅕㅑㅒㅖ"),
        ("ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ"),
        ("ㅋㅌㅊㅍㅠㅜㅡ", "ㅋㅌㅊㅍㅠㅜㅡ"),
    ),
}
LAYOUTS = tuple(_KEYS)
# How far each row is indented, in quarters of a key; the same on all common keyboards.
_INSETS = (0, 2, 3, 5)


@lru_cache(maxsize=len(LAYOUTS))
def neighbours(layout: str) -> dict[str, str]:
    """Letter → the letters on the neighbouring keys, with the same state of shift.

    >>> neighbours("qwerty")["a"], neighbours("azerty")["a"], neighbours("dubeolsik")["ㄲ"]
    ('qwsz', 'ézq', 'ㄸㅆㅇㄹ')
    """
    one_of("layout", layout, LAYOUTS)
    table: dict[str, str] = {}
    for shift in (0, 1):
        # (row, horizontal position in quarters of a key, letter)
        keys: list[tuple[int, int, str]] = []
        for row, printed in enumerate(_KEYS[layout]):
            for column, letter in enumerate(printed[shift]):
                if letter != ".":
                    keys.append((row, _INSETS[row] + 4 * column, letter))
        for row, x, letter in keys:
            near = ""
            for other_row, other_x, other in keys:
                if other != letter and _are_neighbours(row - other_row, x - other_x):
                    near += other
            # A letter that prints the same with shift is in the table already, from the round without it.
            table.setdefault(letter, near)
    return table


def keyboard(text: str, rng: random.Random, rate: float, *, layout: Layout = "qwerty") -> str:
    """Replace one letter in each chosen word by one on a neighbouring key.

    A word is eligible if the layout has one of its letters; each is chosen with the probability ``rate``. Korean needs
    ``layout="dubeolsik"``: one stroke of a syllable changes, and the result is a syllable again.

    >>> keyboard("typing fast", random.Random(0), 1)
    'typijg faat'
    """
    table = neighbours(layout)

    def propose(word: Units) -> list[WordEdit]:
        edits = []
        for position, unit in enumerate(word):
            choices = _slips(unit, table)
            if choices:
                edits.append(WordEdit(position, position + 1, choices))
        return edits

    return edit_words(text, rng, rate, propose)


def _slips(unit: str, table: dict[str, str]) -> list[Units]:
    """What may be typed instead of a grapheme."""
    letter = composed(unit)
    if hangul.is_syllable(letter):
        syllables = hangul.slips(letter, lambda key: table.get(key, ""))
        return [(syllable,) for syllable in syllables]
    return [(other,) for other in table.get(letter, "")]


def _are_neighbours(rows: int, quarters: int) -> bool:
    """Whether keys with this distance touch: next to each other, or overlapping in the next row."""
    if rows == 0:
        return abs(quarters) == 4
    return abs(rows) == 1 and abs(quarters) < 4
