"""Your own few-shot method: it predicts the label whose training examples share the most words with the text.

Use it with ``method: {name: "my_method.py:SharedWords", power: 2}`` in a configuration next to this file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmassay.evaluations.fewshot import InputExample
from lmassay.evaluations.fewshot.methods.contract import Method, TrainedClassifier, TrainingInputs

Counts = dict[str, NDArray[np.float64]]


class SharedWords(Method):
    """Compares words. With a higher ``power``, words that occur in many examples of a label count more."""

    needs: frozenset[str] = frozenset()  # no model; leave it out for a method that trains the configuration's model

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def fit(self, inputs: TrainingInputs) -> WordCounts:
        labels = inputs.task.labels
        counts: Counts = {}
        for example in inputs.train:
            column = labels.index(str(example.label))
            for word in words(example):
                counts.setdefault(word, np.zeros(len(labels)))[column] += 1
        weights = {word: label_counts**self.power for word, label_counts in counts.items()}
        return WordCounts(weights, len(labels))


class WordCounts(TrainedClassifier):
    """What ``fit`` returns: it scores the labels of examples."""

    def __init__(self, weights: Counts, n_labels: int) -> None:
        self.weights, self.n_labels = weights, n_labels

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        rows = np.zeros((len(examples), self.n_labels))
        for row, example in zip(rows, examples, strict=True):
            for word in words(example):
                row += self.weights.get(word, 0.0)
        return rows


def words(example: InputExample) -> set[str]:
    return set(f"{example.text_a} {example.text_b or ''}".lower().split())
