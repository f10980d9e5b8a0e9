"""Bounds of a number: intervals stay inside them, and bounds that do not hold are ignored."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lmassay.statistics.bounds import finite_bounds, with_infinities
from lmassay.statistics.estimation import estimate
from lmassay.statistics.terms import Term


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global ttest_1samp
    from scipy.stats import ttest_1samp


def test_one_bound_is_enough_to_cut_an_interval():
    low, _ = estimate([Term(np.array([0.0, 0.0, 0.0, 5.0]))], bounds=(0.0, None)).interval()
    assert low == 0


def test_scores_beyond_their_declared_bounds_have_students_interval():
    """An earlier version gave no interval and said that all values are the same."""
    values = np.array([1.1, 1.3, 1.2, 1.25, 1.15])
    estimated = estimate([Term(values)], bounds=(0.0, 1.0))
    theirs = ttest_1samp(values, 0).confidence_interval()
    assert estimated.method == "t"
    assert estimated.interval() == pytest.approx((theirs.low, theirs.high))


def test_scores_of_another_range_stay_inside_it():
    values = np.array([5.0, 5.0, 4.0, 5.0, 5.0])
    low, high = estimate([Term(values)], bounds=(1.0, 5.0)).interval()
    assert 1 < low < 4.8 < high <= 5


def test_a_missing_end_is_infinite_and_two_missing_ends_are_no_bounds():
    assert with_infinities((None, 1.0)) == (-math.inf, 1.0)
    assert with_infinities((None, None)) is None
    assert finite_bounds((None, 1.0)) is None
