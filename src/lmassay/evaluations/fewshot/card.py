"""The few-shot evaluation on the report card: the configurations that the card runs, and the headline number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmassay.contracts import CardRequest, CardVariant, DataNeed
from lmassay.errors import UserError
from lmassay.evaluations.fewshot import evaluation
from lmassay.evaluations.fewshot.outcomes import ACCURACY
from lmassay.plugins.evaluations import metric_of
from lmassay.plugins.options import split_spec
from lmassay.reporting.headline import Headline, ReferenceRow, ReferenceTable, value_with_interval
from lmassay.reporting.numbers import p_statement
from lmassay.statistics.combination import mean_over_data_sets
from lmassay.statistics.comparison import Comparison, compare_runs
from lmassay.statistics.pairing import paired_on_tests
from lmassay.statistics.sides import load_side
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord
from lmassay.types.wording import counted

GAIN = "gain"
_LIMITS = (
    "One small task. Of several settings, the one with the best dev score is shown. Intervals of accuracies and of "
    "their gain say how much they may change with other labelled examples and other test examples; intervals of other "
    "scores account only for other labelled examples."
)
_LIMITS_OF_TASKS = (
    "Of several settings of a task, the one with the best dev score counts. The interval says how much the mean may "
    "change with other labelled examples and other test examples of these tasks, but not with other tasks."
)
_BASELINES = ("majority", "random")
# How many examples icl shows if a configuration does not say so.
_DEFAULT_SHOTS = 8
_DATA = Path(__file__).parent / "card_data"
# By size of the card: numbers of examples in the prompt, of splits, and of updates.
_SHOTS = {"quick": [0, 8], "standard": [0, 4, 8], "full": [0, 2, 4, 8, 16]}
_SPLITS = {"quick": 4, "standard": 4, "full": 8}
_STEPS = {"quick": 8, "standard": 16, "full": 32}
_QUICK_TESTS = 48


def variants(size: str) -> list[CardVariant]:
    """The configurations for a card of this size, on short reviews that are part of lmassay.

    The examples are shown in the prompt or, if the model does not support that, trained on.
    """
    task: dict[str, Any] = {"name": "fewshot", "data": "reviews.yaml", "labelled": ["train"]}
    if size == "quick":
        task["test_examples"] = _QUICK_TESTS
    task["splits"] = {"strategy": "multi_splits", "k": _SPLITS[size]}
    patterns: Any = 0
    learning_rates: Any = 1e-4
    if size == "full":
        patterns = [0, 1]
        learning_rates = [1e-5, 1e-4]
    in_context: dict[str, Any] = {"name": "icl", "shots": _SHOTS[size], "pattern": patterns}
    with_training = {
        "name": "pet",
        "pattern": patterns,
        "learning_rate": learning_rates,
        "max_steps": _STEPS[size],
        "batch_size": 8,
        "eval_ratios": [0.25],
        "max_seq_length": 64,
    }
    by_logprobs = {**task, "method": ["majority", {**in_context, "answer_by": "logprobs"}]}
    by_choices = {**task, "method": ["majority", {**in_context, "answer_by": "choices"}]}
    by_text = {**task, "method": ["majority", {**in_context, "answer_by": "generate"}]}
    by_training = {**task, "method": ["majority", with_training]}
    # The card uses the first variant that a model supports. Parsing free text is the least exact one, so it is last.
    # The first variant asks for "generate" although it generates nothing: this leaves out masked models, which
    # cannot continue a text and are trained instead.
    return [
        CardVariant(frozenset({"logprobs", "generate"}), {"task": by_logprobs}, _DATA),
        CardVariant(frozenset({"generate", "choices"}), {"task": by_choices}, _DATA),
        CardVariant(frozenset({"train"}), {"task": by_training}, _DATA),
        CardVariant(frozenset({"generate"}), {"task": by_text}, _DATA),
    ]


# --- on published data ------------------------------------------------------------------------------------------------

_FEWGLUE = "fewglue"
# Task → a pattern that ends with its mask, so that a model that reads from left to right can answer.
_PATTERNS = {"copa": 0, "wic": 0, "cb": 4, "rte": 4, "boolq": 0}
_TASKS = {
    "quick": ("copa", "wic"),
    "standard": ("copa", "wic", "cb", "rte"),
    "full": ("copa", "wic", "cb", "rte", "boolq"),
}
_PUBLISHED_SHOTS = {"quick": [0, 4], "standard": [0, 4, 8], "full": [0, 2, 4, 8, 16]}
_PUBLISHED_TESTS = {"quick": 48, "standard": 100, "full": None}
# In tokens. Longer inputs are shortened.
_MAX_SEQ_LENGTH = 128


def published_variants(request: CardRequest) -> list[CardVariant]:
    """The configurations for a card on published data: tasks of FewGLUE.

    The examples are shown in the prompt or, if the model does not support that, trained on.
    """
    by_logprobs = []
    by_choices = []
    by_text = []
    by_training = []
    needs = []
    for name in _TASKS[request.size]:
        for role in ("train", "dev32", "examples"):
            needs.append(DataNeed({"name": _FEWGLUE, "task": name}, role))
        task: dict[str, Any] = {"name": "fewshot", "data": f"superglue/{name}", "labelled": ["train"]}
        if _PUBLISHED_TESTS[request.size] is not None:
            task["test_examples"] = _PUBLISHED_TESTS[request.size]
        task["splits"] = {"strategy": "multi_splits", "k": _SPLITS[request.size]}
        in_context = {"name": "icl", "shots": _PUBLISHED_SHOTS[request.size], "pattern": _PATTERNS[name]}
        with_training = {
            "name": "pet",
            "pattern": 0,
            "learning_rate": 1e-4,
            "max_steps": _STEPS[request.size],
            "batch_size": 8,
            "eval_ratios": [0.25],
            "max_seq_length": _MAX_SEQ_LENGTH,
        }
        by_logprobs.append({**task, "method": ["majority", {**in_context, "answer_by": "logprobs"}]})
        by_choices.append({**task, "method": ["majority", {**in_context, "answer_by": "choices"}]})
        by_text.append({**task, "method": ["majority", {**in_context, "answer_by": "generate"}]})
        by_training.append({**task, "method": ["majority", with_training]})
    data = tuple(needs)
    # The same order and the same abilities as in ``variants``.
    return [
        CardVariant(frozenset({"logprobs", "generate"}), {"task": by_logprobs}, Path(), data),
        CardVariant(frozenset({"generate", "choices"}), {"task": by_choices}, Path(), data),
        CardVariant(frozenset({"train"}), {"task": by_training}, Path(), data),
        CardVariant(frozenset({"generate"}), {"task": by_text}, Path(), data),
    ]


# --- the sample that ``lmassay init`` writes --------------------------------------------------------------------------


def sample_marks(model: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What replaces METHOD in the sample: in-context learning or, without a model, a class that counts words."""
    if model is None:
        return {"METHOD": {"name": "@DATA@/my_method.py:SharedWords", "power": [1, 2]}}
    return {"METHOD": {"name": "icl", "shots": 2, "pattern": 0}}


