"""Which trainings of which runs belong together, and which have no result."""

from __future__ import annotations

import pytest

from lmassay.evaluations.fewshot.protocol.judging import ProtocolVerdict
from lmassay.evaluations.fewshot.protocol.studies import studies
from tests.evaluations.fewshot.report.small_fewshot import GRID, NAN, failed, fewshot_run, row, sweep, task

TWO = {"strategy": "multi_splits", "k": 2}


def only(runs) -> ProtocolVerdict:
    (study,) = studies(runs)
    (strategy,) = study.strategies
    (verdict,) = strategy.verdicts.values()
    return verdict


def names(verdict: ProtocolVerdict) -> list[str]:
    return [configuration.name for configuration in verdict.configurations]


def test_runs_that_differ_in_hyper_parameters_are_configurations_of_one_study():
    verdict = only(sweep(GRID, splits=TWO))
    assert names(verdict) == [f"learning_rate={rate:g}" for rate in GRID]
    assert [(t.split, t.dev, t.test) for t in verdict.trials][:2] == [(0, 0.5, 0.51), (1, 0.54, 0.53)]
    assert verdict.selected.name == "learning_rate=4e-05"


def test_a_configuration_is_named_by_the_options_that_vary():
    options = [{"learning_rate": 1e-5, "max_steps": 9}, {"learning_rate": 2e-5, "max_steps": 9, "warmup_ratio": 0.1}]
    runs = [
        fewshot_run(str(n), task(method={"name": "pet", **o}, splits=TWO), [row(0), row(1)])
        for n, o in enumerate(options)
    ]
    verdict = only(runs)
    assert names(verdict) == [
        "learning_rate=1e-05, warmup_ratio by default",
        "learning_rate=2e-05, warmup_ratio=0.1",
    ]
    assert verdict.trials[0].params == {"learning_rate": 1e-5, "max_steps": 9, "pattern": 0}


def test_one_configuration_is_the_only_one():
    assert names(only([fewshot_run("a", task(splits=TWO), [row(0), row(1)])])) == ["the only one"]


def test_patterns_and_evaluation_ratios_of_one_run_are_configurations():
    rows = [row(s, 0.5, 0.5, pattern=p, every=e) for s in (0, 1) for p in (0, 3) for e in (0.02, 0.04)]
    method = {"name": "pet", "eval_ratios": [0.02, 0.04]}
    verdict = only([fewshot_run("a", task(method=method, splits=TWO, regime={"patterns": [0, 3]}), rows)])
    assert names(verdict) == [f"pattern={p}, every={e}" for p in (0, 3) for e in (0.02, 0.04)]
    assert len(verdict.trials) == 8
    assert not verdict.trials_without_result


def test_the_interval_of_a_run_that_has_one_is_the_same_as_that_of_a_run_that_has_two():
    both = [row(s, every=e) for s in (0, 1) for e in (0.02, 0.04)]
    runs = [
        fewshot_run("a", task(method={"name": "pet", "eval_ratios": [0.02, 0.04]}, splits=TWO), both),
        fewshot_run("b", task(method={"name": "pet", "eval_ratios": 0.08}, splits=TWO), [row(0), row(1)]),
    ]
    assert names(only(runs)) == ["every=0.02", "every=0.04", "every=0.08"]


def test_the_patterns_of_an_ensemble_are_one_configuration():
    regime = {"name": "ensemble", "patterns": [0, 1]}
    rows = [row(0, pattern=None), row(1, pattern=None)]
    verdict = only([fewshot_run("a", task(splits=TWO, regime=regime), rows)])
    assert names(verdict) == ["the only one"]
    (study,) = studies([fewshot_run("a", task(splits=TWO, regime=regime), rows)])
    assert study.method == "pet, ensemble"


def test_models_methods_regimes_and_test_sets_are_studies_of_their_own():
    rows = [row(0), row(1)]
    runs = [
        fewshot_run("a", task(splits=TWO), rows),
        fewshot_run("b", task(splits=TWO), rows, model="other"),
        fewshot_run("c", task(splits=TWO, method="lora"), rows),
        fewshot_run("d", task(splits=TWO, regime={"name": "ipet", "patterns": [0, 1]}), rows),
        fewshot_run("e", task(splits=TWO, test="test", test_examples=10), rows),
    ]
    titles = [study.title for study in studies(runs)]
    assert titles[1:] == [
        "pet on other",
        "lora on tiny",
        "pet, ipet on tiny",
        "pet on tiny (test test, test_examples 10)",
    ]
    assert titles[0].startswith("pet on tiny")


def test_runs_with_other_labelled_examples_are_studies_of_their_own():
    runs = [
        fewshot_run("a", task(splits=TWO, labelled_examples=8), [row(0), row(1)]),
        fewshot_run("b", task(splits=TWO, labelled_examples=16), [row(0), row(1)]),
        fewshot_run("c", task(splits=TWO, extra="more.jsonl"), [row(0), row(1)]),
        fewshot_run("d", task(splits=TWO, extra="more.jsonl", relabel_extra=True), [row(0), row(1)]),
    ]
    assert [study.title for study in studies(runs)] == [
        "pet on tiny (labelled_examples 8)",
        "pet on tiny (labelled_examples 16)",
        "pet on tiny (extra more.jsonl)",
        "pet on tiny (extra more.jsonl, relabel_extra True)",
    ]


