"""BBQ's questions in a log of another harness, judged by our own task: which choice was the most probable, or named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lmassay.evaluations.bias.bbq import bias_notes, item_of
from lmassay.evaluations.bias.data_files import DataRow
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, checked_items
from lmassay.evaluations.bias.task import Bias
from lmassay.interchange.lm_eval.run_metadata import UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import LogSample, SampleLog, requests_digest
from lmassay.types import Continuation, Example, Generate, LogProbs, Request, Response, Score, SourceLocation, digest

_FIELDS = (
    "answer_info",
    "context_condition",
    "question_polarity",
    "additional_metadata",
    "ans0",
    "ans1",
    "ans2",
    "label",
)


def are_questions(log: SampleLog) -> bool:
    """True if every sample is a row of BBQ with its choices compared by log-likelihood, or with a generated answer."""
    return all(all(name in sample.doc for name in _FIELDS) and _is_answered(sample) for sample in log.samples)


class LoggedQuestions(Bias):
    """The questions of a log. They have the ids that they have in a run of ours on BBQ's files.

    The harness compares the two people with ten ways of saying "unknown"; whichever of those wins is the unknown
    answer. Generated answers are read by our parsers.
    """

    def __init__(self, log: SampleLog, imported: Mapping[str, str], notes: Sequence[str] = ()) -> None:
        by_likelihood = log.samples[0].log_likelihoods() is not None
        super().__init__(
            data=str(log.path), rotations="none", answer_by="choices" if by_likelihood else "generate", label=log.task
        )
        self._log, self._imported, self._told = log, imported, notes

    @property
    def requests_each(self) -> int:  # type: ignore[override]  # as in the log
        return max(len(sample.asked) for sample in self._log.samples)

    def check(self) -> None:
        _ = self._items

    def notes(self) -> list[str]:
        return [*self._told, *self._dataset.notes]

    def requests(self, example: Example) -> list[Request]:
        sample = self._logged[example.inputs["item"]]
        key = f"{sample.file}:{sample.line}"
        if sample.log_likelihoods() is None:
            return [Generate(str(sample.asked[0][0]), location=SourceLocation("0", key))]
        return [LogProbs(r[0], r[1], location=SourceLocation(str(n), key)) for n, r in enumerate(sample.asked)]

    def signature(self) -> Mapping[str, Any]:
        # Which file of BBQ's it was is not told; which questions is.
        data = digest([sample.doc for sample in self._log.samples])[:8]
        prompt = f"lm_eval.{requests_digest(self._log.samples)}"
        parts: dict[str, Any] = {"data": f"bbq.{data}", "prompt": prompt, "rotations": "none"}
        parts |= {"averaging": "test", "answer_by": self._answer_by}
        return parts | ({"parsing": self._parser} if self._answer_by == "generate" else {}) | dict(self._imported)

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _dataset(self) -> BiasDataset:
        items = list(checked_items((_item(sample), sample.where) for sample in self._log.samples))
        return BiasDataset("bbq", items, "en", self._log.sha256, kind="bbq", notes=bias_notes(items))

    @cached_property
    def _logged(self) -> dict[str, LogSample]:
        return {_item(sample).id: sample for sample in self._log.samples}

    def _judge_choices(self, example: Example, answers: Sequence[Response]) -> Score:
        item = self._by_id[example.inputs["item"]]
        sample = self._logged[item.id]
        scores = [answer.answer.total for answer in answers if isinstance(answer.answer, Continuation)]
        picked = {_place(item, request[1]) for request, s in zip(sample.asked, scores, strict=True) if s == max(scores)}
        # Two choices that are equally probable are no answer.
        letter = LETTERS[example.inputs["order"].index(picked.pop())] if len(picked) == 1 else None
        best: dict[int, float] = {}
        for request, score in zip(sample.asked, scores, strict=True):
            place = _place(item, request[1])
            best[place] = max(score, best.get(place, score))
        return self._judged(example, letter, {}, {"logprobs": [best.get(place) for place in example.inputs["order"]]})


def _item(sample: LogSample) -> BiasItem:
    return item_of(DataRow(sample.doc, sample.where))


def _place(item: BiasItem, continuation: str) -> int:
    """The choice that a continuation stands for: what names nobody says that it is unknown."""
    text = continuation.strip()
    people = [place for place, choice in enumerate(item.choices) if choice.strip() == text]
    return people[0] if people else item.unknown


def _is_answered(sample: LogSample) -> bool:
    if sample.log_likelihoods() is None:
        texts = sample.texts()
        return texts is not None and len(texts) == 1 and bool(sample.asked and sample.asked[0])
    asked = {str(request[1]).strip() for request in sample.asked}
    return sum(str(sample.doc[name]).strip() in asked for name in ("ans0", "ans1", "ans2")) >= 2


class QuestionsReader:
    """Recognises logs of BBQ's questions; each log is a run."""

    joins = False

    def reads(self, log: SampleLog) -> bool:
        return are_questions(log)

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], absent: UnloggedExamples
    ) -> LoggedQuestions:
        return LoggedQuestions(logs[0], imported, notes)


def questions_reader() -> QuestionsReader:
    """The evaluation's reader of logs."""
    return QuestionsReader()
