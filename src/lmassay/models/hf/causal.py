"""Causal models: the next word after a context, and the probability of a text, over a tree of all that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, by_padded_size
from lmassay.models.hf.columns import LEAST, NO_NUMBERS
from lmassay.models.hf.heads import logits_at
from lmassay.models.hf.trie import Tokens, grow, take_nodes

Floats = NDArray[np.float64]
Outcome = TypeVar("Outcome")
_NO_CACHE = {"use_cache": False}
# (sequence, place in it) of every token whose successor is asked for.
Asked = list[tuple[int, int]]


class Causal:
    """A causal language model over token sequences."""

    def __init__(self, model: Any, device: torch.device, nodes: int) -> None:
        self._model = model
        self._device = device
        self._reach = attention_reach(model.config.get_text_config())
        # Where attention is local, nodes of a tree must all lie within its reach, or a mask of ours would widen it.
        self._batcher = Batcher(nodes if self._reach is None else min(nodes, self._reach))
        self._as_tree = _understands_trees(model, device)

    @property
    def shares_prefixes(self) -> bool:
        """False for the few architectures that cannot be given a tree and read each sequence by itself."""
        return self._as_tree

    def after(
        self, contexts: Sequence[Tokens], reduce: Callable[[int, NDArray[np.float32]], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """For each context what ``reduce`` makes of the logits of the next token, in an order of our own."""

        def work(places: Sequence[int], rows: Sequence[Tokens]) -> Iterator[Outcome]:
            laid = self._lay(rows)
            logits = logits_at(self._model, laid.inputs, [laid.cell(i, len(row) - 1) for i, row in enumerate(rows)])
            values = logits.float().cpu().numpy()
            for place, row in zip(places, values, strict=True):
                yield reduce(place, row)

        yield from self._over_sorted(contexts, work)

    def score(self, texts: Sequence[tuple[Tokens, int]]) -> Iterator[tuple[int, Floats | ModelError]]:
        """For each (tokens, start) the log-probabilities of the tokens from ``start`` on, each given all before it.

        The very first token of all has nothing before it and is never scored.
        """

        # The last token is only predicted, never read.
        def work(places: Sequence[int], rows: Sequence[Tokens]) -> Iterator[Floats]:
            asked: Asked = []
            targets: list[int] = []
            for i, place in enumerate(places):
                tokens, start = texts[place]
                for at in range(max(start, 1), len(tokens)):
                    asked.append((i, at - 1))
                    targets.append(tokens[at])
            values = self._logprobs(rows, asked, targets) if asked else np.empty(0)
            end = 0
            for place in places:
                tokens, start = texts[place]
                begin, end = end, end + len(tokens) - max(start, 1)
                yield values[begin:end]

        yield from self._over_sorted([tokens[:-1] for tokens, _ in texts], work)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _over_sorted(
        self,
        sequences: Sequence[Tokens],
        work: Callable[[Sequence[int], Sequence[Tokens]], Iterator[Outcome]],
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        trees = [place for place, row in enumerate(sequences) if self._fits_tree(row)]
        others = [place for place, row in enumerate(sequences) if not self._fits_tree(row)]
        yield from self._in_order(sorted(trees, key=sequences.__getitem__), sequences, work, take_nodes)
        by_length = sorted(others, key=lambda place: len(sequences[place]))
        yield from self._in_order(by_length, sequences, work, by_padded_size(len))

    def _fits_tree(self, row: Tokens) -> bool:
        return self._as_tree and (self._reach is None or len(row) <= self._reach)

    def _in_order(
        self,
        order: Sequence[int],
        sequences: Sequence[Tokens],
        work: Callable[[Sequence[int], Sequence[Tokens]], Iterator[Outcome]],
        take: Callable[[Sequence[Tokens], int, int], int],
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        ordered = [sequences[place] for place in order]
        pairs = list(zip(order, ordered, strict=True))

        def take_pairs(items: Sequence[tuple[int, Tokens]], start: int, budget: int) -> int:
            return take(ordered, start, budget)

        def work_on(items: Sequence[tuple[int, Tokens]]) -> Iterator[Outcome]:
            return work([place for place, _ in items], [row for _, row in items])

        yield from zip(order, self._batcher.run(pairs, take_pairs, work_on), strict=True)

    def _logprobs(self, rows: Sequence[Tokens], asked: Asked, targets: Sequence[int]) -> Floats:
        laid = self._lay(rows)
        # Sequences with a common beginning ask the same thing of it: its logits are made once.
        seen: dict[tuple[int, int], int] = {}
        line_of = [seen.setdefault(laid.cell(i, at), len(seen)) for i, at in asked]
        logits = logits_at(self._model, laid.inputs, list(seen)).float()
        totals = torch.logsumexp(logits, dim=-1)
        lines = torch.tensor(line_of, device=logits.device)
        chosen = logits[lines, torch.tensor(list(targets), device=logits.device)]
        if not bool(torch.isfinite(totals).all()):
            raise FatalModelError(NO_NUMBERS)
        found: Floats = (chosen - totals[lines]).double().clamp(min=LEAST).cpu().numpy()
        return found

    def _lay(self, rows: Sequence[Tokens]) -> Laid:
        if all(map(self._fits_tree, rows)):
            return lay_tree(rows, self._model, self._device)
        return Laid({**padded(rows, self._device), **_NO_CACHE}, None)


@dataclass(frozen=True, slots=True)
class Laid:
    """Sequences as a model takes them in, and where in them each token of each sequence lies."""

    inputs: dict[str, Any]
    paths: list[NDArray[np.int64]] | None

    def cell(self, sequence: int, at: int) -> tuple[int, int]:
        return (sequence, at) if self.paths is None else (0, int(self.paths[sequence][at]))


def lay_tree(rows: Sequence[Tokens], model: Any, device: torch.device) -> Laid:
    """One row that holds the tree of all sequences."""
    tree = grow(rows)
    unseen = torch.finfo(model.dtype).min
    mask = torch.zeros(tree.sees.shape, dtype=model.dtype).masked_fill_(~torch.from_numpy(tree.sees), unseen)
    inputs = {
        "input_ids": torch.from_numpy(tree.tokens)[None].to(device),
        "position_ids": torch.from_numpy(tree.depths)[None].to(device),
        "attention_mask": mask[None, None].to(device),
        **_NO_CACHE,
    }
    return Laid(inputs, tree.paths)


def padded(rows: Sequence[Tokens], device: torch.device, pad: int = 0) -> dict[str, torch.Tensor]:
    """Sequences side by side, filled up at the right."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for line, row in enumerate(rows):
        ids[line, : len(row)] = row
        mask[line, : len(row)] = 1
    return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def attention_reach(config: Any) -> int | None:
    """How far back the layers with local attention look, if there are any."""
    found = []
    for name in ("sliding_window", "window_size", "attention_chunk_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0 and getattr(config, "use_sliding_window", True):
            found.append(value)
    return min(found, default=None)


def _understands_trees(model: Any, device: torch.device) -> bool:
    """Try it: two sequences with a common beginning must give the same logits as a tree and each by itself."""
    size = int(model.config.get_text_config().vocab_size)
    a, b = ((7 % size, 11 % size, 13 % size, 17 % size), (7 % size, 11 % size, 5 % size))
    rows = sorted([a, b])
    try:
        laid = lay_tree(rows, model, device)
        together = logits_at(model, laid.inputs, [laid.cell(i, len(row) - 1) for i, row in enumerate(rows)]).float()
        alone = [
            logits_at(model, {"input_ids": torch.tensor([row], device=device)}, [(0, len(row) - 1)]) for row in rows
        ]
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError):
        return False
    apart = torch.cat(alone).float()
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    return bool((together - apart).abs().max() <= tolerance * max(1.0, float(apart.abs().max())))
