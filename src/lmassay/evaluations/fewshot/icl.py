"""In-context learning: the training examples are in the prompt, nothing is trained, and any model can be used."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lmassay.answers import parser
from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.contract import NoChoiceError, PromptMethod, TrainingInputs
from lmassay.evaluations.fewshot.tasks.chat import ANSWERS, BLANK
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.redaction import excerpt
from lmassay.types import Continuation, Generate, LogProbs, Request, Response, digest

if TYPE_CHECKING:
    from lmassay.contracts import Model
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

AnswerBy = Literal["logprobs", "choices", "generate"]
# Way to answer → what the model must be able to do for it, in the order in which ``auto`` tries them.
_NEEDS: dict[AnswerBy, frozenset[str]] = {
    "logprobs": frozenset({"logprobs"}),
    "choices": frozenset({"generate", "choices"}),
    "generate": frozenset({"generate"}),
}
_SEPARATOR = "\n\n"
# Patterns from this number on repeat the others with several words per label; they are not suggested.
_FIRST_REPEATED_PATTERN = 10
# The parser of answers identifies choices by letters, but the prompt shows none. So the choices get characters that no
# answer contains (from Unicode's private use area), starting with this one.
_FIRST_LETTER = 0xE100
# With ``choices`` the server allows only the label words, so this limit only has to be longer than any of them.
_TOKENS_OF_A_CHOICE = 16


class InContext(PromptMethod):
    """In-context learning: the prompt shows labelled examples (demonstrations) before the question.

    ``shots`` examples of the split's train part are shown, as far as possible equally many of every label, in an order
    drawn with the seed. ``answer_by`` is how the label is found:

    - ``logprobs`` compares the log-probabilities of the label words (with ``per_token``, divided by their numbers of
      tokens)
    - ``choices`` lets the model choose one of the label words
    - ``generate`` asks in chat form, with at most ``max_tokens`` for the answer, and reads the label from the text
    - ``auto`` takes the first of these that the model supports

    ``pattern`` must end with its mask (only punctuation may follow it), except with ``generate``.
    """

    pattern: int

    def __init__(
        self,
        shots: Annotated[int, Field(ge=0)] = 8,
        pattern: int = 0,
        answer_by: Literal["auto", "logprobs", "choices", "generate"] = "auto",
        per_token: bool = False,
        max_tokens: Annotated[int, Field(ge=1)] = 32,
    ) -> None:
        self.shots = shots
        self.pattern = pattern
        self._is_automatic = answer_by == "auto"
        self._answer_by: AnswerBy = "logprobs" if answer_by == "auto" else answer_by
        self._per_token = per_token
        self._max_tokens = max_tokens
        self.needs = _NEEDS[self._answer_by]

    @property
    def answers_in_words(self) -> bool:  # type: ignore[override]  # depends on how the model answers
        return self._answer_by != "logprobs"

    def choose_for(self, model: Model) -> None:
        """With ``answer_by: auto``, choose the first way to answer that the model supports.

        If it supports none, ``needs`` stays ``logprobs``, and the model is refused for lacking that.
        """
        if not self._is_automatic:
            return
        for answer_by, needs in _NEEDS.items():
            if needs <= model.can:
                self._answer_by = answer_by
                self.needs = needs
                return

    def notes(self) -> list[str]:
        """Which way to answer was chosen by ``auto``; empty if it is the usual one, by log-probabilities."""
        if not self._is_automatic or self._answer_by == "logprobs":
            return []
        if self._answer_by == "choices":
            return ["icl: the model returns no log-probabilities; it chooses one of the labels (answer_by: choices)"]
        return [
            "icl: the model can only generate text; it is asked in chat form, and the label is read from its answer "
            "(answer_by: generate)"
        ]

    def wording(self, task: NluTask) -> Mapping[str, Any]:
        """How the model answers; for ``generate`` also a digest of the task's wording."""
        if self._answer_by == "logprobs":
            return {}
        if self._answer_by == "choices":
            return {"answer_by": "choices"}
        chat = task.chat
        wording = digest([chat.instruction, chat.question, dict(chat.answers)])[:8]
        return {"answer_by": f"generate.{wording}.{self._max_tokens}"}

    def check_task(self, task: NluTask) -> None:
        """Raise a ConfigError for a task without label words, and for a pattern that continues after its mask."""
        if task.kind == "referent":
            raise ConfigError(
                f"task.method: {task.name} asks whether a referent is right, and its patterns have no words for that; "
                "use a method that trains"
            )
        example = next(iter(task.examples("train")))
        if self._answer_by == "generate":
            # A chat model sees the text on both sides of a blank, so any pattern will do. This call raises an error if
            # the pattern does not exist.
            self._question_text(task, example)
            return
        if _ends_with_mask(task, example, self.pattern):
            return
        usable = []
        for pattern in task.patterns.get("cloze", []):
            if pattern < _FIRST_REPEATED_PATTERN and _ends_with_mask(task, example, pattern):
                usable.append(str(pattern))
        raise ConfigError(
            f"task.method.pattern: pattern {self.pattern} of {task.name} continues after its mask, and a model that "
            f"reads from left to right cannot see that part; use {', '.join(usable) or 'another'}"
        )

    def count_requests(self, task: NluTask, examples: Sequence[InputExample]) -> int:
        """One request per candidate and example, or one per example if the model answers in words."""
        if self.answers_in_words:
            return len(examples)
        if task.kind == "labels":
            return len(examples) * len(task.labels)
        return sum(len(task.choice_texts(example)) for example in examples)

    def questions(self, inputs: TrainingInputs, examples: Sequence[InputExample]) -> list[list[Request]]:
        """The requests about each example: one per candidate, or one that asks for one of the candidates."""
        demonstrations = self._demonstrations(inputs)
        if self._answer_by == "generate":
            turns = self._turns(inputs.task, demonstrations)
            return [[self._chat_question(inputs.task, turns, example)] for example in examples]
        demonstrations_text = ""
        for demonstration in demonstrations:
            demonstrations_text += self._with_answer(inputs.task, demonstration) + _SEPARATOR
        return [self._question(inputs.task, demonstrations_text, example) for example in examples]

    def logits(self, task: NluTask, example: InputExample, responses: Sequence[Response]) -> list[float]:
        """The score of each label; the largest is the prediction. Raises NoChoiceError if an answer is not a label."""
        candidates = self._candidates(task, example)
        if self._answer_by == "logprobs":
            scores = [self._log_probability(response) for response in responses]
        else:
            chosen = _chosen(responses[0].text, candidates)
            if chosen is None:
                raise NoChoiceError(
                    f"the answer '{excerpt(responses[0].text, 40)}' is not one of {excerpt(', '.join(candidates), 80)}"
                )
            scores = [float(number == chosen) for number in range(len(candidates))]
        return _label_scores(task, example, scores)

    def _log_probability(self, response: Response) -> float:
        assert isinstance(response.answer, Continuation)
        total = response.answer.total
        if self._per_token:
            return total / max(1, len(response.answer.tokens))
        return total

    # --- as a text to continue ----------------------------------------------------------------------------------------

    def _question(self, task: NluTask, demonstrations_text: str, example: InputExample) -> list[Request]:
        """The requests about an example: one that lets the model choose, or one for each candidate."""
        before, _ = task.cloze_text(example, self.pattern)
        context = demonstrations_text + before.rstrip()
        candidates = self._candidates(task, example)
        if self._answer_by == "choices":
            return [Generate(context, max_tokens=_TOKENS_OF_A_CHOICE, choices=tuple(candidates))]
        return [LogProbs(context, f" {candidate}") for candidate in candidates]

    def _with_answer(self, task: NluTask, example: InputExample) -> str:
        """A demonstration: the example in the pattern, with the right answer at its mask."""
        before, after = task.cloze_text(example, self.pattern)
        return f"{before.rstrip()} {self._right_answer(task, example)}{after}"

    # --- as a conversation --------------------------------------------------------------------------------------------

    def _turns(self, task: NluTask, demonstrations: Sequence[InputExample]) -> list[tuple[str, str]]:
        """The demonstrations as earlier turns: the user asks, the assistant gives the right answer."""
        turns: list[tuple[str, str]] = []
        for demonstration in demonstrations:
            turns.append(("user", self._question_text(task, demonstration)))
            turns.append(("assistant", self._right_answer(task, demonstration)))
        return turns

    def _chat_question(self, task: NluTask, turns: Sequence[tuple[str, str]], example: InputExample) -> Request:
        messages = [*turns, ("user", self._question_text(task, example))]
        # The instruction opens the first turn of the user: not every model has a system turn.
        role, first_text = messages[0]
        messages[0] = (role, f"{self._instruction(task)}{_SEPARATOR}{first_text}")
        return Generate(messages=tuple(messages), max_tokens=self._max_tokens)

    def _instruction(self, task: NluTask) -> str:
        """The task's instruction with the answers that are the same for all examples."""
        answers = "The possible answers follow each text."
        if task.kind == "labels":
            answers = f"Possible answers: {', '.join(self._label_answers(task))}."
        return task.chat.instruction.replace(ANSWERS, answers)

    def _question_text(self, task: NluTask, example: InputExample) -> str:
        """The question about an example, as a chat model sees it.

        If the task has its own wording for chat models, that is used; else the pattern, with a blank for its mask.
        """
        if task.chat.question:
            return task.chat.text(example.meta["fields"])
        before, after = task.cloze_text(example, self.pattern)
        text = f"{before.rstrip()} {BLANK}{after}".strip()
        if task.kind == "labels":
            return text
        lines = [text, "Possible answers:"]
        lines += [f"- {candidate}" for candidate in self._candidates(task, example)]
        return "\n".join(lines)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _right_answer(self, task: NluTask, example: InputExample) -> str:
        """The right answer to an example's question, for a demonstration."""
        if task.kind == "entities":
            return str(example.meta["answers"][0])
        label = task.labels.index(str(example.label))
        return self._candidates(task, example)[label]

    def _label_answers(self, task: NluTask) -> list[str]:
        """The answer for each label: its first word in the pattern, or the task's own answer for chat models."""
        if self._answer_by == "generate" and task.chat.answers:
            return [task.chat.answers[label] for label in task.labels]
        return [task.verbalize(label, self.pattern)[0] for label in task.labels]

    def _candidates(self, task: NluTask, example: InputExample) -> list[str]:
        """The texts that compete for the mask: the answer of each label, or the choices of the example."""
        if task.kind == "labels":
            return self._label_answers(task)
        choices = task.choice_texts(example)
        if not choices:
            raise DataError(f"{example.guid}: there are no candidates to choose from")
        return choices

    def _demonstrations(self, inputs: TrainingInputs) -> list[InputExample]:
        """The examples to show: as far as possible equally many of each label, in a random order (by the seed)."""
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
    """Whether nothing but punctuation follows the mask of the pattern."""
    _, after = task.cloze_text(example, pattern)
    return not any(character.isalnum() for character in after)


