"""Runs of any task against each other."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest

from lmassay.api import evaluate
from lmassay.errors import UserError
from lmassay.statistics.caveats import computed_differently
from lmassay.statistics.comparison import (
    ChangeCounts,
    are_aligned,
    compare_runs,
    count_changes,
    headline,
    is_same,
    known_metrics,
    load_side,
    paired_columns,
    same_scores,
    share_examples,
)
from lmassay.statistics.flips import flips
from lmassay.storage.store import Store
from lmassay.types import Row
from tests.compare_kit import add, failed, rates, scored, side, sides, two, unscored
from tests.evaluations.bias.report import small_bias
from tests.evaluations.fewshot.report import small_fewshot
from tests.helpers import ROOT
from tests.reporting import small_runs

CUSTOM = """
from lmassay.statistics.intervals import mean_results
from lmassay.types import Example, Generate, Score

class Spelling:
    name, version, needs = "spelling", 1, frozenset({"generate"})

    def examples(self):
        for word in ("ant", "bee", "cow", "dog", "emu", "fox", "gnu", "hen"):
            yield Example(word, {"word": word}, groups={"first": word[0]})

    def requests(self, example):
        return [Generate(f"Spell {example.id}")]

    def score(self, examples, responses):
        return [Score({"exact": float(e.id in r[0].text), "length": float(len(r[0].text))})
                for e, r in zip(examples, responses)]

    def aggregate(self, table, settings):
        return mean_results(table, ["exact", "length"], settings)

    def signature(self):
        return {"data": "words"}

class Speller:
    name, can = "speller", frozenset({"generate"})

    def __init__(self, deaf: bool = False):
        self.deaf = deaf

    def identity(self):
        return {"name": "speller", "deaf": self.deaf}

    def generate(self, requests):
        return ["what?" if self.deaf else r.prompt for r in requests]
