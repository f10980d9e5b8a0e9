"""The means that an estimate is made of: weights, counts and pseudo-observations."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.estimation import estimate
from lmassay.statistics.terms import Term


def test_shares_of_rows_are_the_same_as_the_rows():
    """Contexts with three rows each, some of them right: the same rows one by one give the same interval."""
    rng = np.random.default_rng(8)
    hits = rng.binomial(3, 0.95, 40).astype(float)
    nouns = [str(i // 2) for i in range(40)]
    rows = np.array([float(row < count) for count in hits for row in range(3)])
    grouped = Term(hits / 3, 1.0, [nouns], np.full(40, 3.0), weights_are_counts=True)
    single = Term(rows, 1.0, [[noun for noun in nouns for _ in range(3)]])
    assert estimate([grouped], bounds=(0.0, 1.0)).interval() == pytest.approx(
        estimate([single], bounds=(0.0, 1.0)).interval()
    )


def test_rows_of_weight_0_do_not_count():
    some = estimate([Term(np.array([1.0, 0.0, 1.0, 1.0]), 1.0, (), np.array([1.0, 1.0, 1.0, 0.0]))], bounds=(0.0, 1.0))
    assert (
        some.interval()
        == estimate([Term(np.array([1.0, 0.0, 1.0]), 1.0, (), np.ones(3))], bounds=(0.0, 1.0)).interval()
    )
    none = estimate([Term(np.array([1.0, 0.0]), 1.0, (), np.zeros(2))], bounds=(0.0, 1.0))
    assert none.interval() == (None, None)
    assert none.method == "none: no example counts: all weights are 0"


def test_all_differences_zero_have_an_interval_where_their_scale_is_known():
    same = np.zeros(50)
    known = estimate([Term(same, step=1.0)], is_difference=True)
    assert known.p_value() == 1.0
    assert known.interval()[1] == pytest.approx(-known.interval()[0])
    unknown = estimate([Term(same)], is_difference=True)
    assert unknown.interval() == (None, None)
    assert unknown.method == "none: all 50 values are the same"
