"""Each function against its counterpart in scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics import distributions


def test_quantiles():
    from scipy import stats

    for probability in (0.005, 0.025, 0.3, 0.5, 0.8, 0.95, 0.975, 0.995):
        assert distributions.normal_quantile(probability) == stats.norm.ppf(probability)
        for degrees in (1, 2, 3.7, 9, 30, 1000):
            assert distributions.t_quantile(probability, degrees) == stats.t.ppf(probability, degrees)


def test_tail_of_students_t():
    from scipy import stats

    for t in (-3.2, -0.1, 0.0, 0.4, 1.96, 12.5):
        for degrees in (1, 4, 29, 512):
            assert distributions.t_upper_tail(t, degrees) == pytest.approx(stats.t.sf(t, degrees), rel=1e-13, abs=0)


def test_a_fair_coin():
    from scipy import stats

    for tosses in (1, 2, 5, 6, 31, 400):
        for heads in {0, 1, tosses // 3, tosses // 2, tosses}:
            expected = stats.binomtest(heads, tosses).pvalue
            assert distributions.fair_coin_p(heads, tosses) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_false_discovery_rates(n):
    from scipy import stats

    p = np.random.default_rng(n).choice([0.001, 0.01, 0.04, 0.05, 0.3, 0.9, 1.0], size=n)
    assert distributions.false_discovery_rates(list(p)) == pytest.approx(stats.false_discovery_control(p), rel=1e-14)


@pytest.mark.parametrize("shape", [(1,), (7,), (20, 6), (3, 4, 5)])
def test_ranks_with_ties(shape):
    from scipy import stats

    values = np.random.default_rng(2).integers(0, 4, shape).astype(float)
    assert (distributions.ranks(values) == stats.rankdata(values, axis=-1)).all()


@pytest.mark.parametrize("batch", [1000, 64, 7])
def test_the_bootstrap_draws_what_scipy_draws(batch):
    from scipy import stats

    rng = np.random.default_rng(3)
    sums, sizes = rng.normal(3, 1, 25), rng.integers(1, 9, 25).astype(float)

    def ratio(a, b, axis=-1):
        return np.sum(a, axis=axis) / np.sum(b, axis=axis)

    settings = {"batch": batch, "rng": np.random.default_rng(11), "n_resamples": 500, "confidence_level": 0.9}
    expected = stats.bootstrap((sums, sizes), ratio, paired=True, vectorized=True, method="percentile", **settings)
    interval = distributions.percentile_bootstrap(
        (sums, sizes), ratio, confidence=0.9, resamples=500, batch=batch, seed=11
    )
    # Versions of scipy interpolate between two draws in ways that differ in the last bit.
    assert interval == pytest.approx(tuple(expected.confidence_interval), rel=1e-14)
