"""Published questions as inputs of the robustness task: the text is attacked, the right choice is the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lmassay.datasets import catalogue
from lmassay.datasets.questions import PublishedQuestion, read_questions
from lmassay.errors import ConfigError, DataError
from lmassay.types import digest

QuestionSpec = str | dict[str, str | list[str]]
"""A data set of the catalogue, or a part of one: ``{name: bbq, category: [Age, Religion]}``."""


class QuestionText:
    """Questions whose answer is in the text: one of each template, drawn with a seed.

    Questions of one template differ in a few words only, so a second one would add little. ``limit`` is the number of
    questions; categories contribute equally many as far as possible.
    """

    def __init__(self, spec: QuestionSpec, limit: int | None, seed: int) -> None:
        selection = catalogue.select(spec)
        if selection is None:
            raise DataError(f"task.questions: there is no data set '{spec}'; see lmassay data")
        question_format = selection.entry.questions
        if question_format is None:
            raise ConfigError(
                f"task.questions: the data set {selection.entry.name} does not say which answers are in the text; its "
                "entry needs the key 'questions'"
            )
        all_questions = read_questions(selection.paths, question_format)
        self._questions = drawn_questions(all_questions, limit, seed)
        if not self._questions:
            raise DataError(f"task.questions: {selection.entry.name} has no question whose answer is in the text")
        parts = []
        for question in self._questions:
            parts.append([question.context, question.question, question.answer, question.choices])
        self.sha256 = digest(parts)

    @property
    def lines(self) -> int:
        """The number of questions. The task also uses :class:`ParallelText`, which has a property of the same name."""
        return len(self._questions)

    def rows(self) -> Iterator[Mapping[str, str]]:
        """Yield the text that is attacked and the right answer."""
        for question in self._questions:
            yield {"src": f"{question.context} {question.question}", "ref": question.answer}

    def choices(self, index: int) -> list[str]:
        """The choices of a question."""
        return list(self._questions[index].choices)


def drawn_questions(questions: Sequence[PublishedQuestion], limit: int | None, seed: int) -> list[PublishedQuestion]:
    """Draw one question of each template; of these, take ``limit``, equally many from each category if possible."""
    by_template: dict[str, list[PublishedQuestion]] = {}
    for question in questions:
        by_template.setdefault(question.template, []).append(question)
    by_category: dict[str, list[PublishedQuestion]] = {}

    # The order of the digests is a random order that depends on the seed and the text only.
    def rank_of_template(name: str) -> str:
        return digest(seed, name)

    def rank_of_question(question: PublishedQuestion) -> str:
        return digest(seed, question.context, question.question, question.choices)

    for template in sorted(by_template, key=rank_of_template):
        drawn = min(by_template[template], key=rank_of_question)
        by_category.setdefault(drawn.category, []).append(drawn)
    if limit is None:
        limit = len(by_template)
    selected: list[PublishedQuestion] = []
    queues = [by_category[category] for category in sorted(by_category)]
    while len(selected) < limit and any(queues):
        for queue in queues:
            if queue and len(selected) < limit:
                selected.append(queue.pop(0))
    return selected
