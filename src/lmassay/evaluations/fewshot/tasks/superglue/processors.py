"""The eight SuperGLUE tasks in the format of FewGLUE's files: how rows become examples, and each task's metrics."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.processors import RowProcessor
from lmassay.evaluations.fewshot.tasks.rows import DataRow

# ReCoRD marks the place of the missing entity in a query like this.
_PLACEHOLDER = "@placeholder"
# The maximum number of entities in a training example of ReCoRD, and the seed for drawing them.
_TRAIN_CANDIDATES = 10
_SEED = 42


class RteProcessor(RowProcessor):
    """RTE (recognising textual entailment). Examples with the same premise are one group."""

    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "not_entailment")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        premise = row.text("premise")
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=premise,
            text_b=row.text("hypothesis"),
            label=self.label(row, set_type),
            meta={"group": _text_group(premise)},
            idx=idx,
        )


class CbProcessor(RteProcessor):
    """CB (CommitmentBank): like RTE, with three labels."""

    LABELS: ClassVar[tuple[str, ...]] = ("entailment", "contradiction", "neutral")


class BoolQProcessor(RowProcessor):
    """BoolQ: a passage and a question. Questions about the same passage are one group."""

    LABELS: ClassVar[tuple[str, ...]] = ("False", "True")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        passage = row.text("passage")
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=passage,
            text_b=row.text("question"),
            label=self.label(row, set_type),
            meta={"group": _text_group(passage)},
            idx=idx,
        )


class WicProcessor(RowProcessor):
    """WiC (words in context): two sentences with the same word. Does it have the same meaning in both?"""

    LABELS: ClassVar[tuple[str, ...]] = ("F", "T")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        yield InputExample(
            guid=f"{set_type}-{idx}",
            text_a=row.text("sentence1"),
            text_b=row.text("sentence2"),
            label=self.label(row, set_type),
            meta={"word": row.text("word")},
            idx=idx,
        )

    def label(self, row: DataRow, set_type: str, name: str = "label") -> str | None:
        value = row.fields.get(name)
        # SuperGLUE's own files have true and false, FewGLUE's have T and F.
        if isinstance(value, bool) and set_type != "unlabeled":
            return "T" if value else "F"
        return super().label(row, set_type, name)


class CopaProcessor(RowProcessor):
    """COPA (choice of plausible alternatives): which of two choices is the cause or the effect of a premise?

    Training and unlabeled data get a mirrored copy of every example, with choices and label swapped, as in PET.
    """

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
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
            meta={**meta, "group": _text_group(premise)},
            idx=idx,
        )

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        examples = super()._create_examples(path, set_type)
        if set_type in ("train", "unlabeled"):
            examples += [mirrored(example) for example in examples]
        return examples


def mirrored(example: InputExample) -> InputExample:
    """A COPA example with its choices swapped."""
    set_type, _, rest = example.guid.partition("-")
    label = None
    if example.label is not None:
        label = str(1 - int(example.label))
    meta = {
        **example.meta,
        "choice1": example.meta["choice2"],
        "choice2": example.meta["choice1"],
        "mirrored": True,
    }
    return InputExample(
        guid=f"{set_type}-mirror-{rest}", text_a=example.text_a, label=label, meta=meta, idx=example.idx
    )


class MultiRcProcessor(RowProcessor):
    """MultiRC: one example per answer. All questions about a passage, with all their answers, are one group."""

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        passage_idx = self.idx(row)
        passage = row.inner("passage")
        text = passage.text("text")
        for question in passage.inners("questions"):
            question_text = question.text("question")
            question_idx = question.number("idx")
            for answer in question.inners("answers"):
                answer_idx = answer.number("idx")
                yield InputExample(
                    guid=f"{set_type}-p{passage_idx}-q{question_idx}-{answer_idx}",
                    text_a=text,
                    text_b=question_text,
                    label=self.label(answer, set_type),
                    meta={
                        "passage_idx": passage_idx,
                        "question_idx": question_idx,
                        "answer_idx": answer_idx,
                        "answer": _answer(answer),
                        "group": _text_group(text),
                    },
                    idx=answer_idx,
                )


def _answer(row: DataRow) -> str:
    """The text of an answer. It may be empty, as some are in the published files; ``row.text`` would refuse these."""
    value = row.get("text")
    if not isinstance(value, str):
        raise DataError(f"{row.where}: 'text' is {value!r}; it must be text")
    return value


def _text_group(text: str) -> str:
    """The group of all examples with the same text."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


