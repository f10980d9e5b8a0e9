"""In-context learning: the training examples stand in the prompt, nothing is trained, any model can be asked."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.types import Continuation, Generate, LogProbs, Request, Response

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.methods.contract import Lesson
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

_BETWEEN = "\n\n"


class NoChoiceError(Exception):
    """A model did not keep to the choices it was given."""


class InContext:
    """Demonstrations before the question, the label's word read off behind it.

    ``shots`` examples of the split's train part are shown, of every label as many, in an order drawn by the seed.
    ``pattern`` must end with its mask. ``answer_by: logprobs`` compares the log-probabilities of the labels' words
    (``per_token``: their means), ``choices`` lets a model behind an API choose one of them.
    """

    def __init__(
        self,
        shots: Annotated[int, Field(ge=0)] = 8,
        pattern: int = 0,
        answer_by: Literal["logprobs", "choices"] = "logprobs",
        per_token: bool = False,
    ) -> None:
        self.shots, self.pattern = shots, pattern
        self._answer_by, self._per_token = answer_by, per_token
        self.needs = frozenset({"logprobs"} if answer_by == "logprobs" else {"generate", "choices"})

    def check(self, task: NluTask) -> None:
        """Whether the task can be asked in this way at all."""
        if task.kind == "referent":
            raise ConfigError(
                f"task.method: {task.name} asks whether a referent is right, for which its patterns have no word; take "
                "a method that is trained"
            )
        example = next(iter(task.examples("train")))
        _, after = task.cloze_text(example, self.pattern)
        if any(character.isalnum() for character in after):
            raise ConfigError(
                f"task.method.pattern: pattern {self.pattern} of {task.name} goes on behind its mask, which a model "
                f"that reads from left to right cannot see; take {self._usable(task, example) or 'another'}"
            )

    def _usable(self, task: NluTask, example: InputExample) -> str:
        ids = task.patterns.get("cloze", [])
        fit = [i for i in ids if i < 10 and not any(c.isalnum() for c in task.cloze_text(example, i)[1])]
        return ", ".join(map(str, fit))

    def questions(self, lesson: Lesson, examples: Sequence[InputExample]) -> list[list[Request]]:
        """For each example what to ask: one question a candidate, or one with all of them."""
        shown = "".join(self._shown(lesson.task, example) + _BETWEEN for example in self._demonstrations(lesson))
        return [self._question(lesson.task, shown, example) for example in examples]

    def logits(self, task: NluTask, example: InputExample, responses: Sequence[Response]) -> list[float]:
        """The score of each label; the largest is the prediction."""
        words = self._candidates(task, example)
        if self._answer_by == "choices":
            chosen = _bare(responses[0].text)
            scores = [1.0 if _bare(word) == chosen else 0.0 for word in words]
            if not any(scores):
                raise NoChoiceError(f"the answer '{responses[0].text[:40]}' is none of {', '.join(words)[:80]}")
        else:
            scores = [self._score(response) for response in responses]
        return _by_label(task, example, scores)

    def _score(self, response: Response) -> float:
        assert isinstance(response.answer, Continuation)
        total, tokens = response.answer.total, response.answer.tokens
        return total / max(1, len(tokens)) if self._per_token else total

    def _question(self, task: NluTask, shown: str, example: InputExample) -> list[Request]:
        before, _ = task.cloze_text(example, self.pattern)
        context = shown + before.rstrip()
        words = self._candidates(task, example)
        if self._answer_by == "choices":
            return [Generate(context, max_tokens=16, choices=tuple(words))]
        return [LogProbs(context, f" {word}") for word in words]

    def _shown(self, task: NluTask, example: InputExample) -> str:
        before, after = task.cloze_text(example, self.pattern)
        return f"{before.rstrip()} {self._answer(task, example)}{after}"

    def _answer(self, task: NluTask, example: InputExample) -> str:
        if task.kind == "labels":
            return task.verbalize(str(example.label), self.pattern)[0]
        if task.kind == "entities":
            return str(example.meta["answers"][0])
        return self._candidates(task, example)[task.labels.index(str(example.label))]

    def _candidates(self, task: NluTask, example: InputExample) -> list[str]:
        if task.kind == "labels":
            return [task.verbalize(label, self.pattern)[0] for label in task.labels]
        words = task.choice_texts(example)
        if not words:
            raise DataError(f"{example.guid}: there are no candidates to choose from")
        return words

    def _demonstrations(self, lesson: Lesson) -> list[InputExample]:
        """As many of each label as can be, in an order that the seed draws."""
        rng = random.Random(lesson.seed)
        by_label: dict[Any, list[InputExample]] = {}
        for example in lesson.train:
            by_label.setdefault(example.label, []).append(example)
        stacks = [rng.sample(by_label[label], len(by_label[label])) for label in sorted(by_label, key=str)]
        chosen: list[InputExample] = []
        while len(chosen) < self.shots and any(stacks):
            for stack in stacks:
                if stack and len(chosen) < self.shots:
                    chosen.append(stack.pop())
        rng.shuffle(chosen)
        return chosen


def _bare(text: str) -> str:
    return text.strip().strip(string.punctuation).strip().casefold()


def _by_label(task: NluTask, example: InputExample, scores: Sequence[float]) -> list[float]:
    """Scores of candidates as scores of labels: an entity counts for the label that it is right or wrong."""
    if task.kind != "entities":
        return list(scores)
    right = [name in example.meta["answers"] for name in task.choice_texts(example)]
    return [
        max((s for s, r in zip(scores, right, strict=True) if r is wanted), default=-1e9) for wanted in (False, True)
    ]
