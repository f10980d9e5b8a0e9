"""``keyboard``: hit the key next to the right one. Which keys touch follows from where they lie."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Literal

from lmassay.evaluations.robustness.perturbations import hangul
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, WordEdit, composed, edit_words

Layout = Literal["qwerty", "azerty", "qwertz", "dubeolsik"]

# Four rows of keys as they print without and with shift. A dot is a key that has no letter on it. (AZERTY needs caps
# lock for É; it is where people look for it.)
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
# How far each row is set in, in quarters of a key, on every keyboard in use.
_INSETS = (0, 2, 3, 5)


@lru_cache(maxsize=len(LAYOUTS))
def neighbours(layout: str) -> dict[str, str]:
    """Letter → the letters on the keys that touch its key, shift kept.

    >>> neighbours("qwerty")["a"], neighbours("azerty")["a"], neighbours("dubeolsik")["ㄲ"]
    ('qwsz', 'ézq', 'ㄸㅆㅇㄹ')
    """
    one_of("layout", layout, LAYOUTS)
    table: dict[str, str] = {}
    for shift in (0, 1):
        keys = [
            (row, _INSETS[row] + 4 * column, letter)
            for row, printed in enumerate(_KEYS[layout])
            for column, letter in enumerate(printed[shift])
            if letter != "."
        ]
        for row, x, letter in keys:
            # What prints the same with shift was entered without it.
            near = "".join(k for r, at, k in keys if k != letter and _touch(row - r, x - at))
            table.setdefault(letter, near)
    return table


def keyboard(text: str, rng: random.Random, rate: float, *, layout: Layout = "qwerty") -> str:
    """Replace one letter in each chosen word by one on a neighbouring key.

    A word is eligible if the layout has one of its letters; each is chosen with the probability ``rate``. Korean needs
    ``layout="dubeolsik"``: one stroke of a syllable slips, and the result is a syllable again.

    >>> keyboard("typing fast", random.Random(0), 1)
    'typijg faat'
    """
    table = neighbours(layout)

    def propose(word: Units) -> list[WordEdit]:
        return [WordEdit(i, i + 1, choices) for i, unit in enumerate(word) if (choices := _slips(unit, table))]

    return edit_words(text, rng, rate, propose)


def _slips(unit: str, table: dict[str, str]) -> list[Units]:
    letter = composed(unit)
    if hangul.is_syllable(letter):
        return [(s,) for s in hangul.slips(letter, lambda key: table.get(key, ""))]
    return [(other,) for other in table.get(letter, "")]


def _touch(rows: int, quarters: int) -> bool:
    return abs(quarters) == 4 if rows == 0 else abs(rows) == 1 and abs(quarters) < 4
