"""Means over splits and the rank correlation of dev and test: the number, its interval, and when there is neither."""

from __future__ import annotations

import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.evaluations.fewshot.protocol.estimates import SplitScores, mean_and_std, mean_over_splits, rank_correlation
from lmassay.statistics.intervals import Settings

SCORES = st.lists(st.integers(0, 32), min_size=4, max_size=40)


def test_the_interval_is_students_and_stays_among_shares():
    # Imported here because it takes a second, which collecting the tests would wait for.
    from scipy.stats import t

    values = [0.7, 0.8, 0.75, 0.9]
    mean = mean_over_splits(SplitScores(values))
    half = t.ppf(0.975, 3) * statistics.stdev(values) / 2
    assert mean.low == pytest.approx(statistics.mean(values) - half)
    assert (mean.high, mean.n) == (pytest.approx(min(1.0, statistics.mean(values) + half)), 4)
    assert mean_over_splits(SplitScores([0.99, 1.0, 0.5])).high == 1.0
    one, none = mean_over_splits(SplitScores([0.5])), mean_over_splits(SplitScores([]))
    assert (one.std, one.low, none.value) == (None, None, None)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_floats_have_numpys_digits_and_fractions_exact_ones(scores):
    assert mean_and_std(scores) == (np.mean(scores), np.std(scores, ddof=1))
    exact = mean_and_std([Fraction(score) for score in scores])
    assert exact == (statistics.mean(scores), statistics.stdev(scores))


@settings(max_examples=50, deadline=None)
@given(SCORES, st.data())
def test_it_is_spearmans_coefficient_with_ties(dev, data):
    from scipy.stats import spearmanr

    test = data.draw(st.lists(st.integers(0, 99), min_size=len(dev), max_size=len(dev)))
    correlation = rank_correlation(dev, test, Settings(resamples=100))
    if len(set(dev)) == 1 or len(set(test)) == 1:
        assert correlation.value is None
        return
    assert correlation.value == pytest.approx(spearmanr(dev, test).statistic, abs=1e-9)
    assert correlation.low is not None
    assert -1 <= correlation.low <= correlation.high <= 1


@pytest.mark.parametrize(
    ("dev", "test", "reason"),
    [
        ([], [], "0 configurations"),
        ([1, 2, 3], [1, 2, 3], "3 configurations with both scores; at least 4 are needed"),
        ([1, 1, 1, 1], [1, 2, 3, 4], "same dev score"),
        ([1, 2, 3, 4], [5, 5, 5, 5], "same test score"),
        ([1, 2, 3, float("nan")], [1, 2, 3, 4], "3 configurations"),
    ],
)
def test_without_evidence_there_is_no_number_but_a_reason(dev, test, reason):
    correlation = rank_correlation(dev, test)
    assert (correlation.value, correlation.low, correlation.high) == (None, None, None)
    assert reason in correlation.reason


def test_a_perfect_order_of_few_is_no_certainty():
    correlation = rank_correlation([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8])
    assert (correlation.value, correlation.high) == (1.0, 1.0)
    assert correlation.low < 0.99
    turned = rank_correlation([1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1])
    assert (turned.value, turned.low, turned.high) == (-1.0, -1.0, -correlation.low)


@pytest.mark.parametrize(("n", "rho"), [(8, 0.0), (8, 0.9), (24, 0.4), (48, 0.8)])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(n, rho):
    rng = np.random.default_rng(n)
    truth = 6 / np.pi * np.arcsin(rho / 2)
    covered = 0
    for _ in range(120):
        x = rng.standard_normal(n)
        y = rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(n)
        correlation = rank_correlation(x.tolist(), y.tolist(), Settings(resamples=300))
        covered += correlation.low <= truth <= correlation.high
    assert 0.88 <= covered / 120 <= 1.0


def test_scores_that_cannot_be_paired_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="cannot be paired"):
        rank_correlation([1.0], [])
