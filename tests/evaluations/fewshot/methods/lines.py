"""The smallest learner: a linear classifier over bags of tokens, for tests of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner
from lmassay.evaluations.fewshot.tasks.examples import InputExample


class Lines(Learner):
    def __init__(self, *, dropout: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(3)
        self.dropout = torch.nn.Dropout(dropout)
        self.module = torch.nn.Sequential(torch.nn.Linear(8, 2), self.dropout)
        self.seen: list[list[int]] = []
        self.looked_in_training = False
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        return []

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        self.seen.append([item.extra["place"] for item in items])
        return functional.cross_entropy(self._scores(items), torch.tensor([item.label for item in items]))

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        self.looked_in_training |= self.module.training
        # Evaluation that draws numbers must not be felt by the training.
        torch.rand(7)
        return self._scores(items)

    def _scores(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        bags = torch.stack([torch.bincount(torch.tensor(item.ids), minlength=8) for item in items])
        scores: torch.Tensor = self.module(bags.float())
        return scores


class Broken(Lines):
    """Fails in its loss at one call."""

    def __init__(self, at: int, how: Any) -> None:
        super().__init__()
        self.at, self.how = at, how

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        loss = super().loss(items)
        if len(self.seen) < self.at:
            return loss
        if isinstance(self.how, BaseException):
            raise self.how
        return loss * self.how


def some_items(n: int = 16) -> list[EncodedItem]:
    """Items of many lengths with labels that the tokens tell."""
    items = []
    for place in range(n):
        length = 1 + (place * 5) % 7
        ids = [(place + step * step) % 8 for step in range(length)]
        items.append(EncodedItem(ids, [0] * length, label=int(sum(ids) % 2), extra={"place": place}))
    return items
