"""Intervals of rates in clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lmassay.statistics.clustered_rate import (
    ClusteredRate,
    MeanOfRates,
    cluster_sizes,
    design_effects,
    intervals,
    lower_ends,
    monotone_ends,
    raw_lower_ends,
)
from lmassay.statistics.distributions import normal_quantile, t_quantile
from lmassay.statistics.variance import LARGEST_CORRELATION, PRIOR_CORRELATION
from lmassay.statistics.wilson import wilson

SIZES = np.array([3.0, 9.0, 20.0, 4.0, 4.0, 12.0, 7.0, 1.0])


def within_of(hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The variance within clusters by its definition, from single rows."""
    variances = []
    for row in hits:
        squares = 0.0
        for right, size in zip(row, sizes, strict=True):
            values = np.repeat([1.0, 0.0], [int(right), int(size - right)])
            squares += ((values - values.mean()) ** 2).sum()
        variances.append(squares / (sizes.sum() - len(sizes)))
    return np.array(variances)


def test_the_correlation_is_that_of_fleiss_and_cuzick():
    sizes = np.full(30, 20.0)
    hits = np.random.default_rng(1).binomial(20, np.linspace(0.2, 0.9, 30)).astype(float)[None, :]
    design = cluster_sizes(sizes)
    rates = hits.sum(axis=-1) / design.total
    within = within_of(hits, sizes)
    correlation = 1 - within / (rates * (1 - rates))
    # With this many rows, neither the prior nor the bend at 0 matters.
    effect = design_effects(rates, within, design)
    assert effect == pytest.approx(1 + 19 * correlation, rel=0.01)


def test_without_errors_the_correlation_is_the_prior_and_the_bound_that_of_the_largest_one():
    design = cluster_sizes(SIZES)
    effect = design_effects(np.array([1.0]), np.array([0.0]), design)
    assert effect == pytest.approx(1 + (design.clusters.size - 1) * PRIOR_CORRELATION)
    low, high = intervals(SIZES[None, :], design)
    rows = design.total / (1 + (design.clusters.size - 1) * LARGEST_CORRELATION)
    quantile = t_quantile(0.975, design.degrees)
    assert low[0] == pytest.approx(rows / (rows + quantile**2))
    assert high[0] == 1.0


def all_data_sets(sizes: np.ndarray) -> np.ndarray:
    grids = np.meshgrid(*[np.arange(size + 1) for size in sizes], indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=-1)


def test_the_monotone_ends_enclose_those_of_all_data_sets_with_fewer_and_with_more_errors():
    """The searched minimum and maximum allow for parts of errors, so they may be beyond those of whole errors."""
    sizes = np.array([2.0, 3.0, 4.0, 6.0])
    design = cluster_sizes(sizes)
    quantile = t_quantile(0.975, design.degrees)
    data_sets = all_data_sets(sizes)
    raw = raw_lower_ends(data_sets.sum(axis=-1) / design.total, within_of(data_sets, sizes), design, quantile)
    lowest, highest = monotone_ends(data_sets, design, 0.025)
    for number in range(0, len(data_sets), 7):
        has_fewer_errors = (data_sets >= data_sets[number]).all(axis=-1)
        has_more_errors = (data_sets <= data_sets[number]).all(axis=-1)
        assert lowest[number] <= raw[has_fewer_errors].min() + 1e-9
        assert highest[number] >= raw[has_more_errors].max() - 1e-9


def test_no_error_in_any_cluster_raises_the_lower_end_of_any_data_set():
    sizes = np.array([2.0, 3.0, 4.0, 6.0])
    data_sets = all_data_sets(sizes)
    low, high = intervals(data_sets, cluster_sizes(sizes))
    number = {tuple(row): index for index, row in enumerate(data_sets.astype(int).tolist())}
    for row, index in number.items():
        for cluster in range(4):
            if row[cluster] == 0:
                continue
            with_error = number[*row[:cluster], row[cluster] - 1, *row[cluster + 1 :]]
            assert low[with_error] <= low[index] + 1e-8
            assert high[with_error] <= high[index] + 1e-8


def test_errors_and_hits_are_mirror_images():
    design = cluster_sizes(SIZES)
    hits = np.random.default_rng(2).binomial(SIZES.astype(int), 0.8, (20, len(SIZES))).astype(float)
    low, high = intervals(hits, design)
    mirrored_low, mirrored_high = intervals(SIZES - hits, design)
    assert low == pytest.approx(1 - mirrored_high)
    assert high == pytest.approx(1 - mirrored_low)


