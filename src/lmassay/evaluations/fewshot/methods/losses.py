"""Losses over label logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.methods.learner import Item


def distillation_loss(predicted: torch.Tensor, taught: torch.Tensor, temperature: float) -> torch.Tensor:
    """Kullback-Leibler divergence from a teacher's softened labels, mean over rows, times temperature² (Hinton)."""
    log_p = functional.log_softmax(predicted / temperature, dim=1)
    q = functional.softmax(taught / temperature, dim=1)
    return functional.kl_div(log_p, q, reduction="sum") * temperature**2 / len(predicted)


def label_loss(logits: torch.Tensor, items: Sequence[Item], temperature: float) -> torch.Tensor:
    """Mean over items: cross-entropy with the label, or distillation where an item carries soft labels."""
    soft = [place for place, item in enumerate(items) if item.logits is not None]
    hard = [place for place, item in enumerate(items) if item.logits is None]
    total = logits.new_zeros(())
    if hard:
        labels = torch.tensor([items[place].label for place in hard], device=logits.device)
        chosen = logits if not soft else logits[hard]
        total = total + functional.cross_entropy(chosen, labels, reduction="sum")
    if soft:
        taught = torch.tensor([items[place].logits for place in soft], dtype=logits.dtype, device=logits.device)
        chosen = logits if not hard else logits[soft]
        total = total + distillation_loss(chosen, taught, temperature) * len(soft)
    return total / len(items)
