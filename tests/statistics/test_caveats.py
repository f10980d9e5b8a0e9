"""Warnings about comparisons that may mislead although their numbers are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmassay.statistics.caveats import asked_differently, caveats, computed_differently, other_labels
from lmassay.statistics.comparison import compare_runs
from tests.compare_kit import rates, side, two


def test_a_metric_that_its_task_does_not_compute_as_a_mean_is_reported():
    results = [{"metric": "accuracy", "group": "overall", "value": 0.9}]
    base, new = two(rates([1, 0]), rates([1, 1]), results=results)
    warnings = computed_differently(base, [new], compare_runs(base, [new]))
    assert len(warnings) == 2
    assert "base reports accuracy 0.9000, which its task does not compute as a mean over examples" in warnings[0]


def test_examples_that_only_one_run_has_are_reported():
    base, new = two(rates([1] * 5), rates([1] * 3))
    (warning,) = caveats(base, [new])
    assert warning == "of the examples of base (5) and new (3), 3 are in both; the others are left out"


def test_methods_may_differ_but_data_may_not():
    base, _ = two(rates([1]), [])
    other = side("new", rates([1]), signature={"data": "two", "method": "pet"})
    (warning,) = caveats(base, [other])
    assert "also differ in data; compare with care" in warning


def two_of(ours, theirs, label="label", task="robustness"):
    base = side("base", rates([1]), task=task, signature={"data": "one", **ours})
    new = side("new", rates([1]), task=task, signature={"data": "one", **theirs})
    return base, replace(new, record=replace(new.record, label=label))


@pytest.mark.parametrize(
    ("part", "task"),
    [
        ("attack", "robustness"),
        ("prompt", "robustness"),
        ("prompt", "bias"),
        ("method", "minimal_pairs"),
        ("method", "fewshot"),
        ("regime", "fewshot"),
        ("prompt", "a task of one's own"),
        ("method", "a task of one's own"),
    ],
)
def test_one_label_for_two_ways_of_asking_is_reported(part, task):
    (warning,) = asked_differently(*two_of({part: "charswap(rate:0.3)"}, {part: "charswap(rate:0.9)"}, task=task))
    assert f"new differs from base in {part} (charswap(rate:0.9) instead of charswap(rate:0.3)):" in warning
    assert "a difference may come from that, not from the model" in warning


def test_a_part_that_one_run_does_not_have_is_reported_as_none():
    (warning,) = asked_differently(*two_of({}, {"attack": "charswap"}))
    assert "in attack (charswap instead of none)" in warning


def test_runs_that_were_asked_in_the_same_way_have_no_warning():
    assert asked_differently(*two_of({"attack": "a", "model": "m"}, {"attack": "a", "model": "n", "seed": "1"})) == []


@pytest.mark.parametrize("part", ["attack", "prompt", "method"])
def test_labels_that_differ_show_what_is_compared(part):
    assert asked_differently(*two_of({part: "a"}, {part: "b"}, label="other")) == []


def test_another_label_of_the_same_attack_does_not_show_what_differs():
    sides = two_of(
        {"attack": "a(rate:0.3)", "prompt": "x"}, {"attack": "a(rate:0.3)", "prompt": "y"}, label="a, rate 0.3"
    )
    assert other_labels(*sides) == []
    assert "in prompt (y instead of x)" in asked_differently(*sides)[0]
    assert other_labels(*two_of({"attack": "a"}, {"attack": "b"}, label="other")) != []


def test_another_prompt_and_another_attack_are_reported_whatever_the_labels():
    (warning,) = asked_differently(
        *two_of({"attack": "a", "prompt": "x"}, {"attack": "b", "prompt": "y"}, label="other")
    )
    assert "in attack (b instead of a) and prompt (y instead of x)" in warning
