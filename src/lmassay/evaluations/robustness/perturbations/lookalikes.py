"""``homoglyph``: letters that look the same and are not. The table can be read both ways."""

from __future__ import annotations

import random
import unicodedata
from typing import Literal

from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.units import Change, Units, composed, edit_words, graphemes

# Latin, Greek and Cyrillic letters of one shape; the first is what `plain` gives back. No letter is in two groups.
_SAME_SHAPE = (
    "aа cсϲ dԁ eе hһ iі jј lӏ oоο pрρ qԛ sѕ uυ vνѵ wԝ xх yу "
    "AАΑ BВΒ CСϹ EЕΕ GԌ HНΗ IІΙ JЈͿ KКΚ MМΜ NΝ OОΟ PРΡ QԚ SЅ TТΤ VѴ WԜ XХΧ YΥҮ ZΖ "
    "ГΓ ПΠ ФΦ"
)
_TO_FULL_WIDTH = 0xFEE0


def _groups(kind: str) -> list[str]:
    latin = [chr(code) for start in "aA" for code in range(ord(start), ord(start) + 26)]
    groups = {group[0]: group for group in _SAME_SHAPE.split()} if kind != "fullwidth" else {}
    if kind != "script":
        groups |= {letter: groups.get(letter, letter) + chr(ord(letter) + _TO_FULL_WIDTH) for letter in latin}
    return list(groups.values())


_LOOKALIKES = {
    kind: {letter: group.replace(letter, "") for group in _groups(kind) for letter in group}
    for kind in ("any", "script", "fullwidth")
}
_PLAIN = {letter: group[0] for group in _groups("any") for letter in group}


def homoglyph(
    text: str, rng: random.Random, rate: float, *, kind: Literal["any", "script", "fullwidth"] = "any"
) -> str:
    """Replace one letter in each chosen word by one that looks the same; accents stay on.

    A word is eligible if one of its letters has a look-alike; each is chosen with the probability ``rate``. Kinds:
    ``script`` (Latin, Greek, Cyrillic), ``fullwidth`` (the wide Latin letters of East Asian fonts), ``any``.

    >>> homoglyph("Look alike", random.Random(0), 1) == "Look alike"
    False
    >>> plain(homoglyph("Look alike", random.Random(0), 1))
    'Look alike'
    """
    one_of("kind", kind, tuple(_LOOKALIKES))
    table = _LOOKALIKES[kind]

    def propose(word: Units) -> list[Change]:
        found = []
        for i, unit in enumerate(word):
            base, marks = _split(unit)
            if base in table:
                found.append(Change(i, i + 1, [(composed(other + marks),) for other in table[base]]))
        return found

    return edit_words(text, rng, rate, propose)


def plain(text: str) -> str:
    """Every look-alike as the first letter of its group, which is the Latin one where there is one.

    >>> plain("раураl")
    'paypal'
    """
    units = []
    for unit in graphemes(text):
        base, marks = _split(unit)
        units.append(composed(_PLAIN[base] + marks) if base in _PLAIN else unit)
    return "".join(units)


def _split(unit: str) -> tuple[str, str]:
    """The letter that a grapheme is built on, and its marks. 'Ѐ' is a Cyrillic 'Е' with one."""
    if unit in _PLAIN:
        return unit, ""
    apart = unicodedata.normalize("NFD", unit)
    return apart[0], apart[1:]
