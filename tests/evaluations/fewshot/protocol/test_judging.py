"""The protocol: selection by dev, correlation, stability, and trainings that failed."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from lmassay.evaluations.fewshot.protocol.judging import Trial, judge, selection_score, stability


def trials(scores):
    """``{configuration: [(dev, test) of each split]}``; None for a training that failed."""
    all_trials = []
    for name, pairs in scores.items():
        for split, pair in enumerate(pairs):
            if pair is None:
                all_trials.append(Trial(name, {"name": name}, split, state="failed", reason="the loss is no number"))
            else:
                dev, test = pair
                all_trials.append(Trial(name, {"name": name}, split, dev, test, {} if test is None else {"acc": test}))
    return all_trials


def test_the_configuration_with_the_best_mean_dev_score_is_chosen():
    verdict = judge(trials({"a": [(0.9, 0.1), (0.5, 0.2)], "b": [(0.8, 0.3), (0.8, 0.5)]}))
    assert verdict.selected.name == "b"
    assert verdict.selected.params == {"name": "b"}
    assert verdict.selected.dev.value == pytest.approx(0.8)
    assert verdict.selected.test.value == pytest.approx(0.4)
    assert verdict.selected.test.std == pytest.approx(statistics.stdev([0.3, 0.5]))
    assert verdict.tied == ()
    assert verdict.notes == []


def test_the_selection_score_is_the_mean_of_the_metrics():
    assert selection_score({"acc": 0.75, "f1": 0.5, "em": 0.25}) == 0.5
    assert selection_score({}) is None


def test_of_equals_the_first_is_chosen_and_the_tie_is_reported():
    verdict = judge(trials({"a": [(0.1, 0)], "b": [(0.3, 0)], "c": [(0.1 + 0.2, 0)]}))
    assert verdict.selected.name == "b"
    assert verdict.tied == ("c",)
    assert verdict.notes == ["'b' is the first of 2 with the same mean dev score"]


def test_a_chosen_configuration_that_seldom_answers_is_reported():
    silent = [replace(trial, out_of_choice=0.8) for trial in trials({"silent": [(1.0, 1.0), (1.0, 1.0)]})]
    talkative = [replace(trial, out_of_choice=0.0) for trial in trials({"talkative": [(0.9, 0.6), (0.9, 0.7)]})]
    assert judge(silent + talkative).notes == [
        "'silent' gave no label to 80 % of the test examples; its scores cover only the others"
    ]


def test_a_failed_training_is_no_zero_and_keeps_its_configuration_from_being_chosen():
    verdict = judge(trials({"a": [(0.9, 0.9), None], "b": [(0.6, 0.5), (0.6, 0.7)]}))
    assert verdict.configurations[0].dev.value == 0.9
    assert verdict.configurations[0].missing == (1,)
    assert verdict.selected.name == "b"
    assert verdict.notes == ["'a' has 1 of 2 splits (missing: 1)"]


def test_a_training_that_left_no_trace_is_missing_too():
    all_trials = trials({"a": [(0.9, 0.9)], "b": [(0.6, 0.5), (0.6, 0.7)]})
    assert judge(all_trials).selected.name == "b"
    assert judge(all_trials, splits=range(4)).notes[:2] == [
        "'a' has 1 of 4 splits (missing: 1, 2, 3)",
        "'b' has 2 of 4 splits (missing: 2, 3)",
    ]


def test_if_all_lack_splits_those_with_the_most_are_compared_and_it_is_said():
    verdict = judge(trials({"a": [(0.9, 0.9), None, None], "b": [(0.6, 0.5), (0.6, 0.7), None]}))
    assert verdict.selected.name == "b"
    assert "no configuration has all its splits; selected among those with 2 of them" in verdict.notes


def test_nothing_is_chosen_where_every_training_failed():
    all_trials = trials({"a": [None, None]})
    verdict = judge(all_trials)
    assert verdict.selected is None
    assert "all trainings failed; nothing to select" in verdict.notes
    assert verdict.reasons() == [("the loss is no number", True, 1)], "the trials have no ids here"


def test_a_test_score_that_is_no_number_is_a_failure():
    assert not Trial("a", {}, 0, 0.5, math.nan).has_result


def test_without_a_dev_set_only_a_single_configuration_stands():
    single = judge([Trial("a", {}, 0, None, 0.7, {"acc": 0.7})])
    assert single.selected.test.value == 0.7
    several = judge([Trial(name, {}, 0, None, 0.7, {"acc": 0.7}) for name in "ab"])
    assert several.selected is None
    assert several.notes == ["there is no dev set; none of the 2 configurations can be selected"]


def test_repetitions_on_a_split_are_averaged_first():
    repetitions = [Trial("a", {}, split, 0.5, test, {"acc": test}) for split, test in ((0, 0.2), (0, 0.4), (1, 0.5))]
    test = judge(repetitions).selected.test
    assert (test.value, test.n) == (pytest.approx(0.4), 2)


def test_the_correlation_leaves_incomplete_and_untested_configurations_out():
    scores = {str(i): [(i / 10, i / 10), (i / 10, i / 10)] for i in range(5)}
    assert judge(trials(scores)).correlation.value == 1.0
    scores["failed"] = [(0.9, 0.0), None]
    scores["untested"] = [(0.95, None), (0.95, None)]
    correlation = judge(trials(scores)).correlation
    assert (correlation.value, correlation.n) == (1.0, 5)


def test_stability_follows_the_selection_as_splits_are_added():
    all_trials = trials({"a": [(0.9, 0.2), (0.1, 0.4), (0.1, 0.6)], "b": [(0.5, 0.8), (0.6, 0.9), (0.7, 1.0)]})
    curve = stability(all_trials)
    assert [point.k for point in curve] == [1, 2, 3]
    assert [point.selected.name for point in curve] == ["a", "b", "b"]
    assert [point.test.value for point in curve] == [pytest.approx(v) for v in (0.2, 0.85, 0.9)]
    assert curve[2] == judge(all_trials)
    assert "2 configurations" in curve[0].correlation.reason
