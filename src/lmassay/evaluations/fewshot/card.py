"""Few-shot on the card: what it asks, and the one number it puts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import Any

from lmassay.contracts import CardVariant
from lmassay.evaluations.fewshot import evaluation
from lmassay.plugins.options import split_spec
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.statistics.distributions import normal_quantile
from lmassay.statistics.estimation import wilson
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord

# The metric that is a share of the tests; of others the spread over splits is all that is known.
ACCURACY = "acc"
ONLY_SPLITS = "Few-shot: the difference is over what was shown, not over other tests."
_OVER_SPLITS = "The interval is over what was shown, not over other tests"
_BASELINES = ("majority", "random")
_FEWEST_SPLITS = 2
_DATA = Path(__file__).parent / "card_data"
_SHOTS = {"quick": [0, 8], "standard": [0, 4, 8], "full": [0, 2, 4, 8, 16]}
_SPLITS = {"quick": 4, "standard": 4, "full": 8}
_STEPS = {"quick": 8, "standard": 16, "full": 32}
_QUICK_TESTS = 48


def variants(size: str) -> list[CardVariant]:
    """Film reviews to label after a few examples: shown in the prompt, or trained on where nothing else is possible."""
    task: dict[str, Any] = {"name": "fewshot", "data": "reviews.yaml", "labelled": ["train"]}
    if size == "quick":
        task["test_examples"] = _QUICK_TESTS
    task["splits"] = {"strategy": "multi_splits", "k": _SPLITS[size]}
    patterns = [0, 1] if size == "full" else 0
    shown: dict[str, Any] = {"name": "icl", "shots": _SHOTS[size], "pattern": patterns}
    trained = {
        "name": "pet",
        "pattern": patterns,
        "learning_rate": [1e-5, 1e-4] if size == "full" else 1e-4,
        "max_steps": _STEPS[size],
        "batch_size": 8,
        "eval_ratios": [0.25],
        "max_seq_length": 64,
    }
    by_logprobs = {**task, "method": ["majority", {**shown, "answer_by": "logprobs"}]}
    by_choices = {**task, "method": ["majority", {**shown, "answer_by": "choices"}]}
    by_training = {**task, "method": ["majority", trained]}
    return [
        CardVariant(frozenset({"logprobs", "generate"}), {"task": by_logprobs}, _DATA),
        CardVariant(frozenset({"generate", "choices"}), {"task": by_choices}, _DATA),
        CardVariant(frozenset({"train"}), {"task": by_training}, _DATA),
    ]


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The score of the configuration with the best dev score, beside what is reached without examples."""
    learned = [record for record in records if _learns(record)]
    if not learned:
        return None
    record = max(learned, key=_dev_score)
    metric = next(iter(record.design.headline or [ACCURACY]))
    result = lesson_result(store, record, metric)
    if result is None:
        return None
    tests = tests_of(store, record)
    scope = [counted(result.n, "split")]
    if tests:
        scope.append(f"{tests:,} tests")
    scope.append(_described(record))
    beside = []
    for other in records:
        if not _learns(other):
            beside.append(f"{_described(other)}: {value_with_interval(lesson_result(store, other, metric))}")
    uncertainty = "The interval is over what was shown and over the tests" if metric == ACCURACY else _OVER_SPLITS
    return Headline(
        evaluation=evaluation,
        metric=metric,
        title=f"{metric} after a few examples",
        result=result,
        scope=", ".join(scope),
        beside=beside,
        meaning="After it was given a few labelled examples, it labels this share of unseen ones rightly. It has "
        "learned from them if it does better than without.",
        limits="One small task. Of several settings the one with the best dev score is shown. "
        f"{uncertainty}; splits share their examples, so it is a guide.",
        records=[record],
        comparison_note=ONLY_SPLITS,
    )


def lesson_result(store: Store, record: RunRecord, metric: str) -> Result | None:
    """The run's result; of an accuracy with an interval that holds for other tests as well.

    All splits share their tests, so that their spread, which the run's own interval is made of, says nothing about
    them. The two uncertainties are independent and add up as the sides of a right angle do.
    """
    result, tests = record.result(metric), tests_of(store, record)
    if result is None or result.value is None or metric != ACCURACY or result.n < _FEWEST_SPLITS or not tests:
        return result
    value = result.value
    # Splits that all came to one value have no interval: it does not depend on what was shown.
    over_splits = (value, value) if result.low is None or result.high is None else (result.low, result.high)
    over_tests = wilson(value, tests, normal_quantile(0.5 + record.settings.confidence / 2))
    below, above = (hypot(value - splits, value - one) for splits, one in zip(over_splits, over_tests, strict=True))
    return replace(result, low=max(value - below, 0.0), high=min(value + above, 1.0))


def tests_of(store: Store, record: RunRecord) -> int:
    """How many examples every split was tested on; 0 if that was not written down."""
    counts = {row.score.details.get("n_test") for row in store.rows(record.id) if row.score is not None}
    tests = counts.pop() if len(counts) == 1 else None
    return tests if isinstance(tests, int) else 0


def _dev_score(record: RunRecord) -> float:
    dev = record.result("dev")
    return -1.0 if dev is None or dev.value is None else dev.value


def _learns(record: RunRecord) -> bool:
    name, options = _method_of(record)
    return name not in _BASELINES and not (name == "icl" and options.get("shots", 8) == 0)


def _described(record: RunRecord) -> str:
    """What the model was given to learn from."""
    name, options = _method_of(record)
    if name == "icl":
        shots = options.get("shots", 8)
        return f"{counted(shots, 'example')} shown" if shots else "none shown"
    return {"majority": "always the most frequent label", "random": "a label at random"}.get(name, name)


def _method_of(record: RunRecord) -> tuple[str, dict[str, Any]]:
    task = record.config["task"]
    spec = task.get("method", "pet") if isinstance(task, Mapping) else "pet"
    return split_spec(spec, "method")
