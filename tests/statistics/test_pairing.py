"""The pairs that two runs are compared on."""

from __future__ import annotations

import random

import pytest

from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.flips import flips
from lmassay.statistics.gate import unpaired_text
from lmassay.statistics.paired_scores import ChangeCounts
from lmassay.statistics.pairing import are_aligned
from lmassay.types import Example, Outcome, Row, Score
from tests.compare_kit import combined, counted_changes, failed, rates, scored, two, unscored


def test_examples_in_error_in_either_run_are_not_compared():
    rows = [(t, {"right": 1.0}) for t in "abcd"]
    counts = counted_changes(
        [None, *rows[1:]], [*rows[:3], None], combinations=combined({"right": 1.0}), cluster="template"
    )
    assert counts == ChangeCounts(2, 0, 2, 0)


def test_labels_of_equal_weight_are_compared_only_where_both_runs_have_a_value():
    before = [("a", {"right": 1.0}), ("b", {"right": 1.0}), ("c", {})]
    after = [("a", {"right": 0.0}), ("b", {}), ("c", {"right": 1.0})]
    assert counted_changes(before, after, combinations=combined({"right": 1.0}, each="template")) == ChangeCounts(
        1, 1, 1, 0
    )


@pytest.mark.parametrize(("fell", "n"), [(3, 100), (40, 40), (5, 5), (0, 40)])
def test_which_run_comes_first_does_not_matter(fell, n):
    base, new = two(rates([1] * n), rates([0] * fell + [1] * (n - fell)))
    (there,), (back,) = compare_runs(base, [new]), compare_runs(new, [base])
    assert there.difference == -back.difference
    assert (there.low, there.high) == (pytest.approx(-back.high), pytest.approx(-back.low))
    assert there.p == pytest.approx(back.p)
    assert (there.p < 0.01) is (fell == 40)


def test_examples_that_only_one_run_scored_are_counted():
    base, new = two([*rates([1] * 5), unscored(5)], [*rates([1] * 3), unscored(3), scored(5, accuracy=1.0)])
    (row,) = compare_runs(base, [new])
    assert (row.n, row.only_base, row.only_new) == (3, 2, 1)


def rows_without_a_weight(prefix: str) -> list[Row]:
    """Ten examples, two of each label; the fourth has a score but no weight."""
    rows: list[Row] = []
    for i in range(10):
        weight = {} if i == 3 else {"rows": 2.0}
        rows.append(scored(f"{prefix}{i}", {"left": f"g{i // 2}"}, accuracy=float(i % 2), **weight))
    return rows


def test_an_example_without_a_weight_counts_nothing():
    weights = {"accuracy": "rows"}
    rows = rows_without_a_weight("e")
    base, new = two(rows, reversed(rows), weights=weights)
    (row,) = compare_runs(base, [new], ["accuracy"])
    assert (row.n, row.only_base, row.only_new) == (9, 0, 0)
    assert flips(base, new, ["accuracy"])[0].n == 9


def test_an_example_without_a_weight_does_not_exclude_the_others_of_its_label():
    design = {"weights": {"accuracy": "rows"}, "pair_by": ["left"]}
    base, new = two(rows_without_a_weight("a"), rows_without_a_weight("b"), **design)
    (row,) = compare_runs(base, [new], ["accuracy"])
    assert (row.n, row.only_base, row.only_new) == (5, 0, 0)
    # Of the second label, only the first example counts: it scored 0, all labels of two examples have a mean of 0.5.
    assert row.base_mean == pytest.approx(4 * 4 * 0.5 / (4 * 4 + 2))


def test_outcomes_of_an_example_without_a_weight_count_nothing():
    def context(i: int) -> Row:
        scores = {"tse": 1.0} if i == 3 else {"tse": 1.0, "rows": 2.0}
        outcomes = {"tse": [Outcome("be", 1.0, 1), Outcome("do", 1.0, 1)]}
        return Row(Example(str(i), {}), "scored", Score(scores, outcomes=outcomes))

    rows = [context(i) for i in range(6)]
    base, new = two(rows, rows, weights={"tse": "rows"}, crossed={"tse": "verb_pair"})
    (row,) = compare_runs(base, [new], ["tse"])
    assert (row.n, row.only_base, row.only_new) == (5, 0, 0)


