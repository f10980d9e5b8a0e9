"""Plug-ins in a package: an entry point gives each its name, so no decorator is needed."""

from __future__ import annotations

import random
from collections import Counter

from lmassay import Scorer


def shout(text: str, rng: random.Random, rate: float, *, mark: str = "!") -> str:
    """Write words in capitals and add a mark after the last one."""
    words = []
    for word in text.split(" "):
        words.append(word.upper() if rng.random() < rate else word)
    return " ".join(words) + mark


class SameLetters(Scorer):
    """Share of letters that two texts have in common, in any order and case."""

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        hyp_letters, ref_letters = Counter(hyp.lower()), Counter(ref.lower())
        shared = (hyp_letters & ref_letters).total()
        return 2 * shared / max(1, hyp_letters.total() + ref_letters.total())
