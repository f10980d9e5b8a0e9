"""``diacritics``: leave accents out, or put one where none belongs."""

from __future__ import annotations

import random
import unicodedata
from typing import Literal

import regex  # type: ignore[import-untyped,unused-ignore]

from lmassay.evaluations.robustness.perturbations.base import one_of
from lmassay.evaluations.robustness.perturbations.units import Change, Units, composed, edit_words

_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS = "\u0300", "\u0301", "\u0302", "\u0303", "\u0308"
_TO_ADD = (_GRAVE, _ACUTE, _CIRCUMFLEX, _TILDE, _DIAERESIS)
# Only this block: the marks of Arabic, Hebrew, Japanese or Indic writing are no accents and stay.
_ACCENTS = regex.compile(r"[\u0300-\u036F]")
# Unicode does not take these apart.
_STROKED = str.maketrans("ØøŁłĐđĦħŦŧ", "OoLlDdHhTt")
_BEARS_ACCENTS = regex.compile(r"[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]")


def diacritics(text: str, rng: random.Random, rate: float, *, mode: Literal["both", "strip", "add"] = "both") -> str:
    """Change the accents of each chosen word, chosen with the probability ``rate``.

    ``strip`` takes all accents off words that have some, ``add`` puts one on a letter without (Latin, Greek, Cyrillic;
    a letter that Unicode has with an accent, if there is one), ``both`` strips where it can and adds elsewhere.

    >>> diacritics("Élève modèle", random.Random(0), 1, mode="strip")
    'Eleve modele'
    >>> diacritics("plain", random.Random(0), 1)
    'plaîn'
    """
    one_of("mode", mode, ("both", "strip", "add"))

    def propose(word: Units) -> list[Change]:
        changes = _stripped(word) if mode != "add" else []
        return changes or (_accented(word) if mode != "strip" else [])

    return edit_words(text, rng, rate, propose)


def _stripped(word: Units) -> list[Change]:
    bare = tuple(_bare(unit) for unit in word)
    return [Change(0, len(word), [bare])] if bare != tuple(composed(unit) for unit in word) else []


def _bare(unit: str) -> str:
    return composed(_ACCENTS.sub("", unicodedata.normalize("NFD", unit)).translate(_STROKED))


def _accented(word: Units) -> list[Change]:
    single, combining = [], []
    for i, unit in enumerate(word):
        if not _BEARS_ACCENTS.match(unit) or _bare(unit) != composed(unit):
            continue
        choices = [composed(unit[0] + accent + unit[1:]) for accent in _TO_ADD]
        combining.append(Change(i, i + 1, [(c,) for c in choices]))
        if short := [(c,) for c in choices if len(c) == 1]:
            single.append(Change(i, i + 1, short))
    return single or combining
