"""The protocol: means over splits, selection, correlation, stability, tables, and trainings that failed."""

from __future__ import annotations

import math
import statistics

import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.protocol.judging import (
    Trial,
    by_strategy,
    failed_trial,
    failures,
    judge,
    spread,
    trial_of,
)
from lmassay.evaluations.fewshot.protocol.stability import over_subsets, point_of, stability
from lmassay.evaluations.fewshot.protocol.table import correlation_table, performance_table, strategy_table


def setup_module() -> None:
    """Import scipy when the first test runs: collecting the tests does not wait for it."""
    global t
    from scipy.stats import t


MS = "multi_splits"


def trials(scores, strategy=MS):
    """``{configuration: [(dev, test) of each split]}``; None for a training that failed."""
    found = []
    for name, pairs in scores.items():
        for split, pair in enumerate(pairs):
            if pair is None:
                found.append(failed_trial(strategy, name, {"name": name}, split))
            else:
                dev, test = pair
                tested = None if test is None else {"acc": test}
                found.append(trial_of(strategy, name, {"name": name}, split, {"acc": dev}, tested))
    return found


def test_the_configuration_with_the_best_mean_dev_score_is_chosen():
    verdict = judge(trials({"a": [(0.9, 0.1), (0.5, 0.2)], "b": [(0.8, 0.3), (0.8, 0.5)]}))
    assert verdict.chosen.configuration == "b"
    assert verdict.chosen.params == {"name": "b"}
    assert verdict.chosen.dev.value == pytest.approx(0.8)
    assert verdict.chosen.test.value == pytest.approx(0.4)
    assert verdict.chosen.test.std == pytest.approx(statistics.stdev([0.3, 0.5]))
    assert verdict.tied == ()
    assert verdict.notes == ()


def test_the_interval_is_students_and_stays_among_shares():
    values = [0.7, 0.8, 0.75, 0.9]
    found = spread(values)
    half = t.ppf(0.975, 3) * statistics.stdev(values) / 2
    assert found.low == pytest.approx(statistics.mean(values) - half)
    assert (found.high, found.n) == (pytest.approx(min(1.0, statistics.mean(values) + half)), 4)
    assert spread([0.99, 1.0, 0.5]).high == 1.0
    assert (spread([0.5]).std, spread([0.5]).low, spread([]).value) == (None, None, None)


def test_the_selection_score_is_the_mean_of_the_metrics():
    trial = trial_of(MS, "a", {}, 0, {"acc": 0.75, "f1": 0.5, "em": 0.25}, {"acc": 1.0, "f1": 0.5, "em": 0.0})
    assert (trial.dev, trial.test) == (0.5, 0.5)
    assert not trial.failed


def test_of_equals_the_first_is_chosen_and_the_tie_is_told():
    verdict = judge(trials({"a": [(0.1, 0)], "b": [(0.3, 0)], "c": [(0.1 + 0.2, 0)]}))
    assert verdict.chosen.configuration == "b"
    assert verdict.tied == ("c",)
    assert verdict.notes == ("'b' is the first of 2 with the same mean dev score",)


def test_a_failed_training_is_no_zero_and_keeps_its_configuration_from_being_chosen():
    verdict = judge(trials({"a": [(0.9, 0.9), None], "b": [(0.6, 0.5), (0.6, 0.7)]}))
    assert verdict.standings[0].dev.value == 0.9
    assert verdict.standings[0].missing == (1,)
    assert verdict.chosen.configuration == "b"
    assert verdict.notes == ("'a' has 1 of 2 splits (missing: 1)",)


def test_a_training_that_left_no_trace_is_missing_too():
    found = trials({"a": [(0.9, 0.9)], "b": [(0.6, 0.5), (0.6, 0.7)]})
    assert judge(found).chosen.configuration == "b"
    assert judge(found, splits=range(4)).notes[:2] == (
        "'a' has 1 of 4 splits (missing: 1, 2, 3)",
        "'b' has 2 of 4 splits (missing: 2, 3)",
    )


def test_if_all_lack_splits_those_with_the_most_are_compared_and_it_is_said():
    verdict = judge(trials({"a": [(0.9, 0.9), None, None], "b": [(0.6, 0.5), (0.6, 0.7), None]}))
    assert verdict.chosen.configuration == "b"
    assert "no configuration has all its splits: selected among those with 2" in verdict.notes


def test_nothing_is_chosen_where_every_training_failed():
    found = trials({"a": [None, None]})
    verdict = judge(found)
    assert verdict.chosen is None
    assert "no training ended well: there is nothing to select" in verdict.notes
    assert failures(found) == {"a": 2}


def test_a_test_score_that_is_no_number_is_a_failure():
    assert Trial(MS, "a", {}, 0, 0.5, math.nan).failed


def test_without_a_dev_set_only_a_single_configuration_stands():
    single = judge([trial_of("fixed", "a", {}, 0, {}, {"acc": 0.7})])
    assert single.chosen.test.value == 0.7
    several = judge([trial_of("fixed", name, {}, 0, {}, {"acc": 0.7}) for name in "ab"])
    assert several.chosen is None
    assert several.notes == ("there is no dev set to select one of 2 configurations by",)


