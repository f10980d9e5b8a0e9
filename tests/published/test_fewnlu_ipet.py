"""iPET's draws of pseudo-labelled examples against those of FewNLU itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lmassay.evaluations.fewshot.protocol.selftraining import Recipe, Teacher, chance, draw


@pytest.fixture(scope="module")
def gold(shared):
    return json.loads((shared / "gold/fewnlu/ipet_draw.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("most_likely", [-1, 10])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_draw_is_that_of_the_original(gold, share, most_likely):
    teachers = [Teacher(np.asarray(logits)) for logits in gold["logits"]]
    drawn = draw(teachers, ["A", "B"], [8, 6], chance(42), Recipe(share=share, most_likely=most_likely))
    assert [[f"u{p.index}", p.label] for p in drawn.examples] == gold[f"perc{share}/n_most{most_likely}"]
    assert drawn.notes == ()
