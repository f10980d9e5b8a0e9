"""How each kind of model reads a request: the causal one from the left, the masked one around the blank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.causal import Causal
from lmassay.models.hf.columns import log_probability
from lmassay.models.hf.masked import Blank, Masked
from lmassay.models.hf.words import Position, Words
from lmassay.types import LogProbs, Slot

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Outcome = TypeVar("Outcome")
Tokens = tuple[int, ...]


class Reader(Protocol):
    """What the engine needs of a kind of model. Contexts and texts are opaque to it."""

    def context(self, request: Slot) -> Any:
        """What is read for a blank."""

    def text(self, request: LogProbs) -> Any | None:
        """What is read for a text; None if there is nothing to score."""

    def length(self, read: Any) -> int:
        """Tokens that go into the model at once."""

    def fill(
        self, contexts: Sequence[Any], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """What ``reduce`` makes of the logits at each blank."""

    def spell(self, words: Sequence[tuple[Any, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        """The log-probability of each (context, tokens of a word)."""

    def score(self, texts: Sequence[Any]) -> Iterator[tuple[int, Floats | ModelError]]:
        """The log-probabilities of each text's tokens."""


class CausalReader:
    """Reads from the left."""

    def __init__(self, causal: Causal, words: Words) -> None:
        self._causal, self._words = causal, words

    def context(self, request: Slot) -> Tokens:
        return self._words.left_context(request.left)

    def text(self, request: LogProbs) -> tuple[Tokens, int] | None:
        encoded = self._words.continuation(request.context, request.continuation)
        # The very first token has nothing before it that could predict it.
        return None if len(encoded.ids) <= max(encoded.start, 1) else (encoded.ids, encoded.start)

    def length(self, read: Any) -> int:
        return len(read[0]) - 1 if isinstance(read[0], tuple) else len(read)

    def fill(
        self, contexts: Sequence[Tokens], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        return self._causal.after(contexts, reduce)

    def spell(self, words: Sequence[tuple[Tokens, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        for place, values in self._causal.score([((*context, *ids), len(context)) for context, ids in words]):
            yield place, values if isinstance(values, ModelError) else float(values.sum())

    def score(self, texts: Sequence[tuple[Tokens, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        return self._causal.score(texts)


class MaskedReader:
    """Hides a token and reads around it."""

    def __init__(
        self, masked: Masked, words: Words, pll: Literal["within_word_l2r", "original"], position: Position
    ) -> None:
        self._masked, self._words, self._pll, self._position = masked, words, pll, position

    def context(self, request: Slot) -> Blank:
        return Blank(*self._words.blank(request.left, request.right, self._position))

    def text(self, request: LogProbs) -> list[tuple[Blank, int]] | None:
        """Pseudo-log-likelihood: each token hidden in turn; within_word_l2r also hides the rest of its word."""
        ids, places, words = self._words.masked_text(request.context, request.continuation)
        blanks = []
        for k, (at, word) in enumerate(zip(places, words, strict=True)):
            hidden = {at}
            if self._pll == "within_word_l2r":
                hidden |= {p for p, w in zip(places[k:], words[k:], strict=True) if w == word}
            blanks.append((Blank(tuple(self._mask if i in hidden else t for i, t in enumerate(ids)), at), ids[at]))
        return blanks or None

    def length(self, read: Any) -> int:
        return len(read.ids if isinstance(read, Blank) else read[0][0].ids)

    def fill(
        self, contexts: Sequence[Blank], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        return self._masked.fill(contexts, reduce)

    def spell(self, words: Sequence[tuple[Blank, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        texts = []
        for context, ids in words:
            before, after = context.ids[: context.place], context.ids[context.place + 1 :]
            texts.append(
                [
                    (Blank((*before, *ids[:k], *([self._mask] * (len(ids) - k)), *after), context.place + k), token)
                    for k, token in enumerate(ids)
                ]
            )
        for place, values in self.score(texts):
            yield place, values if isinstance(values, ModelError) else float(values.sum())

    def score(self, texts: Sequence[list[tuple[Blank, int]]]) -> Iterator[tuple[int, Floats | ModelError]]:
        blanks = [blank for text in texts for blank, _ in text]
        targets = [target for text in texts for _, target in text]
        owners = [place for place, text in enumerate(texts) for _ in text]
        scores = dict(self._masked.fill(blanks, lambda entry, logits: log_probability(logits, targets[entry])))
        found: dict[int, list[float | ModelError]] = {}
        for entry, owner in enumerate(owners):
            found.setdefault(owner, []).append(scores[entry])
        for place, values in found.items():
            failed = next((value for value in values if isinstance(value, ModelError)), None)
            yield place, failed or np.array(values, dtype=np.float64)

    @property
    def _mask(self) -> int:
        return int(self._words.tokenizer.mask_token_id)
