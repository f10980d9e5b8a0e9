"""Repetitions on overlapping data, tested on the same tests: one rule from perfect to mixed results."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.statistics.distributions import normal_quantile, t_quantile
from lmassay.statistics.replicates import (
    difference_of_repetitions,
    difference_on_tests,
    mean_of_repetitions,
    overlap_factor,
    rate_on_tests,
)
from lmassay.statistics.wilson import wilson

TABLES = st.tuples(st.integers(2, 6), st.integers(4, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))


def wrong(counts: list[int], tests: int = 100) -> np.ndarray:
    """Scores of splits that are wrong on this many tests, the first ones, and right on the others."""
    scores = np.ones((len(counts), tests))
    for split, count in enumerate(counts):
        scores[split, :count] = 0
    return scores


def interval(scores: np.ndarray, correlation: float = 0.5) -> tuple[float, float]:
    return rate_on_tests(scores, correlation).interval()


def test_one_repetition_has_wilsons_interval_over_tests():
    rate = rate_on_tests(wrong([2], 24), 0.5)
    assert rate.interval() == pytest.approx(wilson(22 / 24, 24, normal_quantile(0.975)))
    assert rate.method == "wilson/test"


@pytest.mark.parametrize("errors", [0, 1, 50])
def test_splits_that_give_the_same_answers_have_the_interval_of_one(errors):
    assert interval(wrong([errors] * 4)) == pytest.approx(interval(wrong([errors])))


def test_two_splits_that_are_as_accurate_by_chance_are_not_taken_for_the_same():
    """They are right on different tests. In an earlier version, one more error doubled the width of the interval."""
    equal = np.ones((2, 60))
    equal[0, :12] = 0
    equal[1, 6:18] = 0
    differing = equal.copy()
    differing[1, 18:20] = 0
    low, high = interval(equal)
    other_low, other_high = interval(differing)
    assert high - low > 0.8 * (other_high - other_low)
    assert high - low > 1.2 * (interval(equal[:1])[1] - interval(equal[:1])[0])


def test_perfect_and_nearly_perfect_splits_differ_little():
    perfect, nearly = interval(wrong([0, 0, 0, 0])), interval(wrong([0, 0, 0, 1]))
    assert perfect == pytest.approx((0.963, 1.0), abs=1e-3)
    assert nearly == pytest.approx((0.940, 1.0), abs=2e-3)


def test_one_more_error_never_raises_the_lower_bound():
    for together in (True, False):
        lows = [interval(wrong([errors] * 4 if together else [0, 0, 0, errors]))[0] for errors in range(30)]
        assert all(later <= earlier for earlier, later in pairwise(lows)), lows


def test_more_splits_of_one_pool_do_not_make_it_arbitrarily_precise():
    rng = np.random.default_rng(0)
    scores = (rng.random((64, 10_000)) < rng.normal(0.7, 0.05, size=(64, 1))).astype(float)
    widths = [np.diff(interval(scores[:count]))[0] for count in (8, 16, 64)]
    # With independent splits, the last would be about 0.025.
    assert min(widths) > 0.15


@pytest.mark.parametrize(("splits", "correlation", "factor"), [(4, 0.0, 0.25), (4, 0.5, 1.25), (10, 1 / 9, 0.225)])
def test_the_factor_is_nadeau_and_bengios(splits, correlation, factor):
    assert overlap_factor(splits, correlation) == pytest.approx(factor)


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_neither_the_order_of_splits_nor_of_tests_matters(table):
    splits, tests, seed, rate = table
    rng = np.random.default_rng(seed)
    scores = (rng.random((splits, tests)) < rate).astype(float)
    shuffled = scores[rng.permutation(splits)][:, rng.permutation(tests)]
    assert interval(shuffled) == pytest.approx(interval(scores))
    low, high = interval(scores)
    assert 0 <= low <= scores.mean() <= high <= 1


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_interval_and_p_of_a_difference_agree(table):
    splits, tests, seed, rate = table
    rng = np.random.default_rng(seed)
    differences = (rng.random((splits, tests)) < rate).astype(float) - (rng.random(tests) < 0.5)
    difference = difference_on_tests(differences, 0.5)
    low, high = difference.interval()
    assert (difference.p_value() < 0.05) is not (low <= 0 <= high)


def test_tests_about_one_passage_count_less():
    rng = np.random.default_rng(1)
    passages = np.repeat(np.arange(20), 10)
    scores = np.repeat(rng.random((1, 20)) < 0.7, 10, axis=1).astype(float)
    assert np.diff(rate_on_tests(scores, 0.0, passages).interval()) > 2 * np.diff(interval(scores))
    apart = difference_on_tests(scores - 0.5, 0.0)
    assert difference_on_tests(scores - 0.5, 0.0, passages).standard_error > 2 * apart.standard_error


def test_without_scores_on_tests_it_is_students_t_with_the_factor():
    values = np.array([0.7, 0.8, 0.75, 0.9])
    mean = mean_of_repetitions(values, 0.5, (0.0, 1.0))
    half = t_quantile(0.975, 3) * values.std(ddof=1) * np.sqrt(1.25)
    assert mean.interval() == pytest.approx((values.mean() - half, min(values.mean() + half, 1.0)))
    assert mean.method == "t/split"


@pytest.mark.parametrize("value", [0.5, 0.99, 1.0])
def test_equal_values_without_tests_have_a_reason_whatever_they_are(value):
    assert mean_of_repetitions(np.full(4, value), 0.5).method == "none: all 4 splits scored the same"
    assert mean_of_repetitions(np.full(1, value), 0.5).method == "none: one split only"


def test_a_difference_between_splits_is_inflated_by_their_overlap():
    differences = np.array([0.1, 0.2, 0.15, 0.3])
    apart, overlapping = (difference_of_repetitions(differences, correlation) for correlation in (0.0, 0.5))
    assert overlapping.standard_error == pytest.approx(apart.standard_error * np.sqrt(5))
    assert apart.value == overlapping.value == pytest.approx(differences.mean())


def test_it_covers_what_another_pool_and_other_tests_would_give():
    """One setting of benchmarks/fewshot_coverage.py: the spread over splits alone covers less than half."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        # Each of 8 splits shows half of a pool of 32 examples, whose effects add up.
        pool = rng.normal(0, 0.08 * 4, size=32)
        rates = [0.75 + pool[rng.permutation(32)[:16]].mean() for _ in range(8)]
        difficulty = rng.random(96)
        low, high = interval((difficulty < np.array(rates)[:, None]).astype(float))
        covered += low <= 0.75 <= high
    assert covered >= 0.92 * 200


