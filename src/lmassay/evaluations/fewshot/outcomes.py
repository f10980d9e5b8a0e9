"""Turns the outcomes of trainings into the scores of a run, and these scores into the results of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import TYPE_CHECKING, Any

from lmassay.errors import PluginError
from lmassay.evaluations.fewshot.metrics import predicted_label, task_scores
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.statistics.intervals import result_of
from lmassay.statistics.replicates import mean_of_repetitions, mean_over_repetitions, rate_on_tests
from lmassay.types import PerTestScores, Result, Score, digest
from lmassay.types.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.evaluations.fewshot.methods.contract import Method
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask
    from lmassay.statistics.estimation import Estimate
    from lmassay.statistics.intervals import Settings
    from lmassay.statistics.table import ScoreTable
    from lmassay.types import Replicates

    RowMask = NDArray[np.bool_]
    """True for the rows of a table that are selected."""

ACCURACY = "acc"
"""The metric that is the share of test examples with the right label."""
OUT_OF_CHOICE = "ooc"
"""The share of test examples whose answers cannot be read as a label."""
NOT_ASKED = "not_asked"
"""The share of test examples whose prompts the model cannot read."""
# These are numbers of updates. They are reported next to the scores, but without an interval.
_COUNTS = ("updates", "chosen_step")
_NO_READABLE_ANSWER = "none: no answer can be read as a label"
_NO_ANSWERED_PROMPT = "none: the model cannot read any of the prompts"
_DESCRIPTION = "none: describes these examples"
_UNIT_INTERVAL = (0.0, 1.0)
_ROUNDING = 1e-9


def eval_ratios_of(method: Method) -> list[float | None]:
    """The evaluation ratios that each training of a method serves; ``[None]`` if there is only one.

    An evaluation ratio is the share of all updates between two evaluations on the dev set (``Method.eval_ratios``).
    """
    ratios = method.eval_ratios
    if ratios is None or isinstance(ratios, int | float) or len(ratios) == 1:
        return [None]
    return [float(ratio) for ratio in ratios]


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The examples that a prompted model was not asked about because it cannot read their prompts, with the reasons."""

    dev: Sequence[str] = ()
    """The reason for each dev example that was not asked about."""
    test: Mapping[int, str] = field(default_factory=dict)
    """The index of a test example that was not asked about → the reason."""


# --- the score of a training ------------------------------------------------------------------------------------------


def score(
    task: NluTask,
    outcomes: Sequence[Mapping[str, Any]],
    every: float | None,
    dev: Sequence[InputExample],
    tested: Sequence[InputExample],
    not_asked: NotAsked = NotAsked(),  # noqa: B008 - frozen
) -> Score:
    """The metrics on dev and test of a training, or of several trainings whose logits are averaged.

    ``outcomes`` has one stored outcome per training. ``every`` is the evaluation ratio whose choice of weights counts:
    see :func:`eval_ratios_of`. ``dev`` and ``tested`` are the dev and test examples, in the order of the logits. If
    there are several trainings, the numbers of examples, updates, losses and dev curve are those of the first one.
    """
    choices = [_choice(outcome, every) for outcome in outcomes]
    first_outcome = outcomes[0]
    first_choice = choices[0]
    if len(choices) == 1:
        on_dev = first_choice["dev"]
        on_test = first_choice["test"]
        test_logits = first_choice["test_logits"]
    else:
        dev_logits = mean_logits([choice["dev_logits"] for choice in choices])
        test_logits = mean_logits([choice["test_logits"] for choice in choices])
        on_dev = task_scores(task, dev, dev_logits)
        on_test = task_scores(task, tested, test_logits)

    values = dict(on_test)
    unscored = {}
    predictions: list[int | None] = []
    for logits in test_logits:
        # A prompted model may give answers that cannot be read as a label; these have None instead of logits.
        predictions.append(None if logits is None else predicted_label(logits))
    n_asked = len(tested) - len(not_asked.test)
    n_unreadable = predictions.count(None) - len(not_asked.test)
    if on_test:
        values["test"] = _selection_score(on_test)
    elif tested and n_unreadable == n_asked:
        reason = _no_answer_reason(n_asked, list(not_asked.test.values()))
        unscored.update(dict.fromkeys([*task.metrics, "test"], reason))
    else:
        unscored["test"] = "the test examples have no labels"
    # A prompt method records "unusable" if the model answers with text, or if at least one answer is unusable.
    if "unusable" in first_outcome and tested:
        if n_asked:
            values[OUT_OF_CHOICE] = n_unreadable / n_asked
        else:
            unscored[OUT_OF_CHOICE] = _no_answer_reason(n_asked, list(not_asked.test.values()))
    if on_dev:
        for metric, value in on_dev.items():
            values[f"dev_{metric}"] = value
        values["dev"] = _selection_score(on_dev)
    elif dev and ("unusable" in first_outcome or not_asked.dev):
        unscored["dev"] = _no_answer_reason(len(dev) - len(not_asked.dev), not_asked.dev)
    else:
        unscored["dev"] = "there are no dev examples"
    if "updates" in first_outcome:
        values["updates"] = float(first_outcome["updates"])
        if "step" in first_choice:
            values["chosen_step"] = float(first_choice["step"])

    if not_asked.test and values:
        # If there is no other score, this one is left out too, so that the row counts as unscored.
        values[NOT_ASKED] = len(not_asked.test) / len(tested)

    details = {
        "n_train": first_outcome["n_train"],
        "n_dev": first_outcome["n_dev"],
        "n_test": len(tested),
        "curve": first_outcome.get("curve", []),
        "losses": first_outcome.get("losses", []),
    }
    for key in ("notes", "unusable"):
        if key in first_outcome:
            details[key] = first_outcome[key]
    details["predictions"] = predictions
    per_test = _per_test_scores(task, tested, predictions, on_test, not_asked)
    scores_of_values = {metric: scores for metric, scores in per_test.scores.items() if metric in values}
    test_scores = replace(per_test, scores=scores_of_values) if scores_of_values else None
    return Score(values, unscored, details, test_scores=test_scores)


