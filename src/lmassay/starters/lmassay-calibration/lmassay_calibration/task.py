"""The task: multiple-choice questions, which a model answers with the probability of each choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lmassay.contracts import Task
from lmassay.errors import DataError
from lmassay.statistics.intervals import mean_results
from lmassay.statistics.table import ScoreTable
from lmassay.storage.files import open_decoded, open_text, sha256
from lmassay.types import OVERALL, Continuation, Design, Example, LogProbs, Response, Result, Score, Settings, digest
from lmassay_calibration import evaluation
from lmassay_calibration.scores import BINS, brier, ece_interval, expected_calibration_error, probabilities

PROMPT = "Question: {question}\nAnswer:"


class Calibration(Task):
    """Does the model know what it knows? ``data`` is a .jsonl file with ``question``, ``choices`` and ``answer``.

    ``answer`` is the position of the right choice, counted from 0. ``prompt`` is the text before a choice, in which
    ``{question}`` is replaced by the question. ``bins`` is the number of equal-width bins of the calibration error.
    """

    name = "calibration"
    version = 1
    needs = frozenset({"logprobs"})
    evaluation = evaluation
    design = Design(headline=("ece", "brier", "accuracy"))

    def __init__(self, data: Path, prompt: str = PROMPT, bins: int = BINS, label: str = "") -> None:
        self._data = data
        self._prompt = prompt
        self._bins = bins
        self.label = label or data.stem

    def check(self) -> None:
        if "{question}" not in self._prompt:
            raise DataError("task.prompt: '{question}' is missing; it marks where the question goes")
        if self._bins < 1:
            raise DataError(f"task.bins: {self._bins} is not a number of bins; give at least 1")
        _ = self._questions

    def size(self) -> int:
        return len(self._questions)

    def examples(self) -> Iterator[Example]:
        for number, question in enumerate(self._questions, 1):
            inputs = {"question": question["question"], "choices": question["choices"]}
            groups = {"topic": question["topic"]} if "topic" in question else {}
            yield Example(f"{number}-{digest(inputs)[:8]}", inputs, question["answer"], groups)

    def requests(self, example: Example) -> list[LogProbs]:
        context = self._prompt.replace("{question}", example.inputs["question"])
        return [LogProbs(context, f" {choice}") for choice in example.inputs["choices"]]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [self._score_one(example, answers) for example, answers in zip(examples, responses, strict=True)]

    def _score_one(self, example: Example, answers: Sequence[Response]) -> Score:
        logprobs = [answer.answer.total for answer in answers if isinstance(answer.answer, Continuation)]
        shares = probabilities(logprobs)
        chosen = shares.index(max(shares))
        values = {
            "accuracy": float(chosen == example.reference),
            "confidence": shares[chosen],
            "brier": brier(shares, example.reference),
        }
        return Score(values, details={"probabilities": shares, "chosen": chosen})

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """ECE is computed from all answers together; the other metrics are means over questions."""
        confidences, correct = table.together("confidence", "accuracy")
        n, n_error, n_unscored = table.counts("confidence")
        results = []
        if n:
            value = expected_calibration_error(confidences, correct, self._bins)
            low, high = ece_interval(confidences, correct, settings, self._bins)
            results.append(Result("ece", OVERALL, value, low, high, n, n_error, n_unscored))
        # With these bounds, no interval contains values that the metric cannot have.
        bounds = {metric.name: metric.bounds for metric in evaluation.metrics if metric.bounds is not None}
        return [*results, *mean_results(table, ["brier", "accuracy", "confidence"], settings, bounds=bounds)]

    def signature(self) -> Mapping[str, Any]:
        return {
            "data": f"{self._data.stem}.{sha256(self._data)[:8]}",
            "prompt": digest(self._prompt)[:8],
            "bins": self._bins,
        }

    @cached_property
    def _questions(self) -> list[dict[str, Any]]:
        return read_questions(self._data)


def read_questions(path: Path) -> list[dict[str, Any]]:
    """Read the questions of a file. Raises DataError with the number of the first line that is not a question."""
    # This raises DataError if the file is missing, empty or not UTF-8.
    open_text(path, "data")
    questions = []
    # Some editors write a byte-order mark at the beginning, which "utf-8-sig" removes. Iterating over the stream splits
    # only at line breaks; str.splitlines() would also split a text that contains U+2028 or U+0085.
    with open_decoded(path, encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                questions.append(_read_question(line, f"{path}, line {number}"))
    if not questions:
        raise DataError(f"{path} has no questions")
    return questions


def _read_question(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not JSON ({error})") from None
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        raise DataError(f"{where}: the text 'question' is missing")
    choices = row.get("choices")
    answer = row.get("answer")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) for choice in choices):
        raise DataError(f"{where}: 'choices' must be a list of at least two texts")
    # In Python, bool is a subclass of int, but true and false are not positions.
    is_position = isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(choices)
    if not is_position:
        raise DataError(f"{where}: 'answer' must be the position of the right choice, 0 to {len(choices) - 1}")
    return row