# --- tests without a usable answer ------------------------------------------------------------------------------------


def with_missing(scores, share, seed=0):
    """The scores with some of them missing at random."""
    lost = np.random.default_rng(seed).random(scores.shape) < share
    return np.where(lost, np.nan, scores)


def test_missing_answers_do_not_move_the_rate_and_widen_its_interval():
    rng = np.random.default_rng(3)
    scores = (rng.random((4, 400)) < 0.7).astype(float)
    partial = with_missing(scores, 0.3)
    complete, incomplete = rate_on_tests(scores, 0.3), rate_on_tests(partial, 0.3)
    assert incomplete.value == pytest.approx(np.nanmean(partial, axis=1).mean())
    assert incomplete.rows == int((~np.isnan(partial)).sum())
    assert incomplete.standard_error > complete.standard_error


def test_the_interval_is_right_if_answers_are_missing_at_random():
    """Of one repetition with a third missing, the standard error is that of the answers that are there."""
    scores = (np.random.default_rng(5).random((1, 3000)) < 0.6).astype(float)
    partial = with_missing(scores, 1 / 3)
    answered = partial[~np.isnan(partial)][None, :]
    assert rate_on_tests(partial, 0.0).standard_error == pytest.approx(
        rate_on_tests(answered, 0.0).standard_error, rel=0.01
    )


def test_differences_are_over_the_tests_that_both_runs_answered():
    differences = np.array([[1.0, 0.0, np.nan, -1.0, 1.0, 0.0], [1.0, np.nan, 0.0, 0.0, 1.0, 0.0]])
    estimated = difference_on_tests(differences, 0.2)
    assert estimated.value == pytest.approx((1 / 5 + 2 / 5) / 2)
    assert estimated.rows == 10
