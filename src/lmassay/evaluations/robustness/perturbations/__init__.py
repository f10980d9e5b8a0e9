"""Perturbations: functions that turn a sentence into an adversarial one.

For a given seed, the result is the same on every machine. ``rate`` is the probability with which each eligible word is
changed: 0 changes nothing, 1 changes every eligible word. :mod:`.graphemes` and the functions say which words are
eligible. Text is only cut between grapheme clusters, white space stays as it is, and text in NFC or NFD stays in that
form.
"""

from __future__ import annotations

from lmassay.evaluations.robustness.perturbations.base import Perturber, make_perturber, perturb, perturbation
from lmassay.evaluations.robustness.perturbations.keyboards import keyboard
from lmassay.evaluations.robustness.perturbations.letter_edits import (
    case,
    charswap,
    delete,
    diacritics,
    homoglyph,
    insert,
)
from lmassay.evaluations.robustness.perturbations.word_edits import worddrop, wordswap

__all__ = [
    "Perturber",
    "case",
    "charswap",
    "delete",
    "diacritics",
    "homoglyph",
    "insert",
    "keyboard",
    "make_perturber",
    "perturb",
    "perturbation",
    "worddrop",
    "wordswap",
]
