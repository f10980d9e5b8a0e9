"""The few-shot number of the card: the paired gain over no examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lmassay.evaluations.fewshot import card, outcomes
from lmassay.reporting.headline import differences_to_first_model
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from tests.evaluations.fewshot.tested import DESIGN, add_run, answers, rows

NONE_SHOWN = {"name": "icl", "shots": 0, "pattern": 0}
SHOWN = {"name": "icl", "shots": 8, "pattern": 0}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results", create=True) as opened:
        yield opened


def add(store, name, method, rates):
    split_rows = rows(answers(rates))
    results = outcomes.results(ScoreTable(split_rows), ["acc"], Settings(), DESIGN.replicates)
    return add_run(store, name, split_rows, method, results=results)


def test_the_number_is_the_gain_over_the_run_without_examples(store):
    records = [add(store, "none", NONE_SHOWN, [0.6] * 4), add(store, "eight", SHOWN, [0.79, 0.8, 0.8, 0.81])]
    shown_number = card.headline(store, records)
    assert (shown_number.metric, shown_number.shown_title) == ("gain", "gain over no examples")
    assert shown_number.result.value == pytest.approx(0.2)
    assert 0.1 < shown_number.result.low < 0.2 < shown_number.result.high < 0.3
    assert shown_number.scope == "p < 0.0001, 8 examples shown, 4 splits, 100 tests"
    assert shown_number.details[0].startswith("accuracy with 8 examples shown: 0.80 [")
    assert shown_number.details[1] == "no examples shown: 0.60 [0.50, 0.69]"
    assert shown_number.result.method == "t/test/split"


def test_the_run_without_examples_has_the_same_pattern(store):
    records = [
        add(store, "other", {**NONE_SHOWN, "pattern": 1}, [0.1] * 4),
        add(store, "none", NONE_SHOWN, [0.6] * 4),
        add(store, "eight", SHOWN, [0.8] * 4),
    ]
    shown_number = card.headline(store, records)
    assert shown_number.result.value == pytest.approx(0.2)
    assert [detail.partition(":")[0] for detail in shown_number.details] == [
        "accuracy with 8 examples shown with pattern 0",
        "no examples shown with pattern 1",
        "no examples shown with pattern 0",
    ]


def of_task(record, name):
    """The same run on another task."""
    provenance = replace(record.provenance, signature={"data": name})
    config = {**record.config, "task": {**record.config["task"], "data": f"superglue/{name}"}}
    return replace(record, provenance=provenance, config=config)


def test_the_number_of_several_tasks_is_the_mean_of_their_gains(store):
    records = []
    for task, rate in (("copa", 0.7), ("wic", 0.9)):
        records.append(of_task(add(store, f"{task}-0", NONE_SHOWN, [0.6] * 4), task))
        records.append(of_task(add(store, f"{task}-8", SHOWN, [rate] * 4), task))
    shown_number = card.headline(store, records)
    assert shown_number.scope == "mean of 2 tasks: copa, wic"
    assert shown_number.result.value == pytest.approx(0.2)


def test_the_number_of_one_task_among_several_names_the_task(store):
    records = [
        of_task(add(store, "none", NONE_SHOWN, [0.6] * 4), "copa"),
        of_task(add(store, "eight", SHOWN, [0.8] * 4), "copa"),
        of_task(add(store, "majority", "majority", [0.5] * 4), "wic"),
    ]
    shown_number = card.headline(store, records)
    assert shown_number.scope == "only copa, p < 0.0001, 8 examples shown, 4 splits, 100 tests"


def test_a_model_that_is_trained_is_held_against_the_most_frequent_label(store):
    records = [add(store, "majority", "majority", [0.5] * 4), add(store, "pet", "pet", [0.7] * 4)]
    shown_number = card.headline(store, records)
    assert shown_number.shown_title == "gain over the most frequent label"
    assert shown_number.result.value == pytest.approx(0.2)
    assert "that of always giving the most frequent label" in shown_number.meaning
    # A prompt can be better or worse than this label before any example is seen.
    assert "0 if it learns nothing" not in shown_number.meaning


def test_without_a_baseline_the_number_is_the_score(store):
    shown_number = card.headline(store, [add(store, "eight", SHOWN, [0.8] * 4)])
    assert (shown_number.metric, shown_number.result.value) == ("acc", pytest.approx(0.8))
    assert "is unknown without a run" in shown_number.meaning


def test_models_are_compared_by_their_accuracy(store):
    shown = []
    for model, rate in (("one", 0.6), ("two", 0.9)):
        records = [add(store, f"{model}-0", NONE_SHOWN, [0.5] * 4), add(store, f"{model}-8", SHOWN, [rate] * 4)]
        shown_number = card.headline(store, records)
        signed = [
            replace(r, provenance=replace(r.provenance, signature={"model": model})) for r in shown_number.records
        ]
        shown.append(replace(shown_number, records=signed))
    (pair,) = differences_to_first_model(store, shown)
    assert (pair.title, pair.comparison.metric) == ("accuracy", "acc")
    assert pair.comparison.difference == pytest.approx(0.3)
    assert "not by the gain" in pair.new.comparison_note


def test_a_gain_that_rests_on_single_splits_is_no_proof(store):
    records = [add(store, "none", NONE_SHOWN, [0.6] * 4), add(store, "eight", SHOWN, [0.95, 0.55, 0.9, 0.6])]
    shown_number = card.headline(store, records)
    assert shown_number.result.value == pytest.approx(np.mean([0.95, 0.55, 0.9, 0.6]) - 0.6)
    assert shown_number.result.low < 0
