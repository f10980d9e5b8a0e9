"""ReCoRD: which entity of a passage stands at the placeholder of a query."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.processors import RowProcessor
from lmassay.evaluations.fewshot.tasks.rows import Row

_PLACEHOLDER = "@placeholder"
_TRAIN_CANDIDATES = 10
_SEED = 42


class RecordProcessor(RowProcessor):
    """In training one example a right answer, with up to nine wrong entities (drawn where there are more); else one
    example a question, with all entities and all right answers. Entities are sorted, so that no hash decides."""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def __init__(self, task_name: str = "") -> None:
        super().__init__(task_name)
        self._rng = random.Random(_SEED)

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        self._rng = random.Random(_SEED)
        return super()._create_examples(path, set_type)

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        passage_idx = self.idx(row)
        passage = row.inner("passage")
        text = passage.text("text")
        entities = sorted({_span(entity, text) for entity in passage.inners("entities")})
        shown = text.replace("@highlight\n", "- ")
        for question in row.inners("qas"):
            query, question_idx = question.text("query"), question.number("idx")
            if query.count(_PLACEHOLDER) != 1:
                raise DataError(f"{row.where}: the query must have one {_PLACEHOLDER}: '{query}'")
            answers = sorted({answer.text("text") for answer in self._answers(question, set_type)})
            meta = {"passage_idx": passage_idx, "question_idx": question_idx, "group": f"passage-{passage_idx}"}
            name = f"{set_type}-p{passage_idx}-q{question_idx}"
            if set_type != "train":
                candidates = sorted(set(entities) | set(answers))
                yield InputExample(
                    guid=f"{name}-0",
                    text_a=shown,
                    text_b=query,
                    label="1" if answers else None,
                    meta={**meta, "candidates": candidates, "answers": answers},
                    idx=question_idx,
                )
                continue
            for number, answer in enumerate(answers):
                wrong = [entity for entity in entities if entity not in answers]
                if len(wrong) > _TRAIN_CANDIDATES - 1:
                    self._rng.shuffle(wrong)
                    wrong = wrong[: _TRAIN_CANDIDATES - 1]
                yield InputExample(
                    guid=f"{name}-{number}",
                    text_a=shown,
                    text_b=query,
                    label="1",
                    meta={**meta, "candidates": [answer, *wrong], "answers": [answer]},
                    idx=question_idx,
                )

    @staticmethod
    def _answers(question: Row, set_type: str) -> list[Row]:
        if set_type == "unlabeled" or (set_type == "test" and "answers" not in question.fields):
            return []
        answers = question.inners("answers")
        if not answers:
            raise DataError(f"{question.where}: the question {question.get('idx')} has no answer")
        return answers


def _span(entity: Row, text: str) -> str:
    start, end = entity.number("start"), entity.number("end")
    if not 0 <= start <= end < len(text):
        raise DataError(f"{entity.where}: the entity {start}–{end} lies outside the passage ({len(text)} characters)")
    return text[start : end + 1]