# --- the headline number ----------------------------------------------------------------------------------------------


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The gain over no examples; if the card has several tasks, the mean of their gains."""
    by_data: dict[str, list[RunRecord]] = {}
    for record in records:
        by_data.setdefault(str(record.depends_on.get("data", "")), []).append(record)
    parts: list[Headline] = []
    for members in by_data.values():
        part = _headline_of_task(store, members)
        if part is not None:
            parts.append(part)
    if not parts:
        return None
    if len(by_data) == 1:
        return parts[0]
    return _mean_of_tasks(parts, records)


def _mean_of_tasks(parts: Sequence[Headline], records: Sequence[RunRecord]) -> Headline:
    """The headline for several tasks: the mean over those that have a headline of their own.

    If only one task has one, or not all of them are gains, return the headline of the first task, with its name.
    """
    first = parts[0]
    if len(parts) == 1 or any(part.metric != GAIN for part in parts):
        return replace(first, scope=f"only {_task_name(first.records[0])}, {first.scope}")
    gain = mean_over_data_sets([part.result for part in parts], GAIN)
    metric = first.compared_by
    scores: list[Result] = []
    task_names: list[str] = []
    details: list[str] = []
    for part in parts:
        record = part.records[0]
        score = record.result(metric)
        if score is not None:
            scores.append(score)
        task_names.append(_task_name(record))
        details.append(f"{_task_name(record)}: {value_with_interval(part.result)}, {part.scope}")
    after = mean_over_data_sets(scores, metric)
    return replace(
        first,
        result=gain,
        scope=f"mean of {len(parts)} tasks: {', '.join(task_names)}",
        details=details,
        limits=_LIMITS_OF_TASKS,
        records=[part.records[0] for part in parts],
        references=_mean_references(records, parts, after),
        compared_result=after,
        comparison_note=f"{first.comparison_note} Each task is compared by itself.",
    )


def _mean_references(records: Sequence[RunRecord], parts: Sequence[Headline], after: Result) -> list[ReferenceTable]:
    """The mean accuracies without examples and of always giving the most frequent label."""
    metric = parts[0].compared_by
    rows: list[ReferenceRow] = []
    for label, is_reference in (("the model without examples", _shows_none), ("most frequent label", _is_majority)):
        # The value of the first such run of each task; a mean is shown only if every task has one.
        values: list[float] = []
        for part in parts:
            same_data = part.records[0].depends_on.get("data")
            for record in records:
                result = record.result(metric)
                if is_reference(record) and record.depends_on.get("data") == same_data and result is not None:
                    if result.value is not None:
                        values.append(result.value)
                    break
        if len(values) == len(parts):
            rows.append(ReferenceRow(label, sum(values) / len(values), "on the same test examples"))
    if not rows:
        return []
    title = metric_of(parts[0].records[0], metric).display_title
    return [ReferenceTable(f"{title} after the examples, mean of {len(parts)} tasks", rows, after)]


def _task_name(record: RunRecord) -> str:
    task = record.config["task"]
    data = str(task.get("data", "")) if isinstance(task, Mapping) else ""
    return Path(data).stem


def _is_majority(record: RunRecord) -> bool:
    return _method_of(record)[0] == "majority"


def _headline_of_task(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The headline of one task: the gain over no examples of the configuration with the best dev score.

    Without a run to compare with, it is the score of that configuration. None if no run learns from examples.
    """
    learned = [record for record in records if _learns(record)]
    if not learned:
        return None
    # Selected by its dev score, because the best of several test scores would be too high.
    record = max(learned, key=_dev_score)
    metric = next(iter(record.design.headline or [ACCURACY]))
    result = record.result(metric)
    if result is None:
        return None
    score = metric_of(record, metric).display_title
    # With several patterns, "no examples shown" alone would not say which run is meant.
    patterns = {options.get("pattern") for name, options in map(_method_of, records) if name == "icl"}
    name_pattern = len(patterns) > 1
    learned_from = _described(store, record, name_pattern=name_pattern)
    scope = [learned_from, _splits_text(store, record, result)]
    tests = tests_of(store, record)
    if tests:
        scope.append(counted(tests, "test"))
    baselines = [other for other in records if not _learns(other)]
    details = []
    for other in baselines:
        details.append(
            f"{_described(store, other, name_pattern=name_pattern)}: {value_with_interval(other.result(metric))}"
        )
    baseline = _baseline(record, baselines)
    gain = None
    if baseline is not None:
        gain = _gain(store, baseline, record, metric)
        if gain is not None and tests and gain.n < tests and _is_paired_on_tests(store, baseline, record, metric):
            # Answers that could not be read as a label are in neither accuracy.
            scope[-1] = f"{gain.n:,} of {counted(tests, 'test')} with a label from both"
    if baseline is None or gain is None:
        return Headline(
            evaluation=evaluation,
            metric=metric,
            title=f"{score} after a few examples",
            result=result,
            scope=", ".join(scope),
            details=details,
            meaning="After a few labelled examples, it labels this share of new examples correctly. "
            "Whether it learned that from them is unknown without a run that shows it no examples.",
            limits=_LIMITS,
            records=[record],
        )
    if _shows_none(baseline):
        title = "gain over no examples"
        meaning = (
            f"How much higher its {score} on new examples is than without examples, on the same test examples; 0 "
            "if it learns nothing from the examples."
        )
    else:
        title = "gain over the most frequent label"
        meaning = (
            f"How much higher its {score} on new examples is than that of always giving the most frequent label, on "
            "the same test examples."
        )
    method = "" if gain.estimate is None else gain.estimate.method
    return Headline(
        evaluation=evaluation,
        metric=GAIN,
        title=title,
        result=Result(GAIN, "overall", gain.difference, gain.low, gain.high, gain.n, method=method),
        scope=", ".join([p_statement(gain.p), *scope]),
        details=[f"{score} with {learned_from}: {value_with_interval(result)}", *details],
        meaning=meaning,
        limits=_LIMITS,
        records=[record],
        compared_by=metric,
        comparison_note=f"Few-shot: models are compared by their {score} after the examples, not by the gain.",
    )


