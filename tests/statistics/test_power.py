"""Stated drops are detected as often as stated: by simulation, and by properties of all comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.statistics.intervals import mean_estimate, paired_difference, result_of
from lmassay.statistics.pairing import pairs_of
from lmassay.statistics.power import Spread, detectable, distinguishable, rows_to_detect, rows_to_show, spread_of
from lmassay.types import Result, Settings
from tests.compare_kit import rates, scored, two


def fail_rate(n, churn, drop, threshold, repeats=400):
    """How often the one-sided test finds a drop beyond the threshold; ``churn`` is the share that changes each way."""
    rng = np.random.default_rng(n)
    failures = 0
    for _ in range(repeats):
        draws = rng.random(n)
        change = np.where(draws < churn, 1.0, np.where(draws < 2 * churn + drop, -1.0, 0.0))
        difference = paired_difference(np.zeros(n), change)
        failures += difference.estimate.p_value(-threshold, "less") < 0.05
    return failures / repeats


@pytest.mark.parametrize(
    ("n", "churn", "threshold"), [(60, 0.03, 0.0), (100, 0.03, 0.02), (300, 0.1, 0.05), (2000, 0.03, 0.02)]
)
def test_the_stated_drop_is_found_in_four_of_five(n, churn, threshold):
    drop = detectable(Spread(n, 2 * churn), threshold, 0.05)
    assert fail_rate(n, churn, drop, threshold) == pytest.approx(0.8, abs=0.06)


def test_the_needed_examples_find_the_drop_in_four_of_five():
    n = rows_to_detect(Spread(1000, 0.06), 0.04, 0.02, 0.05)
    assert fail_rate(n, 0.03, 0.04, 0.02) == pytest.approx(0.8, abs=0.06)


@given(
    n=st.integers(20, 5000),
    changed=st.floats(0, 0.5),
    threshold=st.floats(0, 0.2),
    effect=st.floats(1, 5),
    alpha=st.sampled_from([0.05, 0.01]),
)
@settings(max_examples=60, deadline=None)
def test_more_noise_means_a_larger_drop_and_the_examples_for_it_are_as_many_as_there_are(
    n, changed, threshold, effect, alpha
):
    spread = Spread(n, changed, 1.0, effect)
    drop = detectable(spread, threshold, alpha)
    if drop is None:
        return
    assert drop > threshold
    noisier = detectable(Spread(n, changed + 0.1, 1.0, effect), threshold, alpha)
    assert noisier is None or noisier > drop
    assert rows_to_detect(spread, drop, threshold, alpha) == pytest.approx(n, rel=0.02, abs=2)


def test_clusters_need_more_examples():
    independent, clustered = Spread(1000, 0.05), Spread(1000, 0.05, 1.0, 3.0, 99.0)
    assert rows_to_show(clustered, 0.02, 0.05) > 2.5 * rows_to_show(independent, 0.02, 0.05)
    assert detectable(clustered, 0.02, 0.05) > detectable(independent, 0.02, 0.05)


def spread(before, after, metric="accuracy", **design):
    base, new = two(before, after, **design)
    pairs = pairs_of(base, new, metric)
    return spread_of(pairs, pairs.difference(base.record.settings).estimate)


def test_a_clear_drop_is_not_taken_for_churn():
    # 3 % rise, 33 % fall: without the drop, about 6 % would change.
    churn = spread(rates([0] * 30 + [1] * 970), rates([1] * 30 + [0] * 330 + [1] * 640))
    assert churn.changed == pytest.approx(0.06, abs=0.005)


def test_the_scale_of_scores_is_the_scale_of_drops():
    before = [scored(i, bleu=30.0) for i in range(100)]
    after = [scored(i, bleu=30.0 + (5.0 if i < 5 else -5.0 if i < 10 else 0.0)) for i in range(100)]
    churn = spread(before, after, "bleu")
    assert (churn.size, churn.changed) == (pytest.approx(5), pytest.approx(0.1))
    assert detectable(churn, 1.0, 0.05) == pytest.approx(5 * detectable(Spread(100, 0.1), 0.2, 0.05), rel=1e-3)


def test_scores_that_all_change_may_shift_by_more_than_they_change():
    rng = np.random.default_rng(0)
    changes = rng.normal(0, 0.5, 200)
    before = [scored(i, bleu=30.0) for i in range(200)]
    after = [scored(i, bleu=30.0 + changes[i]) for i in range(200)]
    drop = detectable(spread(before, after, "bleu"), 2.0, 0.05)
    # As for any normal mean: the threshold, and 1.65 + 0.84 standard errors.
    assert drop == pytest.approx(2.0 + 2.49 * 0.5 / 200**0.5, abs=0.02)


@pytest.mark.parametrize(("n", "accuracy"), [(100, 0.5), (300, 0.7)])
def test_unrelated_models_that_differ_by_the_stated_difference_are_distinguished_in_four_of_five(n, accuracy):
    rng = np.random.default_rng(n)
    significant = 0
    for _ in range(300):
        first = (rng.random(n) < accuracy).astype(float)
        result = result_of(mean_estimate(first), "accuracy", "overall", (n, 0, 0), Settings())
        difference = distinguishable(result, 0.95)
        second = (rng.random(n) < accuracy + difference).astype(float)
        significant += paired_difference(first, second).estimate.p_value(0.0, "two-sided") < 0.05
    assert 0.7 < significant / 300 < 0.93


def test_a_result_without_an_interval_states_no_difference():
    assert distinguishable(Result("accuracy", "overall", 0.5, None, None, 10), 0.95) is None


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9, 0.95, 0.99, 1.0, 1.1, 1.3, 2.0, 5.0])
def test_without_bounds_some_drop_is_always_detected_and_it_grows_with_the_threshold(threshold):
    spread = Spread(rows=80, changed=0.3, size=0.99, effect=2.0, degrees=9)
    drop = detectable(spread, threshold, 0.05, has_bounds=False)
    larger = detectable(spread, threshold + 0.2, 0.05, has_bounds=False)
    assert threshold < drop < larger
