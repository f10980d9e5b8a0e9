"""The warning about answers that were cut off before they named a choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmassay import evaluate
from lmassay.evaluations.bias.commands.actions.run_notes import cut_off_note
from lmassay.storage.store import Store
from tests.helpers import ROOT

QUESTIONS = ROOT / "src" / "lmassay" / "evaluations" / "bias" / "sample" / "questions.yaml"
MODEL = '''
from lmassay import Model, Response
class Thinker(Model):
    """Thinks aloud, until the token limit if it is not brief."""
    name = "thinker"
    can = frozenset({"generate"})
    def __init__(self, brief: bool = False):
        self.brief = brief
    def identity(self):
        return {"name": self.name, "brief": self.brief}
    def generate(self, requests):
        if self.brief:
            return [Response("A", finish="length") for _ in requests]
        return [Response("Let me think about", finish="length") for _ in requests]
'''


@pytest.mark.parametrize("brief", [True, False])
def test_answers_that_were_cut_off_without_a_choice_are_reported(tmp_path: Path, brief: bool) -> None:
    (tmp_path / "thinker.py").write_text(MODEL, encoding="utf-8")
    model = {"name": f"{tmp_path / 'thinker.py'}:Thinker", "brief": brief}
    evaluate({"task": {"name": "bias", "data": str(QUESTIONS)}, "model": model, "limit": 8}, tmp_path / "results")
    with Store(tmp_path / "results") as store:
        (record,) = store.runs()
        note = cut_off_note(store, record)
    assert note.endswith("before they named a choice; set a higher task.max_tokens") != brief
