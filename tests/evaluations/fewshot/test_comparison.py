"""Few-shot runs against each other: paired by test within splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lmassay.statistics.caveats import caveats
from lmassay.statistics.comparison import compare_runs, pairing_text
from lmassay.statistics.conditions import parse_condition
from lmassay.statistics.gate import judge
from lmassay.statistics.sides import load_side
from lmassay.storage.store import Store
from tests.evaluations.fewshot.tested import DESIGN, add_run, answers, rows


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results", create=True) as opened:
        yield opened


def sides(store, base, new, **of_new):
    design = of_new.pop("design", DESIGN)
    records = [add_run(store, "base", base), add_run(store, "new", new, design=design)]
    return [load_side(store, record) for record in records]


def noisy(rate, seed, splits=4, tests=96):
    """Answers whose tests are right after some splits and wrong after others."""
    rng = np.random.default_rng(seed)
    easy = rng.random(tests)
    return [[int(value) for value in easy + rng.normal(0, 0.1, tests) < rate] for _ in range(splits)]


def test_four_splits_are_enough_to_find_a_difference(store):
    base, new = sides(store, rows(noisy(0.6, 1)), rows(noisy(0.8, 1)))
    accuracy = {row.metric: row for row in compare_runs(base, [new])}["acc"]
    assert (accuracy.n, accuracy.units) == (96, 96)
    assert accuracy.p < 0.01
    assert accuracy.low > 0
    assert accuracy.difference == pytest.approx(accuracy.new_mean - accuracy.base_mean)


def test_the_gate_can_judge_four_splits(store):
    base, new = sides(store, rows(noisy(0.8, 1)), rows(noisy(0.6, 1)))
    verdict = judge([parse_condition("acc<-0.02")], [(base, new)], compare_runs(base, [new], ["acc"]))
    assert verdict.state == "fail"


def test_splits_that_disagree_about_a_difference_do_not_prove_it(store):
    base, new = sides(store, rows(answers([0.5] * 4)), rows(answers([0.4, 0.9, 0.5, 0.8])))
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert accuracy.difference == pytest.approx(0.15)
    assert accuracy.p > 0.05


def test_runs_that_are_the_same_differ_by_nothing(store):
    base, new = sides(store, rows(noisy(0.7, 1)), rows(noisy(0.7, 1)))
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert (accuracy.difference, accuracy.changed, accuracy.p) == (0, 0, 1)


def test_metrics_without_scores_on_tests_are_paired_by_split(store):
    base, new = sides(store, rows(noisy(0.6, 1)), rows(noisy(0.8, 1), dev=0.9))
    row_of = {row.metric: row for row in compare_runs(base, [new])}
    assert row_of["dev"].n == 4
    compared = compare_runs(base, [new], ["acc", "dev"])
    assert pairing_text(base, new, compared) == "acc paired by test within each split, dev by split"


def test_a_run_without_scores_on_tests_is_compared_by_split_and_that_is_reported(store):
    base, new = sides(store, rows(noisy(0.6, 1)), rows(noisy(0.8, 1), keeps_tests=False))
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert accuracy.n == 4
    (warning,) = caveats(base, [new])
    reason = "new has no scores of individual test examples (an earlier version did not store them)"
    assert warning.startswith(f"{reason}, so acc is not paired by test example")


def test_a_run_of_an_earlier_version_is_compared_by_split_and_that_is_reported(store):
    earlier = replace(DESIGN, replicates=None)
    base, new = sides(store, rows(noisy(0.6, 1)), rows(noisy(0.8, 1), keeps_tests=False), design=earlier)
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert accuracy.n == 4
    assert "no scores of individual test examples" in caveats(base, [new])[0]


def test_runs_with_different_tests_are_compared_by_split_and_that_is_reported(store):
    base, new = sides(store, rows(noisy(0.6, 1)), rows(noisy(0.8, 1), tests="others"))
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert accuracy.n == 4
    assert "base and new were tested on different examples" in caveats(base, [new])[0]


def test_patterns_of_a_split_are_averaged_and_splits_are_paired(store):
    two = []
    for pattern, right in enumerate((noisy(0.6, 1), noisy(0.7, 1))):
        for row in rows(right):
            groups = {**row.example.groups, "pattern": str(pattern)}
            two.append(replace(row, example=replace(row.example, id=f"{row.example.id}-p{pattern}", groups=groups)))
    base, new = sides(store, two, rows(noisy(0.9, 1)))
    (accuracy,) = compare_runs(base, [new], ["acc"])
    assert accuracy.n == 96
    assert accuracy.base_mean == pytest.approx(np.mean([noisy(0.6, 1), noisy(0.7, 1)]))
