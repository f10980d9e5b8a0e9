"""``lmassay search``: trials are runs of a sweep, chosen by Optuna, the best dev score wins."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lmassay.cli import main
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.search_space import Range, Space
from lmassay.running.config import read_config
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from tests.evaluations.fewshot.toys import trained, write_sweep


def setup_module() -> None:
    """Import optuna when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("optuna", reason="optuna is not installed")


NUMBERS = """
from lmassay.evaluations.fewshot.methods.contract import Method


class Numbers(Method):
    needs = frozenset()

    def __init__(self, steps: int = 1, rate: float = 0.5, several: tuple[float, ...] = (), shape: str = "round"): ...
    def fit(self, inputs): ...


class Other(Numbers):
    pass
"""


def write(folder: Path, task: dict[str, Any] | None = None, **method: Any) -> Path:
    """The toys' sweep with other options. Weights below 0 make the toy prefer the wrong label."""
    folder.mkdir(exist_ok=True)
    path = write_sweep(folder, **method)
    config = json.loads(path.read_text(encoding="utf-8"))
    config["task"] |= task or {}
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def search(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["search", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def records(folder: Path) -> list[RunRecord]:
    with Store(folder / "results") as store:
        return store.runs()


def weights(folder: Path) -> list[float]:
    return [record.config["task"]["method"]["weight"] for record in records(folder)]


def dev(record: RunRecord) -> float:
    (value,) = [r.value for r in record.results if r.metric == "dev" and r.group == "overall"]
    return float(value)


class Chooser:
    """Takes the last of everything and remembers what it was asked."""

    def __init__(self) -> None:
        self.requested: dict[str, Any] = {}

    def choice(self, name: str, many: int) -> int:
        self.requested[name] = many
        return many - 1

    def number(self, name: str, between: Range) -> float:
        self.requested[name] = between
        return between.high


def space(folder: Path, **method: Any) -> Space:
    (folder / "own.py").write_text(NUMBERS, encoding="utf-8")
    task = {"name": "fewshot", "data": "rte", "method": {"name": "own.py:Numbers", **method}}
    path = folder / "search.yaml"
    path.write_text(json.dumps({"task": task}), encoding="utf-8")
    return Space(read_config(path))


# --- trials -----------------------------------------------------------------------------------------------------------


def test_a_grid_tries_every_combination_once_and_names_the_best(tmp_path, capsys):
    file = write(tmp_path, weight=[-1, 1, -2])
    assert search(file, "--sampler", "grid", "--trials", 10, "--results", tmp_path / "results") == 0
    assert sorted(weights(tmp_path)) == [-2, -1, 1]
    assert len({record.sweep for record in records(tmp_path)}) == 1
    printed = capsys.readouterr()
    (best,) = [line for line in printed.out.splitlines() if line.startswith("best of 3")]
    assert "weight=1" in best
    assert "n = 2 splits" in best
    assert "[" in best.partition("dev 0.6875")[2]
    assert "lmassay protocol" in printed.err


def test_a_grid_can_be_cut_short(tmp_path):
    file = write(tmp_path, weight=[-1, 1, -2, 3])
    assert search(file, "--sampler", "grid", "--trials", 2, "--results", tmp_path / "results") == 0
    assert len(set(weights(tmp_path))) == 2


# Optuna's TPE draws at random ten times before it begins to learn.
@pytest.mark.parametrize(("sampler", "trials"), [("tpe", 12), ("random", 2)])
def test_the_same_seed_tries_the_same_and_another_seed_something_else(tmp_path, sampler, trials):
    tried_weights = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        file = write(tmp_path / name, weight={"low": -2.0, "high": 2.0})
        options = ("--trials", trials, "--sampler", sampler, "--seed", seed, "--results", tmp_path / name / "results")
        assert search(file, *options) == 0
        tried_weights.append(weights(tmp_path / name))
    assert tried_weights[0] == tried_weights[1] != tried_weights[2]
    assert len(tried_weights[0]) == trials
    assert all(-2 <= weight <= 2 for weight in tried_weights[0])


def test_the_score_is_the_mean_dev_score_over_splits(tmp_path, capsys):
    file = write(tmp_path, weight=[-1, 1])
    assert search(file, "--sampler", "grid", "--results", tmp_path / "results", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    best = max(records(tmp_path), key=dev)
    assert printed["best"] == best.id
    assert {run["run"] for run in printed["runs"]} == {record.id for record in records(tmp_path)}
    with Store(tmp_path / "results") as store:
        rows = list(store.rows(best.id))
    assert dev(best) == pytest.approx(sum(row.score.values["dev"] for row in rows) / 2)
    assert len(rows) == 2


def test_a_configuration_that_comes_again_is_not_run_again(tmp_path, capsys):
    file = write(tmp_path, weight=[-1, 1])
    assert search(file, "--sampler", "random", "--trials", 8, "--results", tmp_path / "results") == 0
    assert sorted(weights(tmp_path)) == [-1, 1]
    assert "tried before" in capsys.readouterr().err


def test_the_same_search_again_trains_nothing(tmp_path):
    file = write(tmp_path, weight={"low": -2.0, "high": 2.0})
    options = (file, "--trials", 5, "--results", tmp_path / "results")
    assert search(*options) == 0
    before = trained(tmp_path)
    assert search(*options) == 0
    assert trained(tmp_path) == before
    assert weights(tmp_path)[:5] == weights(tmp_path)[5:]


def test_two_workers_train_the_splits_of_a_trial_side_by_side_and_give_the_same_numbers(tmp_path):
    for name, more in (("one", ()), ("two", ("--workers", 2))):
        file = write(tmp_path / name, weight=[-1, 1], wait=0.3 if more else 0.0)
        assert search(file, "--sampler", "grid", "--results", tmp_path / name / "results", *more) == 0
    one, two = (sorted(map(dev, records(tmp_path / name))) for name in ("one", "two"))
    assert one == two
    pids = {line.split()[1] for line in (tmp_path / "two" / "log").read_text(encoding="utf-8").splitlines()}
    assert len(pids) == 2, "the processes stay from trial to trial"


def test_a_run_that_fails_does_not_count_and_the_search_goes_on(tmp_path, capsys):
    file = write(tmp_path, weight=[-1, 2, 1], fail="2/")
    assert search(file, "--sampler", "grid", "--results", tmp_path / "results") == 1
    printed = capsys.readouterr()
    assert "weight=1" in next(line for line in printed.out.splitlines() if line.startswith("best of 3"))
    assert "the loss became NaN" in printed.err
    status = dict(zip(weights(tmp_path), (record.status for record in records(tmp_path)), strict=True))
    assert status == {-1: "done", 1: "done", 2: "incomplete"}


def test_without_any_score_there_is_no_best(tmp_path, capsys):
    file = write(tmp_path, weight=[2, 2.5], fail="2")
    assert search(file, "--sampler", "grid", "--results", tmp_path / "results") == 1
    printed = capsys.readouterr()
    assert "no trial has a score" in printed.err
    assert "best of" not in printed.out


def test_resume_tries_again_only_what_failed(tmp_path):
    file = write(tmp_path, weight=[2, 1], fail="2/")
    assert search(file, "--sampler", "grid", "--results", tmp_path / "results") == 1
    before = trained(tmp_path)
    with pytest.raises(SystemExit):
        main(["resume", "--retry-failed", "--results", str(tmp_path / "results")])
    again = trained(tmp_path)[len(before) :]
    assert sorted(again) == sorted(name for name in before if name.startswith("2/"))
    assert len(again) == 2


# --- what is open -----------------------------------------------------------------------------------------------------


def test_ranges_are_whole_numbers_where_the_option_takes_no_others(tmp_path):
    chooser = Chooser()
    run = space(
        tmp_path, steps={"low": 10, "high": 50, "step": 20}, rate={"low": "1e-6", "high": 1, "log": True}
    ).drawn(chooser)
    assert chooser.requested["task.method.steps"] == Range(10, 50, False, 20, True)
    assert chooser.requested["task.method.rate"] == Range(1e-6, 1.0, True, None, False)
    assert run.task["method"] == {"name": "own.py:Numbers", "steps": 50, "rate": 1.0}


def test_a_list_that_is_one_value_is_no_choice(tmp_path):
    chooser = Chooser()
    run = space(tmp_path, several=[0.1, 0.2], shape=["round", "square"]).drawn(chooser)
    assert chooser.requested == {"task.method.shape": 2}
    assert run.task["method"]["several"] == [0.1, 0.2]
    assert run.task["method"]["shape"] == "square"


def test_each_of_several_methods_has_its_own_options(tmp_path):
    chooser = Chooser()
    whole_space = space(tmp_path)
    low_high = {"low": 1, "high": 4}
    whole_space.file.data["task"]["method"] = [
        {"name": "own.py:Numbers", "rate": [0.1, 0.2]},
        {"name": ["own.py:Numbers", "own.py:Other"], "steps": low_high},
    ]
    run = whole_space.drawn(chooser)
    assert run.task["method"] == {"name": "own.py:Other", "steps": 4}
    assert list(chooser.requested) == ["task.method", "task.method[1]", "task.method[1][1].steps"]
    assert len(whole_space.grid()) == 2 + 2 * 4


def test_a_method_in_a_file_is_found_in_the_base_dir_of_the_configuration(tmp_path):
    searched = space(tmp_path, steps=[1, 2])
    (tmp_path / "methods").mkdir()
    (tmp_path / "own.py").rename(tmp_path / "methods" / "own.py")
    searched.file.data["base_dir"] = "methods"
    assert len(searched.grid()) == 2
    assert searched.checked().base_dir == tmp_path / "methods"


def test_a_grid_spreads_ranges_by_their_steps(tmp_path):
    runs = space(tmp_path, rate={"low": 0.1, "high": 0.35, "step": 0.1}, steps=[1, {"low": 3, "high": 4}]).grid()
    assert sorted({run.task["method"]["rate"] for run in runs}) == [0.1, 0.2, 0.3]
    assert sorted({run.task["method"]["steps"] for run in runs}) == [1, 3, 4]
    with pytest.raises(ConfigError, match="a grid needs a step"):
        space(tmp_path, rate={"low": 0.1, "high": 0.3}).grid()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("rate", {"low": 0.1}, "low and high are both needed"),
        ("rate", {"low": 0.1, "high": 1, "base": 10}, "'base' is unknown"),
        ("rate", {"low": 1, "high": 0.1}, "low must be less than high"),
        ("rate", {"low": 0, "high": 1, "log": True}, "needs a low above 0"),
        ("rate", {"low": 0, "high": 1, "log": "yes"}, "must be true or false"),
        ("rate", {"low": 0, "high": 1, "step": 2}, "fit between low and high"),
        ("rate", {"low": "few", "high": 1}, "must be a number"),
        ("rate", {"low": True, "high": 2}, "must be a number"),
        ("steps", {"low": 1, "high": 2.5}, "whole numbers"),
        ("shape", {"low": 1, "high": 2}, "does not take a number"),
        ("steps", [1, "many"], "unable to parse string as an integer"),
        ("steps", [], "the list is empty"),
        ("stepz", [1, 2], "did you mean 'steps'"),
    ],
)
def test_a_mistake_is_shown_with_its_key_and_line(tmp_path, option, value, message):
    with pytest.raises(ConfigError) as error:
        space(tmp_path, **{"shape": ["round", "square"], option: value}).checked()
    assert message in str(error.value)
    assert f"search.yaml, line 1: task.method.{option}" in str(error.value)


# --- what cannot be searched ------------------------------------------------------------------------------------------


def refused(capsys: Any, *arguments: object) -> str:
    assert search(*arguments) == 2
    return capsys.readouterr().err.replace("\n", " ")


def test_a_configuration_without_choices_is_nothing_to_search(tmp_path, capsys):
    file = write(tmp_path, weight=1)
    assert "nothing to search" in refused(capsys, file, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("key", "value"), [("data", ["rte", "wic"]), ("splits", {"k": [2, 4]}), ("seed", [1, 2])])
def test_what_makes_scores_incomparable_is_not_searched(tmp_path, capsys, key, value):
    file = write(tmp_path, {key: value}, weight=[1, 2])
    message = refused(capsys, file, "--results", tmp_path / "results")
    assert f"task.{key}" in message
    assert "cannot be compared" in message


def test_a_task_without_a_dev_score_is_refused(tmp_path, capsys):
    (tmp_path / "toy.py").write_text(TASK, encoding="utf-8")
    file = tmp_path / "c.yaml"
    file.write_text(json.dumps({"task": {"name": "toy.py:Own"}, "model": [None, None]}), encoding="utf-8")
    message = refused(capsys, file, "--results", tmp_path / "results")
    assert "no dev score to search for" in message


TASK = """
class Own:
    name, version, label, needs = "own", 1, "own", frozenset()
    def examples(self): return iter(())
    def requests(self, example): return []
    def score(self, examples, responses): return []
    def aggregate(self, table, settings): return []
    def signature(self): return {}
"""


def test_splits_without_dev_examples_are_refused(tmp_path, capsys):
    file = write(tmp_path, {"splits": {"strategy": "fixed"}}, weight=[1, 2])
    assert "no dev examples" in refused(capsys, file, "--results", tmp_path / "results")


def test_a_mistake_in_the_data_shows_before_anything_is_trained(tmp_path, capsys):
    file = write(tmp_path, weight=[1, 2])
    (tmp_path / "data" / "train.jsonl").unlink()
    assert "train.jsonl" in refused(capsys, file, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_without_optuna_the_way_to_get_it_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    message = refused(capsys, write(tmp_path, weight=[1, 2]), "--results", tmp_path / "results")
    assert "pip install 'lmassay[search]'" in message


def test_the_help_shows_an_example_and_how_ranges_are_written(capsys):
    assert search("--help") == 0
    printed = capsys.readouterr().out
    assert "Example: lmassay search" in printed
    assert "{low: 1.0e-6, high: 1.0e-4, log: true}" in printed
