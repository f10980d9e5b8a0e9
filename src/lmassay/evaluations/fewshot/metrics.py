"""Metrics of few-shot tasks.

Accuracy, F1, macro-F1 and exact match per question compare predicted labels with true ones; a label is given as its
index in ``task.labels``. The metrics of ReCoRD compare the texts that answer its questions.
"""

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


LabelIndices = NDArray[np.int64]
# FewNLU's F1 is that of the second label, as in scikit-learn's default.
_POSITIVE = 1
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def scores(
    metrics: Sequence[str],
    labels: Sequence[int],
    predictions: Sequence[int],
    questions: Sequence[Hashable | None] | None = None,
) -> dict[str, float]:
    """The value of each metric, by its name.

    ``questions`` has the id of each example's question. Only ``em`` needs it: it counts the questions whose answers are
    all right.

    >>> scores(("acc", "f1"), [1, 0, 1, 1], [1, 1, 1, 0])
    {'acc': 0.5, 'f1': 0.6666666666666666}
    """
    check_metrics(metrics)
    true = _label_indices(labels, "labels")
    predicted = _label_indices(predictions, "predictions")
    if len(true) != len(predicted):
        raise ValueError(f"{len(true)} labels, but {len(predicted)} predictions")
    if not len(true):
        raise ValueError("there are no examples to score")
    by_name = {}
    for name in metrics:
        if name == "em":
            by_name[name] = exact_match(true, predicted, questions)
        else:
            by_name[name] = _LABEL_METRICS[name](true, predicted)
    return by_name


def task_scores(
    task: NluTask,
    examples: Sequence[InputExample],
    logits: Sequence[Sequence[float]],
    answers: Sequence[str] | None = None,
) -> dict[str, float]:
    """The task's metrics by name, from the label scores of each example.

    Empty if there are no examples, or if one of them has no label.

    ``answers`` are the chosen texts of a task without fixed labels (ReCoRD). Its metrics compare texts, so without
    ``answers`` only its accuracy can be computed.
    """
    if not examples or any(example.label is None for example in examples):
        return {}
    if task.kind == "entities" and answers is not None:
        return _entity_scores(task, examples, answers)
    predictions = [predicted_label(row) for row in logits]
    labels = [task.labels.index(str(example.label)) for example in examples]
    if task.kind == "entities":
        # The other metrics of such a task compare texts, which are not known here.
        names = ["acc"] if "acc" in task.metrics else []
        return scores(names, labels, predictions)
    questions = [task.question(example) for example in examples]
    if None in questions:
        # In this task no examples belong to a common question.
        return scores(task.metrics, labels, predictions)
    return scores(task.metrics, labels, predictions, questions)


def _entity_scores(task: NluTask, examples: Sequence[InputExample], answers: Sequence[str]) -> dict[str, float]:
    """The metrics of a task without fixed labels: the chosen texts are compared with all right answers."""
    right_answers = [example.meta["answers"] for example in examples]
    by_name = answer_scores(answers, right_answers)
    selected: dict[str, float] = {}
    for name in task.metrics:
        if name in by_name:
            selected[name] = by_name[name]
    return selected


def scores_of_answered(
    task: NluTask, examples: Sequence[InputExample], logits: Sequence[Sequence[float] | None]
) -> dict[str, float]:
    """The task's metrics over the examples that have a usable answer; empty if none has one.

    ``logits`` has None in place of the label scores of an example without a usable answer. Exact match is computed over
    the questions whose examples all have one.
    """
    answered: list[InputExample] = []
    answered_logits: list[Sequence[float]] = []
    incomplete_questions: set[str | None] = set()
    for example, row in zip(examples, logits, strict=True):
        if row is None:
            incomplete_questions.add(task.question(example))
            continue
        answered.append(example)
        answered_logits.append(row)
    by_name = task_scores(task, answered, answered_logits)
    if "em" not in by_name or not incomplete_questions:
        return by_name
    # A question that lacks an answer is neither right nor wrong, so exact match leaves it out.
    complete_examples = []
    complete_logits = []
    for example, row in zip(answered, answered_logits, strict=True):
        if task.question(example) not in incomplete_questions:
            complete_examples.append(example)
            complete_logits.append(row)
    scores_of_complete = task_scores(task, complete_examples, complete_logits)
    del by_name["em"]
    if "em" in scores_of_complete:
        by_name["em"] = scores_of_complete["em"]
    return by_name


def predicted_label(logits: Sequence[float]) -> int:
    """The index of the label with the largest score; of several with the same score, the first."""
    return max(range(len(logits)), key=logits.__getitem__)


