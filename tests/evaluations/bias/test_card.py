"""Bias on the card: the number that comes first is the one of the tables."""

from __future__ import annotations

from lmassay.evaluations.bias.card import headline
from lmassay.evaluations.bias.report.runs import prompt_families, read_runs
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
