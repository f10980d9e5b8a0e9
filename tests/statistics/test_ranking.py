"""More than two runs: the best, its ties, and those that are worse."""

from __future__ import annotations

import pytest

from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.ranking import rankings
from tests.compare_kit import rates, scored, side


def ranked(*sides, metrics=None, alpha=0.05):
    rows = compare_runs(sides[0], sides[1:], metrics)
    return rankings(sides, rows, alpha)


def run(name, right, n=100, **more):
    return side(name, rates([1] * right + [0] * (n - right)), **more)


def test_all_runs_are_compared_with_the_best_whatever_their_order():
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        runs = [run("good", 90), run("nearly", 88), run("bad", 40)]
        standings = ranked(*(runs[place] for place in order))
        assert [(standing.run, standing.mark) for standing in standings] == [
            ("good", "best"),
            ("nearly", "tie"),
            ("bad", ""),
        ]
        assert standings[0].row is None
        assert standings[1].row.base == "good"


def test_p_is_adjusted_for_all_pairs_of_runs():
    standings = ranked(run("a", 90), run("b", 84), run("c", 84), run("d", 84))
    assert {standing.tests for standing in standings} == {6}
    _, *others = standings
    assert others[0].row.p_adjusted == pytest.approx(6 * others[0].row.p)
    assert others[0].mark == "tie"


def test_which_run_is_best_depends_on_the_direction_of_the_metric():
    lower = {"metrics": [{"name": "errors", "better": "lower"}]}
    runs = [
        side(name, rates([1] * k + [0] * (60 - k), "errors"), **lower) for name, k in (("a", 30), ("b", 5), ("c", 8))
    ]
    assert [standing.run for standing in ranked(*runs)] == ["b", "c", "a"]


def test_fewer_and_easier_examples_do_not_make_a_run_the_best():
    whole = side("whole", [scored(i, accuracy=float(i < 50)) for i in range(100)])
    easy = side("easy", [scored(i, accuracy=1.0) for i in range(40)])
    better = side("better", [scored(i, accuracy=float(i < 70)) for i in range(100)])
    assert ranked(whole, easy, better)[0].run == "better"


def test_two_runs_need_no_ranking():
    assert ranked(run("a", 90), run("b", 40)) == []


def test_equal_runs_are_all_tied_with_the_first():
    standings = ranked(run("a", 50), run("b", 50), run("c", 50))
    assert [(standing.run, standing.mark) for standing in standings] == [("a", "best"), ("b", "tie"), ("c", "tie")]


def test_runs_that_were_measured_differently_are_not_ranked():
    """Success rates by chrF and by exact match cannot be ranked against each other."""
    runs = [run("a", 90), run("b", 80), run("c", 70, signature={"data": "one", "s_src": "exact_match"})]
    assert ranked(*runs) == []
