"""Paired scores: how many changed, and how many could have."""

from __future__ import annotations

import pytest

from lmassay.statistics.paired_scores import ChangeCounts
from tests.compare_kit import combined, counted_changes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([0, 0, 1, 1], [0, 1, 1, 1], ChangeCounts(4, 1, 2, 2)),
        # A graded score between 0 and 1 has the same ends, rounding apart.
        ([0, 0.5, 1, 1 - 1e-15], [0, 0.5, 1, 1], ChangeCounts(4, 0, 3, 2)),
        # Nobody knows how far other scores go.
        ([0, 0, 1, 30], [0, 0, 1, 30], ChangeCounts(4, 0, 4, 4)),
        ([0, 0, 1, 1], [0, -1, 1, 1], ChangeCounts(4, 1, 4, 4)),
    ],
)
def test_a_score_at_its_end_can_change_in_one_direction_only(before, after, expected):
    base, new = ([(str(i), {"m": float(value)}) for i, value in enumerate(values)] for values in (before, after))
    assert counted_changes(base, new) == expected


def test_a_cluster_can_change_if_any_of_its_examples_can():
    before = [("a", {"m": 0.0}), ("a", {"m": 1.0}), ("b", {"m": 0.0}), ("b", {"m": 0.0})]
    after = [(template, {"m": 0.0}) for template in "aabb"]
    assert counted_changes(before, after, cluster="template") == ChangeCounts(2, 1, 1, 2)


def test_a_term_that_is_subtracted_changes_in_the_other_direction():
    design = {"combinations": combined({"here": 1.0, "there": -1.0}, bounds=(-1.0, 1.0)), "cluster": "template"}
    rows = [("a", {"here": 0.0}), ("b", {"here": 1.0}), ("c", {"there": 1.0}), ("d", {"there": 0.0})]
    # It falls where "here" is 1 and where "there" is 0.
    assert counted_changes(rows, rows, **design) == ChangeCounts(4, 0, 2, 2)
    only = [("a", {"here": 0.0}), ("b", {"here": 0.0}), ("c", {"there": 1.0}), ("d", {"there": 1.0})]
    assert counted_changes(only, only, **design) == ChangeCounts(4, 0, 0, 4)


def test_a_column_goes_as_far_as_its_combination_does():
    rows = [("a", {"x": 0.0}), ("b", {"x": 1.0})]
    signed = combined({"x": 1.0}, bounds=(-1.0, 1.0))
    doubled = combined({"x": 2.0}, constant=-1.0, bounds=(-1.0, 1.0))
    assert counted_changes(rows, rows, combinations=signed, cluster="template") == ChangeCounts(2, 0, 2, 1)
    assert counted_changes(rows, rows, combinations=doubled, cluster="template") == ChangeCounts(2, 0, 1, 1)


def test_a_mean_over_labels_goes_as_far_as_its_combination_does_however_many_columns_it_combines():
    rows = [("a", {"x": 1.0, "y": 1.0}), ("b", {"x": 1.0, "y": 0.0})]
    # Within the labels, the differences are 0 and 1. They could be -1, so both can fall.
    difference = combined({"x": 1.0, "y": -1.0}, each="template", bounds=(-1.0, 1.0))
    assert counted_changes(rows, rows, combinations=difference) == ChangeCounts(2, 0, 2, 1)
