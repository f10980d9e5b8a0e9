"""Runs of any task against each other."""

from __future__ import annotations

import pytest

from lmassay.api import evaluate
from lmassay.errors import UserError
from lmassay.statistics.caveats import computed_differently
from lmassay.statistics.comparison import compare_runs, headline, known_metrics
from lmassay.statistics.flips import flips
from lmassay.statistics.pairing import (
    share_examples,
)
from lmassay.statistics.sides import load_side
from lmassay.storage.store import Store
from tests.compare_kit import add, rates, scored, side, sides, two, unscored
from tests.evaluations.bias.report import small_bias
from tests.evaluations.fewshot.report import small_fewshot
from tests.helpers import EVALUATIONS
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
    sample = EVALUATIONS / "robustness/sample"
    model = f"{sample / 'my_system.py'}:MySystem"
    task = {"name": "robustness", "src": str(sample / "src.fr"), "ref": str(sample / "ref.en")}
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
    task = {"name": "fewshot", "data": str(EVALUATIONS / "fewshot/sample/reviews.yaml"), "labelled": ["train"]}
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
    assert any(flip_counts.changes for flip_counts in flips(base, new, [row.metric for row in rows]))
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


def test_an_unknown_metric_is_reported_with_a_suggestion():
    base, new = two(rates([1, 0]), rates([1, 1]))
    with pytest.raises(UserError, match="base has no metric 'acuracy'; did you mean 'accuracy'"):
        known_metrics(base, [new], ["acuracy"])
    lacking = side("lacking", [scored(0, other=1.0)])
    with pytest.raises(UserError, match="lacking has no metric 'accuracy'"):
        known_metrics(base, [lacking], ["accuracy"])
    assert known_metrics(base, [new], ["accuracy", "accuracy"]) == ["accuracy"]


def test_a_run_without_any_score_is_reported_as_such_and_not_as_an_unknown_metric():
    base, _ = two(rates([1, 0]), [])
    silent = side("silent", [unscored(0), unscored(1)])
    for ask in (lambda: known_metrics(base, [silent], ["accuracy"]), lambda: compare_runs(base, [silent])):
        with pytest.raises(UserError, match=r"no example of silent has a score \(2 unscored\)"):
            ask()
    with pytest.raises(UserError, match="empty has no examples"):
        compare_runs(base, [side("empty", [])])


def test_a_number_that_is_not_a_mean_over_examples_cannot_be_paired():
    results = [{"metric": "accuracy.std", "group": "overall", "value": 0.1}]
    base, new = two(rates([1, 0]), rates([1, 1]), results=results)
    with pytest.raises(UserError, match=r"'accuracy\.std' is not a mean over examples.*choose one of accuracy"):
        known_metrics(base, [new], ["accuracy.std"])
