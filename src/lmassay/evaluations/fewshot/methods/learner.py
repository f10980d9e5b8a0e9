"""What the training loop needs from a method: examples as token ids, a loss, and label scores.

Also what most learners share: items padded to batches, and the loss over label logits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.methods.network import Network


_Value = TypeVar("_Value")


@dataclass(slots=True)
class EncodedItem:
    """One example as the network reads it, without padding. It is made once and used in every epoch and evaluation."""

    ids: list[int]
    types: list[int]
    masks: list[int] = field(default_factory=list)
    """Positions of the mask tokens."""
    prompts: list[int] = field(default_factory=list)
    """Positions of continuous prompt tokens."""
    label: int = -1
    """Index in ``task.labels``; -1 if unknown."""
    logits: Sequence[float] | None = None
    """Soft labels of a teacher."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What a task with several masks needs: tokens of the choices, of the referent and so on."""
    weight: float = field(default=1.0, repr=False)
    """The item's weight in a mean loss: 1 if the loss is a mean over items, its number of tokens if over tokens."""

    def __len__(self) -> int:
        return len(self.ids)


class Learner(ABC):
    """A language model with the loss and the label scores of a method."""

    module: torch.nn.Module
    """Contains all parameters that are trained or kept: those of the language model and any that a method adds."""
    net: Network
    """The language model, with its tokenizer and device."""

    draws: Any = None
    """Random generators that a later training may continue (``state()``, ``restore(state)``); None if there are
    none."""

    regroups: ClassVar[bool] = True
    """Whether the items of one update may be grouped by length. False for a loss that is not a weighted mean over
    items, such as one hinge for a whole micro-batch."""

    @abstractmethod
    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """Token ids of the examples. In training, leave out those that give no loss (a false referent in WSC)."""

    @abstractmethod
    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The weighted mean loss of a micro-batch, ready for ``backward``."""

    def losses(self, micro_batches: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        """The loss of a whole update in parts that add up to it: one per micro-batch, computed when it is asked for.

        The sum must not depend on how the update is divided. Override this method for a loss that is not a weighted
        mean over items, such as a mean over hidden tokens, or that draws random numbers: count and draw once for the
        whole update.
        """
        total = sum(total_weight(items) for items in micro_batches)
        for items in micro_batches:
            share = total_weight(items) / total
            yield self.loss(items) * share

    @abstractmethod
    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Label scores, one row per item; called without gradients and in evaluation mode."""

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """(name, parameter, own learning rate or None for the common one) of everything that is trained.

        Parameters with their own learning rate are not decayed (the prompt encoder in FewNLU).
        """
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                yield name, parameter, None


def total_weight(items: Iterable[EncodedItem]) -> float:
    """The weight of several items in a mean loss."""
    return sum(item.weight for item in items)


# --- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, token types and attention mask, one row per item, padded on the right."""

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
    ids: list[list[int]] = []
    types: list[list[int]] = []
    attention: list[list[int]] = []
    for item in items:
        n_padding = longest - len(item)
        ids.append(item.ids + [pad_id] * n_padding)
        types.append(item.types + [0] * n_padding)
        attention.append([1] * len(item) + [0] * n_padding)
    # One tensor for all three, so that they are moved to the device together.
    stacked = torch.tensor([ids, types, attention], device=device)
    return Batch(stacked[0], stacked[1], stacked[2])


def selected(values: Sequence[_Value], indices: Iterable[int]) -> list[_Value]:
    """The values at these indices, in the order of the indices."""
    return [values[index] for index in indices]


def by_length(items: Sequence[EncodedItem], size: int) -> list[list[int]]:
    """Indices of the items in groups of up to ``size``, the longest first.

    Items of similar length need little padding, and a batch that does not fit into memory fails at the start.
    """
    order = sorted(range(len(items)), key=lambda index: -len(items[index]))
    return [order[start : start + size] for start in range(0, len(order), size)]


# --- losses over label logits -----------------------------------------------------------------------------------------


def distillation_loss(predicted: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Kullback-Leibler divergence from a teacher's softened labels, mean over rows, times temperature².

    Hinton et al. (2015); the factor keeps the size of the gradients independent of the temperature.
    """
    log_p = functional.log_softmax(predicted / temperature, dim=1)
    q = functional.softmax(teacher / temperature, dim=1)
    divergence = functional.kl_div(log_p, q, reduction="sum")
    return divergence * temperature**2 / len(predicted)


def label_loss(logits: torch.Tensor, items: Sequence[EncodedItem], temperature: float) -> torch.Tensor:
    """Mean over items: cross-entropy with the label, or distillation for items with soft labels."""
    hard_rows: list[int] = []
    labels: list[int] = []
    soft_rows: list[int] = []
    soft_labels: list[Sequence[float]] = []
    for row, item in enumerate(items):
        if item.logits is None:
            hard_rows.append(row)
            labels.append(item.label)
        else:
            soft_rows.append(row)
            soft_labels.append(item.logits)
    total = logits.new_zeros(())
    # Indexing copies, so it is avoided if all items are of one kind.
    if hard_rows:
        predicted = logits[hard_rows] if soft_rows else logits
        targets = torch.tensor(labels, device=logits.device)
        total = total + functional.cross_entropy(predicted, targets, reduction="sum")
    if soft_rows:
        predicted = logits[soft_rows] if hard_rows else logits
        teacher = torch.tensor(soft_labels, dtype=logits.dtype, device=logits.device)
        total = total + distillation_loss(predicted, teacher, temperature) * len(soft_rows)
    return total / len(items)
