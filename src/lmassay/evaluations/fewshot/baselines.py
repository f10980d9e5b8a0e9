"""Baselines that do not read the texts. A method that learns something must score higher than these."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmassay.evaluations.fewshot.methods.contract import Method, TrainedClassifier, TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.types import digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _label_counts(inputs: TrainingInputs) -> list[int]:
    """How many training examples have each label, in the order of ``task.labels``."""
    counts = Counter(example.label for example in inputs.train)
    return [counts.get(label, 0) for label in inputs.task.labels]


class MajorityClassifier(TrainedClassifier):
    """Predicts the same label for every example."""

    def __init__(self, label_counts: Sequence[int]) -> None:
        self._label_counts = label_counts

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """The label counts of the training set as scores, the same for every example."""
        import numpy as np

        return np.tile(np.asarray(self._label_counts, dtype=float), (len(examples), 1))


class Majority(Method):
    """Predicts the most frequent label of the training examples; if several are equally frequent, the first."""

    needs: frozenset[str] = frozenset()

    def fit(self, inputs: TrainingInputs) -> MajorityClassifier:
        """Count the labels."""
        return MajorityClassifier(_label_counts(inputs))


class RandomClassifier(TrainedClassifier):
    """Draws a label for every example."""

    def __init__(self, label_counts: Sequence[int], seed: int) -> None:
        self._label_counts = label_counts
        self._seed = seed

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """1 for the label that was drawn, 0 for the others."""
        import numpy as np

        n_labels = len(self._label_counts)
        rows = np.zeros((len(examples), n_labels))
        for row, example in zip(rows, examples, strict=True):
            # The seed depends on the example itself, so its label does not depend on which examples come before it.
            rng = random.Random(digest(self._seed, example.guid, example.text_a, example.text_b))
            (drawn_label,) = rng.choices(range(n_labels), weights=self._label_counts)
            row[drawn_label] = 1.0
        return rows


class Random(Method):
    """Predicts random labels with the frequencies of the training examples."""

    needs: frozenset[str] = frozenset()

    def fit(self, inputs: TrainingInputs) -> RandomClassifier:
        """Count the labels."""
        return RandomClassifier(_label_counts(inputs), inputs.seed)
