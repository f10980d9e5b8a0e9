"""The perturbation ``keyboard``: hit a key next to the right one. Which keys are neighbours depends on the layout."""

from __future__ import annotations

import random
import unicodedata
from functools import lru_cache
from typing import Literal

from lmassay.evaluations.robustness.perturbations import hangul
from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.graphemes import Units, WordEdit, composed, edit_words

Layout = Literal["qwerty", "azerty", "qwertz", "dubeolsik", "jcuken", "arabic", "inscript", "kana"]

# Four rows of keys: what they type without shift, and what with shift. A dot is a key without a letter.
# (AZERTY needs caps lock for É, but this is the key that people use.)
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
    # Russian. Ё is far away from all other letters, to the left of 1, so it has no neighbour.
    "jcuken": (
        ("", ""),
        ("йцукенгшщзхъ", "ЙЦУКЕНГШЩЗХЪ"),
        ("фывапролджэ", "ФЫВАПРОЛДЖЭ"),
        ("ячсмитьбю", "ЯЧСМИТЬБЮ"),
    ),
    # Arabic (101). The key between ر and ى types two letters, لا. With shift, most keys type vowel marks.
    "arabic": (
        ("", ""),
        ("ضصثقفغعهخحجد", "............"),
        ("شسيبلاتنمكط", "..........."),
        ("ئءؤر.ىةوزظ", ".........."),
    ),
    # Hindi in the Indian standard InScript: vowel signs on the left, consonants on the right.
    "inscript": (
        ("...........ृ", "...........ऋ"),
        ("ौैाीूबहगदजड.", "औऐआईऊभङघधझढञ"),
        ("ोे्िुपरकतचट", "ओएअइउफऱखथछठ"),
        (".ंमनवलस..य", ".ँण...शष"),
    ),
    # Japanese kana by JIS X 6002. The marks of voiced kana are separate keys, which a typo keeps.
    "kana": (
        ("ぬふあうえおやゆよわほへ", "..ぁぅぇぉゃゅょを.."),
        ("たていすかんなにらせ", "..ぃ......."),
        ("ちとしはきくまのりれけむ", "............"),
        ("つさそひこみもねるめろ", "っ.........."),
    ),
}
LAYOUTS = tuple(_KEYS)
# Layouts with which a letter and its marks are typed one after another.
_WITH_MARKS = ("arabic", "inscript", "kana")
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
            # A letter that a key types with and without shift is in the table already, from the round without shift.
            table.setdefault(letter, near)
    return table


def keyboard(text: str, rng: random.Random, rate: float, *, layout: Layout = "qwerty") -> str:
    """Replace one letter in each chosen word by one on a neighbouring key.

    A word is eligible if the layout has one of its letters; each is chosen with the probability ``rate``. Other scripts
    need their own layout: ``dubeolsik`` for Korean (one stroke of a syllable changes, and the result is a syllable
    again), ``jcuken`` for Russian, ``arabic``, ``inscript`` for Hindi, ``kana`` for Japanese kana.

    >>> keyboard("typing fast", random.Random(0), 1)
    'typijg faat'
    """
    table = neighbours(layout)

    def propose(word: Units) -> list[WordEdit]:
        edits = []
        for position, unit in enumerate(word):
            typos = _typos(unit, table, with_marks=layout in _WITH_MARKS)
            if typos:
                edits.append(WordEdit(position, position + 1, [(typo,) for typo in typos]))
        return edits

    return edit_words(text, rng, rate, propose)


def _typos(unit: str, table: dict[str, str], *, with_marks: bool) -> list[str]:
    """The graphemes that may be typed instead of this one."""
    letter = composed(unit)
    if hangul.is_syllable(letter):
        # A syllable is typed with several keys, and any one of them can be mistyped.
        return hangul.typos(letter, lambda key: table.get(key, ""))
    if letter in table:
        return list(table[letter])
    if _is_katakana(letter):
        # Katakana are typed with the keys of hiragana.
        hiragana_typos = _typos(_as_hiragana(letter), table, with_marks=with_marks)
        return [_as_katakana(typo) for typo in hiragana_typos]
    if with_marks:
        return _typos_of_parts(unit, table)
    return []


def _typos_of_parts(unit: str, table: dict[str, str]) -> list[str]:
    """What may be typed instead of a letter with marks: one key changes, and the others stay.

    A consonant is only replaced by a consonant and a vowel sign by a vowel sign, so that the result can be read.
    """
    keys = unicodedata.normalize("NFD", unit)
    if len(keys) < 2:
        return []
    typos = []
    for position, key in enumerate(keys):
        for other in table.get(key, ""):
            if unicodedata.category(other) != unicodedata.category(key):
                continue
            changed = composed(keys[:position] + other + keys[position + 1 :])
            # Not every kana can be voiced: a mark that its new letter cannot carry would stand alone.
            if len(changed) <= len(composed(unit)):
                typos.append(changed)
    return typos


# Katakana follow hiragana in Unicode at this distance.
_KATAKANA_OFFSET = ord("ァ") - ord("ぁ")


def _is_katakana(letter: str) -> bool:
    return len(letter) == 1 and "ァ" <= letter <= "ヴ"


def _as_hiragana(letter: str) -> str:
    return chr(ord(letter) - _KATAKANA_OFFSET)


def _as_katakana(letter: str) -> str:
    return chr(ord(letter) + _KATAKANA_OFFSET)


def _are_neighbours(rows: int, quarters: int) -> bool:
    """Whether keys with this distance touch: next to each other, or overlapping in the next row."""
    if rows == 0:
        return abs(quarters) == 4
    return abs(rows) == 1 and abs(quarters) < 4
