"""ADAPET's two losses over probabilities (Tam et al. 2021, sections 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import binary_cross_entropy

from lmassay.evaluations.fewshot.methods.learner import Item


def binary_costs(log_p: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of probabilities that are given as logarithms.

    Where a token is wanted its cost is ``-log p`` itself: the gradient does not vanish for an unlikely one, as it does
    once a probability is too small for float32.
    """
    unwanted = binary_cross_entropy(log_p.exp(), torch.zeros_like(log_p), reduction="none")
    return torch.where(wanted, -log_p, unwanted)


def decoupled(log_p: torch.Tensor, labels: Sequence[int]) -> torch.Tensor:
    """Equation 2: each label's probability over the whole vocabulary is pulled up or pushed down for itself.

    ``log_p`` holds items × labels.
    """
    wanted = torch.zeros_like(log_p, dtype=torch.bool)
    wanted[torch.arange(len(labels)), torch.tensor(labels)] = True
    return binary_costs(log_p, wanted).mean()


def decoupled_texts(costs: Sequence[Sequence[torch.Tensor]], right: Sequence[Sequence[bool]]) -> torch.Tensor:
    """The same over the tokens of texts of any length; mean over tokens. An empty cost stands for no token."""
    log_p = torch.cat([-cost for of_item in costs for cost in of_item])
    wanted = [
        is_right
        for of_item, marks in zip(costs, right, strict=True)
        for cost, is_right in zip(of_item, marks, strict=True)
        for _ in range(len(cost))
    ]
    found = binary_costs(log_p, torch.tensor(wanted, dtype=torch.bool, device=log_p.device))
    return found.sum() / max(1, len(found))


def telling(texts: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each text the places whose token sets it apart: not those where all texts have the same one.

    >>> telling([[5, 6, 7], [5, 8]])
    [[1, 2], [1]]
    """
    common = {place for place, tokens in enumerate(zip(*texts, strict=False)) if len(set(tokens)) == 1}
    return [[place for place in range(len(text)) if place not in common] for text in texts]


def conditioned(log_p: torch.Tensor, targets: Sequence[bool], counts: Sequence[int]) -> torch.Tensor:
    """Equation 3: the masked words are likely after the right label and unlikely after a wrong one; mean over words.

    ``counts`` says how many of the words belong to each item.
    """
    wanted = [target for target, count in zip(targets, counts, strict=True) for _ in range(count)]
    found = binary_costs(log_p, torch.tensor(wanted, dtype=torch.bool, device=log_p.device))
    return found.sum() / max(1, len(found))


def right_texts(item: Item) -> list[bool]:
    """Which of an item's texts belongs into the gap."""
    marks: list[bool] | None = item.extra.get("right")
    return marks if marks is not None else [place == item.label for place in range(len(item.extra["texts"]))]
