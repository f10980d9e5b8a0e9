"""Wilson's interval."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.distributions import normal_quantile
from lmassay.statistics.wilson import extreme_ends, wilson, wilson_lower_ends

QUANTILE = normal_quantile(0.975)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (3, 7), (7, 7), (499, 500)])
def test_it_is_the_interval_of_scipy(hits, n):
    from scipy.stats import binomtest

    reference = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits / n, n, QUANTILE) == pytest.approx((reference.low, reference.high))


def test_wilson_takes_arrays():
    low, high = wilson(np.array([0.5, 1.0]), np.array([10.0, 10.0]), 1.96)
    assert low.shape == high.shape == (2,)
    assert high[1] == 1.0


def test_lower_ends_are_those_of_the_interval():
    rates = np.array([0.0, 0.3, 0.999, 1.0])
    rows = np.array([4.5, 20.0, 3.0, 8.0])
    lower, _ = wilson(rates, rows, QUANTILE)
    assert wilson_lower_ends(rates, rows, QUANTILE) == pytest.approx(lower)


def test_the_extreme_ends_are_those_of_rates_of_1_and_0():
    lower, _ = wilson(1.0, 12.5, QUANTILE)
    _, upper = wilson(0.0, 12.5, QUANTILE)
    assert extreme_ends(12.5, QUANTILE) == pytest.approx((lower, upper))
