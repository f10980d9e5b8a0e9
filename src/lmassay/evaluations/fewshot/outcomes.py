"""From what trainings gave to the scores of a run and the numbers of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING, Any

from lmassay.errors import PluginError
from lmassay.evaluations.fewshot.metrics import task_scores
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.statistics.intervals import result_of
from lmassay.statistics.replicates import mean_of_repetitions, rate_on_tests
from lmassay.types import PerTestScores, Result, Score, digest

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask
    from lmassay.statistics.estimation import Estimate
    from lmassay.statistics.intervals import Settings
    from lmassay.statistics.table import ScoreTable
    from lmassay.types import Replicates

ACCURACY = "acc"
"""The metric that is a share of the tests."""
_COUNTS = ("updates", "chosen_step")
_UNIT = (0.0, 1.0)
_ROUNDING = 1e-9


def evaluation_intervals(method: Any) -> list[float | None]:
    """The evaluation intervals that a method's training serves; None where it does not look at the dev set."""
    found = getattr(method, "eval_ratios", None)
    if found is None:
        return [None]
    several = list(found) if isinstance(found, list | tuple) else [found]
    return [None] if len(several) == 1 else [float(ratio) for ratio in several]


def score(
    task: NluTask,
    found: Sequence[Mapping[str, Any]],
    every: float | None,
    dev: Sequence[InputExample],
    tested: Sequence[InputExample],
) -> Score:
    """The verdict on a split: metrics on dev and test of its training, or of several whose logits are averaged."""
    chosen = [_choice(outcome, every) for outcome in found]
    first = chosen[0]
    if len(chosen) == 1:
        on_dev, on_test = first["dev"], first["test"]
        test_logits = first["test_logits"]
    else:
        dev_logits = _mean([choice["dev_logits"] for choice in chosen])
        test_logits = _mean([choice["test_logits"] for choice in chosen])
        on_dev, on_test = task_scores(task, dev, dev_logits), task_scores(task, tested, test_logits)
    values = dict(on_test)
    values |= {"test": _average(on_test)} if on_test else {}
    values |= {f"dev_{metric}": value for metric, value in on_dev.items()}
    values |= {"dev": _average(on_dev)} if on_dev else {}
    values |= {"updates": float(found[0]["updates"])} if "updates" in found[0] else {}
    values |= {"chosen_step": float(first["step"])} if "updates" in found[0] and "step" in first else {}
    unscored = {} if on_dev else {"dev": "no dev examples: the last weights were taken"}
    unscored |= {} if on_test else {"test": "the test examples have no labels"}
    details = {
        "n_train": found[0]["n_train"],
        "n_dev": found[0]["n_dev"],
        "n_test": len(tested),
        "curve": found[0].get("curve", []),
        "losses": found[0].get("losses", []),
        **({"notes": found[0]["notes"]} if "notes" in found[0] else {}),
        "predictions": [max(range(len(row)), key=row.__getitem__) for row in test_logits],
    }
    on_tests = _on_tests(task, tested, details["predictions"], on_test)
    return Score(values, unscored, details, test_scores=on_tests)


def _on_tests(
    task: NluTask, tested: Sequence[InputExample], predictions: Sequence[int], on_test: Mapping[str, float]
) -> PerTestScores | None:
    """Which tests were right, if that is what the accuracy is made of; ReCoRD's compares texts instead of labels."""
    if ACCURACY not in on_test:
        return None
    right = []
    for example, prediction in zip(tested, predictions, strict=True):
        right.append(int(task.labels.index(str(example.label)) == prediction))
    if not isclose(sum(right) / len(right), on_test[ACCURACY], abs_tol=_ROUNDING):
        return None
    scores = {ACCURACY: right}
    if len(on_test) == 1:
        scores["test"] = right
    # Questions about one passage are not independent tests.
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(task.group(example), len(numbers)) for example in tested]
    tests = digest([(example.guid, example.label) for example in tested])
    return PerTestScores(tests, scores, groups if len(numbers) < len(tested) else ())


