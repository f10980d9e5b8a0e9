"""Estimates: intervals that cover, that agree with their p-values, and that do not jump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.statistics.estimation import Estimate, estimate, mean_of_estimates, rate_intervals
from lmassay.statistics.intervals import paired_difference
from lmassay.statistics.terms import Term
from lmassay.statistics.variance import LARGEST_CORRELATION


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global binomtest, ttest_1samp
    from scipy.stats import binomtest, ttest_1samp


def rate(hits: list[int], sizes: list[int]) -> Estimate:
    """The rate over clusters; ``hits`` are the right answers in each of them."""
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


@pytest.mark.fault(31)
def test_clusters_that_are_all_right_may_still_be_similar():
    low, high = bounds_of([12] * 24, [12] * 24)
    rows = 24 * 12 / (1 + 11 * LARGEST_CORRELATION)
    quantile = (rows / low - rows) ** 0.5
    # Student's t with 23 · (12 / 11)² degrees of freedom; no cluster dominates.
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
    cluster_rates = rng.beta(p * spread, (1 - p) * spread, (2000, clusters))
    low, high = rate_intervals(rng.binomial(sizes, cluster_rates).astype(float), sizes.astype(float))
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
    for groupings in ([], labels):
        estimated = estimate([Term(np.array(values), 1.0, groupings, step=1.0)], is_difference=True)
        low, high = estimated.interval()
        p = estimated.p_value()
        if p is None or abs(p - 0.05) < 1e-9:
            continue
        assert (low > 0 or high < 0) == (p < 0.05)


def test_a_model_without_a_single_biased_answer_has_an_interval():
    """An earlier rule gave no interval to the bias of the best possible model."""
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


def test_the_mean_over_prompts_is_not_more_precise_for_asking_the_same_templates_again():
    rng = np.random.default_rng(4)
    effects = rng.normal(0, 1, 20)
    labels = [str(i // 5) for i in range(100)]
    prompts = []
    for _ in range(4):
        values = np.repeat(effects, 5) + rng.normal(0, 0.3, 100)
        prompts.append(estimate([Term(values, 1.0, [labels])]))
    mean = mean_of_estimates(prompts)
    assert mean.value == pytest.approx(np.mean([prompt.value for prompt in prompts]))
    assert mean.standard_error > 0.9 * min(prompt.standard_error for prompt in prompts)


def test_the_mean_of_one_estimate_is_that_estimate():
    values = np.array([0.0, 1.0, -1.0, 1.0, 1.0, 0.0])
    single = estimate([Term(values, 1.0, [list("aabbcc")])], bounds=(-1.0, 1.0))
    mean = mean_of_estimates([single])
    assert (mean.value, mean.center, mean.degrees) == (single.value, single.center, single.degrees)
    assert mean.standard_error >= single.standard_error - 1e-12


# --- graded scores, and means of several estimates --------------------------------------------------------------------


@pytest.mark.parametrize(("clusters", "size"), [(10, 6), (24, 4)])
def test_graded_scores_in_clusters_cover(clusters, size):
    """A model fails on a few nouns with graded scores, of which most samples contain one or none."""
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
    single = estimate([Term(values, 1.0, [[str(i // 6) for i in range(60)]])], bounds=(0.0, 1.0))
    mean = mean_of_estimates([single, single, single])
    assert mean.interval() == pytest.approx(single.interval())


def test_a_mean_that_has_no_interval_has_no_bound_either():
    values = np.array([1.0, 0.0] * 6)
    in_clusters = estimate([Term(values, 1.0, [["a", "b", "c"] * 4])], bounds=(0.0, 1.0))
    in_one_cluster = estimate([Term(values, 1.0, [["a"] * 12])], bounds=(0.0, 1.0))
    mean = mean_of_estimates([in_clusters, in_one_cluster])
    assert mean.interval() == (None, None)
    assert mean.bound("lower") is None


@pytest.mark.parametrize(("null", "less", "greater"), [(0.5, 1.0, 0.0), (1.0, 0.5, 0.5), (1.5, 0.0, 1.0)])
def test_without_a_standard_error_a_one_sided_p_still_depends_on_the_side(null, less, greater):
    perfect = estimate([Term(np.ones(10))], bounds=(0.0, 1.0))
    assert perfect.standard_error == 0
    assert perfect.p_value(null, "less") == less
    assert perfect.p_value(null, "greater") == greater


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


def difference_of_changes(larger: list[float], smaller: list[float], sign: float = 1.0) -> Estimate:
    """The change in one kind of context minus the change in another, over three templates."""
    terms = []
    for values, coefficient in ((larger, sign), (smaller, -sign)):
        templates = np.repeat(["a", "b", "c"], len(values) // 3).tolist()
        terms.append(Term(np.array(values), coefficient, [templates], step=1.0))
    return estimate(terms, bounds=(-2, 2), is_difference=True)


def test_equal_changes_in_unequal_numbers_of_contexts_have_an_off_centre_interval_that_swapping_mirrors():
    """Pseudo-observations pull the change in fewer contexts more: docs/uncertainty.md explains such intervals."""
    more_contexts = [1.0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    fewer_contexts = [1.0, 0, 0, 0, 0, 0.5]
    estimated = difference_of_changes(more_contexts, fewer_contexts)
    low, high = estimated.interval()
    assert estimated.value == pytest.approx(0)
    assert (low + high) / 2 == pytest.approx(estimated.center)
    assert 0 < estimated.center < 0.05
    assert estimated.degrees == pytest.approx(2), "three clusters"
    # The quantile of Student's t with two degrees of freedom.
    assert (high - low) / 2 == pytest.approx(4.3027 * estimated.standard_error, rel=1e-4)
    swapped = difference_of_changes(more_contexts, fewer_contexts, sign=-1.0).interval()
    assert swapped == pytest.approx((-high, -low))
    centred = difference_of_changes(more_contexts, more_contexts)
    assert centred.center == pytest.approx(0)