def test_a_rate_near_1_is_missed_on_one_side_only_so_its_upper_end_has_nearly_both_tails():
    sizes = np.full(20, 12.0)
    design = cluster_sizes(sizes)
    # (1 - 1/12)⁴: clusters of a dozen rows are not large enough for the whole of both tails.
    assert design.tail_increase == pytest.approx((11 / 12) ** 4, rel=0.001)
    hits = sizes.copy()
    hits[:4] -= [1, 5, 2, 1]
    _, high = intervals(hits[None, :], design)
    _, with_equal_tails = intervals(hits[None, :], replace(design, tail_increase=0.0))
    assert high[0] < with_equal_tails[0]
    # In the middle, both ends miss.
    hits = np.array([9.0, 3.0] * 10)
    assert intervals(hits[None, :], design) == intervals(hits[None, :], replace(design, tail_increase=0.0))


def test_few_effective_clusters_have_equal_tails():
    assert cluster_sizes(np.array([40.0, *[4.0] * 10])).tail_increase == 0


def test_a_dominant_cluster_leaves_few_degrees_of_freedom():
    equal = cluster_sizes(np.full(40, 10.0))
    dominated = cluster_sizes(np.array([390.0, *[10.0] * 39]))
    assert equal.degrees == pytest.approx(39 * (10 / 9) ** 2, rel=0.01)
    assert dominated.degrees < 6


def test_clusters_of_almost_single_rows_have_almost_the_interval_of_independent_ones():
    from scipy.stats import binomtest

    sizes = np.array([2.0, *[1.0] * 398])
    hits = sizes.copy()
    hits[1:81] = 0
    low, high = intervals(hits[None, :], cluster_sizes(sizes))
    independent = binomtest(320, 400).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((independent.low, independent.high), abs=0.002)


def test_a_one_sided_bound_misses_on_its_side_alone():
    rate = ClusteredRate(hits=np.array([9.0, 12.0, 7.0, 10.0, 12.0, 11.0]), sizes=np.full(6, 12.0))
    design = cluster_sizes(rate.sizes)
    assert rate.bound("lower", 0.95) == pytest.approx(float(lower_ends(rate.hits[None, :], design, 0.05)[0]))
    low, high = rate.interval(0.95)
    assert low < rate.bound("lower", 0.95) < rate.rate() < rate.bound("upper", 0.95) < high


def test_the_interval_of_a_mean_of_rates_is_the_mean_of_their_intervals():
    good = ClusteredRate(hits=np.array([9.0, 12.0, 7.0, 10.0]), sizes=np.full(4, 12.0))
    bad = ClusteredRate(hits=np.array([1.0, 2.0, 7.0, 0.0]), sizes=np.full(4, 12.0))
    both = MeanOfRates([good, bad])
    assert both.rate() == pytest.approx((good.rate() + bad.rate()) / 2)
    assert both.interval(0.95) == pytest.approx(np.mean([good.interval(0.95), bad.interval(0.95)], axis=0))
    assert both.bound("upper", 0.9) == pytest.approx((good.bound("upper", 0.9) + bad.bound("upper", 0.9)) / 2)


def test_an_error_under_one_prompt_does_not_raise_the_lower_end_of_the_mean_over_prompts():
    sizes = np.full(20, 12.0)
    perfect = ClusteredRate(sizes, sizes)
    one_error = ClusteredRate(sizes - np.eye(20)[0], sizes)
    before = MeanOfRates([perfect, perfect, perfect])
    after = MeanOfRates([perfect, perfect, one_error])
    assert after.interval(0.95)[0] <= before.interval(0.95)[0]
    assert after.bound("lower", 0.95) <= before.bound("lower", 0.95)


@pytest.mark.parametrize("tiny", [1e-6, 1.0])
def test_clusters_with_hardly_any_rows_do_not_narrow_the_interval(tiny):
    low, high = ClusteredRate(hits=np.array([70.0, 80.0]), sizes=np.full(2, 100.0)).interval(0.95)
    with_tiny = ClusteredRate(np.array([70.0, 80.0, tiny]), np.array([100.0, 100.0, tiny]))
    assert with_tiny.interval(0.95) == pytest.approx((low, high), abs=0.02)


def test_four_large_clusters_among_many_tiny_ones_cover():
    """Degrees of freedom by the number of clusters alone covered 88 % here."""
    rng = np.random.default_rng(5)
    sizes = np.array([500.0] * 4 + [2.0] * 40)
    own_rates = rng.beta(0.5, 0.5, (300, len(sizes)))
    hits = rng.binomial(sizes.astype(int), own_rates).astype(float)
    low, high = intervals(hits, cluster_sizes(sizes))
    assert ((low <= 0.5) & (high >= 0.5)).mean() > 0.93


def test_clusters_whose_weights_are_less_than_one_row_have_a_proper_interval():
    sizes = np.array([0.2, 0.4, 0.1, 2.5, 1.8])
    rate = ClusteredRate(hits=sizes * [1, 0, 1, 1, 0], sizes=sizes)
    low, high = rate.interval(0.95)
    assert 0 <= low < rate.rate() < high <= 1
    # Five clusters with the weight of five rows say less than five independent rows.
    independent = wilson(rate.rate(), 5.0, normal_quantile(0.975))
    assert high - low > independent[1] - independent[0]
