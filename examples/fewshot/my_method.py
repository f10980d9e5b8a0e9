"""A few-shot method of one's own: the label whose training examples share the most words with a text.

``method: {name: "my_method.py:SharedWords", power: 2}`` in a configuration beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmassay.evaluations.fewshot import InputExample
from lmassay.evaluations.fewshot.methods.contract import Lesson


class SharedWords:
    """Compares words. ``power`` makes words count for more that stand in many examples of a label."""

    needs: frozenset[str] = frozenset()  # no model; leave it out for a method that trains the configuration's model

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def fit(self, lesson: Lesson) -> Known:
        labels = lesson.task.labels
        counts: dict[str, NDArray[np.float64]] = {}
        for example in lesson.train:
            for word in words(example):
                counts.setdefault(word, np.zeros(len(labels)))[labels.index(str(example.label))] += 1
        return Known({word: found**self.power for word, found in counts.items()}, len(labels))


class Known:
    """What ``fit`` returns: something that scores the labels of examples."""

    def __init__(self, counts: dict[str, NDArray[np.float64]], labels: int) -> None:
        self.counts, self.labels = counts, labels

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        nothing = np.zeros(self.labels)
        return np.array([sum((self.counts.get(word, nothing) for word in words(e)), nothing) for e in examples])


def words(example: InputExample) -> set[str]:
    return set(f"{example.text_a} {example.text_b or ''}".lower().split())
