"""Intervals cover, tests keep their size, and small or odd samples get an honest answer."""

import itertools

import numpy as np
import pytest

from lmassay.statistics.intervals import (
    BOOTSTRAP_LIMIT,
    LEAST_P_OF_DRAWS,
    PERMUTATION_LIMIT,
    Settings,
    in_blocks,
    mean_interval,
    paired_difference,
    weighted_mean_interval,
    wilson_interval,
)


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global binomtest, ttest_rel
    from scipy.stats import binomtest, ttest_rel


def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        low, high = mean_interval(rng.beta(2, 5, 80), Settings(resamples=400, seed=trial))
        covered += low <= 2 / 7 <= high
    # 95 % of 300 is 285; three standard errors are 11.
    assert 270 <= covered <= 297


def test_whole_clusters_are_resampled():
    rng = np.random.default_rng(2)
    effects = rng.normal(size=30)
    values = np.repeat(effects, 20) + rng.normal(scale=0.1, size=600)
    clusters = [str(i) for i in range(30) for _ in range(20)]
    naive, clustered = mean_interval(values), mean_interval(values, clusters=clusters)
    assert clustered[1] - clustered[0] > 3 * (naive[1] - naive[0])


def test_clustered_intervals_cover_and_naive_ones_do_not():
    rng = np.random.default_rng(3)
    clusters = [str(i) for i in range(25) for _ in range(10)]
    hits = {"clustered": 0, "naive": 0}
    for trial in range(150):
        values = np.repeat(rng.normal(size=25), 10) + rng.normal(scale=0.3, size=250)
        settings = Settings(resamples=300, seed=trial)
        for name, labels in (("clustered", clusters), ("naive", None)):
            low, high = mean_interval(values, settings, labels)
            hits[name] += low <= 0 <= high
    assert hits["clustered"] >= 128
    assert hits["naive"] <= 100


@pytest.mark.parametrize("count", [5, 10, 20])
def test_few_clusters_cover_too(count):
    rng = np.random.default_rng(count)
    clusters = [str(i) for i in range(count) for _ in range(10)]
    hits = 0
    for trial in range(200):
        values = np.repeat(rng.normal(size=count), 10) + rng.normal(scale=0.3, size=10 * count)
        low, high = mean_interval(values, Settings(resamples=100, seed=trial), clusters)
        hits += low <= 0 <= high
    # 95 % of 200 is 190; three standard errors are 9.
    assert hits >= 181


@pytest.mark.parametrize(("rate", "alike"), [(0.03, 0.5), (0.97, 0.3), (0.1, 0.3), (0.5, 0.2)])
def test_rates_in_clusters_cover_near_0_and_1_too(rate, alike):
    rng = np.random.default_rng(4)
    clusters = [str(i) for i in range(40) for _ in range(3)]
    spread = (1 - alike) / alike
    covered = 0
    for _ in range(300):
        own = rng.beta(rate * spread, (1 - rate) * spread, 40)
        low, high = mean_interval((rng.random((40, 3)) < own[:, None]).astype(float).ravel(), clusters=clusters)
        covered += low <= rate <= high
    # 95 % of 300 is 285; three standard errors are 11.
    assert covered >= 274


