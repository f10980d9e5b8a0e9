"""Labels new examples with kept models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lmassay.evaluations.fewshot.metrics import predicted_label
from lmassay.evaluations.fewshot.outcomes import mean_logits
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.keeping import KeptModel
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


@dataclass(frozen=True, slots=True)
class Prediction:
    """The label of one example."""

    idx: Any
    """The number of the example in its file; for MultiRC the numbers of passage, question and answer."""
    label: str
    """The predicted label; for ReCoRD the text of the chosen entity."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """The softmax of the logits by label; empty for ReCoRD, whose answers are texts."""


def predictions(
    models: Sequence[KeptModel], task: NluTask, examples: Sequence[InputExample], *, device: str = "auto"
) -> list[Prediction]:
    """Label the examples with a kept model, or with the averaged logits of several."""
    logits_of_models: list[list[list[float]]] = []
    answers: list[str] | None = None
    for model in models:
        # Models are loaded one after the other, so that only one of them is in memory.
        classifier = model.classifier(task, device=device)
        logits_of_model = []
        for row in classifier.logits(examples):
            logits_of_model.append([float(value) for value in row])
        logits_of_models.append(logits_of_model)
        # A task whose answers are texts has only one model: its trainings cannot be averaged.
        answers = classifier.answers(examples)
    logits = logits_of_models[0] if len(models) == 1 else mean_logits(logits_of_models)
    labelled = []
    for number, (example, row) in enumerate(zip(examples, logits, strict=True)):
        if answers is not None:
            labelled.append(Prediction(idx_of(example), answers[number]))
            continue
        label = task.labels[predicted_label(row)]
        labelled.append(Prediction(idx_of(example), label, probabilities(task.labels, row)))
    return labelled


def probabilities(labels: Sequence[str], logits: Sequence[float]) -> dict[str, float]:
    """The softmax of the logits, by label.

    >>> probabilities(["no", "yes"], [0.0, 0.0])
    {'no': 0.5, 'yes': 0.5}
    """
    import numpy as np

    shifted = np.exp(np.asarray(logits) - max(logits))
    shares = shifted / shifted.sum()
    return {label: float(share) for label, share in zip(labels, shares, strict=True)}


def idx_of(example: InputExample) -> Any:
    """The example's number in its file; for MultiRC the numbers of passage, question and answer."""
    parts = [example.meta.get(name) for name in ("passage_idx", "question_idx", "answer_idx")]
    if None in parts:
        return example.idx
    return parts
