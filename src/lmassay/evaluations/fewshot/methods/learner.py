"""What the training loop needs of a method: examples as token ids, a loss for some of them, scores for others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.methods.network import Network


@dataclass(slots=True)
class Item:
    """One example as the network reads it, without padding: made once, used in every epoch and evaluation."""

    ids: list[int]
    types: list[int]
    masks: list[int] = field(default_factory=list)
    """Positions of the mask tokens."""
    prompts: list[int] = field(default_factory=list)
    """Positions of continuous prompt tokens."""
    label: int = -1
    """Place in ``task.labels``; -1 where unknown."""
    logits: Sequence[float] | None = None
    """Soft labels of a teacher."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What a task with several masks needs: tokens of the choices, of the span …"""
    weight: float = field(default=1.0, repr=False)
    """What it counts in a mean loss: 1 where that is a mean over items, its tokens where it is one over tokens."""

    def __len__(self) -> int:
        return len(self.ids)


class Learner(ABC):
    """A network with its loss and its way of scoring; ``network`` holds all parameters that are trained or kept."""

    network: torch.nn.Module
    net: Network
    """The language model, with its tokenizer and device."""

    regroups: ClassVar[bool] = True
    """Whether the items of one update may be grouped by length; a loss that is no weighed mean over items (one hinge
    for a whole micro-batch) says no."""

    @abstractmethod
    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        """Token ids, once for all. What cannot be trained on (a false referent) may be left out of training."""

    @abstractmethod
    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        """The mean loss of a micro-batch over its items, each with its weight; ready for ``backward``."""

    def losses(self, groups: Sequence[Sequence[Item]]) -> Iterator[torch.Tensor]:
        """The loss of a whole update in parts that add up to it, one for each micro-batch, made when it is asked for.

        However the update is cut, the sum is the same. Who draws or counts anything beyond the items does so for the
        whole update at once.
        """
        whole = weight_of(item for group in groups for item in group)
        for group in groups:
            yield self.loss(group) * (weight_of(group) / whole)

    @abstractmethod
    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        """Label scores, one row an item; called without gradients and in evaluation mode."""

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """(name, parameter, own learning rate or None for the common one) of what is trained.

        What has a rate of its own is not decayed (the prompt encoder in FewNLU).
        """
        for name, parameter in self.network.named_parameters():
            if parameter.requires_grad:
                yield name, parameter, None


def weight_of(items: Iterable[Item]) -> float:
    """What the items count together in a mean loss."""
    return sum(item.weight for item in items)
