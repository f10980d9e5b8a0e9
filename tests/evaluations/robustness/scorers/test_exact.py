"""Scores of 0 and 1."""

from __future__ import annotations

import pytest

from lmassay.evaluations.robustness.scorers.exact import ZeroOne


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        (" Paris", "Paris", 1.0),
        ("Cold", "cold", 1.0),
        ("The sheep.", "sheep", 1.0),
        ("„Москва“", "москва", 1.0),
        ("파리", "파리", 1.0),
        ("Paris is", "Paris", 0.0),
        ("pup", "puppy", 0.0),
        ("", "Paris", 0.0),
        ("", "", 1.0),
    ],
)
def test_a_quasi_exact_match_ignores_case_punctuation_articles_and_space(answer, reference, score):
    assert ZeroOne(quasi=True).score([answer], [reference]) == [score]


def test_a_class_that_scores_otherwise_is_not_taken_for_binary():
    class Graded(ZeroOne):
        def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
            return 0.5

    assert ZeroOne.is_binary
    assert not Graded.is_binary
