"""Import BBQ's questions from a log of lm-evaluation-harness, and score the logged answers with lmassay's own task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lmassay.evaluations.bias.bbq import bbq_item, bias_notes
from lmassay.evaluations.bias.data_files import BiasDataRow
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, checked_items
from lmassay.evaluations.bias.task import Bias
from lmassay.interchange.lm_eval.run_metadata import UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import LogSample, SampleLog, requests_digest
from lmassay.types import Continuation, Example, Generate, LogProbs, Request, Response, Score, SourceLocation, digest

_BBQ_FIELDS = (
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
    """Return True if every sample is a row of BBQ with a generated answer or with log-likelihoods of the choices."""
    for sample in log.samples:
        missing_fields = [name for name in _BBQ_FIELDS if name not in sample.doc]
        if missing_fields or not _is_answered(sample):
            return False
    return True


class LoggedQuestions(Bias):
    """The task that scores the questions of a log. Example ids are the same as in a run of lmassay on BBQ's files.

    The harness compares the log-likelihoods of the two people with those of ten ways of saying "unknown". If any of the
    ten wins, it counts as the unknown answer. Generated answers are read by lmassay's parsers.
    """

    def __init__(self, log: SampleLog, imported: Mapping[str, str], notes: Sequence[str] = ()) -> None:
        has_likelihoods = log.samples[0].log_likelihoods() is not None
        super().__init__(
            data=str(log.path),
            rotations="none",
            answer_by="choices" if has_likelihoods else "generate",
            label=log.task,
        )
        self._log = log
        self._imported = imported
        self._import_notes = notes

    @property
    def requests_each(self) -> int:  # type: ignore[override]  # as in the log
        return max(len(sample.requests) for sample in self._log.samples)

    def check(self) -> None:
        # Building the items checks them.
        _ = self._items

    def notes(self) -> list[str]:
        return [*self._import_notes, *self._dataset.notes]

    def requests(self, example: Example) -> list[Request]:
        sample = self._samples_by_item[example.inputs["item"]]
        # The location says which sample of the log has the answer, and to which of its requests.
        key = f"{sample.file}:{sample.line}"
        if sample.log_likelihoods() is None:
            return [Generate(str(sample.requests[0][0]), location=SourceLocation("0", key))]
        requests: list[Request] = []
        for number, request in enumerate(sample.requests):
            requests.append(LogProbs(request[0], request[1], location=SourceLocation(str(number), key)))
        return requests

    def signature(self) -> Mapping[str, Any]:
        # A log does not say which of BBQ's files it used, so the signature has a digest of the questions themselves.
        data = digest([sample.doc for sample in self._log.samples])[:8]
        parts: dict[str, Any] = {
            "data": f"bbq.{data}",
            "prompt": f"lm_eval.{requests_digest(self._log.samples)}",
            "rotations": "none",
            "averaging": "test",
            "answer_by": self._answer_by,
        }
        if self._answer_by == "generate":
            parts["parsing"] = self._parser
        return parts | dict(self._imported)

    # --- internals ----------------------------------------------------------------------------------------------------

    @cached_property
    def _dataset(self) -> BiasDataset:
        items_with_locations = [(_item(sample), sample.where) for sample in self._log.samples]
        items = list(checked_items(items_with_locations))
        return BiasDataset("bbq", items, "en", self._log.sha256, kind="bbq", notes=bias_notes(items))

    @cached_property
    def _samples_by_item(self) -> dict[str, LogSample]:
        return {_item(sample).id: sample for sample in self._log.samples}

    def _judge_choices(self, example: Example, answers: Sequence[Response]) -> Score:
        item = self._by_id[example.inputs["item"]]
        sample = self._samples_by_item[item.id]
        logprobs = [answer.answer.total for answer in answers if isinstance(answer.answer, Continuation)]
        # Several continuations stand for the unknown choice; the most probable of them counts.
        best_logprobs: dict[int, float] = {}
        for request, logprob in zip(sample.requests, logprobs, strict=True):
            index = _choice_index(item, request[1])
            best_logprobs[index] = max(logprob, best_logprobs.get(index, logprob))
        highest = max(logprobs)
        winners = [index for index, logprob in best_logprobs.items() if logprob == highest]
        order = example.inputs["order"]
        # If several choices are equally probable, the answer counts as out of choice.
        letter = None
        if len(winners) == 1:
            letter = LETTERS[order.index(winners[0])]
        logprobs_in_order = [best_logprobs.get(index) for index in order]
        return self._judged(example, letter, {}, {"logprobs": logprobs_in_order})


def _item(sample: LogSample) -> BiasItem:
    return bbq_item(BiasDataRow(sample.doc, sample.where))


def _choice_index(item: BiasItem, continuation: str) -> int:
    """Return the choice that a continuation stands for; one that names neither person means "unknown"."""
    text = continuation.strip()
    for index, choice in enumerate(item.choices):
        if choice.strip() == text:
            return index
    return item.unknown


def _is_answered(sample: LogSample) -> bool:
    """Return True if the sample has one generated answer, or log-likelihoods of at least the two people."""
    if sample.log_likelihoods() is None:
        texts = sample.texts()
        has_prompt = bool(sample.requests and sample.requests[0])
        return texts is not None and len(texts) == 1 and has_prompt
    continuations = {str(request[1]).strip() for request in sample.requests}
    choices = [str(sample.doc[name]).strip() for name in ("ans0", "ans1", "ans2")]
    compared = [choice for choice in choices if choice in continuations]
    # The unknown choice may have been asked in other words, but the two people may not.
    return len(compared) >= 2


class QuestionsReader:
    """Recognises logs of BBQ's questions."""

    # Each log becomes a run of its own.
    joins = False

    def reads(self, log: SampleLog) -> bool:
        """Return True if the log has BBQ's questions."""
        return are_questions(log)

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], absent: UnloggedExamples
    ) -> LoggedQuestions:
        """Return the task that judges a log."""
        return LoggedQuestions(logs[0], imported, notes)


def questions_reader() -> QuestionsReader:
    """Return the reader of logs that the evaluation declares."""
    return QuestionsReader()
