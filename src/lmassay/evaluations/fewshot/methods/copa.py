"""COPA: which of two texts belongs into the gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.methods.cloze import place_of
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.multimask_gaps import Gaps
from lmassay.evaluations.fewshot.methods.multimask_hinge import hinge
from lmassay.evaluations.fewshot.tasks.examples import InputExample


class Choices:
    """A hinge between the two choices; at evaluation the likelier one, with as many masks as it has tokens.

    Quirk 20 (one hinge for a whole micro-batch) is kept with ``per_batch`` and mended without. Quirk 23 (evaluation
    crashes with token types) is gone: types are trimmed with the masks.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp, self._labels, self._per_batch = pvp, labels, per_batch

    def encode(self, example: InputExample, training: bool) -> Item:
        item = gap_item(self._pvp, example, self._labels, training)
        choices = self._pvp.choices(example)
        if len(choices) != len(self._labels):
            raise DataError(f"{example.guid}: {len(choices)} choices for {len(self._labels)} labels")
        item.extra["texts"] = nonempty(choices, example)
        return item

    def loss(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        return hinge(gaps, gaps.costs(items, [right_first(item) for item in items]), per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        return torch.tensor(gaps.scores(items, [item.extra["texts"] for item in items]), dtype=torch.float64)


def right_first(item: Item) -> list[list[int]]:
    texts: list[list[int]] = item.extra["texts"]
    return [texts[item.label], *texts[: item.label], *texts[item.label + 1 :]]


def gap_item(pvp: Any, example: InputExample, labels: Sequence[str], training: bool, *, by_file: bool = False) -> Item:
    """The example in its pattern, without what stands in the gap; ``by_file`` lets its file say what it is for."""
    encoded = pvp.encode(example, training=None if by_file else training)
    label = place_of(example.label, labels)
    if training and label < 0:
        raise DataError(f"{example.guid}: an example without label cannot be trained on")
    return Item(
        list(encoded.ids), list(encoded.types), list(encoded.masks), list(encoded.prompts), label, example.logits
    )


def nonempty(texts: Sequence[Sequence[int]], example: InputExample) -> list[list[int]]:
    if not all(texts):
        raise DataError(f"{example.guid}: a text for the gap is empty or has no tokens in this vocabulary")
    return [list(text) for text in texts]