def _choice(outcome: Mapping[str, Any], every: float | None) -> Mapping[str, Any]:
    choices: Sequence[Mapping[str, Any]] = outcome["choices"]
    if every is None:
        return choices[0]
    found = next((choice for choice in choices if choice["every"] == every), None)
    # Without a dev set there is one choice, whatever the intervals.
    if found is None and len(choices) > 1:
        raise PluginError(f"the method's classifier has no choice for the interval {every:g}, which its options name")
    return found or choices[0]


def _average(values: Mapping[str, float]) -> float:
    """FewNLU's selection score: the mean of a task's metrics."""
    return sum(values.values()) / len(values)


def _mean(logits: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    import numpy as np

    found: list[list[float]] = np.mean(np.asarray(logits), axis=0).tolist() if len(logits[0]) else []
    return found


def results(table: ScoreTable, metrics: Sequence[str], settings: Settings, replicates: Replicates) -> list[Result]:
    """Means over splits with their spread; of several evaluation intervals, the one with the best dev score counts.

    The interval of an accuracy holds for another labelled pool and other tests. That of other scores is over splits
    alone: how the number would differ with another pool, but the same tests.
    """
    wanted = [*metrics, *(["test"] if len(metrics) > 1 else []), "dev", *(f"dev_{m}" for m in metrics)]
    shown = [metric for metric in [*wanted, *_COUNTS] if table.has(metric)]
    parts = list(table.parts("every"))
    best = _best(table, parts)
    rows = []
    where = None if best is None else best[1]
    for metric in shown:
        rows.append(_mean_result(table, metric, settings, replicates, "overall", where))
        rows += _spread(table, metric, where)
    for group in ("every", "pattern"):
        found = list(table.parts(group))
        for label, part in found if len(found) > 1 else []:
            for metric in shown:
                rows.append(_mean_result(table, metric, settings, replicates, f"{group}={label}", part))
    return rows


def _mean_result(
    table: ScoreTable, metric: str, settings: Settings, replicates: Replicates, group: str, where: Any
) -> Result:
    counts = table.counts(metric, where)
    if not counts[0]:
        return Result(metric, group, None, None, None, *counts)
    if metric in _COUNTS:
        value = float(table.values(metric, where).mean())
        return Result(metric, group, value, None, None, *counts, method="none: a number of updates, not a score")
    estimated = _estimate(table, metric, replicates, where)
    result = result_of(estimated, metric, group, counts, settings, estimated.clustered_by)
    # FewNLU's mean is that over trainings, which matters if splits have different numbers of them.
    return replace(result, value=float(table.values(metric, where).mean()))


def _estimate(table: ScoreTable, metric: str, replicates: Replicates, where: Any) -> Estimate:
    """Patterns and repetitions of one split are no independent trials: they are averaged first."""
    import numpy as np

    correlation = replicates.correlation.get(metric, 0.0)
    splits = table.clusters(metric, replicates.group, where)
    tested = table.on_tests(metric, where)
    if tested is not None:
        scores = np.stack([tested.scores[splits == split].mean(axis=0) for split in np.unique(splits)])
        return rate_on_tests(scores, correlation, tested.groups)
    values = table.values(metric, where)
    means = np.array([values[splits == split].mean() for split in np.unique(splits)])
    return mean_of_repetitions(means, correlation, _UNIT)


def _best(table: ScoreTable, parts: Sequence[Any]) -> Any:
    """The interval with the highest mean dev score; of equals the first."""
    if not parts:
        return None
    return max(
        parts, key=lambda part: float(table.values("dev", part[1]).mean()) if table.counts("dev", part[1])[0] else -1
    )


def _spread(table: ScoreTable, metric: str, where: Any) -> list[Result]:
    from lmassay.evaluations.fewshot.protocol import estimates

    values = table.values(metric, where)
    if len(values) < 2:
        return []
    _, std = estimates.mean_and_std(values)
    method = "none: it is itself a spread over trainings"
    return [Result(f"{metric}.std", "overall", std, None, None, *table.counts(metric, where), method=method)]


def plain(value: Any) -> str:
    """An option's value for a label."""
    return (
        f"{value:g}"
        if isinstance(value, float)
        else ",".join(map(plain, value))
        if isinstance(value, list)
        else str(value)
    )
