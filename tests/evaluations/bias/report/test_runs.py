"""Means over prompts, and what is kept of rows."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.items import Item
from lmassay.evaluations.bias.report.runs import MOST_SHAPES, Parts, Seen, mean_difference, mean_of, parts_by_group
from lmassay.evaluations.bias.scores import columns, combinations
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
            item = Item(
                f"{template}-{number}", category, f"t{template}", context, "", "", ("x", "y", "z"), correct, 2, biased
            )
            picked = None if rng.random() < unread else rng.randrange(3)
            groups = {"category": category, "context": context, "template": item.template, "question": item.id}
            rows.append(Row(Example(item.id, {}, None, groups), "scored", Score(columns(item, picked))))
    return ScoreTable(rows)


@pytest.mark.parametrize("each", [None, "template"])
@pytest.mark.parametrize("seed", range(5))
def test_parts_add_up_to_the_numbers_that_are_reported(seed, each):
    table = answers(seed)
    made = combinations(each)
    parts = parts_by_group(table, made, ["category"])
    found = [r for r in scores.results(table, made, ["category"], SETTINGS) if r.metric in made]
    assert len(found) == 3 * len(made)
    for result in found:
        assert parts[result.metric, result.group].value == pytest.approx(result.value)
        assert sum(parts[result.metric, result.group].shares.values()) == pytest.approx(0)


def test_of_one_prompt_the_mean_has_the_interval_that_is_reported():
    table, made = answers(1), combinations(None)
    parts = parts_by_group(table, made, ["category"])
    for result in scores.results(table, made, ["category"], SETTINGS):
        if result.metric.startswith("diff_bias"):
            expected = result.value, result.low, result.high
            assert mean_of([parts[result.metric, result.group]], SETTINGS) == pytest.approx(expected)


def test_what_has_no_data_has_no_parts():
    parts = parts_by_group(answers(0, unread=1.0), combinations(None), ["category"])
    assert set(parts) == {("ooc", group) for group in ("overall", "category=age", "category=religion")}


def test_prompts_that_err_on_the_same_templates_make_the_mean_no_surer():
    table, made = answers(2), combinations(None)
    parts = parts_by_group(table, made, [])["accuracy_amb", "overall"]
    other = parts_by_group(answers(3), made, [])["accuracy_amb", "overall"]
    alone, same, mixed = (mean_of(p, SETTINGS) for p in ([parts], [parts, parts], [parts, other]))
    assert same == pytest.approx(alone)
    assert mixed[2] - mixed[1] < alone[2] - alone[1]


def test_a_difference_is_that_of_the_means_and_paired_by_template():
    made = combinations(None)
    before = [parts_by_group(answers(seed), made, [])["accuracy_dis", "overall"] for seed in (1, 2)]
    # Better by the same everywhere: between templates nothing is left to chance but their own spread.
    after = [Parts(p.value + 0.2, {t: s * 0.99 for t, s in p.shares.items()}) for p in before]
    found = mean_difference(before, after, SETTINGS)
    assert found.value == pytest.approx(fmean(p.value for p in after) - fmean(p.value for p in before))
    assert found.high - found.low < 0.02
    assert found.p < 1e-6


def test_no_difference_at_all_has_no_interval():
    parts = [parts_by_group(answers(1), combinations(None), [])["accuracy_dis", "overall"]]
    found = mean_difference(parts, parts, SETTINGS)
    assert (found.value, found.low, found.p) == (0.0, None, None)


# --- what is kept of rows ---------------------------------------------------------------------------------------------


def row(raw: str, reference, robust, number: int = 0, **groups: str) -> Row:
    inputs = {"choices": ["the man", "the woman", "unknown"]}
    details = {"raw": raw, "finish": "stop", "reference": reference, "robust": robust, "letter": reference, "how": ""}
    all_groups = {"category": "age", "context": "amb", "question": "q", "rotation": "0", **groups}
    role = {"role": groups.get("role", "")}
    return Row(Example(str(number), inputs, {}, all_groups), "scored", Score({"ooc": 0.0}, {}, {**details, **role}))


def test_answers_that_differ_only_in_the_choice_are_shown_once_with_their_count():
    seen = Seen()
    for letter, choice in zip("ABC", ["the man", "the woman", "unknown"], strict=True):
        seen.add(row(f"[{letter}] {choice}", None, letter))
    seen.add(row("Surely (B)", None, "B"))
    assert [(kept.row.score.details["raw"], kept.times) for kept in seen.shown(["robust"], 5)] == [
        ("[A] the man", 3),
        ("Surely (B)", 1),
    ]


def test_each_way_of_disagreeing_has_its_turn():
    seen = Seen()
    for number in range(5):
        seen.add(row(f"number {number}", None, "B"))
    seen.add(row("Answer: B", "A", "B"))
    assert [kept.row.score.details["raw"] for kept in seen.shown(["different", "robust"], 3)] == [
        "Answer: B",
        "number 0",
        "number 1",
    ]


def test_however_many_answers_there_are_few_are_kept():
    seen = Seen()
    for number in range(3 * MOST_SHAPES):
        seen.add(row(f"essay {number}", None, None, number))
    assert len(seen.shapes) == MOST_SHAPES
    assert seen.readings["neither"] == 3 * MOST_SHAPES


def test_of_stereotyped_answers_the_one_that_stays_in_most_orders_is_kept():
    seen = Seen()
    for question, rotations in (("q1", "0"), ("q2", "012"), ("q3", "01")):
        for rotation in rotations:
            seen.add(row("A", "A", "A", question=question, rotation=rotation, role="biased"))
    assert seen.stereotypes["age"].row.example.groups["question"] == "q2"
    assert seen.stereotypes["age"].times == 3


def test_what_was_seen_of_several_prompts_is_added_up():
    one, two, both = Seen(), Seen(), Seen()
    one.add(row("[A]", None, "A"))
    two.add(row("[B]", None, "B"))
    two.add(row("C", "C", "C", question="q9", role="biased"))
    for seen in (one, two):
        both.take_in(seen)
    assert both.readings == {"robust": 2, "agree": 1}
    assert both.by_rotation == {"0": [2, 3]}
    assert [kept.times for kept in both.shown(["robust"], 9)] == [2]
    assert one.shown(["robust"], 9)[0].times == 1, "the parts stay as they were"
    assert list(both.stereotypes) == ["age"]
