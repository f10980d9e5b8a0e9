"""The overview where models fail or cannot be asked: it stands all the same, and spoils nothing for the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    # In the order in which they were named, whatever came of it.
    assert re.findall(r'<div class="answer"><h4>(\w+)</h4>', page) == names
    assert "192 examples with errors" in page


def test_a_model_that_fails_on_everything_has_an_overview_alone_too(tmp_path):
    page = card(tmp_path, STUMBLER)
    assert '<article class="tile">' in page
    assert "no result" in page
    done = lmassay("report", "--results", tmp_path / "r", "-o", tmp_path / "c.md")
    assert done.returncode == 0, done.stderr
    assert "no result" in (tmp_path / "c.md").read_text(encoding="utf-8")
