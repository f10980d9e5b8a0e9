"""What clusters do to an estimate: fewer independent units, wider intervals, and never more than clusters could do."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.estimation import estimate
from lmassay.statistics.intervals import mean_estimate
from lmassay.statistics.terms import Term
from lmassay.statistics.variance import LARGEST_CORRELATION


def test_clusters_of_one_row_are_not_clusters():
    values = np.array([1.0] * 70 + [0.0] * 30)
    labels = [str(i) for i in range(100)]
    clustered = estimate([Term(values, 1.0, [labels])], bounds=(0.0, 1.0))
    assert clustered.interval() == pytest.approx(estimate([Term(values)], bounds=(0.0, 1.0)).interval())


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
