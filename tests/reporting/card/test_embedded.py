"""The card of the embedded model: what README shows, and the numbers of the evaluations run by themselves."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from lmassay.reporting.card import card_evaluations
from lmassay.storage.store import Store
from tests.helpers import ROOT, lmassay
from tests.shared_answers import not_shared

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def card(smollm2, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    done = lmassay("card", "--quick", "--results", folder / "results", "-o", folder / "card.html")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_rows_of_the_readme_are_what_make_demo_prints(card):
    rows = [line for line in README.splitlines() if line.startswith(("Does it ", "Is it "))]
    assert len(rows) == 4
    for row in rows:
        assert row.partition("…")[0].rstrip() in card[1]


def test_make_demo_is_this_card():
    assert "lmassay card --quick" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("evaluation", [evaluation.name for evaluation in card_evaluations()])
def test_an_evaluation_run_by_itself_gives_the_same_numbers(card, tmp_path, evaluation):
    """In a store of its own. One evaluation asks the model again; the others share the answers of the session."""
    assert lmassay("card", "--quick", "--only", evaluation, "--write", tmp_path).returncode == 0
    with not_shared() if evaluation == "syntax" else nullcontext():
        done = lmassay("run", tmp_path / f"{evaluation}.yaml", "--results", tmp_path / "alone", "--json")
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    alone = {run["label"]: (run["signature"], run["results"]) for run in output["runs"]}
    with Store(card[0] / "results") as store:
        by_card = {
            r.label: (r.signature, [result.as_dict() for result in r.results])
            for r in store.runs()
            if r.task == evaluation
        }
    assert by_card == alone
