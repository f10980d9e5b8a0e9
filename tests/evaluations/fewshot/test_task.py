"""The few-shot task in the core: splits are its examples, trainings what it asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmassay import compare, evaluate
from lmassay.errors import ConfigError, DataError, PluginError, UserError
from lmassay.evaluations.fewshot import outcomes
from lmassay.evaluations.fewshot.protocol.regimes import Regime
from lmassay.evaluations.fewshot.task import FewShot, Splits
from lmassay.plugins.registry import Registry, current_registry
from lmassay.running.config import expand
from lmassay.running.runner import plan
from tests.evaluations.fewshot.toys import METHOD, rows, trained, write_data
from tests.helpers import lmassay
from tests.published.fewnlu_gold import write_wsc_pairs
from tests.published_data import published_set


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_data(tmp_path / "data")
    (tmp_path / "toy.py").write_text(METHOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(method: Any = "majority", **options: Any) -> dict[str, Any]:
    task = {"name": "fewshot", "data": "rte", "data_dir": "data", "labelled": ["train"], "method": method}
    return {"task": {**task, "splits": {"k": 2}, **options}, "resamples": 200}


def toy(folder: Path, **options: Any) -> dict[str, Any]:
    return {"name": "toy.py:Counting", "log": str(folder / "log"), **options}


def test_a_run_reports_mean_spread_and_interval_over_its_splits(folder):
    (run,) = evaluate(config(toy(folder)))
    acc = run["acc"]
    per_split = [row["scores"]["acc"] for row in run.rows()]
    assert acc.n == 2
    assert acc.value == pytest.approx(sum(per_split) / 2)
    assert {"acc", "acc.std", "dev", "dev_acc"} <= {result.metric for result in run.results}


def test_predictions_of_every_split_are_kept(folder):
    (run,) = evaluate(config(toy(folder)))
    for row in run.rows():
        right = [label == r["label"] for label, r in zip(_labels(row), rows(12), strict=True)]
        assert sum(right) / 12 == pytest.approx(row["scores"]["acc"])


def _labels(row: dict[str, Any]) -> list[str]:
    return [("entailment", "not_entailment")[place] for place in row["details"]["predictions"]]


def test_lists_among_the_options_of_a_method_are_a_sweep(folder):
    runs = expand(config(toy(folder, weight=[1, 2, 3]), splits={"k": [2, 4]}), folder)
    assert len(runs) == 6


def test_all_mistakes_in_a_method_are_reported_at_once_with_their_place(folder):
    with pytest.raises(ConfigError) as caught:
        expand(config({"name": "icl", "shots": -1, "patern": 3}), folder)
    message = str(caught.value)
    assert "task.method.shots" in message
    assert "task.method.patern: unknown key" in message
    assert "pattern" in message


def test_a_method_that_is_not_there_is_reported_with_one_that_is(folder):
    with pytest.raises(UserError, match="did you mean 'majority'"):
        expand(config({"name": "majorty"}), folder)


def test_the_same_training_is_done_once_for_two_runs(folder):
    evaluate(config(toy(folder)))
    evaluate({**config(toy(folder)), "confidence": 0.9})
    assert len(trained(folder)) == 2


def test_another_source_of_the_method_is_another_training(folder):
    evaluate(config(toy(folder)))
    (folder / "toy.py").write_text(METHOD + "\n# changed\n", encoding="utf-8")
    with Registry(current_registry()).active():
        evaluate(config(toy(folder)))
    assert len(trained(folder)) == 4


def test_other_data_are_another_training(folder):
    evaluate(config(toy(folder)))
    write_data(folder / "data", train=18)
    evaluate(config(toy(folder)))
    assert len(trained(folder)) == 4


def test_a_class_missing_from_a_fold_is_reported(folder):
    lines = [{**row, "label": "entailment"} for row in rows(15)] + [rows(16)[15]]
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    (run_config,) = expand(config(), folder)
    notes = plan(run_config).notes
    assert any("no example of 'not_entailment'" in note for note in notes)


def test_an_empty_split_is_refused_with_a_remedy(folder):
    write_data(folder / "data", train=3)
    (run_config,) = expand(config(splits={"strategy": "cross_validation", "k": 8}), folder)
    with pytest.raises(UserError, match="8"):
        plan(run_config)


def test_unlabeled_examples_that_are_asked_for_and_absent_are_reported_before_anything_is_trained(folder):
    (folder / "data" / "unlabeled.jsonl").unlink()
    regime = {"name": "self_training", "generations": 2}
    (run_config,) = expand(config(toy(folder), regime=regime), folder)
    with pytest.raises(ConfigError, match=r"needs unlabeled examples.*unlabeled\.jsonl"):
        plan(run_config)
    assert not trained(folder)


def test_repetitions_need_their_seeds(folder):
    (run_config,) = expand(config(toy(folder), regime={"repetitions": 2}), folder)
    with pytest.raises(ConfigError, match="2 repetitions need as many seeds"):
        plan(run_config)


def test_self_training_adds_what_the_first_generation_labelled(folder):
    regime = {"name": "self_training", "generations": 2, "scale_factor": 2}
    (run,) = evaluate(config(toy(folder), regime=regime))
    assert [row["details"]["n_train"] for row in run.rows()] == [16, 16]
    assert len(trained(folder)) == 4, "two generations on two splits"


def test_an_ensemble_is_judged_by_the_mean_of_its_logits(folder):
    regime = {"name": "ensemble", "repetitions": 2}
    (run,) = evaluate(config(toy(folder), regime=regime, sampler_seeds=[1, 2]))
    assert [row["id"] for row in run.rows()] == ["split-0", "split-1"]
    assert len(trained(folder)) == 4


def test_a_limit_of_test_examples_holds(folder):
    (run,) = evaluate(config(toy(folder), test_examples=5))
    assert {row["details"]["n_test"] for row in run.rows()} == {5}


def test_without_a_dev_set_there_is_no_dev_score(folder):
    (run,) = evaluate(config(toy(folder), splits={"strategy": "fixed"}))
    (row,) = run.rows()
    assert "dev" not in row["scores"]
    assert "no dev examples" in row["unscored"]["dev"]


def test_a_folder_without_data_is_reported(folder):
    with pytest.raises(DataError, match="does not exist"):
        FewShot(data="rte", method="majority", data_dir=folder / "nothing").check()


def test_runs_are_compared_test_by_test_within_splits(folder):
    good, poor = evaluate(config([toy(folder), "majority"]))
    result_of = {comparison.metric: comparison for comparison in compare(poor, good)}
    assert (result_of["acc"].n, result_of["dev"].n) == (12, 2)
    assert result_of["acc"].difference == pytest.approx(good["acc"].value - poor["acc"].value)


def test_one_table_has_all_methods(folder):
    majority, random = evaluate(config(["majority", "random"]))
    done = lmassay("table", "--rows", "method", "--columns", "data", "--metric", "acc", "--n", cwd=folder)
    assert done.returncode == 0, done.stderr
    cells = [line.split() for line in done.stdout.splitlines()[1:6]]
    assert cells[0] == ["method", "rte"]
    for name, run, numbers, n in (("majority", majority, cells[1], cells[2]), ("random", random, cells[3], cells[4])):
        assert numbers[0] == name
        assert numbers[1].rstrip("†").strip("*") == f"{run['acc'].value:.3f}"
        assert n == ["n", "=", "2"]


def test_the_splits_are_those_of_fewnlu():
    assert Splits() == Splits(strategy="multi_splits", k=4, ratio=0.5)


def test_a_regime_for_labels_does_not_fit_answers_that_are_texts():
    options = {
        "data": "superglue/record",
        "data_dir": published_set("fewglue"),
        "method": "majority",
        "test": "dev32",
    }
    with pytest.raises(ConfigError, match="ensemble does not fit"):
        FewShot(**options, regime=Regime(name="ensemble")).check()


def test_no_labelled_example_of_wsc_is_lost():
    wsc = FewShot(data="wsc", data_dir=published_set("fewglue"), method="pet", splits=Splits(strategy="fixed"))
    (example,) = wsc.examples()
    assert len(example.inputs["train"]) == 64


def test_of_a_wsc_pair_a_cloze_learns_from_the_right_one(tmp_path):
    write_wsc_pairs(tmp_path / "train.jsonl")
    (tmp_path / "val.jsonl").write_bytes((published_set("fewglue") / "WSC" / "val.jsonl").read_bytes())
    options = {"data": "wsc", "data_dir": tmp_path, "labelled": ["train"], "splits": Splits(strategy="fixed")}
    (example,) = FewShot(**options, method="pet").examples()
    assert len(example.inputs["train"]) == 32


def test_a_missing_choice_is_not_replaced_by_that_of_another_ratio(folder):
    choices = [{"every": 0.5, "step": 3}, {"every": 1.0, "step": 6}]
    assert outcomes._choice({"choices": choices}, 1.0)["step"] == 6
    with pytest.raises(PluginError, match=r"no choice for 0\.25, one of the eval_ratios"):
        outcomes._choice({"choices": choices}, 0.25)


STUDENT = """
import numpy as np

