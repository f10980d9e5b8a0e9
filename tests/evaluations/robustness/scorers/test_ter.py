"""TER as a similarity."""

from __future__ import annotations

import pytest
import sacrebleu

from lmassay.evaluations.robustness.scorers.ter import TER

PAIRS = [("the cat sat on the mat", "the cat sat on a mat"), ("sat the cat", "the cat sat"), ("Ein Haus.", "ein Haus")]


@pytest.mark.parametrize(("hyp", "ref"), PAIRS)
def test_it_is_one_minus_the_rate_of_sacrebleu(hyp, ref):
    (score,) = TER().score([hyp], [ref])
    assert score == pytest.approx(1 - sacrebleu.sentence_ter(hyp, [ref]).score / 100)


def test_more_edits_than_reference_words_give_zero_and_empty_references_are_decided():
    assert TER().score(["a b c d e f", "", "x"], ["z", "", ""]) == [0.0, 1.0, 0.0]


def test_options_change_score_and_signature():
    assert TER(case_sensitive=True).score(["Ein"], ["ein"]) == [0.0]
    assert TER().score(["Ein"], ["ein"]) == [1.0]
    assert TER().signature == "1-TER(case:lc|norm:no|punct:yes|asian:no)"
    assert TER(asian_support=True, normalized=True).signature.endswith("norm:yes|punct:yes|asian:yes)")
