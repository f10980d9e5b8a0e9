"""The overview if a model fails or cannot be evaluated: the page is still written, and other models are unaffected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lmassay.reporting.blocks import Table
from lmassay.reporting.tiles import overview_table
from lmassay.storage.store import Store
from lmassay.types import NewRun, Provenance
from lmassay.types.runs import CardPart
from tests.helpers import lmassay

MODELS = Path(__file__).parents[0] / "card" / "models.py"
TALKER, STUMBLER = f"{MODELS}:Talker", f"{MODELS}:Stumbler"


def card(folder: Path, *models: str) -> str:
    done = lmassay("card", *models, "--quick", "--only", "bias", "-o", folder / "c.html", "--results", folder / "r")
    assert done.returncode == 1, done.stderr
    return (folder / "c.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("models", [(TALKER, STUMBLER), (STUMBLER, TALKER)])
def test_a_model_that_fails_on_everything_leaves_the_others_their_page(models, tmp_path):
    page = card(tmp_path, *models)
    names = [str(name).rpartition(":")[2].lower() for name in models]
    # In the order of the command line, whether they have a result or not.
    assert re.findall(r'<div class="answer"><h4>(\w+)</h4>', page) == names
    assert "192 examples with errors" in page


def test_a_model_that_fails_on_everything_has_an_overview_alone_too(tmp_path):
    page = card(tmp_path, STUMBLER)
    assert '<article class="tile">' in page
    assert "no result" in page
    done = lmassay("report", "--results", tmp_path / "r", "-o", tmp_path / "c.md")
    assert done.returncode == 0, done.stderr
    assert "no result" in (tmp_path / "c.md").read_text(encoding="utf-8")


def test_an_evaluation_that_is_no_longer_installed_is_named_with_its_reason(tmp_path):
    card_part = CardPart("quick", {"m": {"summaries": "needs a model that can chat"}})
    with Store(tmp_path / "r", create=True) as store:
        run = store.new_id("plain")
        store.add_run(NewRun(run, "s", "n", "fewshot", "m", "plain", {}, "sig", Provenance(card=card_part), 1))
        store.set_status(run, "incomplete")
        table = overview_table(store, store.runs())[0]
    assert isinstance(table, Table)
    questions = [row.cells[0].text for body in table.bodies for row in body.rows]
    assert questions[-1] == "summaries"
