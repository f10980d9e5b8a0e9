"""Many token sequences as one prefix tree: what they share at the beginning is computed once.

A node of the tree is a token, and the path from the root to a node is the beginning of one or more sequences. The
sequences are sorted, and all nodes are written into one row of the model's input. A node attends to its ancestors and
itself, and its position is its depth, so a causal model computes for each node the hidden state that it would compute
in the node's own sequence.

A :class:`PrefixReader` reads one tree after another and keeps the keys and values of the path that it read last. Each
distinct beginning therefore goes through the model once, however small the trees are. A :class:`DecodingTree` generates
answers that grow out of the tree of their prompts.

A node can attend to columns: the tokens of the cached prefix are numbered first, then the nodes of the row.
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

LayerCache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer: batch x heads x tokens x width."""

MIN_CACHED_PREFIX = 32
"""Tokens. A shorter shared prefix is read again: keeping it would cost as much."""


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """The nodes of a tree, in one row after a prefix that was read before."""

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    """For each node, the position of its token in a sequence, counted from 0."""
    owners: NDArray[np.int64]
    """For each node, the index of the first sequence that contains it."""
    paths: list[Columns]
    """For each sequence, the columns of its tokens, from the first to the last."""
    cached: int
    """The length of the cached prefix."""

    def visible(self) -> NDArray[np.bool_]:
        """Which columns each node attends to: its ancestors and itself."""
        visible = np.zeros((len(self.tokens), self.cached + len(self.tokens)), dtype=bool)
        for node, (owner, depth) in enumerate(zip(self.owners, self.depths, strict=True)):
            visible[node, self.paths[owner][: depth + 1]] = True
        return visible


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many tokens two sequences share at the beginning."""
    shared = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        shared += 1
    return shared


def count_nodes(sequences: Sequence[Tokens]) -> int:
    """The number of nodes in the tree of sorted sequences."""
    nodes = 0
    previous: Tokens = ()
    for sequence in sequences:
        nodes += len(sequence) - common_prefix(previous, sequence)
        previous = sequence
    return nodes


def end_of_row(sequences: Sequence[Tokens], start: int, budget: int) -> int:
    """The index after the last sequence of the row that begins at ``start`` and may have ``budget`` nodes.

    The sequences must be sorted.
    """
    return _end_of_row(sequences, start, budget, len(sequences[start]))


def end_of_row_after_cached(sequences: Sequence[Tokens], start: int, budget: int) -> int:
    """Like :func:`end_of_row`, but the path of the previous sequence is cached, so only new nodes count."""
    shared = common_prefix(sequences[start - 1], sequences[start]) if start else 0
    # If the first sequence alone uses up the budget, the row may still grow by a quarter of the budget, because the
    # following sequences usually differ in a few tokens only.
    return _end_of_row(sequences, start, budget, len(sequences[start]) - shared, slack=budget // 4)


def end_of_row_with_answers(sequences: Sequence[Tokens], start: int, budget: int, room: int) -> int:
    """Like :func:`end_of_row`, but up to ``room`` generated tokens per sequence count as nodes, too."""
    return _end_of_row(sequences, start, budget, len(sequences[start]) + room, slack=budget // 4, room=room)


def _end_of_row(
    sequences: Sequence[Tokens], start: int, budget: int, first_nodes: int, slack: int = 0, room: int = 0
) -> int:
    """The end of a row whose first sequence needs ``first_nodes`` nodes.

    The row may have ``budget`` nodes, or ``slack`` nodes more than its first sequence needs, whichever is larger.
    ``room`` is the number of generated tokens per sequence that count as nodes.
    """
    end = start + 1
    nodes = first_nodes
    max_nodes = max(budget, first_nodes + slack)
    # A budget of 1 means one sequence per row, even if the next one adds no nodes.
    while end < len(sequences) and budget > 1:
        added = len(sequences[end]) - common_prefix(sequences[end - 1], sequences[end]) + room
        nodes += added
        # A sequence that adds no nodes costs nothing.
        if added and nodes > max_nodes:
            break
        end += 1
    return end


def build_tree(sequences: Sequence[Tokens], cached: Tokens = ()) -> PrefixTree:
    """The tree of sorted sequences. What the first ones share with the cached prefix has no nodes."""
    tokens: list[int] = []
    depths: list[int] = []
    owners: list[int] = []
    paths: list[Columns] = []
    previous = cached
    path = list(range(len(cached)))
    for owner, sequence in enumerate(sequences):
        # Back to the node where this sequence leaves the previous one, and down its own branch.
        del path[common_prefix(previous, sequence) :]
        for depth in range(len(path), len(sequence)):
            path.append(len(cached) + len(tokens))
            tokens.append(sequence[depth])
            depths.append(depth)
            owners.append(owner)
        paths.append(_integers(path))
        previous = sequence
    return PrefixTree(_integers(tokens), _integers(depths), _integers(owners), paths, len(cached))


def _integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


# --- reading one tree after another -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedPath:
    """A sequence that the model has read, and each layer's keys and values for it."""

    tokens: Tokens = ()
    layers: tuple[LayerCache, ...] = ()

    def up_to(self, length: int) -> CachedPath:
        """The first ``length`` tokens of the path."""
        layers = [(keys[:, :, :length], values[:, :, :length]) for keys, values in self.layers]
        return CachedPath(self.tokens[:length], tuple(layers))


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The model's inputs for some sequences, and where in them each token of each sequence is.

    Without a tree, sequences are the lines of a padded rectangle.
    """

    inputs: dict[str, Any]
    tree: PrefixTree | None = None

    def cell(self, sequence: int, position: int) -> tuple[int, int]:
        """The (line, position) in the inputs of a token of a sequence."""
        if self.tree is None:
            return sequence, position
        return 0, int(self.tree.paths[sequence][position]) - self.tree.cached


class PrefixReader:
    """Lays sorted sequences out as trees, and caches the path of the last one."""

    def __init__(self, model: Any, device: torch.device, min_prefix: int = MIN_CACHED_PREFIX) -> None:
        self._model = model
        self._device = device
        self._min_prefix = min_prefix
        self._last = CachedPath()

    def layout(self, sequences: Sequence[Tokens], first_needed: Sequence[int], use_cache: bool) -> BatchLayout:
        """One row with the tree of the sequences.

        ``first_needed`` is, for each sequence, the first position whose logits are needed: from there on, the sequence
        is not taken from the cache.
        """
        inputs, tree = self._layout(sequences, first_needed, use_cache)
        return BatchLayout(inputs, tree)

    def remember(self, layout: BatchLayout, last_sequence: Tokens) -> None:
        """Cache the path of the last sequence of a layout that the model has read by now."""
        if layout.tree is None or "past_key_values" not in layout.inputs:
            self._last = CachedPath()
        else:
            self._remember(layout.tree, layout.inputs["past_key_values"], last_sequence)

    def read(self, sequences: Sequence[Tokens], nodes: int) -> tuple[list[Columns], Any]:
        """Read the sequences, each distinct prefix once.

        Returns the columns of each sequence, and one cache with the keys and values of all columns. ``nodes`` is how
        many tokens are read at a time.
        """
        paths: list[Columns] = []
        pieces: list[list[LayerCache]] = []
        n_columns = 0
        start = 0
        while start < len(sequences):
            end = end_of_row_after_cached(sequences, start, nodes)
            part = sequences[start:end]
            inputs, tree = self._layout(part, [len(sequence) for sequence in part], use_cache=True)
            cache = inputs["past_key_values"]
            if len(tree.tokens):
                # No logits are needed yet, so a single node goes through the head.
                logits_at(self._model, inputs, [(0, 0)])
            # The cached prefix of the first tree comes from an earlier call, so its columns have to be collected, too.
            # Those of a later tree's cached prefix are collected already.
            already_collected = tree.cached if start else 0
            new_columns = tree.cached + len(tree.tokens) - already_collected
            # Maps this tree's columns to columns of the combined cache: its cached prefix lies on the previous
            # sequence's path, the rest is appended.
            to_global_column = np.arange(n_columns, n_columns + new_columns)
            if paths:
                to_global_column = np.concatenate([paths[-1][:already_collected], to_global_column])
            paths += [to_global_column[path] for path in tree.paths]
            if new_columns:
                piece = []
                for layer in cache.layers:
                    piece.append((layer.keys[:, :, already_collected:], layer.values[:, :, already_collected:]))
                pieces.append(piece)
            self._remember(tree, cache, part[-1])
            n_columns += new_columns
            start = end
        layers = []
        for layer_pieces in zip(*pieces, strict=True):
            keys, values = zip(*layer_pieces, strict=True)
            layers.append((torch.cat(keys, dim=2), torch.cat(values, dim=2)))
        return paths, cache_of(layers)

    def _layout(
        self, sequences: Sequence[Tokens], first_needed: Sequence[int], use_cache: bool
    ) -> tuple[dict[str, Any], PrefixTree]:
        cached = self._shared_path(sequences, first_needed) if use_cache else CachedPath()
        tree = build_tree(sequences, cached.tokens)
        inputs = {
            "input_ids": torch.from_numpy(tree.tokens)[None].to(self._device),
            "position_ids": torch.from_numpy(tree.depths)[None].to(self._device),
            "attention_mask": attention_mask(torch.from_numpy(tree.visible()), self._model, self._device),
            "use_cache": use_cache,
        }
        if use_cache:
            inputs["past_key_values"] = cache_of(cached.layers)
        return inputs, tree

    def _remember(self, tree: PrefixTree, cache: Any, last_sequence: Tokens) -> None:
        # Only the columns of the last sequence are kept: sequences are sorted, so it shares the most with the next one.
        path = torch.from_numpy(tree.paths[-1]).to(self._device)
        layers = [(layer.keys[:, :, path], layer.values[:, :, path]) for layer in cache.layers]
        self._last = CachedPath(last_sequence, tuple(layers))

    def _shared_path(self, sequences: Sequence[Tokens], first_needed: Sequence[int]) -> CachedPath:
        """The part of the cached path that can be used for these sequences."""
        shared = min(common_prefix(self._last.tokens, sequences[0]), *first_needed)
        if shared < self._min_prefix:
            return CachedPath()
        return self._last.up_to(shared)


def attention_mask(visible: torch.Tensor, model: Any, device: torch.device) -> torch.Tensor:
    """The additive attention mask: 0 where a node sees a column, the lowest number elsewhere."""
    # Not minus infinity: a row without any visible column would become NaN in the softmax.
    lowest = torch.finfo(model.dtype).min
    mask = torch.zeros(visible.shape, dtype=model.dtype).masked_fill_(~visible, lowest)
    # One example and all heads: two more dimensions.
    return mask[None, None].to(device)


def cache_of(layers: Iterable[LayerCache]) -> Any:
    """A transformers cache that begins with these keys and values."""
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


# --- generating several answers: the beginning that their prompts share is kept once, not once per answer -------------


class DecodingTree:
    """The cache for sorted prompts and for the answers that grow after them.

    The last token of each prompt is not read here: it is the first input of :meth:`append`, which gives the first
    logits. ``nodes`` is how many tokens of the prompts are read at a time.
    """

    def __init__(
        self, reader: PrefixReader, model: Any, device: torch.device, prompts: Sequence[Tokens], nodes: int
    ) -> None:
        paths, self._cache = reader.read([prompt[:-1] for prompt in prompts], nodes)
        self._model = model
        self._device = device
        # For each prompt, the columns that its answer attends to.
        self._visible = torch.zeros((len(prompts), self._cache.get_seq_length()), dtype=torch.bool)
        for line, path in enumerate(paths):
            self._visible[line, torch.from_numpy(path)] = True
        self._lengths = [len(prompt) - 1 for prompt in prompts]

    def append(self, lines: Sequence[int], tokens: torch.Tensor) -> torch.Tensor:
        """Append one token to the answers with these numbers, and return the logits of the token after it."""
        # Each new token is a column that only its own line sees.
        new_columns = torch.zeros((len(self._visible), len(lines)), dtype=torch.bool)
        new_columns[lines, range(len(lines))] = True
        self._visible = torch.cat([self._visible, new_columns], dim=1)
        positions = torch.tensor([self._lengths[line] for line in lines], device=self._device)
        with torch.inference_mode():
            logits: torch.Tensor = self._model(
                input_ids=tokens[None],
                position_ids=positions[None],
                attention_mask=attention_mask(self._visible[list(lines)], self._model, self._device),
                past_key_values=self._cache,
                use_cache=True,
            ).logits
        for line in lines:
            self._lengths[line] += 1
        return logits[0]


def greedy_search_in(tree: DecodingTree, pad: int) -> Callable[..., torch.Tensor]:
    """A function for the ``custom_generate`` argument of transformers' ``generate``: greedy search, computed in a tree.

    The model's own settings (penalties, tokens that end a text) come in as processors and criteria.
    """

    def search(
        model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any, **_: Any
    ) -> torch.Tensor:
        unfinished = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        while True:
            # Lines that have ended are not computed any further.
            lines = unfinished.nonzero().flatten()
            computed = tree.append(lines.tolist(), input_ids[lines, -1]).float()
            logits = computed.new_zeros((len(input_ids), computed.shape[-1]))
            logits[lines] = computed
            best = logits_processor(input_ids, logits).argmax(dim=-1)
            next_tokens = torch.where(unfinished, best, pad)
            input_ids = torch.cat([input_ids, next_tokens[:, None]], dim=-1)
            unfinished = unfinished & ~stopping_criteria(input_ids, None)
            if not unfinished.any():
                return input_ids

    return search
