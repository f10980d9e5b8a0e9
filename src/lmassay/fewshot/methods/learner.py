"""What the training loop needs of a method: examples as token ids, a loss for some of them, scores for others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from lmassay.fewshot.examples import InputExample

if TYPE_CHECKING:
    from lmassay.fewshot.methods.network import Network


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

    def __len__(self) -> int:
        return len(self.ids)


class Learner(ABC):
    """A network with its loss and its way of scoring; ``network`` holds all parameters that are trained or kept."""

    network: torch.nn.Module
    net: Network
    """The language model, with its tokenizer and device."""

    regroups: ClassVar[bool] = True
    """Whether the loss is a mean over items, so that those of one update may be grouped by length; a loss over the
    whole batch (one hinge a batch) says no."""

    @abstractmethod
    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        """Token ids, once for all. What cannot be trained on (a false referent) may be left out of training."""

    @abstractmethod
    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        """The mean loss of a micro-batch, ready for ``backward``."""

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
