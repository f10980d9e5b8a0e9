"""Scores that pile up at a bound: their intervals allow for scores that were not seen, those of others do not."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.estimation import estimate
from lmassay.statistics.terms import Term


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global ttest_1samp
    from scipy.stats import ttest_1samp


def test_equal_scores_are_close_to_nearly_equal_ones():
    same = estimate([Term(np.full(4, 0.99))], bounds=(0.0, 1.0)).interval()
    nearly = estimate([Term(np.array([0.99, 0.99, 0.99, 0.989]))], bounds=(0.0, 1.0)).interval()
    assert same == pytest.approx(nearly, abs=0.01)


def test_a_score_that_is_almost_zero_is_almost_an_error():
    """One graded score must not switch to a rule that promises far more."""
    labels = [[str(i // 6) for i in range(60)]]
    error, nearly = np.ones(60), np.ones(60)
    error[0], nearly[0] = 0.0, 0.01
    of_rate = estimate([Term(error, 1.0, labels)], bounds=(0.0, 1.0)).interval()
    of_graded = estimate([Term(nearly, 1.0, labels)], bounds=(0.0, 1.0)).interval()
    assert of_graded[0] < of_rate[0] + 0.15


def test_forty_perfect_scores_and_one_that_is_nearly_perfect_say_the_same():
    perfect = estimate([Term(np.ones(40))], bounds=(0.0, 1.0)).interval()
    nearly = estimate([Term(np.array([0.99, *[1.0] * 39]))], bounds=(0.0, 1.0)).interval()
    assert nearly[0] == pytest.approx(perfect[0], abs=0.02)


@pytest.mark.parametrize(("rows", "clusters"), [(12, 3), (40, 10), (144, 12), (240, 24), (40, 40)])
def test_a_score_that_is_a_little_less_than_perfect_never_raises_the_lower_bound(rows, clusters):
    """Perfect scores in ten clusters of four gave a lower bound of .690; one score of .99 raised it to .812."""
    labels = [np.repeat(np.arange(clusters), rows // clusters)]
    lower_bounds = []
    for score in (1.0, 0.9999, 0.99, 0.9, 0.5, 0.1, 0.01):
        values = np.ones(rows)
        values[0] = score
        low, _ = estimate([Term(values, 1.0, labels)], bounds=(0.0, 1.0)).interval()
        lower_bounds.append(low)
    assert lower_bounds == sorted(lower_bounds, reverse=True)


@pytest.mark.parametrize("mean", [0.95, 0.05])
@pytest.mark.parametrize("rows", [50, 200])
def test_concentrated_scores_close_to_a_bound_have_students_interval(mean, rows):
    """With a standard deviation of .03, no score is near the other bound. An earlier interval was 2.5 times as wide."""
    total = mean * (1 - mean) / 0.03**2 - 1
    rng = np.random.default_rng(11)
    for _ in range(20):
        values = rng.beta(mean * total, (1 - mean) * total, rows)
        low, high = estimate([Term(values)], bounds=(0.0, 1.0)).interval()
        theirs = ttest_1samp(values, 0).confidence_interval()
        assert high - low == pytest.approx(theirs.high - theirs.low, rel=0.1)


@pytest.mark.parametrize("rows", [10, 30, 100])
@pytest.mark.parametrize("share", [0.02, 0.05])
def test_a_few_zeros_that_were_not_seen_are_allowed_for(rows, share):
    """Scores within .001 of 1, and now and then a 0: most samples show nothing but the former."""
    rng = np.random.default_rng(12)
    mean = (1 - share) * 0.9995
    covered = 0
    for _ in range(300):
        values = np.where(rng.random(rows) < share, 0.0, 1 - 0.001 * rng.random(rows))
        low, high = estimate([Term(values)], bounds=(0.0, 1.0)).interval()
        covered += low <= mean <= high
    assert covered > 0.9 * 300


def test_a_spread_that_comes_from_a_single_score_is_not_trusted():
    same = estimate([Term(np.full(40, 0.5))], bounds=(0.0, 1.0)).interval()
    nearly = estimate([Term(np.array([0.51, *[0.5] * 39]))], bounds=(0.0, 1.0)).interval()
    assert nearly[0] == pytest.approx(same[0], abs=0.01)
    assert nearly[1] == pytest.approx(same[1], abs=0.01)


@pytest.mark.fault(31)
def test_scores_that_are_all_the_same_have_an_interval_in_the_middle_of_their_range_too():
    low, high = estimate([Term(np.full(40, 0.5))], bounds=(0.0, 1.0)).interval()
    assert low < 0.5 < high
