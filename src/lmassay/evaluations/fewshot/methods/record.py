"""ReCoRD: which entity of the passage belongs into the gap of a query. FewNLU never ran it; this is PET's way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.methods.copa import gap_item, nonempty
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.multimask_gaps import Gaps
from lmassay.evaluations.fewshot.methods.multimask_hinge import hinge
from lmassay.evaluations.fewshot.tasks.examples import InputExample

MOST_WRONG = 9


class Entities:
    """Hinges between an answer and up to nine wrong entities, summed; at evaluation the likeliest entity is the answer.

    PET takes the hinges over a whole micro-batch, which is kept with ``per_batch``. The two logits of a question are
    the scores of its best wrong entity and of its best right one: label 1 means that it is answered rightly. The entity
    itself is left in the item (``answer_of``), for metrics that compare texts.
    """

    def __init__(self, pvp: Any, labels: Sequence[str], *, per_batch: bool = False) -> None:
        self._pvp, self._labels, self._per_batch = pvp, labels, per_batch

    def encode(self, example: InputExample, training: bool) -> Item:
        item = gap_item(self._pvp, example, self._labels, training)
        names = self._pvp.choice_texts(example)
        answers = set(example.meta.get("answers", ()))
        item.extra["names"] = list(names)
        item.extra["texts"] = nonempty(self._pvp.choices(example), example)
        item.extra["right"] = [name in answers for name in names]
        if not names:
            raise DataError(f"{example.guid}: the passage has no entities to choose from")
        if training and not any(item.extra["right"]):
            raise DataError(f"{example.guid}: none of its entities is an answer, so nothing can be learned from it")
        return item

    def loss(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        return hinge(gaps, gaps.costs(items, [right_first(item) for item in items]), per_batch=self._per_batch)

    def logits(self, gaps: Gaps, items: Sequence[Item]) -> torch.Tensor:
        rows = []
        for item, scores in zip(items, gaps.scores(items, [item.extra["texts"] for item in items]), strict=True):
            item.extra["answer"] = item.extra["names"][scores.index(max(scores))]
            # Below all others where there is none of a kind: what is unanswerable or cannot be missed.
            least = min(scores) - 1.0
            marked = list(zip(scores, item.extra["right"], strict=True))
            rows.append([max((s for s, r in marked if r is right), default=least) for right in (False, True)])
        return torch.tensor(rows, dtype=torch.float64)


def answer_of(item: Item) -> str:
    """The entity that a question was answered with when it was last scored."""
    return str(item.extra["answer"])


def right_first(item: Item) -> list[list[int]]:
    """The first answer, then the wrong entities in their order."""
    marked = list(zip(item.extra["texts"], item.extra["right"], strict=True))
    right = next(text for text, is_right in marked if is_right)
    return [right, *[text for text, is_right in marked if not is_right][:MOST_WRONG]]
