"""Your own language model for the syntax evaluation: it counts in a text file which word follows which.

    lmassay run my_language_model.yaml    # written by: lmassay init language-model
    lmassay run pairs.yaml                # written by: lmassay init pairs

Only ``name``, ``can``, ``identity`` and one method per kind of request are needed; the text is read on the first
request. The task `syntax` uses ``slot``; `minimal_pairs` and in-context learning use ``logprobs``.
"""

from __future__ import annotations

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
    sees_right = False  # it ignores the text after the blank, so equal left contexts are requested once

    def __init__(self, text: Path, smoothing: float = 0.1) -> None:
        self.text, self.smoothing = text, smoothing

    def identity(self) -> Mapping[str, object]:
        # lmassay adds a digest of the options and of the file that ``text`` names: with another text, stored answers
        # are not used. The smoothing is here so that the signature shows its value.
        return {"name": self.name, "smoothing": self.smoothing}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Candidates]:
        """The log-probability of each candidate at the blank; None for a word that is not in the text."""
        for request in requests:
            before = (words_of(request.left) or ["."])[-1]
            logprobs: list[float | None] = []
            for word in request.candidates:
                is_known = word in self.counts[0]
                logprobs.append(self.logprob(before, word) if is_known else None)
            yield Candidates(logprobs)

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Continuation]:
        """The log-probability of a text after another, one number per word."""
        for request in requests:
            before = (words_of(request.context) or ["."])[-1]
            words = [before, *words_of(request.continuation)]
            logprobs = tuple(self.logprob(first, second) for first, second in pairwise(words))
            yield Continuation(sum(logprobs), logprobs)

    def logprob(self, before: str, word: str) -> float:
        words, pairs = self.counts
        # One more than the words of the text: all other words count as one.
        vocabulary_size = len(words) + 1
        return math.log((pairs[before, word] + self.smoothing) / (words[before] + self.smoothing * vocabulary_size))

    @cached_property
    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        words = words_of(self.text.read_text(encoding="utf-8"))
        return Counter(words), Counter(pairwise(words))


def words_of(text: str) -> list[str]:
    return text.lower().replace(".", " .").split()