def _gain(store: Store, baseline: RunRecord, record: RunRecord, metric: str) -> Comparison | None:
    """The paired difference between the two runs; None if they have no examples in common."""
    try:
        rows = compare_runs(load_side(store, baseline), [load_side(store, record)], [metric])
    except UserError:
        return None
    return rows[0] if rows else None


def _is_paired_on_tests(store: Store, baseline: RunRecord, record: RunRecord, metric: str) -> bool:
    """Whether the number of pairs counts test examples. It counts splits if the runs have other test examples."""
    return paired_on_tests(load_side(store, baseline), load_side(store, record), metric)


def _baseline(record: RunRecord, baselines: Sequence[RunRecord]) -> RunRecord | None:
    """The run to compare with: one without examples in the prompt, if possible with otherwise the same options.

    If there is none, the run that always gives the most frequent label; None if that is missing as well.
    """
    _, own_options = _method_of(record)
    without_examples = [other for other in baselines if _shows_none(other)]
    for other in without_examples:
        _, options = _method_of(other)
        if {**options, "shots": None} == {**own_options, "shots": None}:
            return other
    majorities = [other for other in baselines if _method_of(other)[0] == "majority"]
    candidates = [*without_examples, *majorities]
    return candidates[0] if candidates else None


def _shows_none(record: RunRecord) -> bool:
    """Whether the run is in-context learning without any example in the prompt."""
    name, options = _method_of(record)
    return name == "icl" and options.get("shots", _DEFAULT_SHOTS) == 0


