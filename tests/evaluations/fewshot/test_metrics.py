"""Metrics of few-shot tasks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.metrics import METRICS, answer_scores, normalised, scores, token_f1

pairs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


def test_f1_is_that_of_the_second_label():
    assert scores(("f1",), [1, 1, 0, 0], [1, 0, 0, 0])["f1"] == pytest.approx(2 / 3)


def test_f1_is_zero_where_the_label_neither_occurs_nor_is_predicted():
    assert scores(("f1",), [0, 0], [0, 0])["f1"] == 0


def test_macro_f1_leaves_out_a_class_that_neither_occurs_nor_is_predicted():
    # Of labels 0, 1 and 2 only the first two are seen: (0.8 + 2/3) / 2.
    assert scores(("f1-macro",), [0, 0, 1, 1], [0, 0, 0, 1])["f1-macro"] == pytest.approx((0.8 + 2 / 3) / 2)


def test_macro_f1_counts_a_class_that_is_only_predicted_with_zero():
    assert scores(("f1-macro",), [0, 0], [0, 2])["f1-macro"] == pytest.approx((2 / 3 + 0) / 2)


def test_exact_match_needs_every_answer_of_a_question():
    computed = scores(("em",), [1, 0, 1, 1], [1, 0, 1, 0], ["a", "a", "b", "b"])
    assert computed == {"em": 0.5}


def test_exact_match_does_not_ask_that_answers_stand_together():
    assert scores(("em",), [1, 1, 0, 1], [1, 0, 0, 1], ["a", "b", "a", "b"])["em"] == 0.5


@pytest.mark.parametrize("questions", [None, ["a", None]])
def test_exact_match_without_questions_is_an_error(questions):
    with pytest.raises(ConfigError, match="needs the question"):
        scores(("em",), [1, 0], [1, 0], questions)


def test_an_unknown_metric_is_named_with_its_neighbour():
    with pytest.raises(ConfigError, match="no metric 'f1-makro'; did you mean 'f1-macro'"):
        scores(("f1-makro",), [0], [0])


def test_no_examples_have_no_score():
    with pytest.raises(ValueError, match="no examples to score"):
        scores(("acc",), [], [])


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="2 labels, but 1 predictions"):
        scores(("acc",), [0, 1], [0])


@given(pairs)
def test_every_metric_lies_between_0_and_1_and_is_1_for_the_truth(rows):
    labels, predictions = map(list, zip(*rows, strict=True))
    questions = list(range(len(rows)))
    assert all(0 <= value <= 1 for value in scores(METRICS, labels, predictions, questions).values())
    perfect = scores(("acc", "f1-macro", "em"), labels, labels, questions)
    assert all(value == 1 for value in perfect.values())


@pytest.mark.fault(41)
@given(pairs, st.randoms())
def test_no_metric_depends_on_the_order_of_examples(rows, rng):
    mixed = list(rows)
    rng.shuffle(mixed)
    names = ("acc", "f1", "f1-macro")
    both_orders = [scores(names, *map(list, zip(*some, strict=True))) for some in (rows, mixed)]
    assert both_orders[0] == pytest.approx(both_orders[1])


def test_arrays_are_as_good_as_lists():
    assert scores(("acc",), np.array([0, 1]), np.array([0, 0])) == {"acc": 0.5}


@pytest.mark.parametrize(
    ("chosen", "right", "f1"),
    [
        ("Bhutto", "Bhutto", 1.0),
        ("the Bhutto!", "bhutto", 1.0),
        ("Benazir Bhutto", "Bhutto", 2 / 3),
        ("CNN", "BBC", 0.0),
    ],
)
def test_words_are_compared_without_case_articles_and_punctuation(chosen, right, f1):
    assert token_f1(chosen, right) == pytest.approx(f1)


def test_the_best_right_answer_counts():
    scored = answer_scores(["Bhutto", "New York"], [["Benazir Bhutto", "Bhutto"], ["York City"]])
    assert scored == {"acc": 0.5, "f1": pytest.approx((1 + 0.5) / 2), "em": 0.5}


def test_normalised_text_keeps_words_that_begin_like_articles():
    assert normalised("The  Athenians, an A-team") == "athenians ateam"


def test_answers_and_questions_must_be_as_many():
    with pytest.raises(ValueError, match="1 answers for 2 questions"):
        answer_scores(["a"], [["a"], ["b"]])
