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


def grow(sequences: Sequence[Tokens], trunk: Tokens = ()) -> Tree:
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
    return Tree(_integers(tokens), _integers(depths), _integers(owners), paths, len(trunk))


def _integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
