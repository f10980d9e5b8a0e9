"""Which trainings of which runs belong together, and which are wanting."""

from __future__ import annotations

import pytest

from lmassay.evaluations.fewshot.protocol.judging import judge
from lmassay.evaluations.fewshot.protocol.trials import Evidence, studies
from tests.evaluations.fewshot.report.small_fewshot import GRID, NAN, failed, row, sweep, task, tried

TWO = {"strategy": "multi_splits", "k": 2}


def only(runs) -> Evidence:
    (study,) = studies(runs)
    (arm,) = study.arms
    (evidence,) = arm.tasks.values()
    return evidence


def names(evidence: Evidence) -> list[str]:
    return list(dict.fromkeys(trial.configuration for trial in evidence.trials))


def test_runs_that_differ_in_hyper_parameters_are_configurations_of_one_study():
    evidence = only(sweep(GRID, splits=TWO))
    assert names(evidence) == [f"learning_rate={rate:g}" for rate in GRID]
    assert [(t.split, t.dev, t.test) for t in evidence.trials][:2] == [(0, 0.5, 0.51), (1, 0.54, 0.53)]
    assert judge(evidence.trials, splits=evidence.splits).chosen.configuration == "learning_rate=4e-05"


def test_a_configuration_is_named_by_the_options_that_vary():
    options = [{"learning_rate": 1e-5, "max_steps": 9}, {"learning_rate": 2e-5, "max_steps": 9, "warmup_ratio": 0.1}]
    runs = [
        tried(str(n), task(method={"name": "pet", **o}, splits=TWO), [row(0), row(1)]) for n, o in enumerate(options)
    ]
    evidence = only(runs)
    assert names(evidence) == [
        "learning_rate=1e-05, warmup_ratio by default",
        "learning_rate=2e-05, warmup_ratio=0.1",
    ]
    assert evidence.trials[0].params == {"learning_rate": 1e-5, "max_steps": 9, "pattern": 0}


def test_one_configuration_is_the_only_one():
    assert names(only([tried("a", task(splits=TWO), [row(0), row(1)])])) == ["the only one"]


def test_patterns_and_evaluation_intervals_of_one_run_are_configurations():
    rows = [row(s, 0.5, 0.5, pattern=p, every=e) for s in (0, 1) for p in (0, 3) for e in (0.02, 0.04)]
    method = {"name": "pet", "eval_ratios": [0.02, 0.04]}
    evidence = only([tried("a", task(method=method, splits=TWO, regime={"patterns": [0, 3]}), rows)])
    assert names(evidence) == [f"pattern={p}, every={e}" for p in (0, 3) for e in (0.02, 0.04)]
    assert len(evidence.trials) == 8
    assert not evidence.wanting


def test_the_interval_of_a_run_that_has_one_is_the_same_as_that_of_a_run_that_has_two():
    both = [row(s, every=e) for s in (0, 1) for e in (0.02, 0.04)]
    runs = [
        tried("a", task(method={"name": "pet", "eval_ratios": [0.02, 0.04]}, splits=TWO), both),
        tried("b", task(method={"name": "pet", "eval_ratios": 0.08}, splits=TWO), [row(0), row(1)]),
    ]
    assert names(only(runs)) == ["every=0.02", "every=0.04", "every=0.08"]


def test_the_patterns_of_an_ensemble_are_one_configuration():
    regime = {"name": "ensemble", "patterns": [0, 1]}
    rows = [row(0, pattern=None), row(1, pattern=None)]
    evidence = only([tried("a", task(splits=TWO, regime=regime), rows)])
    assert names(evidence) == ["the only one"]
    (study,) = studies([tried("a", task(splits=TWO, regime=regime), rows)])
    assert study.method == "pet, ensemble"


def test_models_methods_regimes_and_test_sets_are_studies_of_their_own():
    rows = [row(0), row(1)]
    runs = [
        tried("a", task(splits=TWO), rows),
        tried("b", task(splits=TWO), rows, model="other"),
        tried("c", task(splits=TWO, method="lora"), rows),
        tried("d", task(splits=TWO, regime={"name": "ipet", "patterns": [0, 1]}), rows),
        tried("e", task(splits=TWO, test="test", test_examples=10), rows),
    ]
    titles = [study.title for study in studies(runs)]
    assert titles[1:] == [
        "pet on other",
        "lora on tiny",
        "pet, ipet on tiny",
        "pet on tiny (test test, test_examples 10)",
    ]
    assert titles[0].startswith("pet on tiny")


def test_strategies_are_arms_in_the_papers_order_whatever_they_are_called_by():
    rows = [row(0), row(1)]
    runs = [
        tried(name, task(splits={"strategy": name, "k": 2}), rows) for name in ("dev32_split", "bagging", "cv", "MS")
    ]
    (study,) = studies(runs)
    assert [arm.name for arm in study.arms] == ["cross_validation", "bagging", "multi_splits"]


