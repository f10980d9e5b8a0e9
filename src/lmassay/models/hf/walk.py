"""Sorted sequences read tree after tree: what a tree shares with the path that was read last is remembered.

So each distinct beginning of many sequences goes through the model once, however small the trees are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from lmassay.models.hf.heads import logits_at
from lmassay.models.hf.trie import Tokens, Tree, common_prefix, grow, take_new_nodes

Columns = NDArray[np.int64]
# Keys and values: batch × heads × tokens × width.
Layer = tuple[torch.Tensor, torch.Tensor]
# A shared beginning shorter than this is read again: remembering it would cost as much.
WORTH_REMEMBERING = 32


@dataclass(frozen=True, slots=True)
class Trunk:
    """A path that was read, and the keys and values that each layer has of it."""

    tokens: Tokens = ()
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True)
class Laid:
    """Sequences as a model takes them in, and where in them each token of each sequence lies."""

    inputs: dict[str, Any]
    tree: Tree | None = None

    def cell(self, sequence: int, at: int) -> tuple[int, int]:
        return (sequence, at) if self.tree is None else (0, int(self.tree.paths[sequence][at]) - self.tree.trunk)


class Walk:
    """A way through sorted sequences; remembers the last one only."""

    def __init__(self, model: Any, device: torch.device, worth: int = WORTH_REMEMBERING) -> None:
        self._model, self._device, self._worth = model, device, worth
        self._last = Trunk()

    def lay(self, rows: Sequence[Tokens], asked: Sequence[int], remember: bool) -> Laid:
        """One row that holds the tree of the sequences; ``asked`` says from which place on each must be read anew."""
        return Laid(*self._lay(rows, asked, remember))

    def keep(self, laid: Laid, row: Tokens) -> None:
        """Remember the last of the sequences that were laid and have been read by now."""
        if laid.tree is None or "past_key_values" not in laid.inputs:
            self._last = Trunk()
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

    def _lay(self, rows: Sequence[Tokens], asked: Sequence[int], remember: bool) -> tuple[dict[str, Any], Tree]:
        trunk = self._trunk(rows, asked) if remember else Trunk()
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

    def _keep(self, tree: Tree, memory: Any, row: Tokens) -> None:
        path = torch.from_numpy(tree.paths[-1]).to(self._device)
        layers = ((layer.keys, layer.values) for layer in memory.layers)
        self._last = Trunk(row, tuple((keys[:, :, path], values[:, :, path]) for keys, values in layers))

    def _trunk(self, rows: Sequence[Tokens], asked: Sequence[int]) -> Trunk:
        last = self._last
        shared = min(common_prefix(last.tokens, rows[0]), *asked)
        if shared < self._worth:
            return Trunk()
        return Trunk(last.tokens[:shared], tuple((k[:, :, :shared], v[:, :, :shared]) for k, v in last.layers))


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


def padded(rows: Sequence[Tokens], device: torch.device, pad: int = 0) -> dict[str, torch.Tensor]:
    """Sequences side by side, filled up at the right."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for line, row in enumerate(rows):
        ids[line, : len(row)] = row
        mask[line, : len(row)] = 1
    return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def padded_at_left(rows: Sequence[Tokens], device: torch.device) -> dict[str, torch.Tensor]:
    """Sequences side by side with their ends aligned, filled up with their own first token.

    A token that stands for nothing would do for the model; but where its settings punish repetition, the library also
    counts what is masked, and an answer would depend on how long its neighbours are.
    """
    longest = max(map(len, rows))
    ids = torch.tensor([[row[0]] * (longest - len(row)) + list(row) for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    mask = torch.arange(longest, device=device) >= longest - lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}
