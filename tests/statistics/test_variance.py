"""Clusters: degrees of freedom and design effects against the matrices that they are derived from."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.variance import PRIOR_CORRELATION, clusters_of, degrees_of_freedom, design_effect


def degrees_by_matrix(sizes: list[int]) -> float:
    """Bell and McCaffrey's degrees of freedom from the covariance of the adjusted residuals, as they define them."""
    n = sum(sizes)
    membership = np.zeros((n, len(sizes)))
    start = 0
    for place, size in enumerate(sizes):
        membership[start : start + size, place] = 1
        start += size
    residual_maker = np.eye(n) - np.ones((n, n)) / n
    contributions = []
    for place in range(len(sizes)):
        in_cluster = membership[:, place].astype(bool)
        size = in_cluster.sum()
        hat = np.ones((size, size)) / n
        values, vectors = np.linalg.eigh(np.eye(size) - hat)
        adjustment = vectors @ np.diag(values**-0.5) @ vectors.T
        contributions.append(np.ones(size) @ adjustment @ residual_maker[in_cluster] / n)
    covariance = np.array(contributions) @ np.array(contributions).T
    return float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance))


@pytest.mark.parametrize("sizes", [[3, 3, 3], [1, 2, 3, 4], [10, 1, 1, 1], [5, 5, 20, 2, 7]])
def test_degrees_of_freedom_are_those_of_the_definition(sizes):
    clusters = clusters_of(np.array(sizes, dtype=float))
    assert clusters.degrees_of_freedom() == pytest.approx(degrees_by_matrix(sizes))


def test_equal_clusters_have_one_degree_of_freedom_less_than_there_are():
    assert clusters_of(np.full(12, 7.0)).degrees_of_freedom() == pytest.approx(11)


def test_two_columns_on_other_clusters_have_the_degrees_of_both():
    """Two independent means on clusters of their own: the contributions of both, side by side."""
    shares = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    assert degrees_of_freedom(shares, np.ones(2)) == pytest.approx(2)


def test_the_effective_number_of_clusters_falls_with_one_that_dominates():
    assert clusters_of(np.array([90.0, *[1.0] * 10])).effective == pytest.approx(100**2 / (8100 + 10))


def effect_of(inflation: float, events: float, sizes: list[int], of_rate: bool) -> float:
    clusters = clusters_of(np.array(sizes, dtype=float))
    return float(design_effect(np.array(inflation), np.array(1.0), np.array(events), clusters, of_rate=of_rate))


@pytest.mark.parametrize("of_rate", [True, False])
def test_without_events_the_assumed_correlation_decides(of_rate):
    assert effect_of(1.0, 0, [12] * 24, of_rate) == pytest.approx(1 + 11 * PRIOR_CORRELATION)


@pytest.mark.parametrize("of_rate", [True, False])
def test_many_events_decide_by_themselves(of_rate):
    assert effect_of(3.0, 1e9, [12] * 2400, of_rate) == pytest.approx(3.0, rel=1e-3)


def test_clusters_never_make_an_estimate_more_precise():
    assert effect_of(0.2, 1e9, [12] * 2400, False) == pytest.approx(1.0, abs=1e-3)


def test_single_rows_have_no_design_effect():
    assert effect_of(5.0, 3, [1] * 30, True) == 1.0
