"""Many sequences through a model at once: batches that fit into memory, padding, and logits only where needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from lmassay.errors import ModelError

Tokens = tuple[int, ...]
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


# --- what goes in, and what comes out ---------------------------------------------------------------------------------


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


def logits_at(model: Any, inputs: Mapping[str, Any], cells: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The logits at each (line, position) of a batch: number of cells × vocabulary.

    Only the positions that are asked about go through the vocabulary head, which can be a third of a small model.
    What reaches the last layer, the one as wide as the vocabulary, is narrowed on its way in, whatever the family calls
    it. A model that computes its logits in another way gives all of them, and the cells are picked afterwards.
    """
    lines, positions = (torch.tensor(part, device=model.device) for part in zip(*cells, strict=True))
    narrowed = False

    def narrow(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        nonlocal narrowed
        if not arguments or arguments[0].dim() != 3:
            return None
        narrowed = True
        return (arguments[0][lines, positions].unsqueeze(0), *arguments[1:])

    head = model.get_output_embeddings()
    hook = None if head is None else head.register_forward_pre_hook(narrow)
    try:
        with torch.inference_mode():
            logits: torch.Tensor = model(**inputs).logits
    finally:
        if hook is not None:
            hook.remove()
    return logits[0] if narrowed else logits[lines, positions]
