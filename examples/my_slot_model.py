"""A language model of one's own for the syntax evaluations: which word follows which, counted in a text file.

    lmassay run examples/my_slot_model.yaml
    lmassay run examples/own_data/pairs.yaml

Only ``name``, ``can``, ``identity`` and the method of each verb are needed; the text is read when the first question
comes. ``slot`` serves the task `syntax`, ``logprobs`` serves `minimal_pairs` and few-shot learning in context.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from lmassay import Candidates, Continuation, LogProbs, Model, Slot


class Bigrams(Model):
    """P(word | word before), with ``smoothing`` added to every count."""

    name = "bigrams"
    can = frozenset({"slot", "logprobs"})
    sees_right = False  # what stands behind the blank has no say: equal left contexts are asked once

    def __init__(self, text: Path, smoothing: float = 0.1) -> None:
        self.text, self.smoothing = text, smoothing

    def identity(self) -> Mapping[str, object]:
        # What the file holds, not what it is called: with another text, answers in the store are another model's.
        content = hashlib.sha256(self.text.read_bytes()).hexdigest()[:8]
        return {"name": self.name, "text": content, "smoothing": self.smoothing}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Candidates]:
        """How each candidate fares at the blank; None for a word that the text does not have."""
        for request in requests:
            before = (words_of(request.left) or ["."])[-1]
            known = [word if word in self.counts[0] else None for word in request.candidates]
            yield Candidates([None if word is None else self.logprob(before, word) for word in known])

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Continuation]:
        """The log-probability of a text after another, one number a word."""
        for request in requests:
            before = (words_of(request.context) or ["."])[-1]
            words = [before, *words_of(request.continuation)]
            each = tuple(self.logprob(first, second) for first, second in pairwise(words))
            yield Continuation(sum(each), each)

    def logprob(self, before: str, word: str) -> float:
        words, pairs = self.counts
        return math.log((pairs[before, word] + self.smoothing) / (words[before] + self.smoothing * (len(words) + 1)))

    @cached_property
    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        words = words_of(self.text.read_text(encoding="utf-8"))
        return Counter(words), Counter(pairwise(words))


def words_of(text: str) -> list[str]:
    return text.lower().replace(".", " .").split()