def _splits_text(store: Store, record: RunRecord, result: Result) -> str:
    """The number of splits, and of trainings if a split has several, such as one for each pattern."""
    splits = {row.example.groups.get("split") for row in store.rows(record.id) if row.state == "scored"}
    text = counted(len(splits), "split")
    if result.n > len(splits):
        text = f"{counted(result.n, 'training')} on {text}"
    return text


def tests_of(store: Store, record: RunRecord) -> int:
    """How many examples every split was tested on; 0 if that was not recorded or differs between splits."""
    counts = {row.score.details.get("n_test") for row in store.rows(record.id) if row.score is not None}
    if len(counts) != 1:
        return 0
    count = counts.pop()
    return count if isinstance(count, int) else 0


def _dev_score(record: RunRecord) -> float:
    dev = record.result("dev")
    return -1.0 if dev is None or dev.value is None else dev.value


def _learns(record: RunRecord) -> bool:
    return _method_of(record)[0] not in _BASELINES and not _shows_none(record)


def _described(store: Store, record: RunRecord, *, name_pattern: bool = False) -> str:
    """What a run learned from, such as "8 examples shown"; ``name_pattern`` adds the pattern of the prompt."""
    name, options = _method_of(record)
    if name == "icl":
        shots = _examples_shown(store, record, options.get("shots", _DEFAULT_SHOTS))
        shown = f"{counted(shots, 'example')} shown" if shots else "no examples shown"
        return f"{shown} with pattern {options['pattern']}" if name_pattern and "pattern" in options else shown
    if name == "majority":
        return "always the most frequent label"
    if name == "random":
        return "random labels"
    return name


def _examples_shown(store: Store, record: RunRecord, shots: int) -> int:
    """How many examples a prompt shows: as many as the option says, or all of a split that has fewer."""
    sizes = [row.score.details.get("n_train") for row in store.rows(record.id) if row.score is not None]
    return min([shots, *(size for size in sizes if isinstance(size, int))])


def _method_of(record: RunRecord) -> tuple[str, dict[str, Any]]:
    task = record.config["task"]
    spec = task.get("method", "pet") if isinstance(task, Mapping) else "pet"
    return split_spec(spec, "method")
