"""What all scorers have in common: their scores are checked, and their failures say where they happened."""

from __future__ import annotations

import pytest

from lmassay.evaluations.robustness.scorers.base import Scorer, ScorerError, own_decrease


class Failing(Scorer):
    """Fails on every text; it defines its own decrease, which fails as well."""

    _name = "failing"

    def score_sentence(self, hyp, ref, lang=None):
        raise ValueError("no score")

    def rd_score(self, hyps, bases, refs, lang=None, check_tok=True):
        raise ValueError("no decrease")


def test_a_scorer_that_fails_names_the_file_and_line():
    with pytest.raises(ScorerError, match=r"pair 1: .*'b': ValueError\('no score'\) \(.*test_base\.py, line \d+\)"):
        Failing().score(["a"], ["b"])


def test_a_decrease_that_fails_names_the_file_and_line():
    with pytest.raises(ScorerError, match=r"failing failed: ValueError\('no decrease'\) \(.*test_base\.py, line \d+\)"):
        own_decrease(Failing(), ["a"], ["b"], ["c"], None)
