"""Headlines: all variants count, and only runs with the same questions are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmassay.api import evaluate
from lmassay.reporting.headline import differences_to_first_model, evaluations_without_result, headlines
from lmassay.storage.store import Store
from lmassay.types import Design, NewRun, Provenance, Result
from tests.helpers import EVALUATIONS

TRANSLATOR = f"{EVALUATIONS / 'robustness/sample/my_system.py'}:MySystem"
SENTENCES = ["the cat sees the house", "a dog eats bread", "the girl reads a book", "we drink water", "he has a car"]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results", create=True) as opened:
        yield opened


def attacked(tmp_path: Path, attack: object, **task: object) -> None:
    (tmp_path / "src.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    label = task.pop("label", "plain")
    model = {"name": TRANSLATOR, "label": label, "careful": label != "plain"}
    src = str(tmp_path / "src.txt")
    parts = {"name": "robustness", "src": src, "ref": src, "attack": attack, **task}
    evaluate({"task": parts, "model": model, "resamples": 200}, results=tmp_path / "results")


def test_two_strengths_of_one_attack_both_count_and_are_distinguished(store, tmp_path):
    attacked(tmp_path, [{"name": "delete", "rate": rate, "redraws": 100} for rate in (0.05, 0.9)])
    [shown] = headlines(store, store.runs())
    assert shown.scope == "10 attacked inputs, 2 attacks"
    assert [record.label for record in store.runs()] == ["delete, rate=0.05", "delete, rate=0.9"]


def test_what_a_variable_holds_is_in_no_label(tmp_path, store, monkeypatch):
    monkeypatch.setenv("LAYOUT", "azerty")
    attacked(tmp_path, {"name": "keyboard", "options": {"layout": "${LAYOUT}"}})
    assert [record.label for record in store.runs()] == ["keyboard"]


def test_attacks_that_were_given_one_name_both_count(store, tmp_path):
    attacked(tmp_path, [{"name": "mine", "perturb": "delete", "rate": rate, "redraws": 100} for rate in (0.05, 0.9)])
    assert headlines(store, store.runs())[0].result.n == 10


@pytest.mark.parametrize(
    "other", [{"attack": {"name": "charswap", "rate": 0.9}}, {"s_tgt": "bleu"}, {"prompt": "> {x}"}]
)
def test_models_that_were_asked_differently_are_not_compared(store, tmp_path, other):
    attacked(tmp_path, "charswap")
    attacked(tmp_path, other.pop("attack", "charswap"), label="other", **other)
    shown = headlines(store, store.runs())
    assert [headline.model for headline in shown] == ["plain", "other"]
    assert differences_to_first_model(store, shown) == []


def test_models_that_were_asked_alike_are_compared_whatever_the_attack_is_called(store, tmp_path):
    attacked(tmp_path, {"name": "delete", "redraws": 100})
    attacked(tmp_path, {"name": "mine", "perturb": "delete", "redraws": 100}, label="other")
    [pair] = differences_to_first_model(store, headlines(store, store.runs()))
    assert (pair.base.model, pair.new.model, pair.comparison.n) == ("plain", "other", 5)


def test_the_run_that_failed_is_the_reason_not_one_beside_it(store):
    for label, status in (("baseline", "done"), ("lessons", "incomplete")):
        run = store.new_id(label)
        store.add_run(NewRun(run, "s", "n", "fewshot", "m", label, {}, "sig", Provenance(), 1))
        store.set_status(run, status)
    assert evaluations_without_result(store.runs(), []) == {"m": {"fewshot": "lessons is incomplete"}}


def test_a_baseline_with_numbers_is_not_the_reason(store):
    for label, value in (("baseline", 0.5), ("lessons", None)):
        run = store.new_id(label)
        provenance = Provenance(design=Design(headline=("acc", "ooc")))
        store.add_run(NewRun(run, "s", "n", "fewshot", "m", label, {}, "sig", provenance, 1))
        out_of_choice = Result("ooc", "overall", 1.0, None, None, 4, 0, 0)
        store.set_results(run, [Result("acc", "overall", value, None, None, 4, 0, 0), out_of_choice])
        store.set_status(run, "done")
    reason = "lessons is done, but none of the answers could be scored"
    assert evaluations_without_result(store.runs(), []) == {"m": {"fewshot": reason}}


def test_a_baseline_with_numbers_that_was_run_alone_is_not_said_to_have_no_scores(store):
    run = store.new_id("baseline")
    provenance = Provenance(design=Design(headline=("acc",)))
    store.add_run(NewRun(run, "s", "n", "fewshot", "m", "baseline", {}, "sig", provenance, 1))
    store.set_results(run, [Result("acc", "overall", 0.5, None, None, 4, 0, 0)])
    store.set_status(run, "done")
    reason = "baseline is done, but it alone does not answer this question"
    assert evaluations_without_result(store.runs(), []) == {"m": {"fewshot": reason}}


def test_the_old_name_of_the_details_works_with_a_warning(store, tmp_path):
    attacked(tmp_path, "charswap")
    [headline] = headlines(store, store.runs())
    with pytest.warns(DeprecationWarning, match="use details="):
        from_old_plugin = replace(headline, beside=["right answers: 0.90"])
    assert from_old_plugin.details == ["right answers: 0.90"]
    # A copy of such a headline keeps the details, without another warning.
    assert replace(from_old_plugin, scope="10 inputs").details == ["right answers: 0.90"]
