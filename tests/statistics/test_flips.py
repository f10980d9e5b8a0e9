"""Which examples flipped, and which are left out because a score is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.flips import ExcludedExamples, flips
from tests.compare_kit import failed, rates, scored, sides, two, unscored
from tests.evaluations.bias.report import small_bias
from tests.evaluations.fewshot.report import small_fewshot


def test_scores_of_0_and_1_are_counted_in_mcnemars_table():
    base, new = two(rates([1, 1, 1, 0, 0, 1]), rates([1, 0, 0, 1, 0, 1]))
    (flip_counts,) = flips(base, new, ["accuracy"])
    assert flip_counts.is_rate
    assert (
        flip_counts.n,
        flip_counts.both_one,
        flip_counts.both_zero,
        len(flip_counts.fallen),
        len(flip_counts.risen),
    ) == (6, 2, 1, 2, 1)
    assert [(c.id, c.before, c.after) for c in flip_counts.fallen] == [("1", 1, 0), ("2", 1, 0)]


def test_examples_in_error_or_unscored_on_either_side_are_counted_apart_and_never_flips():
    before = [scored(0, accuracy=1), failed(1), scored(2, accuracy=1), unscored(3), scored(4, accuracy=1)]
    after = [scored(0, accuracy=0), scored(1, accuracy=0), failed(2), scored(3, accuracy=0), unscored(4)]
    base, new = two([*before, scored("a", accuracy=1)], [*after, scored("b", accuracy=0), failed("c")])
    (flip_counts,) = flips(base, new, ["accuracy"])
    assert [change.id for change in flip_counts.changes] == ["0"]
    assert flip_counts.left_out == ExcludedExamples(error=2, unscored=2, only_base=1, only_new=1)
    assert flip_counts.left_out.text() == (
        "6 left out (2 with errors, 2 unscored, 1 only in the base run, 1 only in the new run)"
    )


def test_examples_that_a_score_is_not_about_are_not_left_out():
    rows = [scored(0, accuracy_amb=1), scored(1, accuracy_dis=1)]
    base, new = two(rows, rows)
    assert [flip_counts.left_out.total for flip_counts in flips(base, new, ["accuracy_amb", "accuracy_dis"])] == [0, 0]


def test_graded_scores_have_the_largest_change_first():
    base, new = two(
        [scored(i, quality=value) for i, value in enumerate([0.5, 0.5, 0.5, 0.1 + 0.2])],
        [scored(i, quality=value) for i, value in enumerate([0.4, 0.9, 0.5, 0.3])],
    )
    (flip_counts,) = flips(base, new, ["quality"])
    assert not flip_counts.is_rate
    assert [c.id for c in flip_counts.changes] == ["1", "0"]
    assert flip_counts.as_json()["scores"] == "graded"


def test_as_many_flips_as_wanted_are_given_of_each_kind():
    base, new = two(rates([1] * 5 + [0] * 5), rates([0] * 5 + [1] * 5))
    (flip_counts,) = flips(base, new, ["accuracy"])
    assert [c.id for c in flip_counts.first(2)] == ["0", "1", "5", "6"]
    assert len(flip_counts.first(None)) == 10
    assert flip_counts.as_json()["examples"] == []
    assert flip_counts.as_json(1)["examples"][0] == {"id": "0", "before": 1, "after": 0}


def test_a_metric_made_of_several_scores_has_the_flips_of_each(tmp_path):
    runs = small_bias.run(tmp_path, {"label": "one"}, {"label": "two", "lean": 0.2})
    base, new = sides(tmp_path / "results", *(run.id for run in runs))
    flip_counts = flips(base, new, ["accuracy_amb", "diff_bias_dis"])
    assert [table.metric for table in flip_counts] == ["accuracy_amb", "correct_biased", "correct_counter"]
    assert flip_counts[0].n == 72


def test_runs_paired_by_something_else_flip_by_it():
    with_patterns = [small_fewshot.row(split, test=0.5 + split / 10, pattern=p) for split in (0, 1) for p in (0, 1)]
    without = [small_fewshot.row(split, test=0.9, pattern=None) for split in (0, 1)]
    base, new = two(with_patterns, without, task="fewshot", pair_by="split", cluster="split")
    (flip_counts,) = flips(base, new, ["acc"])
    assert flip_counts.paired_by == "split"
    assert [(c.id, c.before, c.after) for c in flip_counts.changes] == [("0", 0.5, 0.9), ("1", 0.6, 0.9)]


@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40))
def test_the_four_counts_are_all_examples_and_make_the_difference(pairs):
    base, new = two(rates(a for a, _ in pairs), rates(b for _, b in pairs))
    (flip_counts,) = flips(base, new, ["accuracy"])
    assert (
        flip_counts.both_one + flip_counts.both_zero + len(flip_counts.fallen) + len(flip_counts.risen)
        == flip_counts.n
        == len(pairs)
    )
    (row,) = compare_runs(base, [new])
    assert row.difference == pytest.approx((len(flip_counts.risen) - len(flip_counts.fallen)) / flip_counts.n)
