"""Many token sequences as one tree: what they share at the beginning is computed once.

Sorted sequences are laid into a row node by node. A node attends to its ancestors and itself, and its position is its
depth, so a causal model gives each node the hidden state that it would have in its own sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """A row of nodes, and for each sequence the nodes along its path."""

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    sees: NDArray[np.bool_]
    paths: list[NDArray[np.int64]]


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many tokens two sequences share at the beginning."""
    shared = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        shared += 1
    return shared


def take_nodes(sequences: Sequence[Tokens], start: int, budget: int) -> int:
    """Where the row that begins at ``start`` ends, if it may hold ``budget`` nodes; sequences must be sorted."""
    end, nodes = start + 1, len(sequences[start])
    while end < len(sequences):
        nodes += len(sequences[end]) - common_prefix(sequences[end - 1], sequences[end])
        if nodes > budget:
            break
        end += 1
    return end


def grow(sequences: Sequence[Tokens]) -> Tree:
    """The tree of sorted sequences."""
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    paths: list[NDArray[np.int64]] = []
    before: Tokens = ()
    path: list[int] = []
    for sequence in sequences:
        del path[common_prefix(before, sequence) :]
        for depth in range(len(path), len(sequence)):
            parents.append(path[-1] if path else -1)
            path.append(len(tokens))
            tokens.append(sequence[depth])
            depths.append(depth)
        paths.append(np.array(path, dtype=np.int64))
        before = sequence
    sees = np.eye(len(tokens), dtype=bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            sees[node] |= sees[parent]
    return Tree(np.array(tokens, dtype=np.int64), np.array(depths, dtype=np.int64), sees, paths)
