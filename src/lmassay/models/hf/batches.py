"""Run many sequences through a model at once: batches that fit into memory, padding, and logits only where needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from lmassay.errors import ModelError

Tokens = tuple[int, ...]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

# torch has an error class for accelerators only; on a CPU the message is the only sign.
_OUT_OF_MEMORY_MESSAGES = ("can't allocate memory", "out of memory", "not enough memory")
# The first batch is smaller than the others by this factor if the first answers should come early.
_FIRST_BATCH_DIVISOR = 4


class Batcher:
    """Splits items into batches, and halves the batch size when the machine runs out of memory.

    ``budget`` is the size of a batch, usually in tokens; the ``take`` functions below define how it is counted.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def run(
        self,
        items: Sequence[Item],
        take: Callable[[Sequence[Item], int, int], int],
        work: Callable[[Sequence[Item]], Iterator[Answer]],
        *,
        small_first: bool = False,
    ) -> Iterator[Answer | ModelError]:
        """Yield the answers in the order of the items. An item that alone does not fit into memory gets an error.

        ``work(batch)`` yields one answer per item of a batch. ``take(items, start, budget)`` returns the index at which
        the batch that begins at ``start`` ends, at least one item later.
        With ``small_first``, the first of many batches is smaller, so that the first answers come early.
        """
        start = 0
        while start < len(items):
            end = take(items, start, self.budget)
            # Small batches are slower, because each step reads all weights. If there are three batches or more, one
            # more hardly matters.
            if small_first and start == 0 and end < len(items) and take(items, end, self.budget) < len(items):
                end = take(items, start, max(1, self.budget // _FIRST_BATCH_DIVISOR))
            try:
                # A list, so that a batch that fails in the middle yields nothing before it is repeated.
                yield from list(work(items[start:end]))
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                if end - start > 1:
                    self.budget = max(1, self.budget // 2)
                    continue
                yield ModelError("out of memory on this text alone; use a smaller model or a machine with more memory")
            start = end


def by_padded_size(length: Callable[[Item], int]) -> Callable[[Sequence[Item], int, int], int]:
    """A ``take`` function for :meth:`Batcher.run`: batches whose size after padding stays within the budget.

    The items must be sorted by length.
    """

    def take(items: Sequence[Item], start: int, budget: int) -> int:
        end = start + 1
        longest = length(items[start])
        while end < len(items):
            longest = max(longest, length(items[end]))
            if longest * (end + 1 - start) > budget:
                break
            end += 1
        return end

    return take


def _is_out_of_memory(error: BaseException) -> bool:
    kinds: tuple[Any, ...] = (MemoryError, torch.OutOfMemoryError)
    if isinstance(error, kinds):
        return True
    return any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)


# --- inputs and outputs -----------------------------------------------------------------------------------------------


def padded(rows: Sequence[Tokens], device: torch.device, pad: int = 0) -> dict[str, torch.Tensor]:
    """The model's inputs for some sequences: one matrix, padded on the right.

    Padding is masked, so most models give the same results with any ``pad``. RoBERTa derives the positions of tokens
    from its own padding token and needs that one.
    """
    longest = max(map(len, rows))
    shape = (len(rows), longest)
    ids = np.full(shape, pad, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    for line, row in enumerate(rows):
        ids[line, : len(row)] = row
        mask[line, : len(row)] = 1
    return {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(mask).to(device),
    }


def padded_at_left(rows: Sequence[Tokens], device: torch.device) -> dict[str, torch.Tensor]:
    """The model's inputs for some sequences: one matrix, padded on the left with each sequence's own first token.

    The model ignores the padding, so any token would do for it. But if the model's settings penalise repetition, the
    library also counts masked tokens; with a padding token, an answer would depend on the lengths of the other
    sequences in the batch.
    """
    longest = max(map(len, rows))
    filled = [[row[0]] * (longest - len(row)) + list(row) for row in rows]
    ids = torch.tensor(filled, device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    mask = torch.arange(longest, device=device) >= longest - lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}


def logits_at(model: Any, inputs: Mapping[str, Any], cells: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The logits at each (line, position) of a batch, as a matrix of cells x vocabulary.

    Only these positions go through the vocabulary head, which can be a third of the work of a small model. A hook on
    the head, whatever the model family calls it, narrows its input. If a model computes its logits in another way, all
    of them are computed and the cells are selected afterwards.
    """
    lines = torch.tensor([line for line, _ in cells], device=model.device)
    positions = torch.tensor([position for _, position in cells], device=model.device)
    narrowed = False

    def narrow(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        nonlocal narrowed
        # Hidden states: lines x positions x width. Anything else is not the usual call of the head.
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
    if narrowed:
        return logits[0]
    return logits[lines, positions]