from lmassay.evaluations.fewshot.methods.contract import Method, TrainedClassifier


class Student(Method, TrainedClassifier):
    needs = frozenset()

    def fit(self, inputs):
        return self

    def logits(self, examples):
        return np.tile([ANSWER], (len(examples), 1))
"""


def test_a_changed_student_is_another_training(folder):
    scores = []
    for answer in ("0, 1", "1, 0"):
        (folder / "student.py").write_text(STUDENT.replace("ANSWER", f"{answer}"), encoding="utf-8")
        regime = {"name": "distillation", "student": "student.py:Student"}
        with Registry(current_registry()).active():
            (run,) = evaluate(config(toy(folder), regime=regime, test_examples=7))
        scores.append(run["acc"].value)
    assert scores[0] == pytest.approx(1 - scores[1])
    assert scores[0] != scores[1]


def test_an_option_spelled_otherwise_or_at_its_default_is_the_same_training(folder):
    evaluate(config(toy(folder)))
    evaluate(config(toy(folder, weight=1.0)))
    evaluate(config(toy(folder, weight="1")))
    assert len(trained(folder)) == 2


def test_a_class_without_any_labelled_example_is_reported(folder):
    lines = [{**row, "label": "entailment"} for row in rows(16)]
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    (run_config,) = expand(config(), folder)
    assert any("'not_entailment' to train on" in note for note in plan(run_config).notes)


def test_an_extra_file_is_checked_before_anything_is_trained(folder):
    (run_config,) = expand(config(toy(folder), extra="nothing.jsonl"), folder)
    with pytest.raises(ConfigError, match=r"task\.extra: there is no file"):
        plan(run_config)


def test_a_regime_that_does_not_fit_its_method_is_reported_by_its_key(folder):
    (run_config,) = expand(config(toy(folder), regime={"name": "noisy_student", "cross": True}), folder)
    with pytest.raises(ConfigError, match=r"task\.regime\.name: the method .* cannot be made noisy"):
        plan(run_config)


def test_a_mistake_in_the_student_is_reported_before_its_teachers_are_trained(folder):
    regime = {"name": "distillation", "student": {"name": "icl", "shotz": 3}}
    (run_config,) = expand(config(toy(folder), regime=regime), folder)
    with pytest.raises(ConfigError, match=r"task\.regime\.student\.shotz: unknown key"):
        plan(run_config)


def test_test_examples_without_labels_are_reported(folder):
    lines = [{key: value for key, value in row.items() if key != "label"} for row in rows(6)]
    (folder / "data" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    (run_config,) = expand(config(test="test"), folder)
    assert any("6 of 6 test examples have no label" in note for note in plan(run_config).notes)


def test_test_examples_that_are_also_labelled_are_reported(folder):
    labelled = (folder / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "data" / "test.jsonl").write_text("".join(f"{line}\n" for line in labelled[:2]), encoding="utf-8")
    (run_config,) = expand(config(test="test"), folder)
    assert any("2 of 2 test examples are also labelled examples" in note for note in plan(run_config).notes)


# --- a user's own files -----------------------------------------------------------------------------------------------


OWN_TASK = """
name: tickets
data: {%s}
fields: [message]
label: topic
labels: [delivery, payment, account]
patterns: ["{message} This is about [mask]."]
words: {delivery: delivery, payment: payment, account: account}
metrics: [acc]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task with two CSV files and three labels."""
    lines = [f"message {number},{label}" for number in range(6) for label in ("delivery", "payment", "account")]
    for name in ("learn.csv", "check.csv"):
        (tmp_path / name).write_text("\n".join(["message,topic", *lines]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own_task(files: str, **options: Any) -> dict[str, Any]:
    Path("tickets.yaml").write_text(OWN_TASK % files, encoding="utf-8")
    return {"task": {"name": "fewshot", "data": "tickets.yaml", "method": "majority", "splits": {"k": 2}, **options}}


@pytest.mark.parametrize("part", ["dev", "test"])
def test_an_own_task_needs_neither_dev32_nor_the_option_labelled(own, part):
    (run,) = evaluate(own_task(f"train: learn.csv, {part}: check.csv"))
    assert run["acc"].n == 2
    assert len(next(iter(run.rows()))["details"]["predictions"]) == 18
    assert f"|test:{part}|" in run.signature


def test_a_glue_task_without_a_dev32_file_splits_train_only(tmp_path, monkeypatch):
    rows = [{"sentence1": f"It is {n}.", "sentence2": f"It was {n}.", "label": n % 2, "idx": n} for n in range(8)]
    for name in ("train.jsonl", "dev.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (run,) = evaluate(
        {"task": {"name": "fewshot", "data": "glue/mrpc", "data_dir": ".", "method": "majority", "splits": {"k": 2}}}
    )
    assert {row["details"]["n_train"] for row in run.rows()} == {4}


def test_any_part_but_the_tested_one_can_be_split(own):
    (run,) = evaluate(own_task("dev: learn.csv, test: check.csv", labelled=["dev"], test="test"))
    assert run["acc"].n == 2
    with pytest.raises(ConfigError, match="'dev' is tested on, so it cannot be trained on"):
        evaluate(own_task("dev: learn.csv", labelled=["dev"]))


def test_a_part_that_the_yaml_file_does_not_name_is_reported_with_those_that_it_names(own):
    with pytest.raises(DataError, match=r"tickets has no test data; it has train \(learn.csv\) and dev \(check.csv\)"):
        evaluate(own_task("train: learn.csv, dev: check.csv", test="test"))


def test_a_data_file_in_place_of_its_description_is_reported(own):
    with pytest.raises(ConfigError, match=r"learn.csv contains examples; describe them in a YAML file"):
        evaluate({"task": {"name": "fewshot", "data": "learn.csv", "method": "majority"}})
