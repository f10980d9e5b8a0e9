"""Results with their intervals, from the columns of a table of scores."""

from __future__ import annotations

from math import inf, isclose

import numpy as np
import pytest

from lmassay.statistics.intervals import (
    ABSOLUTE_SLACK,
    RELATIVE_SLACK,
    Settings,
    bootstrap_interval,
    mean_estimate,
    mean_result,
    mean_results,
    paired_difference,
    same_scores,
)
from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Row, Score


def table(rows: list[tuple[dict[str, str], dict[str, float]]]) -> ScoreTable:
    """Rows of (groups, scores)."""
    return ScoreTable(
        Row(Example(f"e{i}", {}, None, groups), "scored", Score(scores)) for i, (groups, scores) in enumerate(rows)
    )


def test_a_rate_is_distinguished_from_a_mean_by_its_values():
    assert mean_estimate(np.array([1.0, 0.0, 1.0])).kind == "rate"
    assert mean_estimate(np.array([1.0, 0.5, 1.0])).kind == "bounded mean"
    assert mean_estimate(np.array([1.0, 2.5, 1.0])).kind == "mean"
    assert mean_estimate(np.array([1.0, 0.5, 1.0]), bounds=(None, None)).kind == "mean"


def test_a_rate_over_a_thousand_answers_is_known_to_three_points():
    values = np.array([1.0] * 652 + [0.0] * 348)
    assert mean_estimate(values).interval() == pytest.approx((0.623, 0.682), abs=0.002)


def test_a_result_says_how_its_interval_was_computed():
    scores = table([({"template": f"t{i // 4}"}, {"accuracy": float(i % 3 > 0), "words": 2.0 + i}) for i in range(40)])
    assert mean_result(scores, "accuracy").method == "wilson"
    assert mean_result(scores, "accuracy", cluster="template").method == "wilson/template"
    assert mean_result(scores, "words", cluster="template").method == "t/template"
    alone = mean_result(scores, "accuracy", cluster="template", where=np.arange(40) < 4)
    assert alone.method == "none: all examples belong to one cluster"
    assert (alone.low, alone.high) == (None, None)


def test_declared_bounds_hold_the_interval():
    scores = table([({}, {"stars": 5.0 if i else 4.0}) for i in range(12)])
    (result,) = mean_results(scores, ["stars"], bounds={"stars": (1.0, 5.0)})
    assert result.high <= 5
    assert mean_result(scores, "stars").high > 5


