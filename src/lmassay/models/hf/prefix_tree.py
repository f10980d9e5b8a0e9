"""Many token sequences as one prefix tree: what they share at the beginning is computed once.

The nodes of the tree of sorted sequences are written into one row of the model's input. A node attends to its ancestors
and itself, and its position is its depth, so a causal model computes for each node the hidden state that it would
compute in the node's own sequence.

A :class:`PrefixReader` reads one tree after another and keeps the keys and values of the path that it read last. Each
distinct beginning therefore goes through the model once, however small the trees are. A :class:`DecodingTree` generates
answers that grow out of the tree of their prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from lmassay.models.hf.batches import Tokens, logits_at

Columns = NDArray[np.int64]
# Keys and values: batch × heads × tokens × width.
Layer = tuple[torch.Tensor, torch.Tensor]
# A shared beginning shorter than this is read again: remembering it would cost as much.
WORTH_REMEMBERING = 32


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """A row of nodes behind a trunk that was read before; columns count the trunk first, then the nodes."""

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    owners: NDArray[np.int64]
    """For each node the first sequence that it belongs to."""
    paths: list[NDArray[np.int64]]
    """For each sequence the columns along its path."""
    trunk: int

    def sees(self) -> NDArray[np.bool_]:
        """Which columns each node attends to: its ancestors and itself."""
        seen = np.zeros((len(self.tokens), self.trunk + len(self.tokens)), dtype=bool)
        for node, (owner, depth) in enumerate(zip(self.owners, self.depths, strict=True)):
            seen[node, self.paths[owner][: depth + 1]] = True
        return seen


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many tokens two sequences share at the beginning."""
    shared = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        shared += 1
    return shared


def distinct_tokens(sequences: Sequence[Tokens]) -> int:
    """How many nodes the tree of sorted sequences has."""
    before = ((), *sequences)
    return sum(len(row) - common_prefix(last, row) for last, row in zip(before, sequences, strict=False))


def take_nodes(sequences: Sequence[Tokens], start: int, budget: int) -> int:
    """Where the row that begins at ``start`` ends, if it may hold ``budget`` nodes; sequences must be sorted."""
    return _take(sequences, start, budget, len(sequences[start]))


