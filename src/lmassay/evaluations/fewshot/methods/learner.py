"""The interface between a method and the training loop: examples as token ids, a loss, and label scores.

This module also has what most learners share: padding items to a batch, and the loss over label logits.
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
    """One example as token ids, without padding. It is encoded once and used in every epoch and evaluation."""

    ids: list[int]
    types: list[int]
    """The token type of each id (BERT's segment number)."""
    masks: list[int] = field(default_factory=list)
    """Positions of the mask tokens."""
    prompts: list[int] = field(default_factory=list)
    """Positions of continuous prompt tokens."""
    label: int = -1
    """Index in ``task.labels``; -1 if unknown."""
    logits: Sequence[float] | None = None
    """Soft labels of a teacher."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further values for answers of several tokens: the tokens of the choices, of the referent and so on."""
    weight: float = field(default=1.0, repr=False)
    """The item's weight in the loss: 1 if the loss is a mean over items; its number of tokens if it is a mean over
    tokens."""

    def __len__(self) -> int:
        return len(self.ids)


class Learner(ABC):
    """A language model, with the loss and the label scores that a method defines for it."""

    module: torch.nn.Module
    """Contains all parameters that are trained or kept: those of the language model and any that a method adds."""
    net: Network
    """The language model, with its tokenizer and device."""

    draws: Any = None
    """Random generators that a later training may continue (``state()``, ``restore(state)``); None if there are
    none."""

    regroups: ClassVar[bool] = True
    """Whether the training loop may sort the items of one update into micro-batches by their length. False for a loss
    that is not a weighted mean over items, such as a single hinge loss for a whole micro-batch."""

    @abstractmethod
    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The examples as items. In training, examples that give no loss are left out (a false referent in WSC)."""

    @abstractmethod
    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The weighted mean loss of a micro-batch, ready for ``backward``."""

    def losses(self, micro_batches: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        """Yield the loss of an update in parts that add up to it, one per micro-batch.

        The sum must not depend on how the update is divided into micro-batches. Override this method for a loss that is
        not a weighted mean over items, such as a mean over hidden tokens, or that draws random numbers. Such a method
        must count and draw once for the whole update.
        """
        total = sum(total_weight(items) for items in micro_batches)
        for items in micro_batches:
            share = total_weight(items) / total
            yield self.loss(items) * share

    @abstractmethod
    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Label scores, one row per item. The caller switches off gradients and sets evaluation mode."""

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """Yield (name, parameter, learning rate) of everything that is trained.

        The learning rate is None for parameters with the common one. Parameters with their own rate, such as those of
        a prompt encoder, get no weight decay, as in FewNLU.
        """
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                yield name, parameter, None


def total_weight(items: Iterable[EncodedItem]) -> float:
    """The sum of the items' weights in the loss."""
    return sum(item.weight for item in items)


# --- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, token types and attention mask, one row per item, padded on the right."""

    ids: torch.Tensor
    types: torch.Tensor
    attention: torch.Tensor


def collate(items: Sequence[EncodedItem], pad_id: int, device: torch.device) -> Batch:
    """The items as one batch, padded to the length of the longest item.

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
    """The indices of the items in groups of up to ``size``, the longest items first.

    Items of similar length need little padding. If a batch does not fit into memory, it is the first one, so the
    training fails at once and not after hours.
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
    """The mean over items: cross-entropy with the label or, for items with soft labels, the distillation loss."""
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
    # Indexing makes a copy, so it is avoided if all items have labels or all have soft labels.
    if hard_rows:
        predicted = logits[hard_rows] if soft_rows else logits
        targets = torch.tensor(labels, device=logits.device)
        total = total + functional.cross_entropy(predicted, targets, reduction="sum")
    if soft_rows:
        predicted = logits[soft_rows] if hard_rows else logits
        teacher = torch.tensor(soft_labels, dtype=logits.dtype, device=logits.device)
        total = total + distillation_loss(predicted, teacher, temperature) * len(soft_rows)
    return total / len(items)
