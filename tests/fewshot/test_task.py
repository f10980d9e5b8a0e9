"""The few-shot task in the core: splits are its examples, trainings what it asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmassay import compare, evaluate
from lmassay.config import expand
from lmassay.errors import ConfigError, DataError, UserError
from lmassay.fewshot.task import FewShot, Splits
from lmassay.runner import plan
from tests.fewshot.toys import METHOD, rows, trained, write_data


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


def test_all_mistakes_in_a_method_are_told_at_once_with_their_place(folder):
    with pytest.raises(ConfigError) as caught:
        expand(config({"name": "icl", "shots": -1, "patern": 3}), folder)
    told = str(caught.value)
    assert "task.method.shots" in told
    assert "task.method.patern: unknown key" in told
    assert "pattern" in told


def test_a_method_that_is_not_there_is_told_with_one_that_is(folder):
    with pytest.raises(UserError, match="did you mean 'majority'"):
        expand(config({"name": "majorty"}), folder)


def test_the_same_training_is_done_once_for_two_runs(folder):
    evaluate(config(toy(folder)))
    evaluate({**config(toy(folder)), "confidence": 0.9})
    assert len(trained(folder)) == 2


def test_another_source_of_the_method_is_another_training(folder):
    evaluate(config(toy(folder)))
    (folder / "toy.py").write_text(METHOD + "\n# changed\n", encoding="utf-8")
    from lmassay.registry import Registry, current

    with Registry(current()).active():
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
    (found,) = expand(config(), folder)
    notes = plan(found).notes
    assert any("no example of 'not_entailment'" in note for note in notes)


def test_an_empty_split_is_refused_with_a_remedy(folder):
    write_data(folder / "data", train=3)
    (found,) = expand(config(splits={"strategy": "cross_validation", "k": 8}), folder)
    with pytest.raises(UserError, match="8"):
        plan(found)


def test_unlabeled_examples_that_are_asked_for_and_absent_are_told_before_anything_is_trained(folder):
    (folder / "data" / "unlabeled.jsonl").unlink()
    regime = {"name": "self_training", "generations": 2}
    (found,) = expand(config(toy(folder), regime=regime), folder)
    with pytest.raises(ConfigError, match=r"needs unlabeled examples.*unlabeled\.jsonl"):
        plan(found)
    assert not trained(folder)


def test_repetitions_need_their_seeds(folder):
    (found,) = expand(config(toy(folder), regime={"repetitions": 2}), folder)
    with pytest.raises(ConfigError, match="2 repetitions need as many seeds"):
        plan(found)


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


def test_a_folder_without_data_is_told(folder):
    with pytest.raises(DataError, match="does not exist"):
        FewShot(data="rte", method="majority", data_dir=folder / "nothing").check()


def test_runs_are_compared_split_by_split(folder):
    good, poor = evaluate(config([toy(folder), "majority"]))
    found = {comparison.metric: comparison for comparison in compare(poor, good)}
    assert found["acc"].n == 2
    assert found["acc"].difference == pytest.approx(good["acc"].value - poor["acc"].value)


def test_the_splits_are_those_of_fewnlu():
    assert Splits() == Splits(strategy="multi_splits", k=4, ratio=0.5)