def test_one_hit_in_clusters_is_hardly_surer_than_none():
    clusters = [str(i // 3) for i in range(120)]
    none, one, five = (np.zeros(120) for _ in range(3))
    one[7] = five[[1, 20, 50, 70, 90]] = 1
    (_, without), (least, most), (_, more) = (mean_interval(hits, clusters=clusters) for hits in (none, one, five))
    assert least > 0
    assert 0.8 * without < most < more


def test_a_share_of_rows_is_a_rate_however_rows_are_put_together():
    """Contexts with three rows each, some of them right: the same rows one by one give the same interval."""
    rng = np.random.default_rng(8)
    hits = rng.binomial(3, 0.95, 40).astype(float)
    nouns = [str(i // 2) for i in range(40)]
    rows = np.array([float(row < count) for count in hits for row in range(3)])
    weighted = weighted_mean_interval(hits / 3, np.full(40, 3.0), nouns)
    assert weighted == pytest.approx(mean_interval(rows, clusters=[noun for noun in nouns for _ in range(3)]))


def test_clusters_of_one_are_no_clusters():
    values = np.array([1.0] * 70 + [0.0] * 30)
    assert mean_interval(values, clusters=[str(i) for i in range(100)]) == pytest.approx(wilson_interval(70, 100))


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (1, 7), (5, 10), (99, 100), (10, 10)])
def test_wilson_is_scipys(hits, n):
    theirs = binomtest(hits, n).proportion_ci(0.9, method="wilson")
    assert wilson_interval(hits, n, Settings(0.9)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_clusters_that_are_all_right_leave_room_for_one_that_is_not():
    clusters = [str(i % 4) for i in range(100)]
    assert mean_interval(np.ones(100), clusters=clusters) == wilson_interval(4, 4)


def test_a_weighted_mean_with_equal_weights_is_a_mean():
    rng = np.random.default_rng(7)
    values, clusters = rng.random(60), [str(i % 12) for i in range(60)]
    weighted = weighted_mean_interval(values, np.full(60, 3.0), clusters)
    assert weighted == pytest.approx(mean_interval(values, clusters=clusters))


def test_the_paired_test_keeps_its_size_under_the_null():
    rng = np.random.default_rng(4)
    rejected = 0
    for trial in range(200):
        a = rng.random(25)
        found = paired_difference(a, a + rng.normal(scale=0.2, size=25), Settings(resamples=200, seed=trial))
        rejected += found.p < 0.05
    assert 2 <= rejected <= 20


def test_a_real_difference_is_found():
    rng = np.random.default_rng(5)
    a = rng.random(200)
    found = paired_difference(a, a + 0.05 + rng.normal(scale=0.1, size=200))
    assert found.p < 0.001
    assert found.low > 0
    assert found.n == 200


def test_a_rate_of_nought_is_no_certainty():
    low, high = mean_interval(np.zeros(10))
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(0.2775, abs=1e-4)


def test_the_interval_of_a_rate_is_that_of_the_spec():
    values = np.array([1.0] * 652 + [0.0] * 348)
    assert mean_interval(values) == pytest.approx((0.623, 0.682), abs=0.002)


@pytest.mark.parametrize(("n", "expected"), [(0, (None, None)), (1, (None, None))])
def test_too_few_values_have_no_interval(n, expected):
    assert mean_interval(np.full(n, 0.5)) == expected


def test_equal_runs_do_not_differ():
    a = np.random.default_rng(6).random(50)
    found = paired_difference(a, a)
    assert (found.value, found.low, found.high, found.p) == (0, None, None, 1.0)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_comparisons_do_not_crash(size):
    found = paired_difference(np.zeros(size), np.ones(size))
    assert found.n == size
    assert found.p is None or found.p > 0.2


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = np.random.default_rng(7).random(100)
    assert mean_interval(values, Settings(seed=1)) == mean_interval(values, Settings(seed=1))
    assert mean_interval(values, Settings(seed=1)) != mean_interval(values, Settings(seed=2))


def test_few_values_take_an_interval_that_covers():
    rng = np.random.default_rng(11)
    covered = 0
    for trial in range(300):
        low, high = mean_interval(rng.beta(2, 5, 8), Settings(resamples=200, seed=trial))
        assert 0 <= low < high <= 1
        covered += low <= 2 / 7 <= high
    assert covered >= 276


def test_the_interval_of_few_differences_is_symmetric_and_not_clipped():
    a, b = np.zeros(8), np.array([0, 0, 0, 0, 0, 0.9, 0, 0.05])
    one, other = paired_difference(a, b), paired_difference(b, a)
    assert one.low < 0
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_values_without_spread_have_no_interval():
    for n in (5, 50):
        assert mean_interval(np.full(n, 0.3)) == (None, None)


def test_large_samples_take_the_normal_interval_which_agrees():
    values = np.random.default_rng(8).random(BOOTSTRAP_LIMIT)
    small = mean_interval(values)
    large = mean_interval(np.append(values, 0.5))
    assert large == pytest.approx(small, abs=2e-4)


def test_large_comparisons_take_the_t_test_which_agrees():
    rng = np.random.default_rng(9)
    a = rng.random(PERMUTATION_LIMIT)
    b = a + rng.normal(loc=0.004, scale=0.1, size=len(a))
    by_flips = paired_difference(a, b).p
    by_t = paired_difference(np.append(a, 0), np.append(b, 1e-9)).p
    assert by_t == pytest.approx(by_flips, abs=0.01)


def test_blocks_keep_sums_and_bound_the_number():
    values = np.random.default_rng(10).random(3 * BOOTSTRAP_LIMIT + 5)
    (blocks,) = in_blocks(values)
    assert len(blocks) <= BOOTSTRAP_LIMIT
    assert blocks.sum() == pytest.approx(values.sum())


def test_values_that_differ_by_rounding_do_not_differ():
    found = paired_difference(np.full(40, 0.1 + 0.2), np.full(40, 0.3))
    assert (found.value, found.p) == (0.0, 1.0)


def test_sums_that_tie_but_for_rounding_count_as_ties():
    signs = np.array(list(itertools.product([1, -1], repeat=10)))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        a = np.round(rng.random(10), 1)
        b = np.round(np.clip(a - rng.random(10) * 0.3 + 0.05, 0, 1), 1)
        by_hand = (np.abs(signs @ (b - a)) >= abs((b - a).sum()) - 1e-9).mean()
        assert paired_difference(a, b).p == pytest.approx(by_hand)


def test_a_p_below_what_draws_reach_is_that_of_the_t_test():
    rng = np.random.default_rng(0)
    a = rng.random(60)
    b = a - 0.3 - rng.random(60) / 10
    assert paired_difference(a, b).p == LEAST_P_OF_DRAWS
    fine = paired_difference(a, b, Settings(smallest_p=1e-6)).p
    assert fine == pytest.approx(max(ttest_rel(b, a).pvalue, 2.0**-59))
    # Few pairs cannot say more than all their swaps could, whatever the t-test makes of them.
    assert paired_difference(a[:20], b[:20], Settings(smallest_p=1e-9)).p == 2.0**-19
