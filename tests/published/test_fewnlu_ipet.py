"""iPET's draws of pseudo-labelled examples against those of FewNLU itself."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.evaluations.fewshot.protocol.selftraining import Recipe, Teacher, draw, generators
from tests.published import fewnlu_gold


@pytest.fixture(scope="module")
def gold():
    return fewnlu_gold.gold("ipet_draw")


@pytest.mark.parametrize("most_likely", [-1, 10])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_draw_is_that_of_the_original(gold, share, most_likely):
    teachers = [Teacher(np.asarray(logits)) for logits in gold["logits"]]
    drawn = draw(teachers, ["A", "B"], [8, 6], generators(42), Recipe(share=share, most_likely=most_likely))
    assert [[f"u{p.index}", p.label] for p in drawn.examples] == gold[f"perc{share}/n_most{most_likely}"]
    assert drawn.notes == ()
