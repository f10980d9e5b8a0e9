"""Means over prompts, and what is kept of rows."""

from __future__ import annotations

import random

import pytest

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.items import BiasItem
from lmassay.evaluations.bias.report.runs import MAX_SHAPES, AnswerStatistics, estimates_by_group
from lmassay.evaluations.bias.scores import columns, combinations
from lmassay.statistics.estimation import mean_of_estimates
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Row, Score

SETTINGS = Settings(resamples=100)


def answers(seed: int, templates: int = 12, unread: float = 0.1) -> ScoreTable:
    """A table of made-up answers to questions of some templates in two categories."""
    rng = random.Random(seed)
    rows = []
    for template in range(templates):
        category = "age" if template % 2 else "religion"
        for number in range(8):
            context, biased = ("amb", "dis")[number % 2], number // 2 % 2
            correct = 2 if context == "amb" else number // 4 % 2
            item = BiasItem(
                f"{template}-{number}", category, f"t{template}", context, "", "", ("x", "y", "z"), correct, 2, biased
            )
            picked = None if rng.random() < unread else rng.randrange(3)
            groups = {"category": category, "context": context, "template": item.template, "question": item.id}
            rows.append(Row(Example(item.id, {}, None, groups), "scored", Score(columns(item, picked))))
    return ScoreTable(rows)


@pytest.mark.parametrize("each", [None, "template"])
@pytest.mark.parametrize("seed", range(5))
def test_estimates_are_the_numbers_that_are_reported(seed, each):
    table = answers(seed)
    made = combinations(each)
    estimates = estimates_by_group(table, made, ["category"])
    results = [r for r in scores.results(table, made, ["category"], SETTINGS) if r.metric in made]
    assert len(results) == 3 * len(made)
    for result in results:
        estimated = estimates[result.metric, result.group]
        assert estimated.value == pytest.approx(result.value)
        assert estimated.interval() == pytest.approx((result.low, result.high))


def test_the_mean_over_one_prompt_has_the_interval_of_that_prompt():
    table, made = answers(1), combinations(None)
    estimates = estimates_by_group(table, made, ["category"])
    for result in scores.results(table, made, ["category"], SETTINGS):
        if result.metric.startswith("diff_bias"):
            mean = mean_of_estimates([estimates[result.metric, result.group]])
            assert (mean.value, *mean.interval()) == pytest.approx((result.value, result.low, result.high))


def test_what_has_no_data_has_no_estimate():
    estimates = estimates_by_group(answers(0, unread=1.0), combinations(None), ["category"])
    assert set(estimates) == {("ooc", group) for group in ("overall", "category=age", "category=religion")}


def test_prompts_that_err_on_the_same_templates_do_not_make_the_interval_shorter():
    made = combinations(None)
    one = estimates_by_group(answers(2), made, [])["diff_bias_amb", "overall"]
    other = estimates_by_group(answers(3), made, [])["diff_bias_amb", "overall"]
    alone, same, mixed = (mean_of_estimates(some).standard_error for some in ([one], [one, one], [one, other]))
    assert same == pytest.approx(alone)
    assert mixed < alone


def test_bounds_depend_on_how_many_contexts_confirm_the_stereotype():
    """BBQ's Physical_appearance has 426 biased and 362 counter-biased contexts."""
    share = 426 / (426 + 362)
    # Right in all contexts of one kind, wrong in all of the other: diff-bias 1 at an accuracy of .541.
    assert scores.bound("diff_bias_dis", share, scores.AnsweredQuestions(biased_contexts=share)) == pytest.approx(1)
    assert scores.bound("diff_bias_dis", 0.9, scores.AnsweredQuestions(biased_contexts=0.5)) == pytest.approx(0.2)
    assert scores.bound("diff_bias_dis", 1.0, scores.AnsweredQuestions(biased_contexts=share)) == pytest.approx(0)


def test_bounds_depend_on_how_many_questions_have_a_biased_answer():
    """Half of the questions count for accuracy only: an accuracy of .5 leaves room for a diff-bias of 1."""
    assert scores.bound("diff_bias_amb", 0.5, scores.AnsweredQuestions(with_biased_answer=0.5)) == pytest.approx(1)
    assert scores.bound("diff_bias_amb", 0.9, scores.AnsweredQuestions(with_biased_answer=0.5)) == pytest.approx(0.2)


# --- what is kept of rows ---------------------------------------------------------------------------------------------


def row(raw: str, reference, robust, number: int = 0, **groups: str) -> Row:
    inputs = {"choices": ["the man", "the woman", "unknown"]}
    details = {"raw": raw, "finish": "stop", "reference": reference, "robust": robust, "letter": reference, "how": ""}
    all_groups = {"category": "age", "context": "amb", "question": "q", "rotation": "0", **groups}
    role = {"role": groups.get("role", "")}
    return Row(Example(str(number), inputs, {}, all_groups), "scored", Score({"ooc": 0.0}, {}, {**details, **role}))


def test_answers_that_differ_only_in_the_choice_are_shown_once_with_their_count():
    statistics = AnswerStatistics()
    for letter, choice in zip("ABC", ["the man", "the woman", "unknown"], strict=True):
        statistics.add(row(f"[{letter}] {choice}", None, letter))
    statistics.add(row("Surely (B)", None, "B"))
    assert [(kept.row.score.details["raw"], kept.times) for kept in statistics.examples(["robust"], 5)] == [
        ("[A] the man", 3),
        ("Surely (B)", 1),
    ]


def test_examples_alternate_between_the_kinds_of_disagreement():
    statistics = AnswerStatistics()
    for number in range(5):
        statistics.add(row(f"number {number}", None, "B"))
    statistics.add(row("Answer: B", "A", "B"))
    assert [kept.row.score.details["raw"] for kept in statistics.examples(["different", "robust"], 3)] == [
        "Answer: B",
        "number 0",
        "number 1",
    ]


def test_however_many_answers_there_are_few_are_kept():
    statistics = AnswerStatistics()
    for number in range(3 * MAX_SHAPES):
        statistics.add(row(f"essay {number}", None, None, number))
    assert len(statistics.shapes) == MAX_SHAPES
    assert statistics.readings["neither"] == 3 * MAX_SHAPES


def test_of_stereotyped_answers_the_one_that_stays_in_most_orders_is_kept():
    statistics = AnswerStatistics()
    for question, rotations in (("q1", "0"), ("q2", "012"), ("q3", "01")):
        for rotation in rotations:
            statistics.add(row("A", "A", "A", question=question, rotation=rotation, role="biased"))
    assert statistics.stereotypes["age"].row.example.groups["question"] == "q2"
    assert statistics.stereotypes["age"].times == 3


def test_the_statistics_of_several_prompts_are_added_up():
    one, two, both = AnswerStatistics(), AnswerStatistics(), AnswerStatistics()
    one.add(row("[A]", None, "A"))
    two.add(row("[B]", None, "B"))
    two.add(row("C", "C", "C", question="q9", role="biased"))
    for statistics in (one, two):
        both.merge(statistics)
    assert both.readings == {"robust": 2, "agree": 1}
    assert both.by_rotation == {"0": [2, 3]}
    assert [kept.times for kept in both.examples(["robust"], 9)] == [2]
    assert one.examples(["robust"], 9)[0].times == 1, "the parts stay as they were"
    assert list(both.stereotypes) == ["age"]
