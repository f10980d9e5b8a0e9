"""What the training loop needs of a method: examples as token ids, a loss for some of them, scores for others.

And what most learners share: items padded to batches, and the loss over label logits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.methods.network import Network


@dataclass(slots=True)
class EncodedItem:
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

    draws: Any = None
    """Random generators that a later training may go on with (``state()``, ``restore(state)``); None without such."""

    regroups: ClassVar[bool] = True
    """Whether the items of one update may be grouped by length; a loss that is no weighed mean over items (one hinge
    for a whole micro-batch) says no."""

    @abstractmethod
    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """Token ids, once for all. What cannot be trained on (a false referent) may be left out of training."""

    @abstractmethod
    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The mean loss of a micro-batch over its items, each with its weight; ready for ``backward``."""

    def losses(self, groups: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        """The loss of a whole update in parts that add up to it, one for each micro-batch, made when it is asked for.

        However the update is cut, the sum is the same. Who draws or counts anything beyond the items does so for the
        whole update at once.
        """
        whole = weight_of(item for group in groups for item in group)
        for group in groups:
            yield self.loss(group) * (weight_of(group) / whole)

    @abstractmethod
    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Label scores, one row an item; called without gradients and in evaluation mode."""

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """(name, parameter, own learning rate or None for the common one) of what is trained.

        What has a rate of its own is not decayed (the prompt encoder in FewNLU).
        """
        for name, parameter in self.network.named_parameters():
            if parameter.requires_grad:
                yield name, parameter, None


def weight_of(items: Iterable[EncodedItem]) -> float:
    """What the items count together in a mean loss."""
    return sum(item.weight for item in items)


# --- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, token types and attention mask, one row an item, filled up on the right."""

    ids: torch.Tensor
    types: torch.Tensor
    attention: torch.Tensor


def collate(items: Sequence[EncodedItem], pad_id: int, device: torch.device) -> Batch:
    """A batch as long as its longest item.

    >>> batch = collate([EncodedItem([5, 6, 7], [0, 0, 1]), EncodedItem([8], [0])], 0, torch.device("cpu"))
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


def by_length(items: Sequence[EncodedItem], size: int) -> list[list[int]]:
    """Places of the items in groups of at most ``size``, the longest first: little padding, and what is too large
    for the memory shows at once."""
    order = sorted(range(len(items)), key=lambda place: -len(items[place]))
    return [order[start : start + size] for start in range(0, len(order), size)]


# --- losses over label logits -----------------------------------------------------------------------------------------


def distillation_loss(predicted: torch.Tensor, taught: torch.Tensor, temperature: float) -> torch.Tensor:
    """Kullback-Leibler divergence from a teacher's softened labels, mean over rows, times temperature² (Hinton)."""
    log_p = functional.log_softmax(predicted / temperature, dim=1)
    q = functional.softmax(taught / temperature, dim=1)
    return functional.kl_div(log_p, q, reduction="sum") * temperature**2 / len(predicted)


def label_loss(logits: torch.Tensor, items: Sequence[EncodedItem], temperature: float) -> torch.Tensor:
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
