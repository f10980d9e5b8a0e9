"""Intervals of a run: for another labelled pool and other tests, by one rule."""

from __future__ import annotations

import pytest

from lmassay.api import evaluate
from lmassay.evaluations.fewshot import outcomes
from lmassay.evaluations.fewshot.protocol.judging import judge
from lmassay.evaluations.fewshot.protocol.studies import read_studies
from lmassay.statistics.distributions import normal_quantile
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.statistics.wilson import wilson
from lmassay.storage.store import Store
from lmassay.types import PerTestScores
from tests.evaluations.fewshot.tested import DESIGN, add_run, answers, rows
from tests.helpers import EVALUATIONS


def results(split_rows, metrics=("acc",)):
    reported = outcomes.results(ScoreTable(split_rows), metrics, Settings(), DESIGN.replicates)
    return {result.metric: result for result in reported if result.group == "overall"}


@pytest.mark.parametrize("rate", [0.5, 0.99, 1.0])
def test_equal_splits_have_the_interval_of_their_tests(rate):
    accuracy = results(rows(answers([rate] * 4)))["acc"]
    assert (accuracy.low, accuracy.high) == pytest.approx(wilson(rate, 100, normal_quantile(0.975)))
    assert accuracy.method == "wilson/test/split"


def test_a_single_split_has_the_interval_of_its_tests():
    accuracy = results(rows(answers([22 / 24], 24)))["acc"]
    assert (accuracy.low, accuracy.high) == pytest.approx((0.742, 0.977), abs=1e-3)
    assert accuracy.method == "wilson/test"


def test_an_interval_holds_other_tests_and_another_pool():
    spread = results(rows(answers([0.6, 0.7, 0.8, 0.9])))["acc"]
    splits_alone = results(rows(answers([0.6, 0.7, 0.8, 0.9]), keeps_tests=False))["acc"]
    assert splits_alone.method == "t/split"
    # Four independent splits would have [0.545, 0.955].
    assert splits_alone.low == pytest.approx(0.291, abs=1e-3)
    assert spread.low < 0.5 < 0.95 < spread.high


def test_other_metrics_say_that_their_interval_is_over_splits():
    result_of = results(rows(answers([0.6, 0.7, 0.8, 0.9]), f1=0.5), ("acc", "f1"))
    assert result_of["dev"].method == "t/split"
    assert result_of["f1"].method == "none: all 4 splits scored the same"
    assert all(result.method for result in result_of.values())


def test_every_number_of_a_run_has_an_interval_or_a_reason(tmp_path):
    task = {"name": "fewshot", "data": str(EVALUATIONS / "fewshot/sample/reviews.yaml"), "labelled": ["train"]}
    task |= {"test_examples": 24, "method": "majority", "splits": {"strategy": "fixed"}}
    (run,) = evaluate({"task": task}, tmp_path / "results")
    for result in run.record.results:
        assert (result.low is None) is result.method.startswith("none: "), result
    assert run["acc"].low is not None


def test_the_store_keeps_the_scores_on_tests_apart_from_the_details(tmp_path):
    with Store(tmp_path, create=True) as store:
        add_run(store, "run", rows(answers([0.5], 4)))
        (row,) = store.rows("run")
        assert row.score.details == {"n_test": 4}
        assert row.score.test_scores == PerTestScores("t", {"acc": [1, 1, 0, 0], "test": [1, 1, 0, 0]}, [])
        (lean,) = store.score_rows("run")
        assert lean.score.test_scores is None
        (whole,) = store.score_rows("run", with_test_scores=True)
        assert whole.score.test_scores == row.score.test_scores


def test_the_protocol_has_the_intervals_of_the_run(tmp_path):
    right = answers([0.6, 0.7, 0.8, 0.9])
    with Store(tmp_path, create=True) as store:
        record = add_run(store, "run", rows(right))
        (study,) = read_studies(store, [record])
    (verdict,) = study.strategies[0].verdicts.values()
    reported = results(rows(right))["acc"]
    assert (verdict.test.low, verdict.test.high) == pytest.approx((reported.low, reported.high))
    assert verdict.test.std == pytest.approx(0.1291, abs=1e-4)
    # The first split alone still has its tests.
    first = judge(verdict.trials, splits=[0]).test
    assert (first.low, first.high) == pytest.approx(wilson(0.6, 100, normal_quantile(0.975)))
