"""In-context learning: the training examples are in the prompt, nothing is trained, and any model can be used."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.contract import PromptMethod, TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.types import Continuation, Generate, LogProbs, Request, Response

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

_SEPARATOR = "\n\n"
# Patterns from this number on repeat the others with several words per label; they are not suggested.
_FIRST_REPEATED_PATTERN = 10


class NoChoiceError(Exception):
    """A model did not keep to the choices it was given."""


class InContext(PromptMethod):
    """Demonstrations before the question; the label's word is read after it.

    ``shots`` examples of the split's train part are shown, equally many of every label, in an order drawn with the
    seed. ``pattern`` must end with its mask. ``answer_by: logprobs`` compares the log-probabilities of the label words
    (with ``per_token`` their means); ``choices`` lets a model behind an API choose one of them.
    """

    pattern: int

    def __init__(
        self,
        shots: Annotated[int, Field(ge=0)] = 8,
        pattern: int = 0,
        answer_by: Literal["logprobs", "choices"] = "logprobs",
        per_token: bool = False,
    ) -> None:
        self.shots = shots
        self.pattern = pattern
        self._answer_by = answer_by
        self._per_token = per_token
        self.needs = frozenset({"generate", "choices"})
        if answer_by == "logprobs":
            self.needs = frozenset({"logprobs"})

    def check_task(self, task: NluTask) -> None:
        """Raise a ConfigError for a task without label words, and for a pattern that continues after its mask."""
        if task.kind == "referent":
            raise ConfigError(
                f"task.method: {task.name} asks whether a referent is right, and its patterns have no words for that; "
                "use a method that trains"
            )
        example = next(iter(task.examples("train")))
        if _ends_with_mask(task, example, self.pattern):
            return
        usable = []
        for pattern in task.patterns.get("cloze", []):
            if pattern < _FIRST_REPEATED_PATTERN and _ends_with_mask(task, example, pattern):
                usable.append(str(pattern))
        raise ConfigError(
            f"task.method.pattern: pattern {self.pattern} of {task.name} continues after its mask, which a model "
            f"that reads from left to right cannot see; use {', '.join(usable) or 'another'}"
        )

    def questions(self, inputs: TrainingInputs, examples: Sequence[InputExample]) -> list[list[Request]]:
        """The requests about each example: one per candidate, or one that offers all candidates as choices."""
        shown = ""
        for demonstration in self._demonstrations(inputs):
            shown += self._with_answer(inputs.task, demonstration) + _SEPARATOR
        return [self._question(inputs.task, shown, example) for example in examples]

    def logits(self, task: NluTask, example: InputExample, responses: Sequence[Response]) -> list[float]:
        """The score of each label; the largest is the prediction."""
        candidates = self._candidates(task, example)
        if self._answer_by == "choices":
            answer = responses[0].text
            scores = [float(_normalised(candidate) == _normalised(answer)) for candidate in candidates]
            if not any(scores):
                raise NoChoiceError(f"the answer '{answer[:40]}' is none of {', '.join(candidates)[:80]}")
        else:
            scores = [self._log_probability(response) for response in responses]
        return _label_scores(task, example, scores)

    def _log_probability(self, response: Response) -> float:
        assert isinstance(response.answer, Continuation)
        total = response.answer.total
        if self._per_token:
            return total / max(1, len(response.answer.tokens))
        return total

    def _question(self, task: NluTask, shown: str, example: InputExample) -> list[Request]:
        before, _ = task.cloze_text(example, self.pattern)
        context = shown + before.rstrip()
        candidates = self._candidates(task, example)
        if self._answer_by == "choices":
            return [Generate(context, max_tokens=16, choices=tuple(candidates))]
        return [LogProbs(context, f" {candidate}") for candidate in candidates]

    def _with_answer(self, task: NluTask, example: InputExample) -> str:
        """A demonstration: the example in the pattern, with the right answer at its mask."""
        before, after = task.cloze_text(example, self.pattern)
        if task.kind == "labels":
            answer = task.verbalize(str(example.label), self.pattern)[0]
        elif task.kind == "entities":
            answer = str(example.meta["answers"][0])
        else:
            label = task.labels.index(str(example.label))
            answer = self._candidates(task, example)[label]
        return f"{before.rstrip()} {answer}{after}"

    def _candidates(self, task: NluTask, example: InputExample) -> list[str]:
        """The texts that compete for the mask: the first word of each label, or the choices of the example."""
        if task.kind == "labels":
            return [task.verbalize(label, self.pattern)[0] for label in task.labels]
        choices = task.choice_texts(example)
        if not choices:
            raise DataError(f"{example.guid}: there are no candidates to choose from")
        return choices

    def _demonstrations(self, inputs: TrainingInputs) -> list[InputExample]:
        """Equally many examples of each label as far as possible, in an order that the seed draws."""
        rng = random.Random(inputs.seed)
        by_label: dict[Any, list[InputExample]] = {}
        for example in inputs.train:
            by_label.setdefault(example.label, []).append(example)
        # One shuffled stack per label, from which examples are taken in turn.
        stacks = []
        for label in sorted(by_label, key=str):
            examples = by_label[label]
            stacks.append(rng.sample(examples, len(examples)))
        chosen: list[InputExample] = []
        while len(chosen) < self.shots and any(stacks):
            for stack in stacks:
                if stack and len(chosen) < self.shots:
                    chosen.append(stack.pop())
        rng.shuffle(chosen)
        return chosen


def _ends_with_mask(task: NluTask, example: InputExample, pattern: int) -> bool:
    """Whether nothing but punctuation follows the mask."""
    _, after = task.cloze_text(example, pattern)
    return not any(character.isalnum() for character in after)


def _normalised(text: str) -> str:
    return text.strip().strip(string.punctuation).strip().casefold()


def _label_scores(task: NluTask, example: InputExample, scores: Sequence[float]) -> list[float]:
    """Scores of labels from scores of candidates.

    For ReCoRD, label 0 gets the score of the best wrong entity and label 1 that of the best right one.
    """
    if task.kind != "entities":
        return list(scores)
    # Below all log-probabilities, for a question without right (or wrong) entities.
    best_wrong = best_right = -1e9
    for entity, score in zip(task.choice_texts(example), scores, strict=True):
        if entity in example.meta["answers"]:
            best_right = max(best_right, score)
        else:
            best_wrong = max(best_wrong, score)
    return [best_wrong, best_right]
