"""Plug-ins in a package: an entry point gives each its name, so no decorator is needed."""

from __future__ import annotations

import random
from collections import Counter

from lmassay import Scorer


def shout(text: str, rng: random.Random, rate: float, *, mark: str = "!") -> str:
    """Words in capitals, and a mark behind the last one."""
    return " ".join(word.upper() if rng.random() < rate else word for word in text.split(" ")) + mark


class SameLetters(Scorer):
    """Share of letters that two texts have in common, in any order and case."""

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        said, wanted = Counter(hyp.lower()), Counter(ref.lower())
        return 2 * (said & wanted).total() / max(1, said.total() + wanted.total())