def test_repetitions_on_a_split_are_averaged_first():
    found = [
        trial_of(MS, "a", {}, split, {"acc": 0.5}, {"acc": test}) for split, test in ((0, 0.2), (0, 0.4), (1, 0.5))
    ]
    test = judge(found).chosen.test
    assert (test.value, test.n) == (pytest.approx(0.4), 2)


def test_the_correlation_leaves_incomplete_and_untested_configurations_out():
    scores = {str(i): [(i / 10, i / 10), (i / 10, i / 10)] for i in range(5)}
    assert judge(trials(scores)).correlation.value == 1.0
    scores["failed"] = [(0.9, 0.0), None]
    scores["untested"] = [(0.95, None), (0.95, None)]
    found = judge(trials(scores)).correlation
    assert (found.value, found.n) == (1.0, 5)


def test_trials_of_two_strategies_are_not_mixed():
    mixed = trials({"a": [(1, 1)]}) + trials({"a": [(1, 1)]}, "mdl")
    with pytest.raises(ConfigError, match="mdl, multi_splits"):
        judge(mixed)
    assert list(by_strategy(mixed)) == [MS, "mdl"]
    with pytest.raises(ConfigError, match="none"):
        judge([])


def test_stability_follows_the_selection_as_splits_are_added():
    found = trials({"a": [(0.9, 0.2), (0.1, 0.4), (0.1, 0.6)], "b": [(0.5, 0.8), (0.6, 0.9), (0.7, 1.0)]})
    curve = stability(found)
    assert [point.k for point in curve] == [1, 2, 3]
    assert [point.configuration for point in curve] == ["a", "b", "b"]
    assert [point.test.value for point in curve] == [pytest.approx(v) for v in (0.2, 0.85, 0.9)]
    assert curve[2] == point_of(judge(found))
    assert "2 configurations" in curve[0].correlation.reason


def test_stability_over_subsets_averages_what_each_would_have_selected():
    found = trials({"a": [(0.9, 0.2), (0.1, 0.4)], "b": [(0.5, 0.8), (0.6, 0.9)]})
    (one, single), (two, both) = over_subsets(found)
    assert (one, single.value, single.n) == (1, pytest.approx((0.2 + 0.9) / 2), 2)
    assert single.std == pytest.approx(statistics.stdev([0.2, 0.9]))
    assert (two, both.value, both.n) == (2, pytest.approx(0.85), 1)


def test_many_splits_are_sampled_by_the_seed():
    found = trials({"a": [(i % 3, i) for i in range(12)], "b": [(i % 2, -i) for i in range(12)]})
    assert over_subsets(found, draws=10) == over_subsets(found, draws=10)
    assert over_subsets(found, draws=10)[5][1].n == 10


def verdicts():
    good = judge(trials({str(i): [(i / 10, i / 10), (i / 10, i / 10 + 0.1)] for i in range(5)}))
    pair = judge([trial_of(MS, "a", {}, s, {"acc": 1.0}, {"acc": 0.9, "f1-macro": 0.7 + s / 10}) for s in (0, 1)])
    return {"superglue/cb": pair, "superglue/rte": good, "mrpc": good}


def test_tables_have_the_papers_layout_and_other_tasks_behind():
    table = performance_table({MS: verdicts(), "cross_validation": {"superglue/rte": verdicts()["superglue/rte"]}})
    assert table.texts() == [
        ["", "RTE", "CB acc/F1", "mrpc", "Avg"],
        ["CV", "45.00±7.07", "–", "–", "–"],
        ["MS", "45.00±7.07", "90.00±0.00/75.00±7.07", "45.00±7.07", "57.50"],
    ]
    row = table.rows[0]
    assert (row.cells[1].note, row.cells[-1].note) == ("not run", "1 of 3 tasks have a number")


def test_a_missing_correlation_carries_its_reason_into_the_table():
    table = correlation_table({MS: verdicts()})
    assert table.texts()[1] == ["MS", "1.0000", "–", "1.0000", "–"]
    assert table.rows[0].cells[1].note == "1 configuration with both scores; it takes 4"
    part = table.rows[0].cells[0].parts[0]
    assert (part.low < 1.0, part.high, part.n) == (True, 1.0, 5)


def test_one_table_of_a_strategy_holds_all_three_criteria():
    found = trials({str(i): [(i / 10, i / 10), (i / 10, i / 10 + 0.1)] for i in range(5)})
    table = strategy_table(MS, {"rte": judge(found)}, {"rte": stability(found)})
    assert table.title == "MS"
    assert table.texts() == [
        ["", "RTE", "Avg"],
        ["test", "45.00±7.07", "45.00"],
        ["dev-test correlation", "1.0000", "1.0000"],
        ["test, K=1", "40.00", "40.00"],
        ["correlation, K=1", "1.0000", "1.0000"],
        ["test, K=2", "45.00±7.07", "45.00"],
        ["correlation, K=2", "1.0000", "1.0000"],
    ]
