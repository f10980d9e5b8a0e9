"""The sequence classifier: a new head on the transformer, pairs of texts, no pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.cloze import Reading, item_of
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.methods.learner import Item, Learner, collate, label_loss
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


class Classifier(Learner):
    """Label logits of a classification head."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.temperature = net, task, temperature
        self.network: torch.nn.Module = net.module
        self.pvp: Any = reading.pvp(task, net.tokenizer)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        return [item_of(example, self.pvp, self.task.labels) for example in examples]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        return self.net.classify(collate(items, self.net.pad_id, self.net.device))


@dataclass(kw_only=True)
class SequenceClassifier(Training):
    """Fine-tuning of the whole model with a new classification head."""

    def learner(self, lesson: Lesson) -> Classifier:
        if lesson.task.kind == "entities":
            raise ConfigError(
                f"method: {lesson.task.name} asks for one of many entities, which has no fixed labels to classify; "
                "take a method with a pattern (pet)"
            )
        net = open_network(lesson.model, "classifier", len(lesson.task.labels), reference=self.reference)
        reading = self.reading(lesson, pattern=0, mode="cls")
        return Classifier(net, lesson.task, reading, temperature=self.temperature)