class WscProcessor(RowProcessor):
    """WSC (Winograd Schema Challenge): does a pronoun refer to this noun?

    A row of FewGLUE has one candidate. A row of FewNLU's own file has a true and a false one, so it becomes two
    examples.
    """

    LABELS: ClassVar[tuple[str, ...]] = ("False", "True")

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        if "true_target" not in row.fields and "false_target" not in row.fields:
            # A row of FewGLUE has a single candidate.
            yield self._example(row, row.inner("target"), f"{set_type}-{idx}", self.label(row, set_type), idx)
            return
        for name, label in (("true_target", "True"), ("false_target", "False")):
            target = row.inner(name)
            if self.label(target, set_type) not in (label, None):
                raise DataError(f"{row.where}: the label in '{name}' must be {label.lower()}")
            example = self._example(row, target, f"{set_type}-{label.lower()}-{idx}", label, idx)
            yield replace(example, meta={**example.meta, "pair": f"{set_type}-{idx}"})

    def _example(self, row: DataRow, target: DataRow, guid: str, label: str | None, idx: int) -> InputExample:
        text = row.text("text")
        words = text.split()
        pronoun = target.text("span2_text")
        candidate = target.text("span1_text")
        # This must come before the words are joined: it may split a word into the pronoun and its punctuation.
        pronoun_index = _pronoun_index(words, target.number("span2_index"), pronoun, row)
        meta = {
            "span1_text": candidate,
            "span2_text": pronoun,
            "span1_index": _candidate_index(words, target.number("span1_index"), candidate),
            "span2_index": pronoun_index,
            # Unlike with _text_group, texts that differ only in case or spacing are in the same group.
            "group": " ".join(text.lower().split()),
        }
        return InputExample(guid=guid, text_a=" ".join(words), label=label, meta=meta, idx=idx)


def _candidate_index(words: list[str], index: int, candidate: str) -> int:
    """The index of the candidate's first word; some indices in the published files are off by one."""
    candidate_words = candidate.lower().split()
    lower_words = [word.lower() for word in words]
    for near in (index, index - 1, index + 1):
        if near >= 0 and lower_words[near : near + len(candidate_words)] == candidate_words:
            return near
    return index


def _pronoun_index(words: list[str], index: int, pronoun: str, row: DataRow) -> int:
    """The index of the pronoun. Punctuation attached to it becomes a separate word in ``words``."""
    # Some indices of WSC are off by one.
    for near in (index, index - 1, index + 1):
        if 0 <= near < len(words) and words[near] == pronoun:
            return near
    if 0 <= index < len(words) and words[index].startswith(pronoun):
        words[index : index + 1] = [pronoun, words[index][len(pronoun) :]]
        return index
    if not 0 <= index < len(words):
        raise DataError(f"{row.where}: 'span2_index' is {index}, but the text has {len(words)} words (counted from 0)")
    raise DataError(f"{row.where}: word {index} of the text is {words[index]!r}, not the pronoun '{pronoun}'")


class RecordProcessor(RowProcessor):
    """ReCoRD: which entity of a passage belongs at the placeholder of a query?

    The training set has one example per right answer, with up to nine wrong entities; if there are more, nine are drawn
    at random. The other sets have one example per question, with all entities and all right answers. Entities are
    sorted, because in FewNLU their order depends on Python's hash seed and so differs from process to process.
    """

    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")

    def __init__(self, task_name: str = "") -> None:
        super().__init__(task_name)
        self._rng = random.Random(_SEED)

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        self._rng = random.Random(_SEED)
        return super()._create_examples(path, set_type)

    def examples_of(self, row: DataRow, set_type: str) -> Iterator[InputExample]:
        passage_idx = self.idx(row)
        passage = row.inner("passage")
        text = passage.text("text")
        entities = sorted({_span(entity, text) for entity in passage.inners("entities")})
        for question in row.inners("qas"):
            query = question.text("query")
            question_idx = question.number("idx")
            if query.count(_PLACEHOLDER) != 1:
                raise DataError(f"{row.where}: the query must have one {_PLACEHOLDER}: '{query}'")
            answers = sorted({answer.text("text") for answer in self._answers(question, set_type)})
            unanswered = InputExample(
                guid=f"{set_type}-p{passage_idx}-q{question_idx}",
                text_a=text.replace("@highlight\n", "- "),
                text_b=query,
                meta={"passage_idx": passage_idx, "question_idx": question_idx, "group": f"passage-{passage_idx}"},
                idx=question_idx,
            )
            if set_type == "train":
                yield from self._training_examples(unanswered, entities, answers)
            else:
                candidates = sorted(set(entities) | set(answers))
                yield replace(
                    unanswered,
                    guid=f"{unanswered.guid}-0",
                    label="1" if answers else None,
                    meta={**unanswered.meta, "candidates": candidates, "answers": answers},
                )

    def _training_examples(
        self, unanswered: InputExample, entities: list[str], answers: list[str]
    ) -> Iterator[InputExample]:
        """One example per right answer. The wrong entities are drawn separately for each."""
        for number, answer in enumerate(answers):
            wrong = [entity for entity in entities if entity not in answers]
            if len(wrong) > _TRAIN_CANDIDATES - 1:
                self._rng.shuffle(wrong)
                wrong = wrong[: _TRAIN_CANDIDATES - 1]
            yield replace(
                unanswered,
                guid=f"{unanswered.guid}-{number}",
                label="1",
                meta={**unanswered.meta, "candidates": [answer, *wrong], "answers": [answer]},
            )

    @staticmethod
    def _answers(question: DataRow, set_type: str) -> list[DataRow]:
        if set_type == "unlabeled" or (set_type == "test" and "answers" not in question.fields):
            return []
        answers = question.inners("answers")
        if not answers:
            raise DataError(f"{question.where}: the question {question.get('idx')} has no answer")
        return answers


def _span(entity: DataRow, text: str) -> str:
    """The text of an entity. In ReCoRD, ``end`` is the position of its last character, not the one after it."""
    start = entity.number("start")
    end = entity.number("end")
    if not 0 <= start <= end < len(text):
        raise DataError(f"{entity.where}: the entity {start}–{end} is outside the passage ({len(text)} characters)")
    return text[start : end + 1]


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