def test_strategies_stand_in_the_papers_order_whatever_they_are_called_by():
    rows = [row(0), row(1)]
    runs = [
        fewshot_run(name, task(splits={"strategy": name, "k": 2}), rows)
        for name in ("dev32_split", "bagging", "cv", "MS")
    ]
    (study,) = studies(runs)
    assert [strategy.label for strategy in study.strategies] == ["cross_validation", "bagging", "multi_splits"]


def test_settings_of_one_strategy_are_named_by_what_differs():
    options = [{"k": 2}, {"k": 4}, {"k": 4, "ratio": 0.75}]
    (study,) = studies(fewshot_run(str(n), task(splits=o), [row(0)]) for n, o in enumerate(options))
    assert [strategy.label for strategy in study.strategies] == [
        "MS, K=2, ratio 0.5",
        "MS, K=4, ratio 0.5",
        "MS, K=4, ratio 0.75",
    ]
    assert [strategy.k for strategy in study.main_strategies] == [4, 4]


def test_a_failed_training_has_a_reason_and_no_score():
    run = fewshot_run("a", task(splits=TWO), [row(0, 0.6, 0.7), failed(1)], status="incomplete")
    verdict = only([run])
    assert verdict.reasons() == [(NAN, True, 1)]
    assert verdict.selected.test.value == 0.7
    assert verdict.selected.missing == (1,)


@pytest.mark.parametrize("status", ["interrupted", "waiting", "cancelled"])
def test_trainings_that_were_not_reached_have_no_result(status):
    method = {"name": "pet", "eval_ratios": [0.02, 0.04]}
    verdict = only([fewshot_run("a", task(method=method), [], status=status)])
    assert verdict.splits == (0, 1, 2, 3)
    assert len(verdict.trials_without_result) == 8
    assert verdict.reasons() == [(f"the run is {status}", False, 4)], "one training serves both intervals"
    assert verdict.selected is None


def test_a_limited_run_lacks_nothing_beyond_its_limit():
    verdict = only([fewshot_run("a", task(), [row(0), row(1)], limit=2)])
    assert verdict.splits == (0, 1)
    assert not verdict.trials_without_result


def test_dev32_has_one_split():
    verdict = only([fewshot_run("a", task(splits={"strategy": "dev32"}), [row(0)])])
    assert verdict.splits == (0,)
    assert not verdict.trials_without_result


def test_a_run_done_twice_counts_once_and_the_result_outlives_a_failure():
    first = fewshot_run("a", task(splits=TWO), [row(0, 0.5, 0.5), row(1, 0.6, 0.6)])
    again = fewshot_run("b", task(splits=TWO), [row(0, 0.5, 0.5), failed(1)])
    broken = fewshot_run("c", task(splits=TWO), [], status="interrupted")
    verdict = only([first, again, broken])
    assert [(t.split, t.test) for t in verdict.trials] == [(0, 0.5), (1, 0.6)]
    assert not verdict.trials_without_result


def test_other_orders_of_the_training_examples_are_repetitions():
    runs = [
        fewshot_run(str(seed), task(splits=TWO, sampler_seeds=[seed]), [row(0, test=t), row(1, test=t)])
        for seed, t in ((10, 0.4), (20, 0.6))
    ]
    verdict = only(runs)
    assert len(verdict.trials) == 4
    assert verdict.selected.test.value == pytest.approx(0.5)


def test_the_task_is_named_by_its_data_and_by_their_digest_where_data_changed():
    def with_data(run: str, digest: str, name: str = "superglue/rte"):
        return fewshot_run(run, task("rte", splits=TWO), [row(0), row(1)], signature={"data": f"{name}.{digest}"})

    (study,) = studies([with_data("a", "12345678"), with_data("b", "12345678")])
    assert list(study.strategies[0].verdicts) == ["superglue/rte"]
    (study,) = studies([with_data("a", "12345678"), with_data("b", "87654321"), with_data("c", "1", "superglue/cb")])
    assert list(study.strategies[0].verdicts) == ["superglue/rte.12345678", "superglue/rte.87654321", "superglue/cb"]


def test_what_the_plan_warned_of_and_leaks_are_noted():
    notes = ["split 1: no example of 'neutral' to train on"]
    verdict = only([fewshot_run("a", task(splits={**TWO, "grouped": False}), [row(0), row(1)], notes=notes)])
    assert verdict.warnings[0] == notes[0]
    assert "both train and dev" in verdict.warnings[1]


def test_sizes_are_those_of_the_trainings():
    verdict = only([fewshot_run("a", task(splits=TWO), [row(0), failed(1)])])
    assert (verdict.sizes("n_train"), verdict.sizes("n_test")) == ((32,), (277,))


def test_a_method_without_a_dev_set_has_no_dev_score():
    verdict = only([fewshot_run("a", task(splits={"strategy": "fixed"}), [row(0, None, 0.5)])])
    assert (verdict.trials[0].dev, verdict.trials[0].has_result) == (None, True)


def test_a_limited_run_that_was_not_begun_selects_nothing():
    verdict = only([fewshot_run("a", task(), [], limit=2, status="waiting")])
    assert (verdict.selected, verdict.splits, verdict.trials) == (None, (), ())
