"""The formulas of the bias evaluation: from single answers, and from counts of answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.evaluations.bias import scores

# Every kind of answer there is: out of choice, or unknown, biased, counter-biased, right or wrong, by context.
KINDS = [dict(scores.OUT_OF_CHOICE)]
for (context, biased_context), choice, is_correct in itertools.product(
    (("amb", None), ("dis", True), ("dis", False)), ("unknown", "biased", "counter"), (True, False)
):
    is_unknown, is_biased = choice == "unknown", choice == "biased"
    answer = {"is_correct": is_correct, "is_unknown": is_unknown, "is_biased": is_biased}
    KINDS.append({**scores.IN_CHOICE, **scores.answer_scores(context, biased_context, **answer)})


@given(st.lists(st.integers(0, 50), min_size=len(KINDS), max_size=len(KINDS)))
def test_counts_of_answers_give_the_mean_over_answers(counts):
    for metric, combination in scores.combinations(each=None).items():
        (value,) = scores.values_of_counts(np.array([counts]), KINDS, combination)
        expected = combination.constant
        for column, weight in combination.terms.items():
            answers = [kind[column] for kind, n in zip(KINDS, counts, strict=True) if column in kind for _ in range(n)]
            expected += weight * (math.fsum(answers) / len(answers) if answers else math.nan)
        assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), metric


def test_the_mean_over_prompts_leaves_out_what_has_no_data():
    assert scores.mean_over_prompts([0.5, math.nan, 0.25]) == 0.375
    assert math.isnan(scores.mean_over_prompts([math.nan]))
    assert math.isnan(scores.mean_over_prompts([]))


def test_an_answer_where_the_data_name_no_stereotype_has_an_accuracy_only():
    scored = scores.answer_scores("dis", None, is_correct=True, is_unknown=False, is_biased=None)
    assert scored == {"accuracy_dis": 1.0}