def _no_answer_reason(n_asked: int, not_asked: Sequence[str]) -> str:
    """Why there is no score, if no answer can be read as a label.

    ``n_asked`` is how many examples the model was asked about; ``not_asked`` has the reason for each other example.

    >>> _no_answer_reason(2, ["prompt too long"])
    'none of 2 answers can be read as a label; 1 example not asked: prompt too long'
    """
    reasons = []
    if n_asked:
        reasons.append(f"none of {n_asked} answers can be read as a label")
    for reason, count in Counter(not_asked).items():
        # If nothing was asked, the reason is shown without a number, so that the text is the same for every split.
        reasons.append(f"{counted(count, 'example')} not asked: {reason}" if n_asked else reason)
    return "; ".join(reasons)


def _per_test_scores(
    task: NluTask,
    tested: Sequence[InputExample],
    predictions: Sequence[int | None],
    on_test: Mapping[str, float],
    not_asked: NotAsked,
) -> PerTestScores:
    """For each test example, whether it was labelled correctly and whether its answer could be read as a label.

    ReCoRD's accuracy compares texts, so it may differ from the share of right labels. In that case the accuracy has no
    scores of single examples.
    """
    scores: dict[str, list[int | None]] = {}
    is_out_of_choice: list[int | None] = []
    for number, prediction in enumerate(predictions):
        is_out_of_choice.append(None if number in not_asked.test else int(prediction is None))
    scores[OUT_OF_CHOICE] = is_out_of_choice
    if ACCURACY in on_test:
        is_right: list[int | None] = []
        for example, prediction in zip(tested, predictions, strict=True):
            if prediction is None:
                is_right.append(None)
            else:
                is_right.append(int(task.labels.index(str(example.label)) == prediction))
        answered = [right for right in is_right if right is not None]
        accuracy_by_labels = sum(answered) / len(answered)
        if isclose(accuracy_by_labels, on_test[ACCURACY], abs_tol=_ROUNDING):
            scores[ACCURACY] = is_right
            if len(on_test) == 1:
                # If the task has a single metric, the test score is that metric.
                scores["test"] = is_right
    # Questions about one passage are not independent.
    group_numbers: dict[str, int] = {}
    groups: list[int] = []
    for example in tested:
        groups.append(group_numbers.setdefault(task.group(example), len(group_numbers)))
    if len(group_numbers) == len(tested):
        # Every test example is its own group, so they are independent.
        groups = []
    tests = digest([(example.guid, example.label) for example in tested])
    return PerTestScores(tests, scores, groups)


def _choice(outcome: Mapping[str, Any], every: float | None) -> Mapping[str, Any]:
    """The weights that a training chose under an evaluation ratio; if ``every`` is None, its only choice."""
    choices: Sequence[Mapping[str, Any]] = outcome["choices"]
    if every is None:
        return choices[0]
    for choice in choices:
        if choice["every"] == every:
            return choice
    # Without a dev set there is only one choice, however many ratios were given.
    if len(choices) == 1:
        return choices[0]
    raise PluginError(f"the method's classifier has no choice for {every:g}, one of the eval_ratios in its options")


def _selection_score(values: Mapping[str, float]) -> float:
    """FewNLU's selection score: the mean of a task's metrics."""
    return sum(values.values()) / len(values)