def _chosen(answer: str, candidates: Sequence[str]) -> int | None:
    """The number of the candidate that an answer names; None if it names none, or several.

    >>> _chosen("The answer is **no**.", ["Yes", "No"])
    1
    >>> _chosen("Yes or no", ["Yes", "No"])
    """
    for number, candidate in enumerate(candidates):
        if _normalised(candidate) == _normalised(answer):
            return number
    letters = "".join(chr(_FIRST_LETTER + number) for number in range(len(candidates)))
    letter = parser.parse(answer, candidates, letters).letter
    return None if letter is None else letters.index(letter)


def _normalised(text: str) -> str:
    return text.strip().strip(string.punctuation).strip().casefold()


def _label_scores(task: NluTask, example: InputExample, scores: Sequence[float]) -> list[float]:
    """The score of each label, from the scores of the candidates.

    For ReCoRD, label 0 gets the score of the best wrong entity and label 1 that of the best right one.
    """
    if task.kind != "entities":
        return list(scores)
    # Lower than any log-probability; it remains if a question has no right (or no wrong) entities.
    best_wrong = best_right = -1e9
    for entity, score in zip(task.choice_texts(example), scores, strict=True):
        if entity in example.meta["answers"]:
            best_right = max(best_right, score)
        else:
            best_wrong = max(best_wrong, score)
    return [best_wrong, best_right]
