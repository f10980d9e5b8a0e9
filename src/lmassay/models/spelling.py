"""Find candidates for a blank that a causal model cannot compare: the tokens of one are the beginning of another's."""

from __future__ import annotations

from collections.abc import Sequence


def not_comparable(spellings: Sequence[tuple[int, ...] | None]) -> list[int]:
    """The indices of candidates whose tokens begin with those of another candidate, or the other way round.

    By the chain rule, a causal model can never give the longer of the two a higher probability. ``spellings`` are the
    tokens of each candidate; a candidate without tokens is ignored.

    >>> not_comparable([(1,), (1, 2), (3,)])
    [0, 1]
    """
    indices = []
    for index, tokens in enumerate(spellings):
        if not tokens:
            continue
        if any(other and other != tokens and _one_begins_other(tokens, other) for other in spellings):
            indices.append(index)
    return indices


def _one_begins_other(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]
