"""The eight SuperGLUE tasks as FewGLUE's files have them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.processors import RowProcessor
from lmassay.evaluations.fewshot.tasks.rows import Row
from lmassay.evaluations.fewshot.tasks.superglue.record import RecordProcessor
from lmassay.evaluations.fewshot.tasks.superglue.wsc import WscProcessor


class RteProcessor(RowProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        premise = row.text("premise")
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=premise,
            text_b=row.text("hypothesis"),
            label=self.label(row, set_type),
            meta={"group": _of_text(premise)},
            idx=idx,
        )


class CbProcessor(RteProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "contradiction", "neutral")


class BoolQProcessor(RowProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("False", "True")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        passage = row.text("passage")
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=passage,
            text_b=row.text("question"),
            label=self.label(row, set_type),
            meta={"group": _of_text(passage)},
            idx=idx,
        )


class WicProcessor(RowProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("F", "T")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=row.text("sentence1"),
            text_b=row.text("sentence2"),
            label=self.label(row, set_type),
            meta={"word": row.text("word")},
            idx=idx,
        )

    def label(self, row: Row, set_type: str, name: str = "label") -> str | None:
        if isinstance(row.fields.get(name), bool) and set_type != "unlabeled":
            return "T" if row.fields[name] else "F"
        return super().label(row, set_type, name)


class CopaProcessor(RowProcessor):
    """Training and unlabeled data get a mirrored copy of every example: choices swapped, label turned."""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        question = row.text("question")
        if question not in ("cause", "effect"):
            raise DataError(f"{row.where}: 'question' is '{question}'; it must be cause or effect")
        meta = {"choice1": row.text("choice1"), "choice2": row.text("choice2"), "question": question}
        premise = row.text("premise")
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=premise,
            label=self.label(row, set_type),
            meta={**meta, "group": _of_text(premise)},
            idx=idx,
        )

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        examples = super()._create_examples(path, set_type)
        return examples + [mirrored(e) for e in examples] if set_type in ("train", "unlabeled") else examples


def mirrored(example: InputExample) -> InputExample:
    """A COPA example with its choices swapped."""
    set_type, _, rest = example.guid.partition("-")
    meta = {**example.meta, "choice1": example.meta["choice2"], "choice2": example.meta["choice1"]}
    return InputExample(
        guid=f"{set_type}-mirror-{rest}",
        text_a=example.text_a,
        label=None if example.label is None else str(1 - int(example.label)),
        meta={**meta, "mirrored": True},
        idx=example.idx,
    )


class MultiRcProcessor(RowProcessor):
    """One example an answer; all answers of a question, and all questions of a passage, belong together."""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        passage_idx = self.idx(row)
        passage = row.inner("passage")
        text = passage.text("text")
        for question in passage.inners("questions"):
            asked, question_idx = question.text("question"), question.number("idx")
            for answer in question.inners("answers"):
                answer_idx = answer.number("idx")
                yield InputExample(
                    guid=f"{set_type}-p{passage_idx}-q{question_idx}-{answer_idx}",
                    text_a=text,
                    text_b=asked,
                    label=self.label(answer, set_type),
                    meta={
                        "passage_idx": passage_idx,
                        "question_idx": question_idx,
                        "answer_idx": answer_idx,
                        "answer": _answer(answer),
                        "group": _of_text(text),
                    },
                    idx=answer_idx,
                )


def _answer(row: Row) -> str:
    # Some answers of the published files are empty: they stay so.
    value = row.get("text")
    if not isinstance(value, str):
        raise DataError(f"{row.where}: 'text' is {value!r}; it must be text")
    return value


def _of_text(text: str) -> str:
    """A name for all examples with the same text."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


SUPERGLUE_PROCESSORS: dict[str, type[RowProcessor]] = {
    "boolq": BoolQProcessor,
    "cb": CbProcessor,
    "copa": CopaProcessor,
    "multirc": MultiRcProcessor,
    "record": RecordProcessor,
    "rte": RteProcessor,
    "wic": WicProcessor,
    "wsc": WscProcessor,
}

SUPERGLUE_METRICS: dict[str, tuple[str, ...]] = {
    "boolq": ("acc",),
    "cb": ("acc", "f1-macro"),
    "copa": ("acc",),
    "multirc": ("acc", "f1", "em"),
    "record": ("acc", "f1"),
    "rte": ("acc",),
    "wic": ("acc",),
    "wsc": ("acc",),
}
