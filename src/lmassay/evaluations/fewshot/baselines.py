"""What can be had without learning anything: the floor that every method must rise above."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.types import digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.evaluations.fewshot.methods.contract import Lesson


class _Shares:
    """The labels' shares among the training examples, as log-odds of nothing but themselves."""

    def __init__(self, lesson: Lesson) -> None:
        self.labels = lesson.task.labels
        counts = Counter(example.label for example in lesson.train)
        self.counts = [counts.get(label, 0) for label in self.labels]


class MajorityFitted(_Shares):
    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        import numpy as np

        return np.tile(np.asarray(self.counts, dtype=float), (len(examples), 1))


class Majority:
    """Says the label that is most frequent among the training examples; of several the first."""

    needs: frozenset[str] = frozenset()

    def fit(self, lesson: Lesson) -> MajorityFitted:
        return MajorityFitted(lesson)


class RandomFitted(_Shares):
    def __init__(self, lesson: Lesson) -> None:
        super().__init__(lesson)
        self.seed = lesson.seed

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        import numpy as np

        rows = np.zeros((len(examples), len(self.labels)))
        for row, example in zip(rows, examples, strict=True):
            # By the example itself, so that neither order nor number of examples matters.
            rng = random.Random(digest(self.seed, example.guid, example.text_a, example.text_b))
            row[rng.choices(range(len(self.labels)), weights=self.counts)[0]] = 1.0
        return rows


class Random:
    """Says a label at random, as often as it stands among the training examples."""

    needs: frozenset[str] = frozenset()

    def fit(self, lesson: Lesson) -> RandomFitted:
        return RandomFitted(lesson)