def test_arms_of_one_strategy_are_named_by_what_differs():
    options = [{"k": 2}, {"k": 4}, {"k": 4, "ratio": 0.75}]
    (study,) = studies(tried(str(n), task(splits=o), [row(0)]) for n, o in enumerate(options))
    assert [arm.name for arm in study.arms] == ["MS, K=2, ratio 0.5", "MS, K=4, ratio 0.5", "MS, K=4, ratio 0.75"]
    assert [arm.family == study.arms[0].family for arm in study.arms] == [True, True, False]


def test_a_failed_training_is_wanting_with_its_reason_and_no_score():
    run = tried("a", task(splits=TWO), [row(0, 0.6, 0.7), failed(1)], status="incomplete")
    evidence = only([run])
    assert evidence.reasons() == [(NAN, True, 1)]
    verdict = judge(evidence.trials, splits=evidence.splits)
    assert verdict.chosen.test.value == 0.7
    assert verdict.chosen.missing == (1,)


@pytest.mark.parametrize("status", ["interrupted", "waiting", "cancelled"])
def test_trainings_that_were_not_reached_are_wanting(status):
    method = {"name": "pet", "eval_ratios": [0.02, 0.04]}
    evidence = only([tried("a", task(method=method), [], status=status)])
    assert evidence.splits == (0, 1, 2, 3)
    assert len(evidence.wanting) == 8
    assert evidence.reasons() == [(f"the run is {status}", False, 4)], "one training serves both intervals"
    assert judge(evidence.trials, splits=evidence.splits).chosen is None


def test_a_limited_run_lacks_nothing_beyond_its_limit():
    evidence = only([tried("a", task(), [row(0), row(1)], limit=2)])
    assert evidence.splits == (0, 1)
    assert not evidence.wanting


def test_dev32_has_one_split():
    evidence = only([tried("a", task(splits={"strategy": "dev32"}), [row(0)])])
    assert evidence.splits == (0,)
    assert not evidence.wanting


def test_a_run_done_twice_counts_once_and_the_result_outlives_a_failure():
    first = tried("a", task(splits=TWO), [row(0, 0.5, 0.5), row(1, 0.6, 0.6)])
    again = tried("b", task(splits=TWO), [row(0, 0.5, 0.5), failed(1)])
    broken = tried("c", task(splits=TWO), [], status="interrupted")
    evidence = only([first, again, broken])
    assert [(t.trial.split, t.trial.test) for t in evidence.trainings] == [(0, 0.5), (1, 0.6)]
    assert not evidence.wanting


def test_other_orders_of_the_training_examples_are_repetitions():
    runs = [
        tried(str(seed), task(splits=TWO, sampler_seeds=[seed]), [row(0, test=t), row(1, test=t)])
        for seed, t in ((10, 0.4), (20, 0.6))
    ]
    evidence = only(runs)
    assert len(evidence.trials) == 4
    assert judge(evidence.trials, splits=evidence.splits).chosen.test.value == pytest.approx(0.5)


def test_the_task_is_named_by_its_data_and_by_their_digest_where_data_changed():
    def with_data(run: str, digest: str, name: str = "superglue/rte"):
        return tried(run, task("rte", splits=TWO), [row(0), row(1)], signature={"data": f"{name}.{digest}"})

    (study,) = studies([with_data("a", "12345678"), with_data("b", "12345678")])
    assert list(study.arms[0].tasks) == ["superglue/rte"]
    (study,) = studies([with_data("a", "12345678"), with_data("b", "87654321"), with_data("c", "1", "superglue/cb")])
    assert list(study.arms[0].tasks) == ["superglue/rte.12345678", "superglue/rte.87654321", "superglue/cb"]


def test_what_the_plan_warned_of_and_leaks_are_noted():
    notes = ["split 1: no example of 'neutral' to train on"]
    evidence = only([tried("a", task(splits={**TWO, "grouped": False}), [row(0), row(1)], notes=notes)])
    assert evidence.notes[0] == notes[0]
    assert "both train and dev" in evidence.notes[1]


def test_sizes_are_those_of_the_trainings():
    evidence = only([tried("a", task(splits=TWO), [row(0), failed(1)])])
    assert (evidence.sizes("n_train"), evidence.sizes("n_test")) == ((32,), (277,))


def test_a_method_without_a_dev_set_has_no_dev_score():
    evidence = only([tried("a", task(splits={"strategy": "fixed"}), [row(0, None, 0.5)])])
    assert (evidence.trials[0].dev, evidence.trials[0].failed) == (None, False)
