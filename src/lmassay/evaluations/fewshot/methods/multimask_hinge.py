"""The hinge between the right text for a gap and the wrong ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lmassay.evaluations.fewshot.methods.multimask_gaps import Gaps

Costs = Sequence[Sequence[torch.Tensor]]
"""For each item the token costs of its texts, the right one first."""


def hinge(gaps: Gaps, costs: Costs, *, per_batch: bool) -> torch.Tensor:
    """The sum over wrong texts of ``max(0, 1 + cost(right) - cost(wrong))``, mean over items.

    A text's cost is the mean over its tokens (the sum for causal models). ``per_batch`` is how FewNLU and PET train:
    the right texts of the whole micro-batch have one mean cost over all their tokens, so have the first wrong ones,
    the second ones and so on, and a hinge is taken between the means.
    """
    lines = _joined(costs) if per_batch else costs
    losses = []
    for right, *wrong in lines:
        least = gaps.total(right)
        losses.append(sum((torch.relu(1 + least - gaps.total(cost)) for cost in wrong), start=right.new_zeros(())))
    return torch.stack(losses).mean()


def _joined(costs: Costs) -> list[list[torch.Tensor]]:
    """All items as one: its n-th text is made of all n-th texts."""
    most = max(len(of_item) for of_item in costs)
    return [[torch.cat([of_item[n] for of_item in costs if len(of_item) > n]) for n in range(most)]]