def mean_logits(logits: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """The mean over trainings of the logits of each example; empty without examples."""
    import numpy as np

    if not len(logits[0]):
        return []
    stacked = np.asarray(logits, dtype=np.float64)
    means: list[list[float]] = stacked.mean(axis=0).tolist()
    return means


# --- the results of a run ---------------------------------------------------------------------------------------------


def results(table: ScoreTable, metrics: Sequence[str], settings: Settings, replicates: Replicates) -> list[Result]:
    """Means over trainings, with their standard deviations and confidence intervals.

    If there are several evaluation ratios, the overall results are those of the ratio with the best mean dev score.
    Each ratio also has its own results, and the results of each pattern are means over all ratios. The confidence
    interval of an accuracy accounts for the choice of the labelled examples and of the test examples; the interval of
    any other score accounts only for the choice of the labelled examples.
    """
    names = [*metrics, OUT_OF_CHOICE]
    if len(metrics) > 1:
        names.append("test")
    names.append("dev")
    for metric in metrics:
        names.append(f"dev_{metric}")
    names += _COUNTS
    # If no answer can be read as a label, these metrics have no value. They are reported without one, so that a reader
    # sees that they are missing.
    expected = {*metrics, "dev"} if table.has(OUT_OF_CHOICE) or table.has(NOT_ASKED) else set()
    reported = [name for name in names if table.has(name) or name in expected]
    selected = _best_eval_ratio(table)
    rows = []
    for metric in reported:
        rows.append(_mean_result(table, metric, settings, replicates, "overall", selected))
        rows += _spread(table, metric, selected)
    if table.has(NOT_ASKED):
        rows.append(_share_not_asked(table, reported))
    for group in ("every", "pattern"):
        parts = list(table.parts(group))
        if len(parts) < 2:
            continue
        for label, part in parts:
            for metric in reported:
                rows.append(_mean_result(table, metric, settings, replicates, f"{group}={label}", part))
    return rows


def _mean_result(
    table: ScoreTable, metric: str, settings: Settings, replicates: Replicates, group: str, part: RowMask | None
) -> Result:
    """The mean of a metric over the trainings in ``part``, or over all of them if it is None."""
    counts = table.counts(metric, part)
    if not counts[0]:
        method = ""
        if table.has(OUT_OF_CHOICE):
            method = _NO_READABLE_ANSWER
        elif table.has(NOT_ASKED):
            method = _NO_ANSWERED_PROMPT
        return Result(metric, group, None, None, None, *counts, method=method)
    # FewNLU's mean is over trainings, which matters if splits have different numbers of them.
    mean = float(table.values(metric, part).mean())
    if metric in _COUNTS:
        return Result(metric, group, mean, None, None, *counts, method="none: a number of updates, not a score")
    estimate = _estimate(table, metric, replicates, part)
    result = result_of(estimate, metric, group, counts, settings, estimate.clustered_by)
    return replace(result, value=mean)


def _share_not_asked(table: ScoreTable, metrics: Sequence[str]) -> Result:
    """The mean share of test examples that the model was not asked about, over all splits that have any score.

    A split that records no such share has asked about all its test examples, so it counts as 0.
    """
    import numpy as np

    shares = table.column(NOT_ASKED)
    is_scored = ~np.isnan(shares)
    for metric in metrics:
        is_scored |= ~np.isnan(table.column(metric))
    n_scored = int(is_scored.sum())
    n_error = int(table.has_error().sum())
    n_unscored = len(table) - n_scored - n_error
    value = float(np.nansum(shares)) / n_scored
    return Result(NOT_ASKED, "overall", value, None, None, n_scored, n_error, n_unscored, method=_DESCRIPTION)


def _estimate(table: ScoreTable, metric: str, replicates: Replicates, part: RowMask | None) -> Estimate:
    """The mean over splits with its uncertainty.

    Patterns and repetitions of one split are not independent trials, so they are averaged first.
    """
    import numpy as np

    correlation = replicates.correlation.get(metric, 0.0)
    splits = table.clusters(metric, replicates.group, part)
    distinct_splits = np.unique(splits)
    tested = table.on_tests(metric, part)
    if tested is not None:
        rows = [mean_over_repetitions(tested.scores[splits == split]) for split in distinct_splits]
        return rate_on_tests(np.stack(rows), correlation, tested.groups)
    values = table.values(metric, part)
    means = [values[splits == split].mean() for split in distinct_splits]
    return mean_of_repetitions(np.array(means), correlation, _UNIT_INTERVAL)


def _best_eval_ratio(table: ScoreTable) -> RowMask | None:
    """The rows of the evaluation ratio with the highest mean dev score; None unless there are several ratios.

    Of several ratios with the same score, the first one is taken.
    """
    best_part: RowMask | None = None
    best_score = float("-inf")
    for _, part in table.parts("every"):
        has_dev_scores = table.counts("dev", part)[0] > 0
        dev_score = float(table.values("dev", part).mean()) if has_dev_scores else -1.0
        if dev_score > best_score:
            best_part, best_score = part, dev_score
    return best_part


def _spread(table: ScoreTable, metric: str, part: RowMask | None) -> list[Result]:
    """A result with the standard deviation over trainings, as FewNLU reports it; empty for a single training."""
    from lmassay.evaluations.fewshot.protocol import estimates

    values = table.values(metric, part)
    if len(values) < 2:
        return []
    _, std = estimates.mean_and_std(values)
    method = "none: it is itself a spread over trainings"
    return [Result(f"{metric}.std", "overall", std, None, None, *table.counts(metric, part), method=method)]


def option_text(value: Any) -> str:
    """The value of an option as text, for names of configurations."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(option_text, value))
    return str(value)
