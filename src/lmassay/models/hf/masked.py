"""Masked models: the word that fills a blank and the pseudo-log-likelihood of a text, in batches of similar length."""

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
Result = TypeVar("Result")
Item = TypeVar("Item")

# How many blanks are collected before they are scored: enough to make batches of similar length. With sequences of 512
# tokens, they take about 20 MB of memory.
_BLANKS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class MaskedBlank:
    """A sequence of tokens with masks, and the position of the mask whose token is predicted."""

    ids: Tokens
    position: int


class MaskedLM:
    """A masked language model that computes logits for token sequences with masks.

    ``tokens`` is the maximum size of a batch with padding; ``pad`` is the padding token.
    """

    def __init__(self, model: Any, device: torch.device, tokens: int, pad: int) -> None:
        self._model = model
        self._device = device
        self._pad = pad
        self._batcher = Batcher(tokens)

    def fill(
        self, blanks: Sequence[MaskedBlank], reduce: Callable[[int, Logits], Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        """Yield, for each blank, its index and what ``reduce(index, logits)`` returns; short sequences come first.

        Equal blanks are computed once.
        """
        first_index: dict[MaskedBlank, int] = {}
        # Index of the first of equal blanks → the indices of all of them.
        equal: dict[int, list[int]] = {}
        for index, blank in enumerate(blanks):
            first = first_index.setdefault(blank, index)
            equal.setdefault(first, []).append(index)

        def length(index: int) -> int:
            return len(blanks[index].ids)

        def work(indices: Sequence[int]) -> Iterator[list[tuple[int, Result]]]:
            logits = self._logits([blanks[index] for index in indices]).float().cpu().numpy()
            for first, row in zip(indices, logits, strict=True):
                # Equal blanks may be asked about different words, so each of them is reduced.
                yield [(index, reduce(index, row)) for index in equal[first]]

        # A batch is padded to its longest sequence, so sequences of similar length waste the least.
        order = sorted(equal, key=length)
        batches = self._batcher.run(order, by_padded_size(length), work)
        for first, results in zip(order, batches, strict=True):
            if isinstance(results, ModelError):
                for index in equal[first]:
                    yield index, results
            else:
                yield from results

    def _logits(self, blanks: Sequence[MaskedBlank]) -> torch.Tensor:
        inputs = padded([blank.ids for blank in blanks], self._device, self._pad)
        cells = [(line, blank.position) for line, blank in enumerate(blanks)]
        return logits_at(self._model, inputs, cells)


@dataclass(frozen=True, slots=True)
class PseudoLikelihoodText:
    """A text as tokens, the positions to be scored, and the number of the word that each of them belongs to."""

    ids: Tokens
    positions: Sequence[int]
    words: Sequence[int]


class MaskedReader:
    """The engine's RequestReader for masked models, which predict a masked token from both sides."""

    def __init__(
        self,
        masked: MaskedLM,
        tokenizer: WordTokenizer,
        pll: Literal["within_word_l2r", "original"],
        position: Position,
    ) -> None:
        self._masked = masked
        self._word_tokenizer = tokenizer
        self._pll = pll
        self._position = position

    def context(self, request: Slot) -> MaskedBlank:
        ids, position = self._word_tokenizer.blank(request.left, request.right, self._position)
        return MaskedBlank(ids, position)

    def begins_text(self, request: Slot) -> bool:
        return not request.left.strip() and not self._word_tokenizer.space_before_blanks

    def text(self, request: LogProbs) -> PseudoLikelihoodText | None:
        if request.messages:
            raise ModelError("a masked model does not chat; give a context, or use a causal model")
        ids, positions, words = self._word_tokenizer.masked_text(request.context, request.continuation)
        if not positions:
            return None
        return PseudoLikelihoodText(ids, positions, words)

    def length(self, item: MaskedBlank | PseudoLikelihoodText) -> int:
        return len(item.ids)

    def fill(
        self, contexts: Sequence[MaskedBlank], reduce: Callable[[int, Logits], Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        return self._masked.fill(contexts, reduce)

    def spell(self, words: Sequence[tuple[MaskedBlank, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        for index, values in self._score_blanks(words, self._blanks_of_word):
            if isinstance(values, ModelError):
                yield index, values
            else:
                yield index, float(values.sum())

    def score(self, texts: Sequence[PseudoLikelihoodText]) -> Iterator[tuple[int, Floats | ModelError]]:
        return self._score_blanks(texts, self._blanks_of_text)

    def _blanks_of_word(self, word: tuple[MaskedBlank, Tokens]) -> Iterator[tuple[MaskedBlank, int]]:
        """The blanks of a word of several tokens, from left to right: earlier tokens are visible, later ones masked."""
        context, ids = word
        before = context.ids[: context.position]
        after = context.ids[context.position + 1 :]
        for number, token in enumerate(ids):
            visible = ids[:number]
            masks = (self._mask,) * (len(ids) - number)
            row = (*before, *visible, *masks, *after)
            yield MaskedBlank(row, context.position + number), token

    def _blanks_of_text(self, text: PseudoLikelihoodText) -> Iterator[tuple[MaskedBlank, int]]:
        """The blanks of a text's pseudo-log-likelihood (Salazar et al. 2020): each token is masked in turn.

        ``within_word_l2r`` also masks the later tokens of the same word (Kauf & Ivanova 2023): the second half of a
        rare word gives away its first half, so the original measure rates rare words too high.
        """
        places = list(zip(text.positions, text.words, strict=True))
        for number, (position, word) in enumerate(places):
            row = list(text.ids)
            row[position] = self._mask
            if self._pll == "within_word_l2r":
                for later_position, later_word in places[number:]:
                    if later_word == word:
                        row[later_position] = self._mask
            yield MaskedBlank(tuple(row), position), text.ids[position]

    def _score_blanks(
        self, items: Sequence[Item], blanks_of: Callable[[Item], Iterator[tuple[MaskedBlank, int]]]
    ) -> Iterator[tuple[int, Floats | ModelError]]:
        """Score the blanks of each item, some items at a time: a long text alone has hundreds of blanks."""
        waiting: list[tuple[int, MaskedBlank, int]] = []
        for index, item in enumerate(items):
            for blank, target in blanks_of(item):
                waiting.append((index, blank, target))
            if len(waiting) >= _BLANKS_AT_ONCE or index == len(items) - 1:
                yield from self._score_waiting(waiting)
                waiting = []

    def _score_waiting(
        self, waiting: Sequence[tuple[int, MaskedBlank, int]]
    ) -> Iterator[tuple[int, Floats | ModelError]]:
        """Yield, for each item, its index and the log-probabilities of the tokens behind its masks.

        ``waiting`` has one entry per mask: the index of the item, the sequence with the mask, and the token behind it.
        """

        def reduce(entry: int, logits: Logits) -> float:
            _, _, target = waiting[entry]
            return log_probability(logits, target)

        scores = dict(self._masked.fill([blank for _, blank, _ in waiting], reduce))
        scores_of: dict[int, list[float | ModelError]] = {}
        for entry, (index, _, _) in enumerate(waiting):
            scores_of.setdefault(index, []).append(scores[entry])
        for index, values in scores_of.items():
            errors = [value for value in values if isinstance(value, ModelError)]
            # A sum over only some of the tokens would look like a better score, so one error is the item's error.
            if errors:
                yield index, errors[0]
            else:
                yield index, np.array(values, dtype=np.float64)

    @property
    def _mask(self) -> int:
        return int(self._word_tokenizer.tokenizer.mask_token_id)
