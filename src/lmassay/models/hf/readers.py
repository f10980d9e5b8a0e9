"""How each kind of model reads a request: the causal one from the left, the masked one around the blank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.causal import Causal
from lmassay.models.hf.chat import Chat
from lmassay.models.hf.columns import log_probability
from lmassay.models.hf.masked import Blank, Masked
from lmassay.models.hf.words import Position, Words
from lmassay.types import LogProbs, Slot

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")
# Enough for batches of like length, and some megabytes at most.
_BLANKS_AT_ONCE = 4096
Tokens = tuple[int, ...]


class Reader(Protocol):
    """What the engine needs of a kind of model. Contexts and texts are opaque to it."""

    def context(self, request: Slot) -> Any:
        """What is read for a blank."""

    def begins_text(self, request: Slot) -> bool:
        """Whether a word at the blank is spelled as at the very beginning: nothing, not even a space, before it."""

    def text(self, request: LogProbs) -> Any | None:
        """What is read for a text; None if there is nothing to score. Raises a ModelError for what cannot be read."""

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

    def __init__(self, causal: Causal, words: Words, chat: Chat) -> None:
        self._causal, self._words, self._chat = causal, words, chat

    def context(self, request: Slot) -> Tokens:
        return self._words.left_context(request.left)

    def begins_text(self, request: Slot) -> bool:
        return not request.left.strip() and not self._words.space_before_texts

    def text(self, request: LogProbs) -> tuple[Tokens, int] | None:
        if request.messages:
            encoded = self._words.reply(self._chat.prompt(request.messages), request.continuation)
        else:
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


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A text as tokens, the places to be scored, and the word that each of them belongs to."""

    ids: Tokens
    places: Sequence[int]
    words: Sequence[int]


class MaskedReader:
    """Hides a token and reads around it."""

    def __init__(
        self, masked: Masked, words: Words, pll: Literal["within_word_l2r", "original"], position: Position
    ) -> None:
        self._masked, self._words, self._pll, self._position = masked, words, pll, position

    def context(self, request: Slot) -> Blank:
        return Blank(*self._words.blank(request.left, request.right, self._position))

    def begins_text(self, request: Slot) -> bool:
        return not request.left.strip() and not self._words.space_before_blanks

    def text(self, request: LogProbs) -> MaskedText | None:
        if request.messages:
            raise ModelError("a masked model does not chat; give a context, or take a causal model")
        text = MaskedText(*self._words.masked_text(request.context, request.continuation))
        return text if text.places else None

    def length(self, read: Blank | MaskedText) -> int:
        return len(read.ids)

    def fill(
        self, contexts: Sequence[Blank], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        return self._masked.fill(contexts, reduce)

    def spell(self, words: Sequence[tuple[Blank, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        for place, values in self._sums(words, self._spelled):
            yield place, values if isinstance(values, ModelError) else float(values.sum())

    def score(self, texts: Sequence[MaskedText]) -> Iterator[tuple[int, Floats | ModelError]]:
        return self._sums(texts, self._hidden_in_turn)

    def _spelled(self, word: tuple[Blank, Tokens]) -> Iterator[tuple[Blank, int]]:
        """A word of several tokens, one after the other: those before it are seen, those behind it hidden."""
        context, ids = word
        before, after = context.ids[: context.place], context.ids[context.place + 1 :]
        for k, token in enumerate(ids):
            yield Blank((*before, *ids[:k], *([self._mask] * (len(ids) - k)), *after), context.place + k), token

    def _hidden_in_turn(self, text: MaskedText) -> Iterator[tuple[Blank, int]]:
        """Pseudo-log-likelihood: each token hidden in turn; within_word_l2r also hides the rest of its word."""
        for k, (at, word) in enumerate(zip(text.places, text.words, strict=True)):
            hidden = {at}
            if self._pll == "within_word_l2r":
                hidden |= {p for p, w in zip(text.places[k:], text.words[k:], strict=True) if w == word}
            row = tuple(self._mask if i in hidden else token for i, token in enumerate(text.ids))
            yield Blank(row, at), text.ids[at]

    def _sums(
        self, items: Sequence[Item], blanks_of: Callable[[Item], Iterator[tuple[Blank, int]]]
    ) -> Iterator[tuple[int, Floats | ModelError]]:
        """The scores of each item's blanks, some items at a time: a long text alone makes hundreds of blanks."""
        waiting: list[tuple[int, Blank, int]] = []
        for place, item in enumerate(items):
            waiting += [(place, blank, target) for blank, target in blanks_of(item)]
            if len(waiting) >= _BLANKS_AT_ONCE or place == len(items) - 1:
                yield from self._scored(waiting)
                waiting = []

    def _scored(self, blanks: Sequence[tuple[int, Blank, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        def reduce(entry: int, logits: Logits) -> float:
            return log_probability(logits, blanks[entry][2])

        scores = dict(self._masked.fill([blank for _, blank, _ in blanks], reduce))
        found: dict[int, list[float | ModelError]] = {}
        for entry, (place, _, _) in enumerate(blanks):
            found.setdefault(place, []).append(scores[entry])
        for place, values in found.items():
            failed = next((value for value in values if isinstance(value, ModelError)), None)
            yield place, failed or np.array(values, dtype=np.float64)

    @property
    def _mask(self) -> int:
        return int(self._words.tokenizer.mask_token_id)
