"""What changed between two runs, and what could have: the gate must not pass where it could not have failed."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.changes import Moves, moves_of_combination, moves_of_values
from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.table import ScoreTable
from lmassay.types import Combination, Example, Row, Score
from tests.compare_kit import rates, scored, two


def table(*rows: tuple[str, dict[str, float]], failed: tuple[int, ...] = ()) -> ScoreTable:
    """Rows of (template, scores)."""
    return ScoreTable(
        Row(Example(str(i), {}, None, {"template": t}), "error" if i in failed else "scored", Score(scores))
        for i, (t, scores) in enumerate(rows)
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([0, 0, 1, 1], [0, 1, 1, 1], Moves(4, 1, 2, 2)),
        # A graded score between 0 and 1 has the same ends, rounding apart.
        ([0, 0.5, 1, 1 - 1e-15], [0, 0.5, 1, 1], Moves(4, 0, 3, 2)),
        # Nobody knows how far other scores go.
        ([0, 0, 1, 30], [0, 0, 1, 30], Moves(4, 0, 4, 4)),
        ([0, 0, 1, 1], [0, -1, 1, 1], Moves(4, 1, 4, 4)),
    ],
)
def test_a_score_at_its_end_can_move_one_way_only(before, after, expected):
    assert moves_of_values("abcd", np.array(before, float), np.array(after, float)) == expected


def test_a_cluster_can_move_if_any_of_its_examples_can():
    found = moves_of_values("aabb", np.array([0.0, 1.0, 0.0, 0.0]), np.zeros(4))
    assert found == Moves(2, 1, 1, 2)


def test_examples_in_error_in_either_run_are_no_part_of_what_is_compared():
    rows = [(t, {"right": 1.0}) for t in "abcd"]
    base, new = table(*rows, failed=(0,)), table(*rows[:3], ("d", {}), failed=(3,))
    assert moves_of_combination(base, new, Combination({"right": 1.0}), "template") == Moves(2, 0, 2, 0)


def test_a_term_that_is_taken_off_moves_the_other_way():
    combination = Combination({"here": 1.0, "there": -1.0}, bounds=(-1.0, 1.0))
    base = table(("a", {"here": 0.0}), ("b", {"here": 1.0}), ("c", {"there": 1.0}), ("d", {"there": 0.0}))
    # It falls where "here" is 1 and where "there" is 0.
    assert moves_of_combination(base, base, combination, "template") == Moves(4, 0, 2, 2)
    only = table(("a", {"here": 0.0}), ("b", {"here": 0.0}), ("c", {"there": 1.0}), ("d", {"there": 1.0}))
    assert moves_of_combination(only, only, combination, "template") == Moves(4, 0, 0, 4)


def test_a_column_goes_as_far_as_its_combination_does():
    base = table(("a", {"x": 0.0}), ("b", {"x": 1.0}))
    signed, doubled = Combination({"x": 1.0}, bounds=(-1.0, 1.0)), Combination({"x": 2.0}, -1.0, bounds=(-1.0, 1.0))
    assert moves_of_combination(base, base, signed, "template") == Moves(2, 0, 2, 1)
    assert moves_of_combination(base, base, doubled, "template") == Moves(2, 0, 1, 1)


def test_labels_that_count_alike_are_compared_only_where_both_runs_have_a_value():
    combination = Combination({"right": 1.0}, each="template")
    base = table(("a", {"right": 1.0}), ("b", {"right": 1.0}), ("c", {}))
    new = table(("a", {"right": 0.0}), ("b", {}), ("c", {"right": 1.0}))
    assert moves_of_combination(base, new, combination, None) == Moves(1, 1, 1, 0)


def test_runs_that_are_the_same_have_no_interval_whatever_their_clusters():
    groups = [{"template": str(i // (1 + i % 2))} for i in range(90)]
    sides = two(rates([1] * 90, groups=groups), rates([1] * 90, groups=groups), cluster="template")
    (row,) = compare_runs(sides[0], sides[1:])
    assert row.units > 30
    assert (row.difference, row.low, row.high, row.changed) == (0.0, None, None, 0)


def test_a_comparison_tells_how_many_could_have_moved():
    sides = two([scored(i, a=float(i < 3)) for i in range(10)], [scored(i, a=0.0) for i in range(10)])
    (row,) = compare_runs(sides[0], sides[1:])
    assert (row.units, row.changed, row.can_fall, row.can_rise) == (10, 3, 3, 7)
