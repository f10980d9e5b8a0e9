"""Masked models: what fills a blank, in batches of like length, with only the blank going through the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, logits_at, padded
from lmassay.models.hf.logits import log_probability
from lmassay.models.hf.tokenization import Position, WordTokenizer
from lmassay.types import LogProbs, Slot

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")
# Enough for batches of like length, and some megabytes at most.
_BLANKS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class MaskedBlank:
    """A sequence of tokens with a mask in it, and the place that is asked about."""

    ids: Tokens
    place: int


class MaskedLM:
    """A masked language model over token sequences."""

    def __init__(self, model: Any, device: torch.device, tokens: int, pad: int) -> None:
        self._model = model
        self._device = device
        self._pad = pad
        self._batcher = Batcher(tokens)

    def fill(
        self, blanks: Sequence[MaskedBlank], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """For each blank what ``reduce`` makes of its logits, shortest first; equal blanks are computed once."""
        first: dict[MaskedBlank, int] = {}
        twins: dict[int, list[int]] = {}
        for place, blank in enumerate(blanks):
            twins.setdefault(first.setdefault(blank, place), []).append(place)
        order = sorted(twins, key=lambda place: len(blanks[place].ids))

        def work(places: Sequence[int]) -> Iterator[list[tuple[int, Outcome]]]:
            values = self._logits([blanks[place] for place in places]).float().cpu().numpy()
            for place, row in zip(places, values, strict=True):
                yield [(twin, reduce(twin, row)) for twin in twins[place]]

        def length(place: int) -> int:
            return len(blanks[place].ids)

        take = by_padded_size(length)
        for place, outcomes in zip(order, self._batcher.run(order, take, work), strict=True):
            if isinstance(outcomes, ModelError):
                yield from ((twin, outcomes) for twin in twins[place])
            else:
                yield from outcomes

    def _logits(self, blanks: Sequence[MaskedBlank]) -> torch.Tensor:
        inputs = padded([blank.ids for blank in blanks], self._device, self._pad)
        return logits_at(self._model, inputs, [(line, blank.place) for line, blank in enumerate(blanks)])


@dataclass(frozen=True, slots=True)
class PseudoLikelihoodText:
    """A text as tokens, the places to be scored, and the word that each of them belongs to."""

    ids: Tokens
    places: Sequence[int]
    words: Sequence[int]


class MaskedReader:
    """Hides a token and reads around it; the engine's Reader for masked models."""

    def __init__(
        self, masked: MaskedLM, words: WordTokenizer, pll: Literal["within_word_l2r", "original"], position: Position
    ) -> None:
        self._masked, self._words, self._pll, self._position = masked, words, pll, position

    def context(self, request: Slot) -> MaskedBlank:
        return MaskedBlank(*self._words.blank(request.left, request.right, self._position))

    def begins_text(self, request: Slot) -> bool:
        return not request.left.strip() and not self._words.space_before_blanks

    def text(self, request: LogProbs) -> PseudoLikelihoodText | None:
        if request.messages:
            raise ModelError("a masked model does not chat; give a context, or take a causal model")
        text = PseudoLikelihoodText(*self._words.masked_text(request.context, request.continuation))
        return text if text.places else None

    def length(self, read: MaskedBlank | PseudoLikelihoodText) -> int:
        return len(read.ids)

    def fill(
        self, contexts: Sequence[MaskedBlank], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        return self._masked.fill(contexts, reduce)

    def spell(self, words: Sequence[tuple[MaskedBlank, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        for place, values in self._sums(words, self._spelled):
            yield place, values if isinstance(values, ModelError) else float(values.sum())

    def score(self, texts: Sequence[PseudoLikelihoodText]) -> Iterator[tuple[int, Floats | ModelError]]:
        return self._sums(texts, self._hidden_in_turn)

    def _spelled(self, word: tuple[MaskedBlank, Tokens]) -> Iterator[tuple[MaskedBlank, int]]:
        """A word of several tokens, one after the other: those before it are seen, those behind it hidden."""
        context, ids = word
        before, after = context.ids[: context.place], context.ids[context.place + 1 :]
        for k, token in enumerate(ids):
            yield MaskedBlank((*before, *ids[:k], *([self._mask] * (len(ids) - k)), *after), context.place + k), token

    def _hidden_in_turn(self, text: PseudoLikelihoodText) -> Iterator[tuple[MaskedBlank, int]]:
        """Pseudo-log-likelihood: each token hidden in turn; within_word_l2r also hides the rest of its word."""
        for k, (at, word) in enumerate(zip(text.places, text.words, strict=True)):
            hidden = {at}
            if self._pll == "within_word_l2r":
                hidden |= {p for p, w in zip(text.places[k:], text.words[k:], strict=True) if w == word}
            row = tuple(self._mask if i in hidden else token for i, token in enumerate(text.ids))
            yield MaskedBlank(row, at), text.ids[at]

    def _sums(
        self, items: Sequence[Item], blanks_of: Callable[[Item], Iterator[tuple[MaskedBlank, int]]]
    ) -> Iterator[tuple[int, Floats | ModelError]]:
        """The scores of each item's blanks, some items at a time: a long text alone makes hundreds of blanks."""
        waiting: list[tuple[int, MaskedBlank, int]] = []
        for place, item in enumerate(items):
            waiting += [(place, blank, target) for blank, target in blanks_of(item)]
            if len(waiting) >= _BLANKS_AT_ONCE or place == len(items) - 1:
                yield from self._scored(waiting)
                waiting = []

    def _scored(self, blanks: Sequence[tuple[int, MaskedBlank, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
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
