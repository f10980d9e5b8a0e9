"""The sequence classifier: a new classification head on the transformer. Its input has no pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.cloze import Reading, item_of
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, collate, label_loss
from lmassay.evaluations.fewshot.methods.network import Network, open_network
from lmassay.evaluations.fewshot.methods.training import Training
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


class Classifier(Learner):
    """A network with a classification head, whose logits are the label scores."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net = net
        self.task = task
        self.temperature = temperature
        self.module: torch.nn.Module = net.module
        self.pvp: Any = reading.pvp(task, net.tokenizer)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The texts of the examples without a pattern."""
        return [item_of(example, self.pvp, self.task.labels) for example in examples]

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """Cross-entropy, or distillation for items with soft labels."""
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """One row per item, one column per label."""
        return self.net.classify(collate(items, self.net.pad_id, self.net.device))


@dataclass(kw_only=True)
class SequenceClassifier(Training):
    """Fine-tuning of the whole model with a new classification head."""

    def learner(self, inputs: TrainingInputs) -> Classifier:
        """The model with a new head, drawn with the training's seed."""
        task = inputs.task
        if task.kind == "entities":
            raise ConfigError(
                f"method: {task.name} asks for one of many entities, so it has no fixed labels to classify; "
                "use a method with a pattern (pet)"
            )
        net = open_network(inputs.model, "classifier", len(task.labels), reference=self.reference)
        reading = self.reading(inputs, pattern=0, mode="cls")
        return Classifier(net, task, reading, temperature=self.temperature)
