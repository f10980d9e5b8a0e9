"""Metrics that combine several columns: values and intervals. How runs are paired: see test_comparison.py."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lmassay.statistics.combination import combination_result, empty_labels, mean_over_data_sets
from lmassay.statistics.intervals import Settings, mean_estimate, result_of
from lmassay.statistics.table import ScoreTable
from lmassay.types import Combination, Example, Result, Row, Score, combination_from_dict

SETTINGS = Settings(resamples=500)
DIFFERENCE = Combination({"here": 1.0, "there": -1.0}, bounds=(-1.0, 1.0))


def table(rows: list[tuple[str, dict[str, float]]], error: set[int] = frozenset()) -> ScoreTable:
    """Rows of (template, scores)."""
    return ScoreTable(
        Row(Example(f"e{i}", {}, None, {"template": t}), "error" if i in error else "scored", Score(v))
        for i, (t, v) in enumerate(rows)
    )


def all_rows(scores: ScoreTable) -> np.ndarray:
    return np.ones(len(scores), dtype=bool)


def result(scores: ScoreTable, combination: Combination):
    return combination_result(
        scores, "m", combination, SETTINGS, group="overall", where=all_rows(scores), cluster="template"
    )


def simulated(clusters: int, seed: int, here: float = 0.8, there: float = 0.5) -> ScoreTable:
    rng = np.random.default_rng(seed)
    rows = []
    for template in range(clusters):
        shift = rng.normal(0, 0.1)
        for _ in range(4):
            rows.append((f"t{template}", {"here": float(rng.random() < here + shift)}))
            rows.append((f"t{template}", {"there": float(rng.random() < there + shift)}))
    return table(rows)


def test_the_value_is_the_weighted_sum_of_means_each_over_its_own_rows():
    combined = result(
        table([("a", {"here": 1.0}), ("a", {"there": 0.0}), ("b", {"here": 0.0}), ("b", {"there": 0.0}), ("b", {})]),
        DIFFERENCE,
    )
    assert combined.value == pytest.approx(0.5)
    assert (combined.n, combined.n_error, combined.n_unscored) == (4, 0, 1)


def test_a_constant_and_weights_make_the_bbq_score():
    combined = result(
        table([("a", {"x": 1.0}), ("b", {"x": 0.0}), ("c", {"x": 1.0})]), Combination({"x": 2.0}, constant=-1)
    )
    assert combined.value == pytest.approx(2 * 2 / 3 - 1)


def test_a_signed_metric_that_happens_to_be_positive_is_neither_cut_at_zero_nor_taken_for_a_rate():
    rows = [(f"t{i}", {"x": float(i == 0)}) for i in range(8)]
    combined = result(table(rows), Combination({"x": 1.0}, each="template", bounds=(-1.0, 1.0)))
    assert combined.value == pytest.approx(1 / 8)
    assert combined.low < 0


def test_a_metric_that_lacks_one_of_its_columns_has_no_value():
    combined = result(table([("a", {"here": 1.0}), ("b", {"here": 0.0})]), DIFFERENCE)
    assert (combined.value, combined.n, combined.n_unscored) == (None, 0, 2)


@pytest.mark.fault(42)
def test_an_empty_column_leaves_no_value_and_errors_are_counted_apart():
    combined = result(table([("a", {"here": 1.0}), ("b", {})], error={1}), DIFFERENCE)
    assert combined.value is None
    assert (combined.n, combined.n_error, combined.n_unscored) == (0, 1, 1)


def test_each_label_counts_the_same_and_those_without_a_value_are_left_out_and_counted():
    rows = [("a", {"x": 1.0})] * 9 + [("b", {"x": 0.0}), ("c", {})]
    combination = Combination({"x": 1.0}, each="template")
    scores = table(rows)
    assert result(scores, combination).value == pytest.approx(0.5)
    assert empty_labels(scores, combination, all_rows(scores)) == (3, 1)


@pytest.mark.fault(40)
@pytest.mark.parametrize("clusters", [12, 60])
def test_intervals_cover_what_they_say(clusters):
    hits = 0
    for seed in range(120):
        combined = result(simulated(clusters, seed), DIFFERENCE)
        hits += combined.low <= 0.3 <= combined.high
    # 95 % of 120 is 114; three standard errors below are 107.
    assert hits >= 105


def test_templates_without_an_answer_do_not_make_an_interval_narrower():
    rows = [(f"t{i // 4}", {"here" if i % 2 else "there": float(i % 3 == 0)}) for i in range(40)]
    silent = [(f"s{i}", {}) for i in range(10)]
    alone, among = result(table(rows), DIFFERENCE), result(table([*rows, *silent]), DIFFERENCE)
    assert (among.value, among.low, among.high) == pytest.approx((alone.value, alone.low, alone.high))


def test_intervals_stay_inside_the_bounds():
    rows = [(f"t{i}", {"here": 1.0}) for i in range(10)] + [(f"t{i}", {"there": float(i == 0)}) for i in range(10)]
    combined = result(table(rows), DIFFERENCE)
    assert combined.value == pytest.approx(0.9)
    assert combined.high == 1.0


def test_a_single_mean_has_the_interval_of_a_mean():
    combined = result(table([(f"t{i}", {"x": 1.0}) for i in range(20)]), Combination({"x": 1.0}))
    assert combined.value == 1.0
    assert combined.low == pytest.approx(0.839, abs=0.001)
    assert combined.method == "wilson/template"


def test_clusters_that_all_agree_have_an_interval_too():
    """An earlier rule gave no interval to the bias of the best possible model."""
    rows = [(f"t{i}", {side: 1.0}) for i in range(40) for side in ("here", "there") for _ in range(1 + i % 3)]
    combined = result(table(rows), DIFFERENCE)
    assert combined.value == 0.0
    assert combined.low < 0 < combined.high


def test_a_combination_survives_json():
    combination = Combination({"here": 1.0, "there": -1.0}, -0.5, "template", (-1.0, 1.0))
    assert combination_from_dict(json.loads(json.dumps(combination.as_dict()))) == combination


def test_the_mean_over_data_sets_covers_the_truth_in_nineteen_of_twenty():
    rng = np.random.default_rng(3)
    truths = (0.6, 0.8)
    covered = 0
    for _ in range(300):
        results = []
        for truth in truths:
            scores = (rng.random(80) < truth).astype(float)
            results.append(result_of(mean_estimate(scores), "accuracy", "overall", (80, 0, 0), Settings()))
        mean = mean_over_data_sets(results, "accuracy")
        covered += mean.low <= sum(truths) / 2 <= mean.high
    assert 0.92 <= covered / 300 <= 0.98


def test_the_mean_over_data_sets_needs_a_value_of_each():
    results = [Result("accuracy", "overall", 0.5, 0.4, 0.6, 10), Result("accuracy", "overall", None, None, None, 0)]
    assert mean_over_data_sets(results, "accuracy").value is None
