"""Metrics over predicted labels (places in ``task.labels``): accuracy, F1, macro-F1, exact match per question; and over
the texts that ReCoRD's questions are answered with."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.examples import InputExample
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


Places = NDArray[np.int64]
_POSITIVE = 1
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def scores(
    metrics: Sequence[str],
    labels: Sequence[int],
    predictions: Sequence[int],
    questions: Sequence[Hashable | None] | None = None,
) -> dict[str, float]:
    """Each metric by its name; ``questions`` say which answers belong together for ``em``.

    >>> scores(("acc", "f1"), [1, 0, 1, 1], [1, 1, 1, 0])
    {'acc': 0.5, 'f1': 0.6666666666666666}
    """
    check_metrics(metrics)
    true, predicted = _places(labels, "labels"), _places(predictions, "predictions")
    if len(true) != len(predicted):
        raise ValueError(f"{len(true)} labels, but {len(predicted)} predictions")
    if not len(true):
        raise ValueError("no score without examples")
    found = {}
    for name in metrics:
        if name == "em":
            found[name] = exact_match(true, predicted, questions)
        else:
            found[name] = _PLAIN[name](true, predicted)
    return found


def task_scores(
    task: NluTask,
    examples: Sequence[InputExample],
    logits: Sequence[Sequence[float]],
    answers: Sequence[str] | None = None,
) -> dict[str, float]:
    """The task's metrics for label scores; none without labels. ``answers`` are the texts that were chosen, if any.

    Where a text was chosen (ReCoRD), its metrics compare texts; without the text only the share of right ones is known.
    """
    if not examples or any(example.label is None for example in examples):
        return {}
    predictions = [max(range(len(row)), key=row.__getitem__) for row in logits]
    labels = [task.labels.index(str(example.label)) for example in examples]
    if task.kind == "entities":
        found = {"acc": accuracy(_places(labels, "labels"), _places(predictions, "predictions"))}
        if answers is not None:
            found = answer_scores(answers, [example.meta["answers"] for example in examples])
        return {name: found[name] for name in task.metrics if name in found}
    questions = [task.question(example) for example in examples]
    return scores(task.metrics, labels, predictions, None if None in questions else questions)


def check_metrics(metrics: Sequence[str]) -> None:
    for name in metrics:
        if name not in METRICS:
            raise ConfigError(f"there is no metric '{name}'{did_you_mean(name, METRICS)}")


def accuracy(labels: Places, predictions: Places) -> float:
    return float(np.mean(labels == predictions))


def f1(labels: Places, predictions: Places, positive: int = _POSITIVE) -> float:
    """F1 of one label; 0 where it neither occurs nor is predicted."""
    hits = int(np.sum((labels == positive) & (predictions == positive)))
    named = int(np.sum(labels == positive)) + int(np.sum(predictions == positive))
    return 2 * hits / named if named else 0.0


def macro_f1(labels: Places, predictions: Places) -> float:
    """The mean F1 over the labels that occur or are predicted; a class that does neither does not count."""
    return float(np.mean([f1(labels, predictions, int(place)) for place in np.union1d(labels, predictions)]))


def exact_match(labels: Places, predictions: Places, questions: Sequence[Hashable | None] | None) -> float:
    """The share of questions whose every answer is judged rightly."""
    if questions is None or any(question is None for question in questions):
        raise ConfigError("the metric 'em' needs the question of each example; this task has no questions")
    if len(questions) != len(labels):
        raise ValueError(f"{len(labels)} labels, but {len(questions)} questions")
    right: dict[Hashable | None, bool] = {}
    for question, agrees in zip(questions, labels == predictions, strict=True):
        right[question] = right.get(question, True) and bool(agrees)
    return sum(right.values()) / len(right)


_PLAIN: dict[str, Callable[[Places, Places], float]] = {"acc": accuracy, "f1": f1, "f1-macro": macro_f1}
METRICS = (*_PLAIN, "em")


def _places(values: Sequence[int], name: str) -> Places:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iub":
        raise ValueError(f"the {name} must be whole numbers, the places of labels in their list")
    return found.astype(np.int64)


# --- ReCoRD: an entity that was chosen against the texts that are right, as SuperGLUE compares them -------------------


def answer_scores(chosen: Sequence[str], right: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and token F1, each the best over a question's right answers, mean over questions.

    ``acc`` is exact match by the name that other tasks use for the share of what is right.

    >>> answer_scores(["the Bhutto family"], [["Bhutto", "Benazir Bhutto"]])
    {'acc': 0.0, 'f1': 0.6666666666666666, 'em': 0.0}
    """
    if len(chosen) != len(right) or not chosen:
        raise ValueError(f"{len(chosen)} answers for {len(right)} questions; there must be one each, and at least one")
    exact, close = [], []
    for answer, right_answers in zip(chosen, right, strict=True):
        exact.append(max((float(normalised(answer) == normalised(one)) for one in right_answers), default=0.0))
        close.append(max((token_f1(answer, one) for one in right_answers), default=0.0))
    em, f1 = sum(exact) / len(exact), sum(close) / len(close)
    return {"acc": em, "f1": f1, "em": em}


def token_f1(chosen: str, right: str) -> float:
    """The harmonic mean of precision and recall over words.

    >>> token_f1("Benazir Bhutto", "Bhutto")
    0.6666666666666666
    """
    mine, theirs = normalised(chosen).split(), normalised(right).split()
    hits = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * hits / (len(mine) + len(theirs)) if hits else 0.0


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