"""


def robustness(folder):
    examples = ROOT / "examples"
    model = f"{examples / 'toy_translator.py'}:ToyTranslator"
    task = {"name": "robustness", "src": str(examples / "data/src.fr"), "ref": str(examples / "data/ref.en")}
    task |= {"attack": "charswap", "s_src": "chrf", "s_tgt": "chrf"}
    models = [model, {"name": model, "careful": True}]
    return evaluate({"task": task, "model": models, "resamples": 100}, folder / "results")


def syntax(folder):
    return small_runs.run(folder, small_runs.two_constructions(folder), {"label": "a"}, {"label": "b"})


def refining_tse(folder):
    task = {**small_runs.two_constructions(folder), "name": "refining_tse"}
    whole = small_runs.config(folder, {**task, "name": "syntax"}, {"label": "a"}, {"label": "b"})
    whole["task"]["name"] = "refining_tse"
    return evaluate(whole, folder / "results")


def minimal_pairs(folder):
    data = small_runs.write_pairs(folder / "pairs.jsonl", 12)
    return small_runs.run(folder, {"name": "minimal_pairs", "data": str(data)}, {"label": "a"}, {"label": "b"})


def bias(folder):
    return small_bias.run(folder, {"label": "a"}, {"label": "b", "knows": 0.8})


def fewshot(folder):
    task = {"name": "fewshot", "data": str(ROOT / "examples/fewshot/reviews.yaml"), "labelled": ["train"]}
    task |= {"test_examples": 24, "method": ["majority", "random"]}
    return evaluate({"task": task, "resamples": 100}, folder / "results")


def custom(folder):
    file = folder / "spelling.py"
    file.write_text(CUSTOM, encoding="utf-8")
    models = [f"{file}:Speller", {"name": f"{file}:Speller", "deaf": True}]
    return evaluate({"task": f"{file}:Spelling", "model": models, "resamples": 100}, folder / "results")


@pytest.mark.parametrize("make", [robustness, syntax, refining_tse, minimal_pairs, bias, fewshot, custom])
def test_runs_of_every_task_are_compared_on_the_numbers_they_report(make, tmp_path):
    runs = make(tmp_path)
    base, new = sides(tmp_path / "results", *(run.id for run in runs))
    rows = compare_runs(base, [new])
    assert {row.metric for row in rows} <= set(headline(base))
    reported = {metric for metric in headline(base) if any(r.metric == metric for r in runs[0].results)}
    for metric in reported & {row.metric for row in rows}:
        row = next(row for row in rows if row.metric == metric)
        assert row.base_mean == pytest.approx(runs[0][metric].value)
        assert row.new_mean == pytest.approx(runs[1][metric].value)
        assert row.difference == pytest.approx(row.new_mean - row.base_mean)
        assert 1 <= row.changed <= row.units <= row.n or row.changed == 0
    assert reported & {row.metric for row in rows}
    assert any(row.p is not None for row in rows)
    assert any(found.changes for found in flips(base, new, [row.metric for row in rows]))
    assert computed_differently(base, [new], rows) == []


def test_splits_of_few_shot_runs_are_the_units_whatever_the_number_of_patterns():
    def rows(test):
        return [small_fewshot.row(s, test=test + s / 100, pattern=p) for s in range(4) for p in range(3)]

    base, new = two(rows(0.5), rows(0.6), task="fewshot", cluster="split", pair_by="split")
    (row,) = compare_runs(base, [new], ["acc"])
    assert (row.n, row.units) == (12, 4)
    # The same gain in every split: the spread is unknown, not 0.
    assert 0 < row.p < 0.05


def test_few_shot_runs_with_and_without_patterns_are_paired_by_split(tmp_path):
    runs = fewshot(tmp_path)
    with Store(tmp_path / "results") as store:
        design = store.run(runs[0].id).design
    assert (design.clusters, design.pair_by) == (("split",), ("split",))
    with_patterns = [small_fewshot.row(s, test=0.5, pattern=p) for s in range(4) for p in range(3)]
    without = [small_fewshot.row(s, test=0.75, pattern=None) for s in range(4)]
    base, new = two(
        with_patterns, without, task="fewshot", clusters=list(design.clusters), pair_by=list(design.pair_by)
    )
    assert share_examples(base, new)
    (row,) = compare_runs(base, [new], ["acc"])
    assert (row.n, row.difference) == (4, 0.25)


def test_a_part_of_the_examples_can_be_compared(tmp_path):
    groups = [{"category": "Age" if i % 2 else "Faith"} for i in range(20)]
    add(tmp_path, "base", rates([1] * 20, groups=groups))
    add(tmp_path, "new", rates([i % 2 for i in range(20)], groups=groups))
    with Store(tmp_path) as store:
        differences = []
        for label in ("Age", "Faith"):
            base, new = (load_side(store, store.run(run), {"category": label}) for run in ("base", "new"))
            differences += [(row.difference, row.n) for row in compare_runs(base, [new])]
    assert differences == [(0.0, 10), (-1.0, 10)]


def test_an_unknown_metric_is_told_with_what_may_have_been_meant():
    base, new = two(rates([1, 0]), rates([1, 1]))
    with pytest.raises(UserError, match="base has no metric 'acuracy'; did you mean 'accuracy'"):
        known_metrics(base, [new], ["acuracy"])
    lacking = side("lacking", [scored(0, other=1.0)])
    with pytest.raises(UserError, match="lacking has no metric 'accuracy'"):
        known_metrics(base, [lacking], ["accuracy"])
    assert known_metrics(base, [new], ["accuracy", "accuracy"]) == ["accuracy"]


def test_a_run_without_any_score_is_told_as_such_and_not_as_an_unknown_metric():
    base, _ = two(rates([1, 0]), [])
    silent = side("silent", [unscored(0), unscored(1)])
    for ask in (lambda: known_metrics(base, [silent], ["accuracy"]), lambda: compare_runs(base, [silent])):
        with pytest.raises(UserError, match=r"no example of silent has a score \(2 unscored\)"):
            ask()
    with pytest.raises(UserError, match="empty has no examples"):
        compare_runs(base, [side("empty", [])])


def test_a_number_that_is_no_mean_over_examples_cannot_be_paired():
    results = [{"metric": "accuracy.std", "group": "overall", "value": 0.1}]
    base, new = two(rates([1, 0]), rates([1, 1]), results=results)
    with pytest.raises(UserError, match=r"'accuracy\.std' is not a mean over examples.*choose one of accuracy"):
        known_metrics(base, [new], ["accuracy.std"])


# --- what changed, and what could have --------------------------------------------------------------------------------


def moves(before, after, **design):
    """Rows are (template, scores), or None for an example in error."""
    runs = []
    for rows in (before, after):
        made = [failed(i) if row is None else scored(i, {"template": row[0]}, **row[1]) for i, row in enumerate(rows)]
        runs.append(made)
    base, new = two(*runs, **design)
    return count_changes(paired_columns(base, new, "m"))


def combined(terms, *, constant=0.0, each=None, bounds=(0.0, 1.0)):
    return {"m": {"terms": terms, "constant": constant, "each": each, "bounds": list(bounds)}}


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
def test_a_score_at_its_end_can_move_one_way_only(before, after, expected):
    base, new = ([(str(i), {"m": float(value)}) for i, value in enumerate(values)] for values in (before, after))
    assert moves(base, new) == expected


def test_a_cluster_can_move_if_any_of_its_examples_can():
    before = [("a", {"m": 0.0}), ("a", {"m": 1.0}), ("b", {"m": 0.0}), ("b", {"m": 0.0})]
    after = [(template, {"m": 0.0}) for template in "aabb"]
    assert moves(before, after, cluster="template") == ChangeCounts(2, 1, 1, 2)


def test_examples_in_error_in_either_run_are_no_part_of_what_is_compared():
    rows = [(t, {"right": 1.0}) for t in "abcd"]
    found = moves([None, *rows[1:]], [*rows[:3], None], combinations=combined({"right": 1.0}), cluster="template")
    assert found == ChangeCounts(2, 0, 2, 0)


def test_a_term_that_is_taken_off_moves_the_other_way():
    design = {"combinations": combined({"here": 1.0, "there": -1.0}, bounds=(-1.0, 1.0)), "cluster": "template"}
    rows = [("a", {"here": 0.0}), ("b", {"here": 1.0}), ("c", {"there": 1.0}), ("d", {"there": 0.0})]
    # It falls where "here" is 1 and where "there" is 0.
    assert moves(rows, rows, **design) == ChangeCounts(4, 0, 2, 2)
    only = [("a", {"here": 0.0}), ("b", {"here": 0.0}), ("c", {"there": 1.0}), ("d", {"there": 1.0})]
    assert moves(only, only, **design) == ChangeCounts(4, 0, 0, 4)


def test_a_column_goes_as_far_as_its_combination_does():
    rows = [("a", {"x": 0.0}), ("b", {"x": 1.0})]
    signed = combined({"x": 1.0}, bounds=(-1.0, 1.0))
    doubled = combined({"x": 2.0}, constant=-1.0, bounds=(-1.0, 1.0))
    assert moves(rows, rows, combinations=signed, cluster="template") == ChangeCounts(2, 0, 2, 1)
    assert moves(rows, rows, combinations=doubled, cluster="template") == ChangeCounts(2, 0, 1, 1)


def test_labels_that_count_alike_are_compared_only_where_both_runs_have_a_value():
    before = [("a", {"right": 1.0}), ("b", {"right": 1.0}), ("c", {})]
    after = [("a", {"right": 0.0}), ("b", {}), ("c", {"right": 1.0})]
    assert moves(before, after, combinations=combined({"right": 1.0}, each="template")) == ChangeCounts(1, 1, 1, 0)


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


def test_runs_that_are_the_same_still_differ_by_no_more_than_their_examples_can_tell():
    groups = [{"template": str(i // (1 + i % 2))} for i in range(90)]
    sides = two(rates([1] * 90, groups=groups), rates([1] * 90, groups=groups), cluster="template")
    (row,) = compare_runs(sides[0], sides[1:])
    assert row.units > 30
    assert (row.difference, row.changed) == (0.0, 0)
    assert row.low == -row.high < 0


def test_a_comparison_tells_how_many_could_have_moved():
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


def test_scores_are_the_same_by_column_as_one_by_one():
    numbers = [0.0, 1e-13, 1e-12, 2e-12, 0.5, 0.5 + 4e-10, 0.5 + 6e-10, 1.0, 1 + 1e-9, -1.0, 3e8, 3e8 + 0.2]
    for before in numbers:
        for after in [*numbers, inf, -inf]:
            assert bool(same_scores(np.array([before]), after)[0]) == is_same(before, after), (before, after)
