"""Bias on the card: the number that comes first is the one of the tables."""

from __future__ import annotations

import pytest

from lmassay.evaluations.bias.card import BBQ_CATEGORIES, UNIFIEDQA, headline
from lmassay.evaluations.bias.report.runs import prompt_families, read_runs
from lmassay.evaluations.bias.reproduce import unifiedqa_answers, unifiedqa_figures
from lmassay.storage.store import Store
from tests.evaluations.bias.report.small_bias import run


def test_the_headline_of_several_prompts_is_the_mean_over_prompts_of_the_report(tmp_path):
    """They came from two formulas: one mean over the rows of all prompts, one mean over prompts."""
    run(tmp_path, {"lean": 0.7, "knows": 0.3, "unread_on": "age-001a-001-amb-bsd-0"}, prompt_id=[1, 2])
    with Store(tmp_path / "results") as store:
        records = store.runs()
        shown = headline(store, records)
        (family,) = prompt_families(read_runs(store, records))
    assert shown is not None
    table_row = family.result(shown.metric)
    assert table_row is not None
    assert len(records) == 2
    assert shown.result == table_row
    assert shown.result.low < shown.result.value < shown.result.high
    assert shown.result.method == "t/template"
    # These data have no control questions, so the card does not list their accuracy as missing.
    assert [detail for detail in shown.details if "no data" in detail] == []


def test_the_scores_of_unifiedqa_are_those_of_its_published_answers(fetched):
    fetched("bbq")
    items = []
    rows = []
    for category in BBQ_CATEGORIES:
        questions, answers = unifiedqa_answers(category)
        items += questions
        rows += answers
    for published, variant in zip(UNIFIEDQA, ("arc", "race"), strict=True):
        assert f"({variant.upper()})" in published.model
        accuracy_amb, accuracy_dis, bias_amb, _, _ = unifiedqa_figures(items, rows, variant)
        shown = (published.bias, published.accuracy_amb, published.accuracy_dis)
        assert shown == pytest.approx((bias_amb, accuracy_amb, accuracy_dis), abs=0.00005)
        # Each number is over one kind of context, not over all questions.
        for context_type in ("amb", "dis"):
            assert published.n == sum(item.context_type == context_type for item in items)
