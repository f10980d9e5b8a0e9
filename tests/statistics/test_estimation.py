"""Estimates: intervals that cover, that agree with their p-values, and that do not jump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.statistics.estimation import Estimate, Term, estimate, mean_of_estimates, rate_intervals, wilson
from lmassay.statistics.intervals import mean_estimate, paired_difference
from lmassay.statistics.variance import LARGEST_CORRELATION


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global binomtest, ttest_1samp
    from scipy.stats import binomtest, ttest_1samp


def rate(hits: list[int], sizes: list[int]) -> Estimate:
    """The rate of clusters with so many right answers each."""
    values, labels = [], []
    for cluster, (right, size) in enumerate(zip(hits, sizes, strict=True)):
        values += [1.0] * right + [0.0] * (size - right)
        labels += [f"cluster {cluster}"] * size
    return estimate([Term(np.array(values), 1.0, [labels])], bounds=(0.0, 1.0))


def bounds_of(hits: list[int], sizes: list[int]) -> tuple[float, float]:
    low, high = rate(hits, sizes).interval()
    assert low is not None
    assert high is not None
    return low, high


# --- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (1, 7), (5, 10), (99, 100), (10, 10), (1, 1)])
def test_a_rate_of_independent_examples_has_wilsons_interval(hits, n):
    theirs = binomtest(hits, n).proportion_ci(0.9, method="wilson")
    values = np.array([1.0] * hits + [0.0] * (n - hits))
    ours = estimate([Term(values)], bounds=(0.0, 1.0)).interval(0.9)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_clusters_of_one_row_are_not_clusters():
    values = np.array([1.0] * 70 + [0.0] * 30)
    labels = [str(i) for i in range(100)]
    clustered = estimate([Term(values, 1.0, [labels])], bounds=(0.0, 1.0))
    assert clustered.interval() == pytest.approx(estimate([Term(values)], bounds=(0.0, 1.0)).interval())


@pytest.mark.fault(31)
def test_clusters_that_are_all_right_may_still_be_similar():
    low, high = bounds_of([12] * 24, [12] * 24)
    rows = 24 * 12 / (1 + 11 * LARGEST_CORRELATION)
    quantile = (rows / low - rows) ** 0.5
    # Student's t with 23 · (12 / 11)² degrees of freedom.
    assert quantile == pytest.approx(2.0505, abs=0.0005)
    assert high == 1.0


def test_a_simulation_gives_the_numbers_of_single_data_sets():
    rng = np.random.default_rng(1)
    sizes = np.array([3, 9, 20, 4, 4, 1])
    hits = rng.binomial(sizes, 0.8, (20, 6))
    lows, highs = rate_intervals(hits.astype(float), sizes.astype(float))
    for row, low, high in zip(hits, lows, highs, strict=True):
        assert bounds_of(row.tolist(), sizes.tolist()) == pytest.approx((low, high))


def test_one_more_error_at_the_tenth_cluster_does_not_narrow_the_interval():
    """The old rule changed its method there: .9375 [.854, .975], and with one more error .9306 [.910, .951]."""
    nine = bounds_of([11] * 9 + [12] * 3, [12] * 12)
    ten = bounds_of([11] * 10 + [12] * 2, [12] * 12)
    assert ten[0] <= nine[0]
    assert ten[1] - ten[0] > 0.95 * (nine[1] - nine[0])


@st.composite
def clusters_with_hits(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    sizes = draw(st.lists(st.integers(1, 30), min_size=3, max_size=20))
    # More right than wrong answers, as of a model whose errors are counted.
    hits = [draw(st.integers((size + 1) // 2, size)) for size in sizes]
    return hits, sizes


@given(data=clusters_with_hits(), place=st.integers(0, 19))
def test_one_more_error_never_raises_the_lower_bound(data, place):
    hits, sizes = data
    place %= len(sizes)
    if hits[place] == 0 or 2 * (sum(hits) - 1) < sum(sizes):
        return
    before = bounds_of(hits, sizes)
    after = bounds_of([*hits[:place], hits[place] - 1, *hits[place + 1 :]], sizes)
    assert after[0] <= before[0] + 1e-12
    assert after[1] - after[0] >= 0.95 * (before[1] - before[0])


@given(data=clusters_with_hits(), seed=st.integers(0, 5))
def test_the_order_of_rows_does_not_matter(data, seed):
    hits, sizes = data
    values, labels = [], []
    for cluster, (right, size) in enumerate(zip(hits, sizes, strict=True)):
        values += [1.0] * right + [0.0] * (size - right)
        labels += [f"cluster {cluster}"] * size
    order = np.random.default_rng(seed).permutation(len(values))
    shuffled = Term(np.array(values)[order], 1.0, [[labels[i] for i in order]])
    assert estimate([shuffled], bounds=(0.0, 1.0)).interval() == pytest.approx(bounds_of(hits, sizes), abs=1e-12)


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


def test_a_rate_on_another_scale_has_the_interval_of_the_rate():
    """BBQ's score is 2 · rate - 1."""
    values = np.array([1.0] * 15 + [0.0] * 5)
    low, high = estimate([Term(values)], bounds=(0.0, 1.0)).interval()
    scaled = estimate([Term(values, 2.0)], constant=-1.0, bounds=(-1.0, 1.0))
    assert scaled.value == pytest.approx(0.5)
    assert scaled.interval() == pytest.approx((2 * low - 1, 2 * high - 1))


