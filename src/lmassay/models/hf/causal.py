"""Causal models: the next word after a context, and the probability of a text.

The sequences of all requests are read in prefix trees, see :mod:`lmassay.models.hf.prefix_tree`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, logits_at, padded
from lmassay.models.hf.capabilities import can_cache_paths, can_read_trees
from lmassay.models.hf.chat import Chat
from lmassay.models.hf.gradients import AttackedTokens, without_spaces
from lmassay.models.hf.load import LoadedModel
from lmassay.models.hf.logits import MIN_LOGPROB, NOT_FINITE
from lmassay.models.hf.prefix_tree import (
    MIN_CACHED_PREFIX,
    BatchLayout,
    PrefixReader,
    end_of_row,
    end_of_row_after_cached,
)
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import LogProbs, Slot

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Result = TypeVar("Result")
Take = Callable[[Sequence[Tokens], int, int], int]
# Computes the results of some sequences from their indices and their layout.
Work = Callable[[Sequence[int], BatchLayout], Iterator[Result]]


class CausalLM:
    """A causal language model that computes logits and log-probabilities for token sequences.

    ``nodes`` is the maximum size of a batch, in nodes of a prefix tree or in padded tokens.
    """

    def __init__(self, model: Any, device: torch.device, nodes: int) -> None:
        self._model = model
        self._device = device
        self._reach = attention_reach(model.config.get_text_config())
        # If attention is local, all nodes of a tree must be within its reach: the tree's attention mask replaces the
        # model's own, and would otherwise let nodes attend to tokens that are too far away.
        self._batcher = Batcher(nodes if self._reach is None else min(nodes, self._reach))
        self._reads_trees = can_read_trees(model, device)

    @property
    def shares_prefixes(self) -> bool:
        """Whether sequences share a prefix tree; False for the few architectures that read each sequence by itself."""
        return self._reads_trees

    @cached_property
    def caches_paths(self) -> bool:
        """Whether the keys and values of a path can be kept when the next tree is read."""
        return self._reads_trees and self._reach is None and can_cache_paths(self._model, self._device)

    def next_token(
        self, contexts: Sequence[Tokens], reduce: Callable[[int, Logits], Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        """Yield, for each context, its index and what ``reduce(index, logits)`` returns for the next token's logits.

        The results are not in the order of the contexts.
        """
        last_positions = [len(context) - 1 for context in contexts]

        def work(indices: Sequence[int], layout: BatchLayout) -> Iterator[Result]:
            cells = [layout.cell(line, last_positions[index]) for line, index in enumerate(indices)]
            logits = logits_at(self._model, layout.inputs, cells).float().cpu().numpy()
            for index, row in zip(indices, logits, strict=True):
                yield reduce(index, row)

        yield from self._in_batches(contexts, last_positions, work)

    def score(self, texts: Sequence[tuple[Tokens, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        """Yield, for each (tokens, start), its index and the log-probabilities of the tokens from ``start`` on.

        Each token is predicted from all tokens before it. The first token of a text has nothing before it and is never
        scored. The results are not in the order of the texts.
        """

        def work(indices: Sequence[int], layout: BatchLayout) -> Iterator[Floats]:
            cells: list[tuple[int, int]] = []
            targets: list[int] = []
            for line, index in enumerate(indices):
                tokens, start = texts[index]
                for position in range(max(start, 1), len(tokens)):
                    # The logits for a token are at the position before it.
                    cells.append(layout.cell(line, position - 1))
                    targets.append(tokens[position])
            logprobs = self._logprobs(layout, cells, targets) if cells else np.empty(0)
            end = 0
            for index in indices:
                tokens, start = texts[index]
                begin = end
                end += len(tokens) - max(start, 1)
                yield logprobs[begin:end]

        # The last token is only predicted, never read.
        sequences = [tokens[:-1] for tokens, _ in texts]
        first_needed = [max(start, 1) - 1 for _, start in texts]
        yield from self._in_batches(sequences, first_needed, work)

    def score_with_boundaries(
        self, texts: Sequence[tuple[Tokens, int]], boundary: NDArray[np.int64]
    ) -> Iterator[tuple[int, tuple[Floats, Floats] | ModelError]]:
        """Yield, for each (tokens, start), its index, what :meth:`score` yields, and log-probabilities of a boundary.

        A boundary is any of the tokens ``boundary``. Its log-probability is computed before each scored token and after
        the last token of the text, so there is one value more than there are scored tokens.
        """

        def work(indices: Sequence[int], layout: BatchLayout) -> Iterator[tuple[Floats, Floats]]:
            cells: list[tuple[int, int]] = []
            targets: list[int] = []
            for line, index in enumerate(indices):
                tokens, start = texts[index]
                first = max(start, 1)
                for position in range(first - 1, len(tokens)):
                    cells.append(layout.cell(line, position))
                # After the last token, only the boundary is of interest; any target will do.
                targets += [*tokens[first:], 0]
            logprobs, boundaries = self._logprobs_and_boundaries(layout, cells, targets, boundary)
            end = 0
            for index in indices:
                tokens, start = texts[index]
                begin = end
                end += len(tokens) - max(start, 1) + 1
                yield logprobs[begin : end - 1], boundaries[begin:end]

        sequences = [tokens for tokens, _ in texts]
        first_needed = [max(start, 1) - 1 for _, start in texts]
        yield from self._in_batches(sequences, first_needed, work)

    # --- internals --------------------------------------------------------------------------------------------------

    def _in_batches(
        self, sequences: Sequence[Tokens], first_needed: Sequence[int], work: Work[Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        """Do the work in batches; yield the index and the result of each sequence.

        ``first_needed`` is, for each sequence, the first position whose logits are needed.
        """
        in_trees: list[int] = []
        in_rectangles: list[int] = []
        for index, row in enumerate(sequences):
            if self._fits_tree(row):
                in_trees.append(index)
            else:
                in_rectangles.append(index)
        # Sorted, so that neighbours share long prefixes in a tree, or have similar lengths in a rectangle.
        in_trees.sort(key=sequences.__getitem__)
        in_rectangles.sort(key=lambda index: len(sequences[index]))
        reader = PrefixReader(self._model, self._device)
        # If logits are needed from the beginning of every text, all of it must be read, and a cache does not help.
        longest_prefix = max((first_needed[index] for index in in_trees), default=0)
        use_cache = longest_prefix >= MIN_CACHED_PREFIX and self.caches_paths

        def work_on_tree(indices: Sequence[int]) -> Iterator[Result]:
            batch = [sequences[index] for index in indices]
            layout = reader.layout(batch, [first_needed[index] for index in indices], use_cache)
            yield from work(indices, layout)
            reader.remember(layout, batch[-1])

        def work_on_rectangle(indices: Sequence[int]) -> Iterator[Result]:
            inputs: dict[str, Any] = {**padded([sequences[index] for index in indices], self._device)}
            inputs["use_cache"] = False
            yield from work(indices, BatchLayout(inputs))

        take = end_of_row_after_cached if use_cache else end_of_row
        yield from self._run(in_trees, sequences, take, work_on_tree)
        yield from self._run(in_rectangles, sequences, by_padded_size(len), work_on_rectangle)

    def _fits_tree(self, row: Tokens) -> bool:
        return self._reads_trees and (self._reach is None or len(row) <= self._reach)

    def _run(
        self,
        indices: Sequence[int],
        sequences: Sequence[Tokens],
        take: Take,
        work: Callable[[Sequence[int]], Iterator[Result]],
    ) -> Iterator[tuple[int, Result | ModelError]]:
        """Do the work in batches; yield the index of each sequence with its result."""
        ordered = [sequences[index] for index in indices]

        def take_indices(_: Sequence[int], start: int, budget: int) -> int:
            return take(ordered, start, budget)

        yield from zip(indices, self._batcher.run(indices, take_indices, work), strict=True)

    def _logprobs(self, layout: BatchLayout, cells: Sequence[tuple[int, int]], targets: Sequence[int]) -> Floats:
        """The log-probability of each target token, from the logits at the cell with the same number."""
        # Sequences with a common beginning share cells there, so the logits of each distinct cell are computed once.
        row_of_cell: dict[tuple[int, int], int] = {}
        rows_needed = [row_of_cell.setdefault(cell, len(row_of_cell)) for cell in cells]
        logits = logits_at(self._model, layout.inputs, list(row_of_cell)).float()
        log_totals = torch.logsumexp(logits, dim=-1)
        if not bool(torch.isfinite(log_totals).all()):
            raise FatalModelError(NOT_FINITE)
        rows = torch.tensor(rows_needed, device=logits.device)
        columns = torch.tensor(list(targets), device=logits.device)
        # The log-softmax is computed for the targets only, without a second matrix as wide as the vocabulary.
        chosen = logits[rows, columns] - log_totals[rows]
        # An impossible token (minus infinity) becomes a very small number, so that sums and differences stay finite.
        logprobs: Floats = chosen.double().clamp(min=MIN_LOGPROB).cpu().numpy()
        return logprobs

    def _logprobs_and_boundaries(
        self,
        layout: BatchLayout,
        cells: Sequence[tuple[int, int]],
        targets: Sequence[int],
        boundary: NDArray[np.int64],
    ) -> tuple[Floats, Floats]:
        """The log-probability of each target token, and that of a boundary at the same position."""
        logits = logits_at(self._model, layout.inputs, cells).float()
        log_totals = torch.logsumexp(logits, dim=-1)
        if not bool(torch.isfinite(log_totals).all()):
            raise FatalModelError(NOT_FINITE)
        columns = torch.tensor(list(targets), device=logits.device)
        chosen = logits[torch.arange(len(cells)), columns] - log_totals
        logprobs: Floats = chosen.double().clamp(min=MIN_LOGPROB).cpu().numpy()
        # The probability that a word ends here: the sum over all tokens that begin a new word.
        boundary_columns = torch.from_numpy(boundary).to(logits.device)
        at_boundary = torch.logsumexp(logits[:, boundary_columns], dim=-1) - log_totals
        boundaries: Floats = at_boundary.double().clamp(min=MIN_LOGPROB).cpu().numpy()
        return logprobs, boundaries


def attention_reach(config: Any) -> int | None:
    """How many tokens back the layers with local attention look; None if all attention is global."""
    reaches = []
    for name in ("sliding_window", "window_size", "attention_chunk_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0 and getattr(config, "use_sliding_window", True):
            reaches.append(value)
    return min(reaches, default=None)


class CausalReader:
    """The engine's RequestReader for causal models, which read a text from left to right."""

    def __init__(self, causal: CausalLM, tokenizer: WordTokenizer, chat: Chat) -> None:
        self._causal = causal
        self._word_tokenizer = tokenizer
        self._chat = chat

    def context(self, request: Slot) -> Tokens:
        return self._word_tokenizer.left_context(request.left)

    def begins_text(self, request: Slot) -> bool:
        return not request.left.strip() and not self._word_tokenizer.space_before_texts

    def text(self, request: LogProbs) -> tuple[Tokens, int] | None:
        if request.messages:
            prompt = self._chat.prompt(request.messages)
            encoded = self._word_tokenizer.reply(prompt, request.continuation)
        else:
            encoded = self._word_tokenizer.continuation(request.context, request.continuation)
        # The first token has nothing before it that could predict it.
        if len(encoded.ids) <= max(encoded.start, 1):
            return None
        return encoded.ids, encoded.start

    def length(self, item: Any) -> int:
        # A text is (tokens, start), and its last token is not read; a context is a tuple of tokens.
        if isinstance(item[0], tuple):
            return len(item[0]) - 1
        return len(item)

    def fill(
        self, contexts: Sequence[Tokens], reduce: Callable[[int, Logits], Result]
    ) -> Iterator[tuple[int, Result | ModelError]]:
        return self._causal.next_token(contexts, reduce)

    def spell(self, words: Sequence[tuple[Tokens, Tokens]]) -> Iterator[tuple[int, float | ModelError]]:
        texts = [((*context, *ids), len(context)) for context, ids in words]
        for index, values in self._causal.score(texts):
            if isinstance(values, ModelError):
                yield index, values
            else:
                yield index, float(values.sum())

    def score(self, texts: Sequence[tuple[Tokens, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        return self._causal.score(texts)


class AttackedCausalModel:
    """A causal model under a white-box attack: it reads the prompt and is expected to continue with the target."""

    def __init__(self, loaded: LoadedModel, tokenizer: WordTokenizer) -> None:
        self._loaded = loaded
        self._word_tokenizer = tokenizer

    @property
    def model(self) -> Any:
        """The model, with its weights."""
        return self._loaded.model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the Hugging Face library."""
        return self._word_tokenizer.tokenizer

    @property
    def embedding(self) -> Any:
        """The module that embeds the tokens that the model reads."""
        return self._loaded.model.get_input_embeddings()

    def encode(self, prompt: str, target: str) -> AttackedTokens:
        """Tokenize a prompt as for generation, and the target as its continuation."""
        encoded = self.tokenizer(prompt, return_offsets_mapping=True)
        prompt_ids = tuple(encoded["input_ids"])
        needs_space = prompt[-1:].strip() and target[:1].strip()
        target_ids = self._word_tokenizer.tokens_after(prompt, [f" {target}" if needs_space else target])[0]
        spans = without_spaces(prompt, encoded["offset_mapping"])
        spans_with_target = (*spans, *[None] * len(target_ids))
        return AttackedTokens((*prompt_ids, *target_ids), spans_with_target, target_ids, reads_target=True)

    def loss(self, batch: Sequence[AttackedTokens]) -> torch.Tensor:
        """The sum of the negative log-probabilities of all targets."""
        inputs = padded([tokens.ids for tokens in batch], self._loaded.device)
        logits = self.model(**inputs, use_cache=False).logits.float()
        losses = []
        for line, tokens in enumerate(batch):
            # The logits for a token are at the position before it; the first token of all is never predicted.
            first = max(len(tokens.ids) - len(tokens.target), 1)
            rows = logits[line, first - 1 : len(tokens.ids) - 1]
            targets = torch.tensor(tokens.ids[first:], device=rows.device)
            losses.append(torch.nn.functional.cross_entropy(rows, targets, reduction="sum"))
        return torch.stack(losses).sum()

    def is_too_long(self, tokens: AttackedTokens) -> bool:
        """Whether the tokens exceed the model's window."""
        return self._loaded.window is not None and len(tokens.ids) > self._loaded.window