def check_metrics(metrics: Sequence[str]) -> None:
    """Raise a ConfigError if one of the names is not that of a metric."""
    for name in metrics:
        if name not in METRICS:
            raise ConfigError(f"there is no metric '{name}'{did_you_mean(name, METRICS)}")


def accuracy(labels: LabelIndices, predictions: LabelIndices) -> float:
    """The share of correct predictions."""
    return float(np.mean(labels == predictions))


def f1(labels: LabelIndices, predictions: LabelIndices, positive: int = _POSITIVE) -> float:
    """F1 of one label; 0 if it neither occurs nor is predicted."""
    is_positive = labels == positive
    is_predicted = predictions == positive
    hits = int(np.sum(is_positive & is_predicted))
    # The harmonic mean of precision and recall: 2·hits / (positives + predicted positives).
    occurrences = int(np.sum(is_positive)) + int(np.sum(is_predicted))
    if occurrences == 0:
        return 0.0
    return 2 * hits / occurrences


def macro_f1(labels: LabelIndices, predictions: LabelIndices) -> float:
    """The mean F1 over the labels that occur or are predicted; other labels do not count, as in scikit-learn."""
    f1_by_label = [f1(labels, predictions, int(label)) for label in np.union1d(labels, predictions)]
    return float(np.mean(f1_by_label))


def exact_match(labels: LabelIndices, predictions: LabelIndices, questions: Sequence[Hashable | None] | None) -> float:
    """The share of questions whose answers are all classified correctly."""
    if questions is None or any(question is None for question in questions):
        raise ConfigError("the metric 'em' needs the question of each example; this task has no questions")
    if len(questions) != len(labels):
        raise ValueError(f"{len(labels)} labels, but {len(questions)} questions")
    is_correct: dict[Hashable | None, bool] = {}
    for question, agrees in zip(questions, labels == predictions, strict=True):
        is_correct[question] = is_correct.get(question, True) and bool(agrees)
    return sum(is_correct.values()) / len(is_correct)


# The metrics that need nothing but the true and the predicted labels.
_LABEL_METRICS: dict[str, Callable[[LabelIndices, LabelIndices], float]] = {
    "acc": accuracy,
    "f1": f1,
    "f1-macro": macro_f1,
}
METRICS = (*_LABEL_METRICS, "em")


def _label_indices(values: Sequence[int], name: str) -> LabelIndices:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise ValueError(f"the {name} must be whole numbers: the index of each label in the list of labels")
    return array.astype(np.int64)


# --- ReCoRD: comparing a chosen entity with the right answers, as SuperGLUE does --------------------------------------


def answer_scores(chosen: Sequence[str], right: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 over words, means over questions.

    A question may have several right answers; the one that gives the chosen text the highest value counts. ``acc`` is
    the same as exact match, under the name that other tasks use for the share of correct answers.

    >>> answer_scores(["the Bhutto family"], [["Bhutto", "Benazir Bhutto"]])
    {'acc': 0.0, 'f1': 0.6666666666666666, 'em': 0.0}
    """
    if len(chosen) != len(right) or not chosen:
        raise ValueError(f"{len(chosen)} answers for {len(right)} questions; there must be one each, and at least one")
    n_exact = 0
    total_f1 = 0.0
    for answer, right_answers in zip(chosen, right, strict=True):
        is_exact = False
        best_f1 = 0.0
        for right_answer in right_answers:
            is_exact = is_exact or normalised(answer) == normalised(right_answer)
            best_f1 = max(best_f1, token_f1(answer, right_answer))
        n_exact += is_exact
        total_f1 += best_f1
    exact = n_exact / len(chosen)
    return {"acc": exact, "f1": total_f1 / len(chosen), "em": exact}


def token_f1(chosen: str, right: str) -> float:
    """The F1 of a chosen text: the harmonic mean of precision and recall over its words.

    >>> token_f1("Benazir Bhutto", "Bhutto")
    0.6666666666666666
    """
    chosen_words = normalised(chosen).split()
    right_words = normalised(right).split()
    common = Counter(chosen_words) & Counter(right_words)
    if not common:
        return 0.0
    return 2 * common.total() / (len(chosen_words) + len(right_words))


def normalised(text: str) -> str:
    """The text in lower case, without punctuation, articles and repeated spaces."""
    without_punctuation = text.lower().translate(_PUNCTUATION)
    without_articles = _ARTICLES.sub(" ", without_punctuation)
    return " ".join(without_articles.split())