@pytest.mark.parametrize(
    ("clusters", "size", "p", "correlation"), [(5, 12, 0.8, 0.2), (24, 12, 0.95, 0.3), (40, 4, 0.3, 0.1)]
)
def test_clustered_rates_cover(clusters, size, p, correlation):
    rng = np.random.default_rng(7)
    spread = (1 - correlation) / correlation
    sizes = np.full(clusters, size)
    own = rng.beta(p * spread, (1 - p) * spread, (2000, clusters))
    low, high = rate_intervals(rng.binomial(sizes, own).astype(float), sizes.astype(float))
    covered = ((low <= p) & (p <= high)).mean()
    # Two standard errors below 93 %.
    assert covered > 0.918


# --- means and differences --------------------------------------------------------------------------------------------


def test_a_mean_without_zeros_has_students_interval():
    values = np.random.default_rng(3).normal(3, 1, 20)
    theirs = ttest_1samp(values, 0).confidence_interval()
    ours = estimate([Term(values)])
    assert ours.interval() == pytest.approx((theirs.low, theirs.high))
    assert ours.p_value() == pytest.approx(ttest_1samp(values, 0).pvalue)


def test_one_sided_tests_are_half_of_the_two_sided_one():
    estimated = estimate([Term(np.random.default_rng(3).normal(-0.4, 1, 30))])
    assert estimated.p_value(alternative="less") == pytest.approx(estimated.p_value() / 2)
    assert estimated.p_value(alternative="greater") == pytest.approx(1 - estimated.p_value() / 2)
    assert estimated.bound("upper") == pytest.approx(estimated.interval(0.9)[1])


def test_differences_that_are_mostly_zero_have_the_interval_of_bonett_and_price():
    """Bonett and Price (2012): one pseudo-example on either side; ours with t in place of the normal quantile."""
    values = np.array([-1.0] * 8 + [1.0] * 2 + [0.0] * 90)
    estimated = estimate([Term(values)], is_difference=True)
    pseudo = 2 * 0.9
    total = 100 + pseudo
    center = -6 / total
    variance = (10 + pseudo) / total - center**2
    assert estimated.center == pytest.approx(center)
    assert estimated.standard_error == pytest.approx((variance / total) ** 0.5)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.0, 1.0, 0.5]), min_size=3, max_size=60), st.integers(1, 6))
def test_interval_and_p_agree(values, clusters):
    labels = [[str(i % (clusters + 1)) for i in range(len(values))]]
    for ways in ([], labels):
        estimated = estimate([Term(np.array(values), 1.0, ways, step=1.0)], is_difference=True)
        low, high = estimated.interval()
        p = estimated.p_value()
        if p is None or abs(p - 0.05) < 1e-9:
            continue
        assert (low > 0 or high < 0) == (p < 0.05)


def test_all_differences_zero_have_an_interval_where_their_scale_is_known():
    same = np.zeros(50)
    known = estimate([Term(same, step=1.0)], is_difference=True)
    assert known.p_value() == 1.0
    assert known.interval()[1] == pytest.approx(-known.interval()[0])
    unknown = estimate([Term(same)], is_difference=True)
    assert unknown.interval() == (None, None)
    assert unknown.method == "none: all 50 values are the same"