def test_two_groups_can_be_named_as_clusters():
    rows = [({"noun": f"n{i % 5}", "verb": f"v{i // 5}"}, {"tse": float(i // 5 > 0)}) for i in range(20)]
    both = mean_result(table(rows), "tse", cluster=("noun", "verb"))
    alone = mean_result(table(rows), "tse", cluster="noun")
    assert both.method == "wilson/noun/verb"
    assert both.high - both.low > alone.high - alone.low


def test_rows_without_weight_count_nothing():
    heavy = [({"c": f"c{i}"}, {"x": float(i % 2), "w": 2.0}) for i in range(10)]
    light = [({"c": "other"}, {"x": 1.0, "w": 0.0})]
    with_light = mean_result(table([*heavy, *light]), "x", cluster="c", weight="w")
    without = mean_result(table(heavy), "x", cluster="c", weight="w")
    assert (with_light.value, with_light.low, with_light.high) == (without.value, without.low, without.high)


def test_weights_that_are_all_the_same_change_nothing():
    rng = np.random.default_rng(7)
    values, clusters = rng.random(60), [[str(i % 12) for i in range(60)]]
    weighted = mean_estimate(values, clusters, weights=np.full(60, 3.0))
    assert weighted.interval() == pytest.approx(mean_estimate(values, clusters).interval())


@pytest.mark.parametrize("weight", [10.0, 10.01])
def test_without_clusters_an_example_with_a_large_weight_is_a_single_observation(weight):
    values = np.repeat([0.0, 1.0], [20, 80])
    weighted = mean_estimate(values, weights=np.full(100, weight))
    assert weighted.interval() == pytest.approx(mean_estimate(values).interval())


def test_whole_clusters_vary():
    rng = np.random.default_rng(2)
    effects = rng.normal(size=30)
    values = np.repeat(effects, 20) + rng.normal(scale=0.1, size=600)
    clusters = [str(i) for i in range(30) for _ in range(20)]
    naive, clustered = mean_estimate(values).interval(), mean_estimate(values, [clusters]).interval()
    assert clustered[1] - clustered[0] > 3 * (naive[1] - naive[0])


@pytest.mark.parametrize("count", [5, 10, 20])
def test_few_clusters_cover_too(count):
    rng = np.random.default_rng(count)
    clusters = [str(i) for i in range(count) for _ in range(10)]
    hits = 0
    for _ in range(200):
        values = np.repeat(rng.normal(size=count), 10) + rng.normal(scale=0.3, size=10 * count)
        low, high = mean_estimate(values, [clusters]).interval()
        hits += low <= 0 <= high
    # 95 % of 200 is 190; three standard errors are 9.
    assert hits >= 181


@pytest.mark.fault(40)
def test_the_paired_test_keeps_its_size_under_the_null():
    rng = np.random.default_rng(4)
    rejected = 0
    for _ in range(200):
        a = rng.random(25)
        rejected += paired_difference(a, a + rng.normal(scale=0.2, size=25)).p < 0.05
    assert 2 <= rejected <= 20


def test_a_real_difference_is_found():
    rng = np.random.default_rng(5)
    a = rng.random(200)
    difference = paired_difference(a, a + 0.05 + rng.normal(scale=0.1, size=200))
    assert difference.p < 0.001
    assert difference.low > 0
    assert difference.n == 200


@pytest.mark.fault(31)
def test_equal_runs_do_not_differ():
    a = np.random.default_rng(6).random(50)
    difference = paired_difference(a, a)
    assert (difference.value, difference.p) == (0, 1.0)
    assert difference.low < 0 < difference.high


@pytest.mark.fault(30)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_comparisons_do_not_crash(size):
    difference = paired_difference(np.zeros(size), np.ones(size))
    assert difference.n == size
    assert difference.p is None or difference.p > 0.05


@pytest.mark.fault(41)
def test_swapping_the_runs_mirrors_the_interval():
    a, b = np.zeros(8), np.array([0, 0, 0, 0, 0, 0.9, 0, 0.05])
    forward, backward = paired_difference(a, b), paired_difference(b, a)
    assert forward.low < 0
    assert (forward.low, forward.high) == pytest.approx((-backward.high, -backward.low))


def test_values_that_differ_by_rounding_do_not_differ():
    difference = paired_difference(np.full(40, 0.1 + 0.2), np.full(40, 0.3))
    assert (difference.value, difference.p) == (0.0, 1.0)


def test_the_bootstrap_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(3)
    x, y = rng.random(60), rng.random(60)

    def ratio(a, b, axis=-1):
        return a.sum(axis=axis) / b.sum(axis=axis)

    order = rng.permutation(60)
    first = bootstrap_interval((x, y), ratio, Settings(resamples=200))
    assert bootstrap_interval((x[order], y[order]), ratio, Settings(resamples=200)) == first
    assert bootstrap_interval((x, y), ratio, Settings(resamples=200, seed=1)) != first


def test_scores_are_the_same_by_column_as_one_by_one():
    numbers = [0.0, 1e-13, 1e-12, 2e-12, 0.5, 0.5 + 4e-10, 0.5 + 6e-10, 1.0, 1 + 1e-9, -1.0, 3e8, 3e8 + 0.2, inf, -inf]
    for before in numbers:
        for after in numbers:
            is_same = isclose(before, after, rel_tol=RELATIVE_SLACK, abs_tol=ABSOLUTE_SLACK)
            assert same_scores(np.array([before]), np.array([after])).tolist() == [is_same], (before, after)
