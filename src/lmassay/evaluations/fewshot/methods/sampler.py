"""In which order the training examples come: FewNLU's sampler, whose seed is apart from all other randomness."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch

from lmassay.errors import ModelError

_EPOCH_SEEDS = 10_000


def epochs(n: int, seed: int) -> Iterator[list[int]]:
    """One permutation of ``range(n)`` after the other, without end.

    Python's generator draws the seed of each epoch, torch's the permutation.
    """
    if n < 1:
        raise ModelError("there are no examples to draw from")
    draws = random.Random(seed)
    while True:
        generator = torch.Generator().manual_seed(draws.randint(0, _EPOCH_SEEDS))
        yield torch.randperm(n, generator=generator).tolist()


def batches(n: int, size: int, seed: int) -> Iterator[list[int]]:
    """Places in batches of ``size``; the last of an epoch may be smaller. Without end."""
    for order in epochs(n, seed):
        yield from (order[start : start + size] for start in range(0, n, size))