def test_a_model_without_a_single_biased_answer_has_an_interval():
    """Before, the best possible model was the one whose bias had no interval."""
    labels = [str(i // 12) for i in range(288)]
    low, high = estimate([Term(np.zeros(288), 1.0, [labels])], bounds=(-1.0, 1.0)).interval()
    assert (low, high) == pytest.approx((-high, high))
    assert 0.02 < high < 0.14


@pytest.mark.parametrize("mean", [0.97, 0.03])
def test_scores_close_to_a_bound_cover(mean):
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        low, high = estimate([Term(rng.beta(5 * mean, 5 * (1 - mean), 30))], bounds=(0.0, 1.0)).interval()
        covered += low <= mean <= high
    # Student's t covers 86 % here.
    assert covered > 0.9 * 400


def test_scores_of_another_range_stay_inside_it():
    values = np.array([5.0, 5.0, 4.0, 5.0, 5.0])
    low, high = estimate([Term(values)], bounds=(1.0, 5.0)).interval()
    assert 1 < low < 4.8 < high <= 5


def test_equal_scores_are_close_to_nearly_equal_ones():
    same = estimate([Term(np.full(4, 0.99))], bounds=(0.0, 1.0)).interval()
    nearly = estimate([Term(np.array([0.99, 0.99, 0.99, 0.989]))], bounds=(0.0, 1.0)).interval()
    assert same == pytest.approx(nearly, abs=0.01)


@pytest.mark.fault(30)
def test_one_cluster_is_too_few_and_says_so():
    estimated = estimate([Term(np.array([1.0, 0.0, 1.0]), 1.0, [["a", "a", "a"]])], bounds=(0.0, 1.0))
    assert estimated.interval() == (None, None)
    assert estimated.method == "none: all examples belong to one cluster"


def test_two_ways_of_clustering_widen_an_interval():
    """Verbs decide whether an answer is right, nouns hardly: by nouns alone the interval would be far too narrow."""
    values, nouns, verbs = [], [], []
    for noun in range(20):
        for verb in range(4):
            values.append(float(verb != 0))
            nouns.append(str(noun))
            verbs.append(str(verb))
    by_noun = estimate([Term(np.array(values), 1.0, [nouns])], bounds=(0.0, 1.0))
    by_both = estimate([Term(np.array(values), 1.0, [nouns, verbs])], bounds=(0.0, 1.0))
    assert by_both.units == 4
    assert by_both.effective < 0.5 * by_noun.effective


def test_the_mean_over_prompts_is_not_more_precise_for_asking_the_same_templates_again():
    rng = np.random.default_rng(4)
    effects = rng.normal(0, 1, 20)
    labels = [str(i // 5) for i in range(100)]
    prompts = []
    for _ in range(4):
        values = np.repeat(effects, 5) + rng.normal(0, 0.3, 100)
        prompts.append(estimate([Term(values, 1.0, [labels])]))
    mean = mean_of_estimates(prompts)
    assert mean.value == pytest.approx(np.mean([one.value for one in prompts]))
    assert mean.standard_error > 0.9 * min(one.standard_error for one in prompts)


def test_the_mean_of_one_estimate_is_that_estimate():
    values = np.array([0.0, 1.0, -1.0, 1.0, 1.0, 0.0])
    one = estimate([Term(values, 1.0, [list("aabbcc")])], bounds=(-1.0, 1.0))
    mean = mean_of_estimates([one])
    assert (mean.value, mean.center, mean.degrees) == (one.value, one.center, one.degrees)
    assert mean.standard_error >= one.standard_error - 1e-12


def test_wilson_takes_arrays():
    low, high = wilson(np.array([0.5, 1.0]), np.array([10.0, 10.0]), 1.96)
    assert low.shape == high.shape == (2,)
    assert high[1] == 1.0


def test_two_ways_of_clustering_do_not_inflate_beyond_what_one_could():
    """Rows that are the same within every noun and within every verb are all the same."""
    nouns, verbs = (part.ravel() for part in np.indices((12, 8)))
    all_right = mean_estimate(np.ones(96), [nouns, verbs])
    # Eight verbs, each counting as one answer; both inflations at their largest would leave less.
    assert 96 / (1 + 11 * LARGEST_CORRELATION + 7 * LARGEST_CORRELATION) < 8.2
    assert all_right.effective_without_errors >= 8
    assert all_right.effective >= all_right.effective_without_errors
    assert all_right.clusters == (12, 8)


def test_a_mean_of_two_means_of_the_same_clusters_varies_as_one_does():
    """One row a cluster in each of them: within a single mean there is nothing to inflate."""
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 1, 20)
    clusters = [np.arange(20)]
    once = estimate([Term(values, 1.0, clusters)], bounds=(0.0, 1.0))
    twice = estimate([Term(values, 0.5, clusters), Term(values, 0.5, clusters)], bounds=(0.0, 1.0))
    assert twice.standard_error == pytest.approx(once.standard_error, rel=0.1)


# --- findings of a review ---------------------------------------------------------------------------------------------


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
    """With a standard deviation of .03, none is close to the other bound; the interval was 2.5 times as wide."""
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


def test_a_spread_that_comes_from_a_single_score_is_not_believed():
    same = estimate([Term(np.full(40, 0.5))], bounds=(0.0, 1.0)).interval()
    nearly = estimate([Term(np.array([0.51, *[0.5] * 39]))], bounds=(0.0, 1.0)).interval()
    assert nearly[0] == pytest.approx(same[0], abs=0.01)
    assert nearly[1] == pytest.approx(same[1], abs=0.01)


def test_scores_beyond_their_declared_bounds_have_students_interval():
    """It said that all values are the same."""
    values = np.array([1.1, 1.3, 1.2, 1.25, 1.15])
    estimated = estimate([Term(values)], bounds=(0.0, 1.0))
    theirs = ttest_1samp(values, 0).confidence_interval()
    assert estimated.method == "t"
    assert estimated.interval() == pytest.approx((theirs.low, theirs.high))


def test_rows_of_weight_0_do_not_count():
    some = estimate([Term(np.array([1.0, 0.0, 1.0, 1.0]), 1.0, (), np.array([1.0, 1.0, 1.0, 0.0]))], bounds=(0.0, 1.0))
    assert (
        some.interval()
        == estimate([Term(np.array([1.0, 0.0, 1.0]), 1.0, (), np.ones(3))], bounds=(0.0, 1.0)).interval()
    )
    none = estimate([Term(np.array([1.0, 0.0]), 1.0, (), np.zeros(2))], bounds=(0.0, 1.0))
    assert none.interval() == (None, None)
    assert none.method == "none: no example counts: all weights are 0"


@pytest.mark.parametrize(("clusters", "size"), [(10, 6), (24, 4)])
def test_graded_scores_in_clusters_cover(clusters, size):
    """A few nouns on which a model fails: their scores are graded, and most samples hold one or none of them."""
    rng = np.random.default_rng(3)
    labels = [np.repeat(np.arange(clusters), size)]
    mean = 0.92 * 0.97 + 0.08 * 0.4
    covered = 0
    for _ in range(300):
        center = np.where(rng.random(clusters) < 0.08, 0.4, 0.97)
        scores = np.clip(np.repeat(center, size) + rng.normal(0, 0.01, clusters * size), 0, 1)
        low, high = estimate([Term(scores, 1.0, labels)], bounds=(0.0, 1.0)).interval()
        covered += low <= mean <= high
    assert covered > 0.92 * 300


@pytest.mark.parametrize("errors", [0, 1])
def test_identical_prompts_have_the_interval_of_one(errors):
    values = np.ones(60)
    values[:errors] = 0
    one = estimate([Term(values, 1.0, [[str(i // 6) for i in range(60)]])], bounds=(0.0, 1.0))
    mean = mean_of_estimates([one, one, one])
    assert mean.interval() == pytest.approx(one.interval())


@pytest.mark.fault(31)
def test_scores_that_are_all_the_same_have_an_interval_in_the_middle_of_their_range_too():
    low, high = estimate([Term(np.full(40, 0.5))], bounds=(0.0, 1.0)).interval()
    assert low < 0.5 < high


def test_one_bound_is_enough_to_cut_an_interval():
    low, _ = estimate([Term(np.array([0.0, 0.0, 0.0, 5.0]))], bounds=(0.0, None)).interval()
    assert low == 0


def test_graded_differences_with_a_few_zeros_are_close_to_students_t():
    rng = np.random.default_rng(1)
    values = np.where(rng.random(100) < 0.3, 0.0, rng.normal(0.02, 0.05, 100))
    scores = 0.5 + np.concatenate([np.zeros(100), values])
    difference = paired_difference(scores[:100], scores[100:])
    theirs = ttest_1samp(values, 0).confidence_interval()
    assert difference.high - difference.low == pytest.approx(theirs.high - theirs.low, rel=0.1)


def test_an_estimate_without_a_limit_does_not_drop_the_limits_of_the_others():
    limited = rate([5, 6, 6], [6, 6, 6])
    assert limited.effective_without_errors > 0
    unlimited = replace(limited, effective_without_errors=0.0)
    together = mean_of_estimates([limited, unlimited])
    assert together.effective_without_errors == limited.effective_without_errors
    assert mean_of_estimates([unlimited, unlimited]).effective_without_errors == 0


def test_the_mean_of_a_precise_and_an_imprecise_rate_is_as_imprecise_as_its_error_says():
    small = estimate([Term(np.array([1.0, 0.0] * 5))], bounds=(0.0, 1.0))
    large = estimate([Term(np.array([1.0, 0.0] * 500))], bounds=(0.0, 1.0))
    mean = mean_of_estimates([small, large])
    low, high = mean.interval()
    assert (high - low) / 2 == pytest.approx(1.96 * mean.standard_error, rel=0.15)
