"""Items side by side: padded only to the longest of those that stand together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lmassay.evaluations.fewshot.methods.learner import Item


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, token types and attention mask, one row an item, filled up on the right."""

    ids: torch.Tensor
    types: torch.Tensor
    attention: torch.Tensor


def collate(items: Sequence[Item], pad_id: int, device: torch.device) -> Batch:
    """A batch as long as its longest item.

    >>> batch = collate([Item([5, 6, 7], [0, 0, 1]), Item([8], [0])], 0, torch.device("cpu"))
    >>> batch.ids.tolist(), batch.attention.tolist()
    ([[5, 6, 7], [8, 0, 0]], [[1, 1, 1], [1, 0, 0]])
    """
    longest = max(len(item) for item in items)
    gaps = [longest - len(item) for item in items]
    ids = [item.ids + [pad_id] * gap for item, gap in zip(items, gaps, strict=True)]
    types = [item.types + [0] * gap for item, gap in zip(items, gaps, strict=True)]
    attention = [[1] * len(item) + [0] * gap for item, gap in zip(items, gaps, strict=True)]
    ids_types_attention = torch.tensor([ids, types, attention], device=device)
    return Batch(ids_types_attention[0], ids_types_attention[1], ids_types_attention[2])


def by_length(items: Sequence[Item], size: int) -> list[list[int]]:
    """Places of the items in groups of at most ``size``, the longest first: little padding, and what is too large
    for the memory shows at once."""
    order = sorted(range(len(items)), key=lambda place: -len(items[place]))
    return [order[start : start + size] for start in range(0, len(order), size)]
