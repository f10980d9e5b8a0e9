"""P-tuning: the words of a pattern give way to vectors that are learned together with the network (Liu et al. 2021)."""

# Annotations here are evaluated at once: options are read from the ``__init__`` of subclasses, whose modules need not
# know these names.

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.cloze import Reading
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.pet import pet_learner
from lmassay.evaluations.fewshot.methods.prompt_encoder import NAME, SLOT, PromptEncoder, Slots
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

SHORTEST = 8
"""The least tokens that a text is left beside a prompt."""


class Prompted(Learner):
    """Any learner, with vectors of a prompt encoder in the slots of its items.

    ``front`` slots are put before the text, behind the tokenizer's opening token; those of the pattern come from the
    items themselves. The prompt is learned at a rate of its own and without decay.
    """

    def __init__(
        self, inner: Learner, net: Network, encoder: PromptEncoder, *, learning_rate: float, front: int = 0
    ) -> None:
        self.inner, self.net, self.encoder = inner, net, encoder
        self.network = inner.network
        self.regroups = inner.regroups  # type: ignore[misc]  # what holds for the learner inside
        self._rate, self._front = learning_rate, front
        self._opening = {net.tokenizer.cls_token_id, net.tokenizer.bos_token_id} - {None}
        Slots(net.module, encoder)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        items = self.inner.encode(examples, training=training)
        return [self._slotted(item) for item in items]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return self.inner.loss(items)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        return self.inner.logits(items)

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        own = {id(parameter) for parameter in self.encoder.parameters()}
        for name, parameter, rate in self.inner.optimised():
            if id(parameter) not in own:
                yield name, parameter, rate
        for name, parameter in self.encoder.named_parameters():
            yield f"{NAME}.{name}", parameter, self._rate

    def _slotted(self, item: Item) -> Item:
        """The item with an id in its slots that no word has."""
        moved = fronted(item, self._front, behind=self._opening) if self._front else item
        # A causal network never reads what stands behind the answer.
        places = [place for place in moved.prompts if place < len(moved.ids)]
        if not 0 < len(places) <= self.encoder.slots:
            raise ConfigError(
                f"pattern: an example has {len(places)} prompt slots where {self.encoder.slots} are learned; a pattern "
                "for P-tuning has as many as its number says"
            )
        ids = list(moved.ids)
        for place in places:
            ids[place] = SLOT
        return replace(moved, ids=ids, prompts=places)


def fronted(item: Item, slots: int, *, behind: set[int]) -> Item:
    """The item with further slots before its text.

    >>> fronted(Item([2, 8, 3], [0, 0, 0], masks=[1]), 2, behind={2, 3})
    Item(ids=[2, -2, -2, 8, 3], types=[0, 0, 0, 0, 0], masks=[3], prompts=[1, 2], label=-1, logits=None, extra={})
    """
    start = 1 if item.ids and item.ids[0] in behind else 0
    new = list(range(start, start + slots))
    return replace(
        item,
        ids=[*item.ids[:start], *[SLOT] * slots, *item.ids[start:]],
        types=[*item.types[:start], *[item.types[0] if item.types else 0] * slots, *item.types[start:]],
        masks=[place + slots for place in item.masks],
        prompts=[*new, *[place + slots for place in item.prompts]],
    )


@dataclass(kw_only=True)
class PTuning(Training):
    """P-tuning: ``pattern`` is the number of slots; all weights are trained, the prompt's at a rate of their own.

    ``prompt_encoder_head_type``: ``raw`` learns the vectors themselves, ``lstm`` and ``mlp`` a small network that makes
    them. Works with every family whose word embeddings can be read, for tasks with words and with texts as answers.
    With a causal model and words as answers the slots stand before the prompt of the first pattern.
    """

    reads_patterns: ClassVar[bool] = False

    pattern: Annotated[int, Field(ge=1)] = 1
    prompt_encoder_head_type: Literal["raw", "lstm", "mlp"] = "raw"
    embedding_learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    decoding_strategy: Literal["default", "ltr", "parallel"] = "default"

    def learner(self, lesson: Lesson) -> Prompted:
        net = open_network(lesson.model, reference=self.reference)
        before_text = net.kind == "causal" and lesson.task.kind == "labels"
        if before_text:
            reading = shortened(self.reading(lesson, pattern=0, mode="cloze"), self.pattern)
        else:
            reading = self.reading(lesson, pattern=self.pattern, mode="ptuning")
        inner: Any = pet_learner(self, lesson, net, reading, self.decoding_strategy)
        slots = self.pattern if before_text else inner.pvp.prompt_length
        encoder = PromptEncoder(slots, self.prompt_encoder_head_type, net.words.weight, seed=lesson.seed)
        front = slots if before_text else 0
        return Prompted(inner, net, encoder, learning_rate=self.embedding_learning_rate, front=front)


def shortened(reading: Reading, slots: int) -> Reading:
    """A window that leaves room for the slots."""
    left = reading.max_seq_length - slots
    if left < SHORTEST:
        raise ConfigError(
            f"max_seq_length: {slots} prompt tokens leave {max(left, 0)} of {reading.max_seq_length} for the text; "
            "raise it, or take fewer"
        )
    return replace(reading, max_seq_length=left)
