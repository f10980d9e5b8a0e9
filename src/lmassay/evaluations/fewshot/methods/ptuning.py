"""P-tuning (Liu et al. 2021): vectors replace words of a pattern, and are trained together with the network."""

# No ``from __future__ import annotations`` here: options are read from the ``__init__`` of subclasses, and the modules
# of these subclasses need not import the names that the annotations use.

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.cloze import Reading
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.pet import pet_learner
from lmassay.evaluations.fewshot.methods.prompt_encoder import NAME, SLOT, PromptEncoder, Slots
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

MIN_TEXT_TOKENS = 8
"""A prompt must leave at least this number of tokens for the text."""


class PromptedLearner(Learner):
    """Adds a continuous prompt to another learner: the vectors of a prompt encoder in the slots of its items.

    A slot is a position without a word. ``front`` slots are put before the text (but after the tokenizer's first
    special token); slots inside a pattern are already in the items of the other learner. The prompt has its own
    learning rate and no weight decay.
    """

    def __init__(
        self, inner: Learner, net: Network, encoder: PromptEncoder, *, learning_rate: float, front: int = 0
    ) -> None:
        self.inner = inner
        self.net = net
        self.encoder = encoder
        self.module = inner.module
        self.regroups = inner.regroups  # type: ignore[misc]  # that of the inner learner
        self._rate = learning_rate
        self._front = front
        self._opening = {net.tokenizer.cls_token_id, net.tokenizer.bos_token_id} - {None}
        Slots(net.module, encoder)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The items of the inner learner, with slots."""
        items = self.inner.encode(examples, training=training)
        return [self._slotted(item) for item in items]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The loss of the inner learner."""
        return self.inner.loss(items)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The label scores of the inner learner."""
        return self.inner.logits(items)

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """The parameters of the inner learner, and those of the prompt with their own learning rate."""
        # The encoder is a module of the network, so the inner learner yields its parameters as well.
        ids_of_prompt = {id(parameter) for parameter in self.encoder.parameters()}
        for name, parameter, rate in self.inner.optimised():
            if id(parameter) not in ids_of_prompt:
                yield name, parameter, rate
        for name, parameter in self.encoder.named_parameters():
            yield f"{NAME}.{name}", parameter, self._rate

    def _slotted(self, item: EncodedItem) -> EncodedItem:
        """The item with the id SLOT at the positions of its prompt tokens."""
        if self._front:
            item = with_front_slots(item, self._front, after=self._opening)
        # For a causal network, everything after the answer was cut off, and with it the slots there.
        positions = [position for position in item.prompts if position < len(item.ids)]
        if not 0 < len(positions) <= self.encoder.slots:
            raise ConfigError(
                f"pattern: an example has {len(positions)} prompt slots, but {self.encoder.slots} are learned; a "
                "pattern for P-tuning must have as many slots as its number says"
            )
        ids = list(item.ids)
        for position in positions:
            ids[position] = SLOT
        return replace(item, ids=ids, prompts=positions)


def with_front_slots(item: EncodedItem, slots: int, *, after: set[int]) -> EncodedItem:
    """The item with slots before its text. If its first token is one of ``after``, the slots come after it.

    >>> item = with_front_slots(EncodedItem([2, 8, 3], [0, 0, 0], masks=[1]), 2, after={2, 3})
    >>> item.ids, item.masks, item.prompts
    ([2, -2, -2, 8, 3], [3], [1, 2])
    """
    start = 0
    if item.ids and item.ids[0] in after:
        start = 1
    token_type = 0
    if item.types:
        token_type = item.types[0]
    # Everything after the new slots moves to the right.
    masks = [position + slots for position in item.masks]
    prompts = [position + slots for position in item.prompts]
    return replace(
        item,
        ids=[*item.ids[:start], *[SLOT] * slots, *item.ids[start:]],
        types=[*item.types[:start], *[token_type] * slots, *item.types[start:]],
        masks=masks,
        prompts=[*range(start, start + slots), *prompts],
    )


@dataclass(kw_only=True)
class PTuning(Training):
    """P-tuning: ``pattern`` is the number of slots. All weights are trained; the prompt has its own learning rate.

    ``prompt_encoder_head_type``: ``raw`` learns the vectors themselves, ``lstm`` and ``mlp`` learn a small network that
    computes them. It works with every family of models whose word embeddings can be read, and for tasks with words or
    texts as answers. With a causal model and words as answers, the slots are before the prompt of the first pattern.
    """

    reads_patterns: ClassVar[bool] = False

    pattern: Annotated[int, Field(ge=1)] = 1
    prompt_encoder_head_type: Literal["raw", "lstm", "mlp"] = "raw"
    embedding_learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def label_words(self, task: "NluTask", model: Any, pattern: int) -> dict[str, list[str]]:
        """The words of the pattern with slots; with a causal model, those of the first pattern."""
        if model.kind == "causal":
            return super().label_words(task, model, 0)
        return slot_pattern_words(task, pattern)

    def learner(self, inputs: TrainingInputs) -> PromptedLearner:
        """PET's learner with a prompt encoder in the slots."""
        net = open_network(inputs.model, reference=self.reference)
        is_in_front = net.kind == "causal" and inputs.task.kind == "labels"
        if is_in_front:
            reading = shortened(self.reading(inputs, pattern=0, mode="cloze"), self.pattern)
        else:
            reading = self.reading(inputs, pattern=self.pattern, mode="ptuning")
        inner: Any = pet_learner(self, inputs, net, reading, self.decoding_strategy)
        if is_in_front:
            slots = front = self.pattern
        else:
            slots = inner.pvp.prompt_length
            front = 0
        encoder = PromptEncoder(slots, self.prompt_encoder_head_type, net.input_embeddings.weight, seed=inputs.seed)
        return PromptedLearner(inner, net, encoder, learning_rate=self.embedding_learning_rate, front=front)


def slot_pattern_words(task: "NluTask", pattern: int) -> dict[str, list[str]]:
    """Label → its words in a pattern with slots. Empty if the task has no such pattern; the training reports that."""
    if pattern not in task.patterns["ptuning"]:
        return {}
    return {label: task.verbalize(label, pattern, mode="ptuning") for label in task.labels}


def shortened(reading: Reading, slots: int) -> Reading:
    """The reading with a smaller ``max_seq_length``, which leaves room for the slots."""
    remaining = reading.max_seq_length - slots
    if remaining < MIN_TEXT_TOKENS:
        raise ConfigError(
            f"max_seq_length: {slots} prompt tokens leave {max(remaining, 0)} of {reading.max_seq_length} tokens for "
            "the text; raise max_seq_length, or use fewer prompt tokens"
        )
    return replace(reading, max_seq_length=remaining)