def take_new_nodes(sequences: Sequence[Tokens], start: int, budget: int) -> int:
    """The same where the path of the sequence before is remembered: only what is new counts.

    Behind a long sequence there is always some room: most that follow differ from it in a few tokens only.
    """
    known = common_prefix(sequences[start - 1], sequences[start]) if start else 0
    return _take(sequences, start, budget, len(sequences[start]) - known, slack=budget // 4)


def take_branches(sequences: Sequence[Tokens], start: int, budget: int, room: int) -> int:
    """The same where behind each sequence ``room`` more tokens may grow; all are kept, hence counted."""
    return _take(sequences, start, budget, len(sequences[start]) + room, slack=budget // 4, room=room)


def _take(sequences: Sequence[Tokens], start: int, budget: int, first: int, slack: int = 0, room: int = 0) -> int:
    end, nodes, most = start + 1, first, max(budget, first + slack)
    while end < len(sequences) and budget > 1:
        added = len(sequences[end]) - common_prefix(sequences[end - 1], sequences[end]) + room
        nodes += added
        # What adds nothing costs nothing, as long as there is memory for more than one at all.
        if added and nodes > most:
            break
        end += 1
    return end


def grow(sequences: Sequence[Tokens], trunk: Tokens = ()) -> PrefixTree:
    """The tree of sorted sequences; what the first ones share with the trunk makes no nodes."""
    tokens: list[int] = []
    depths: list[int] = []
    owners: list[int] = []
    paths: list[NDArray[np.int64]] = []
    before, path = trunk, list(range(len(trunk)))
    for owner, sequence in enumerate(sequences):
        del path[common_prefix(before, sequence) :]
        for depth in range(len(path), len(sequence)):
            path.append(len(trunk) + len(tokens))
            tokens.append(sequence[depth])
            depths.append(depth)
            owners.append(owner)
        paths.append(_integers(path))
        before = sequence
    return PrefixTree(_integers(tokens), _integers(depths), _integers(owners), paths, len(trunk))


def _integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


# --- reading tree after tree ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedPath:
    """A path that was read, and the keys and values that each layer has of it."""

    tokens: Tokens = ()
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Sequences as a model takes them in, and where in them each token of each sequence lies."""

    inputs: dict[str, Any]
    tree: PrefixTree | None = None

    def cell(self, sequence: int, at: int) -> tuple[int, int]:
        return (sequence, at) if self.tree is None else (0, int(self.tree.paths[sequence][at]) - self.tree.trunk)


class PrefixReader:
    """A way through sorted sequences; remembers the last one only."""

    def __init__(self, model: Any, device: torch.device, worth: int = WORTH_REMEMBERING) -> None:
        self._model, self._device, self._worth = model, device, worth
        self._last = CachedPath()

    def lay(self, rows: Sequence[Tokens], asked: Sequence[int], remember: bool) -> BatchLayout:
        """One row that holds the tree of the sequences; ``asked`` says from which place on each must be read anew."""
        return BatchLayout(*self._lay(rows, asked, remember))

    def keep(self, laid: BatchLayout, row: Tokens) -> None:
        """Remember the last of the sequences that were laid and have been read by now."""
        if laid.tree is None or "past_key_values" not in laid.inputs:
            self._last = CachedPath()
        else:
            self._keep(laid.tree, laid.inputs["past_key_values"], row)

    def read(self, rows: Sequence[Tokens], nodes: int) -> tuple[list[Columns], Any]:
        """What the model knows of the sequences, each distinct beginning once, and the columns that each of them has.

        ``nodes`` is how many tokens are read at a time.
        """
        paths: list[Columns] = []
        pieces: list[list[Layer]] = []
        columns = start = 0
        while start < len(rows):
            end = take_new_nodes(rows, start, nodes)
            inputs, tree = self._lay(rows[start:end], [len(row) for row in rows[start:end]], remember=True)
            memory = inputs["past_key_values"]
            if len(tree.tokens):
                # Nothing is asked yet, so a single node goes through the head.
                logits_at(self._model, inputs, [(0, 0)])
            # The trunk of the first tree comes from elsewhere; later ones are among the columns already.
            known = tree.trunk if start else 0
            new = tree.trunk + len(tree.tokens) - known
            lies = np.concatenate([*(path[:known] for path in paths[-1:]), np.arange(columns, columns + new)])
            paths += [lies[path] for path in tree.paths]
            if new:
                pieces.append([(layer.keys[:, :, known:], layer.values[:, :, known:]) for layer in memory.layers])
            self._keep(tree, memory, rows[end - 1])
            columns, start = columns + new, end
        layers = (
            [torch.cat(parts, dim=2) for parts in zip(*layer, strict=True)] for layer in zip(*pieces, strict=True)
        )
        return paths, memory_of((keys, values) for keys, values in layers)

    def _lay(self, rows: Sequence[Tokens], asked: Sequence[int], remember: bool) -> tuple[dict[str, Any], PrefixTree]:
        trunk = self._trunk(rows, asked) if remember else CachedPath()
        tree = grow(rows, trunk.tokens)
        inputs = {
            "input_ids": torch.from_numpy(tree.tokens)[None].to(self._device),
            "position_ids": torch.from_numpy(tree.depths)[None].to(self._device),
            "attention_mask": attention_mask(torch.from_numpy(tree.sees()), self._model, self._device),
            "use_cache": remember,
        }
        if remember:
            inputs["past_key_values"] = memory_of(trunk.layers)
        return inputs, tree

    def _keep(self, tree: PrefixTree, memory: Any, row: Tokens) -> None:
        path = torch.from_numpy(tree.paths[-1]).to(self._device)
        layers = ((layer.keys, layer.values) for layer in memory.layers)
        self._last = CachedPath(row, tuple((keys[:, :, path], values[:, :, path]) for keys, values in layers))

    def _trunk(self, rows: Sequence[Tokens], asked: Sequence[int]) -> CachedPath:
        last = self._last
        shared = min(common_prefix(last.tokens, rows[0]), *asked)
        if shared < self._worth:
            return CachedPath()
        return CachedPath(last.tokens[:shared], tuple((k[:, :, :shared], v[:, :, :shared]) for k, v in last.layers))


def attention_mask(sees: torch.Tensor, model: Any, device: torch.device) -> torch.Tensor:
    """What is added to attention: nothing where a node sees a column, as much as keeps it out elsewhere."""
    unseen = torch.finfo(model.dtype).min
    return torch.zeros(sees.shape, dtype=model.dtype).masked_fill_(~sees, unseen)[None, None].to(device)


def memory_of(layers: Iterable[Layer]) -> Any:
    """A cache that begins with these keys and values."""
    memory = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        memory.update(keys, values, number)
    return memory


# --- answers that grow side by side: their prompts are kept once, not once for each answer ----------------------------


class DecodingTree:
    """What a model has read of sorted prompts, all but their last tokens, and of the answers that grow behind them."""

    def __init__(
        self, walk: PrefixReader, model: Any, device: torch.device, prompts: Sequence[Tokens], nodes: int
    ) -> None:
        paths, self._memory = walk.read([prompt[:-1] for prompt in prompts], nodes)
        self._model, self._device = model, device
        self._sees = torch.zeros((len(prompts), self._memory.get_seq_length()), dtype=torch.bool)
        for line, path in enumerate(paths):
            self._sees[line, torch.from_numpy(path)] = True
        self._ends = [len(prompt) - 1 for prompt in prompts]

    def grow(self, lines: Sequence[int], tokens: torch.Tensor) -> torch.Tensor:
        """Put a token at the end of some prompts; the logits of what comes next there."""
        own = torch.zeros((len(self._sees), len(lines)), dtype=torch.bool)
        own[lines, range(len(lines))] = True
        self._sees = torch.cat([self._sees, own], dim=1)
        places = torch.tensor([self._ends[line] for line in lines], device=self._device)
        with torch.inference_mode():
            logits: torch.Tensor = self._model(
                input_ids=tokens[None],
                position_ids=places[None],
                attention_mask=attention_mask(self._sees[list(lines)], self._model, self._device),
                past_key_values=self._memory,
                use_cache=True,
            ).logits
        for line in lines:
            self._ends[line] += 1
        return logits[0]


def search_along(branches: DecodingTree, pad: int) -> Callable[..., torch.Tensor]:
    """The library's greedy search with another way to compute: a decoding loop for ``generate``.

    What the model's own settings ask for (penalties, tokens that end a text) comes in as processors and criteria.
    """

    def search(
        model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any, **_: Any
    ) -> torch.Tensor:
        unfinished = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        while True:
            lines = unfinished.nonzero().flatten()
            grown = branches.grow(lines.tolist(), input_ids[lines, -1]).float()
            logits = grown.new_zeros((len(input_ids), grown.shape[-1]))
            logits[lines] = grown
            best = logits_processor(input_ids, logits).argmax(dim=-1)
            input_ids = torch.cat([input_ids, torch.where(unfinished, best, pad)[:, None]], dim=-1)
            unfinished = unfinished & ~stopping_criteria(input_ids, None)
            if not unfinished.any():
                return input_ids

    return search
