"""The protocol's tables: the paper's layout, averages, and what stands where there is no number."""

from __future__ import annotations

from lmassay.evaluations.fewshot.protocol.judging import Trial, judge, stability
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report.table_blocks import selected_table
from lmassay.evaluations.fewshot.report.tables import (
    correlation_table,
    criteria_table,
    performance_table,
    stability_table,
)
from lmassay.evaluations.fewshot.task import Splits
from lmassay.types import Settings

MS = "multi_splits"


def five_trials_on_two_splits():
    trials = []
    for number in range(5):
        for split, test in enumerate((number / 10, number / 10 + 0.1)):
            trials.append(Trial(str(number), {}, split, number / 10, test, {"acc": test}))
    return trials


def verdicts():
    good = judge(five_trials_on_two_splits())
    pair = judge([Trial("a", {}, s, 1.0, 0.8 + s / 20, {"acc": 0.9, "f1-macro": 0.7 + s / 10}) for s in (0, 1)])
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


def test_only_the_f1_of_multirc_is_that_over_answers():
    two_metrics = judge([Trial("a", {}, 0, 1.0, 0.8, {"f1": 0.9, "em": 0.7})])
    table = performance_table({MS: {"superglue/multirc": two_metrics, "own/questions": two_metrics}})
    assert table.columns == ("MultiRC F1a/EM", "own/questions F1/EM", "Avg")


def test_options_that_are_the_same_in_all_configurations_are_listed_below_the_selected_one():
    params = {"learning_rate": 1e-5, "embedding_learning_rate": 1e-4}
    verdict = judge([Trial("embedding_learning_rate=0.0001", params, 0, 1.0, 0.8, {"acc": 0.8})])
    strategy = Strategy(MS, Splits(k=1), {"rte": verdict}, {}, ran_every_k=False)
    selected = selected_table(strategy).bodies[0].rows[0].cells[1]
    assert list(selected.small) == ["for all: learning_rate=1e-05"]


def test_a_missing_correlation_carries_its_reason_into_the_table():
    table = correlation_table({MS: verdicts()})
    assert table.texts()[1] == ["MS", "1.0000", "–", "1.0000", "–"]
    assert table.rows[0].cells[1].note == "1 configuration with both scores; at least 4 are needed"
    part = table.rows[0].cells[0].parts[0]
    assert (part.low < 1.0, part.high, part.n) == (True, 1.0, 5)


def test_one_table_of_a_strategy_holds_all_three_criteria():
    trials = five_trials_on_two_splits()
    strategy = Strategy(MS, Splits(k=2), {"rte": judge(trials)}, {"rte": stability(trials)}, ran_every_k=False)
    table = criteria_table(strategy)
    assert table.title == "MS: Multi-Splits, K = 2, ratio 0.5"
    assert table.texts() == [
        ["", "RTE", "Avg"],
        ["test", "45.00±7.07", "45.00"],
        ["dev–test correlation", "1.0000", "1.0000"],
        ["test, K=1", "40.00", "40.00"],
        ["correlation, K=1", "1.0000", "1.0000"],
    ]


def test_the_n_of_stability_counts_only_numbers_of_splits_with_a_result():
    trials = [Trial("a", {}, 0, state="failed", reason="NaN")]
    for split in (1, 2):
        trials.append(Trial("a", {}, split, 0.5, 0.5 + split / 10, {"acc": 0.5 + split / 10}))
    # With the first split alone there is no result, so the range is over K = 2 and K = 3.
    strategy = Strategy(MS, Splits(k=3), {"rte": judge(trials)}, {"rte": stability(trials)}, ran_every_k=False)
    study = Study("model", "pet", {}, [strategy], ["run"], Settings())
    table = stability_table(study)
    assert table.texts()[1] == ["MS", "5.00", "5.00"]
    (part,) = table.rows[0].cells[0].parts
    assert part.n == 2