def test_what_only_one_run_scored_is_counted_in_what_is_paired():
    trainings = [scored(i, {"split": f"s{i}"}, accuracy=0.5 + 0.01 * i) for i in range(5)]
    base, new = two(trainings, trainings[:4], replicates={"group": "split"})
    (row,) = compare_runs(base, [new])
    assert unpaired_text(row) == "not compared: 1 split that only the base run scored"
    before = [scored(f"a{i}", {"left": f"g{i // 2}"}, accuracy=1.0) for i in range(8)]
    after = [scored(f"b{i}", {"left": f"g{i // 2}"}, accuracy=1.0) for i in range(4)]
    base, new = two(before, after, pair_by=["left"])
    (row,) = compare_runs(base, [new])
    assert unpaired_text(row) == "not compared: 2 labels that only the base run scored"


def test_runs_that_are_the_same_still_have_an_interval():
    groups = [{"template": str(i // (1 + i % 2))} for i in range(90)]
    sides = two(rates([1] * 90, groups=groups), rates([1] * 90, groups=groups), cluster="template")
    (row,) = compare_runs(sides[0], sides[1:])
    assert row.units > 30
    assert (row.difference, row.changed) == (0.0, 0)
    assert row.low == -row.high < 0


def test_a_comparison_counts_what_could_have_changed():
    sides = two([scored(i, a=float(i < 3)) for i in range(10)], [scored(i, a=0.0) for i in range(10)])
    (row,) = compare_runs(sides[0], sides[1:])
    assert (row.units, row.changed, row.can_fall, row.can_rise) == (10, 3, 3, 7)


def test_a_mean_over_labels_pairs_each_column_by_itself():
    """The new run lost one of the right contexts; the base run must not count it either."""
    template = {"template": "a"}
    before = [
        scored(0, template, amb=1.0, dis=1.0),
        scored(1, template, amb=0.0, dis=0.0),
        scored(2, {"template": "b"}, amb=1.0, dis=1.0),
    ]
    after = [scored(0, template, amb=1.0), scored(1, template, amb=0.0, dis=0.0), before[2]]
    combination = combined({"amb": 0.5, "dis": 0.5}, each="template")
    base, new = two(before, after, combinations=combination)
    (row,) = compare_runs(base, [new], ["m"])
    # Of template a, the ambiguous contexts are .5 in both runs, the disambiguated one that both have is 0.
    assert row.base_mean == pytest.approx((0.25 + 1.0) / 2)
    assert row.difference == pytest.approx(0.0)


def random_rows(seed: int) -> list[Row]:
    """Rates and graded scores, some of them missing, unscored examples and errors; half of the graded ones repeat."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for number in range(60):
        groups = {"template": f"t{number % 7}"}
        state = rng.random()
        if state < 0.1:
            rows.append(failed(number))
        elif state < 0.2:
            rows.append(unscored(number, groups=groups))
        else:
            scores = {"right": float(rng.random() < 0.6), "graded": rng.choice([0.5, rng.random()])}
            if rng.random() < 0.2:
                del scores[rng.choice(sorted(scores))]
            rows.append(scored(number, groups, **scores))
    return rows


@pytest.mark.parametrize("design", [{}, {"clusters": ["template"]}], ids=["independent", "clustered"])
@pytest.mark.parametrize("seed", range(5))
def test_runs_in_the_same_order_are_compared_like_runs_in_another_order(seed, design):
    # Rows in the same order are compared as columns, rows in another order by their ids.
    before, after = random_rows(seed), random_rows(seed + 100)
    aligned = two(before, after, **design)
    shuffled = two(before, reversed(after), **design)
    metrics = ["right", "graded"]
    assert are_aligned(*aligned, "right", None)
    assert not are_aligned(*shuffled, "right", None)
    assert compare_runs(aligned[0], aligned[1:], metrics) == compare_runs(shuffled[0], shuffled[1:], metrics)
    for of_columns, by_ids in zip(flips(*aligned, metrics), flips(*shuffled, metrics), strict=True):
        assert of_columns.as_json(None) == by_ids.as_json(None)
