"""A language model of one's own for the syntax evaluation: which word follows which, counted in a text file.

    lmassay run my_config.yaml      # with  model: {name: "my_slot_model.py:Bigrams", text: corpus.txt}

Only `name`, `can`, `identity` and the method of each verb are needed; weights are read when the first question comes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from lmassay import Candidates, Slot


class Bigrams:
    """P(word | word before), with ``smoothing`` added to every count."""

    name = "bigrams"
    can = frozenset({"slot"})
    sees_right = False  # what stands behind the blank has no say: equal left contexts are asked once

    def __init__(self, text: Path, smoothing: float = 0.1) -> None:
        self.text, self.smoothing = text, smoothing

    def identity(self) -> Mapping[str, object]:
        return {"name": self.name, "text": self.text.name, "smoothing": self.smoothing}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Candidates]:
        for request in requests:
            before = (request.left.lower().split() or ["."])[-1]
            yield Candidates([self.logprob(before, word) for word in request.candidates])

    def logprob(self, before: str, word: str) -> float | None:
        """None for a word that the text does not have: it counts as no word of the vocabulary."""
        words, pairs = self.counts
        if word not in words:
            return None
        return math.log((pairs[before, word] + self.smoothing) / (words[before] + self.smoothing * len(words)))

    @cached_property
    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        words = self.text.read_text(encoding="utf-8").lower().replace(".", " .").split()
        return Counter(words), Counter(pairwise(words))
