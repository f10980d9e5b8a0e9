"""Causal models: the next word after a context, and the probability of a text, over a tree of all that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size, logits_at, padded
from lmassay.models.hf.capabilities import remembers_paths, understands_trees
from lmassay.models.hf.chat import Chat
from lmassay.models.hf.logits import LEAST, NO_NUMBERS
from lmassay.models.hf.prefix_tree import WORTH_REMEMBERING, BatchLayout, PrefixReader, take_new_nodes, take_nodes
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import LogProbs, Slot

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
Outcome = TypeVar("Outcome")
Take = Callable[[Sequence[Tokens], int, int], int]
# What is made of some sequences, by their places and as they are laid out.
Work = Callable[[Sequence[int], BatchLayout], Iterator[Outcome]]


class CausalLM:
    """A causal language model over token sequences."""

    def __init__(self, model: Any, device: torch.device, nodes: int) -> None:
        self._model = model
        self._device = device
        self._reach = attention_reach(model.config.get_text_config())
        # Where attention is local, nodes of a tree must all lie within its reach, or a mask of ours would widen it.
        self._batcher = Batcher(nodes if self._reach is None else min(nodes, self._reach))
        self._as_tree = understands_trees(model, device)

    @property
    def shares_prefixes(self) -> bool:
        """False for the few architectures that cannot be given a tree and read each sequence by itself."""
        return self._as_tree

    @cached_property
    def remembers(self) -> bool:
        """Whether what was read of one tree can be kept for the next."""
        return self._as_tree and self._reach is None and remembers_paths(self._model, self._device)

    def after(
        self, contexts: Sequence[Tokens], reduce: Callable[[int, Logits], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """For each context what ``reduce`` makes of the logits of the next token, in an order of our own."""
        asked = [len(context) - 1 for context in contexts]

        def work(places: Sequence[int], laid: BatchLayout) -> Iterator[Outcome]:
            cells = [laid.cell(i, asked[place]) for i, place in enumerate(places)]
            values = logits_at(self._model, laid.inputs, cells).float().cpu().numpy()
            for place, row in zip(places, values, strict=True):
                yield reduce(place, row)

        yield from self._over_sorted(contexts, asked, work)

    def score(self, texts: Sequence[tuple[Tokens, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        """For each (tokens, start) the log-probabilities of the tokens from ``start`` on, each given all before it.

        The very first token of all has nothing before it and is never scored.
        """

        def work(places: Sequence[int], laid: BatchLayout) -> Iterator[Floats]:
            cells: list[tuple[int, int]] = []
            targets: list[int] = []
            for i, place in enumerate(places):
                tokens, start = texts[place]
                for at in range(max(start, 1), len(tokens)):
                    cells.append(laid.cell(i, at - 1))
                    targets.append(tokens[at])
            values = self._logprobs(laid, cells, targets) if cells else np.empty(0)
            end = 0
            for place in places:
                tokens, start = texts[place]
                begin, end = end, end + len(tokens) - max(start, 1)
                yield values[begin:end]

        # The last token is only predicted, never read.
        yield from self._over_sorted(
            [tokens[:-1] for tokens, _ in texts], [max(start, 1) - 1 for _, start in texts], work
        )

    # --- inside -----------------------------------------------------------------------------------------------------

    def _over_sorted(
        self, sequences: Sequence[Tokens], asked: Sequence[int], work: Work[Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """``asked`` says for each sequence the first place whose logits are needed."""
        trees = sorted((p for p, row in enumerate(sequences) if self._fits_tree(row)), key=sequences.__getitem__)
        others = sorted(
            (p for p, row in enumerate(sequences) if not self._fits_tree(row)), key=lambda p: len(sequences[p])
        )
        walk = PrefixReader(self._model, self._device)
        # Where a text is asked about from its beginning, all of it must be read anew.
        remember = max((asked[p] for p in trees), default=0) >= WORTH_REMEMBERING and self.remembers

        def work_on_tree(places: Sequence[int]) -> Iterator[Outcome]:
            rows = [sequences[place] for place in places]
            laid = walk.lay(rows, [asked[place] for place in places], remember)
            yield from work(places, laid)
            walk.keep(laid, rows[-1])

        def work_side_by_side(places: Sequence[int]) -> Iterator[Outcome]:
            inputs = {**padded([sequences[place] for place in places], self._device), "use_cache": False}
            yield from work(places, BatchLayout(inputs))

        yield from self._in_order(trees, sequences, take_new_nodes if remember else take_nodes, work_on_tree)
        yield from self._in_order(others, sequences, by_padded_size(len), work_side_by_side)

    def _fits_tree(self, row: Tokens) -> bool:
        return self._as_tree and (self._reach is None or len(row) <= self._reach)

    def _in_order(
        self,
        order: Sequence[int],
        sequences: Sequence[Tokens],
        take: Take,
        work: Callable[[Sequence[int]], Iterator[Outcome]],
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        ordered = [sequences[place] for place in order]

        def take_places(places: Sequence[int], start: int, budget: int) -> int:
            return take(ordered, start, budget)

        yield from zip(order, self._batcher.run(order, take_places, work), strict=True)

    def _logprobs(self, laid: BatchLayout, cells: Sequence[tuple[int, int]], targets: Sequence[int]) -> Floats:
        # Sequences with a common beginning ask the same thing of it: its logits are made once.
        seen: dict[tuple[int, int], int] = {}
        line_of = [seen.setdefault(cell, len(seen)) for cell in cells]
        logits = logits_at(self._model, laid.inputs, list(seen)).float()
        totals = torch.logsumexp(logits, dim=-1)
        lines = torch.tensor(line_of, device=logits.device)
        chosen = logits[lines, torch.tensor(list(targets), device=logits.device)]
        if not bool(torch.isfinite(totals).all()):
            raise FatalModelError(NO_NUMBERS)
        found: Floats = (chosen - totals[lines]).double().clamp(min=LEAST).cpu().numpy()
        return found


def attention_reach(config: Any) -> int | None:
    """How far back the layers with local attention look, if there are any."""
    found = []
    for name in ("sliding_window", "window_size", "attention_chunk_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0 and getattr(config, "use_sliding_window", True):
            found.append(value)
    return min(found, default=None)


class CausalReader:
    """Reads requests from the left; the engine's Reader for causal models."""

    def __init__(self, causal: CausalLM, words: WordTokenizer, chat: Chat) -> None:
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
