"""Which of the candidates for a blank can be compared when a model reads them from the left."""

from __future__ import annotations

from collections.abc import Sequence


def not_comparable(spellings: Sequence[tuple[int, ...] | None]) -> list[int]:
    """The indices of candidates whose tokens are the beginning of another's, or the other way round.

    A model that reads from the left can never find the longer one more probable.

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
    shared = min(len(a), len(b))
    return a[:shared] == b[:shared]
