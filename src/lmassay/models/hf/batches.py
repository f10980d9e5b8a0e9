"""Work in batches that fit: as many items as the budget allows, halved when memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from lmassay.errors import ModelError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher:
    """Cuts a sequence of items into batches and remembers how much this machine could bear."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def run(
        self,
        items: Sequence[Item],
        take: Callable[[Sequence[Item], int, int], int],
        work: Callable[[Sequence[Item]], Iterator[Answer]],
    ) -> Iterator[Answer | ModelError]:
        """Answers in the order of the items; one that alone does not fit into memory gets an error instead.

        ``take(items, start, budget)`` says where the batch that begins at ``start`` ends, at least one item later.
        """
        start = 0
        while start < len(items):
            end = take(items, start, self.budget)
            try:
                yield from list(work(items[start:end]))
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                if end - start == 1:
                    yield ModelError("out of memory on this text alone; take a smaller model or more memory")
                else:
                    self.budget = max(1, self.budget // 2)
                    continue
            start = end


def by_padded_size(length: Callable[[Item], int]) -> Callable[[Sequence[Item], int, int], int]:
    """Batches whose padded rectangle stays within the budget; sort the items by length first."""

    def take(items: Sequence[Item], start: int, budget: int) -> int:
        end, longest = start + 1, length(items[start])
        while end < len(items) and max(longest, length(items[end])) * (end + 1 - start) <= budget:
            longest = max(longest, length(items[end]))
            end += 1
        return end

    return take


def _out_of_memory(error: BaseException) -> bool:
    text = str(error)
    kinds: tuple[Any, ...] = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or any(
        sign in text for sign in ("can't allocate memory", "out of memory", "not enough memory")
    )
