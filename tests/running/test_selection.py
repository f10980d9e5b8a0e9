"""Runs of a sweep can be chosen, and impossible combinations do not stop the others."""

from __future__ import annotations

import json
import textwrap

import pytest

from lmassay.errors import ConfigError
from lmassay.running.config import expand
from lmassay.running.selection import combination_texts, select
from tests.helpers import lmassay, write_config, write_lines


@pytest.fixture
def runs(tmp_path):
    attacks = ["charswap", {"name": "homoglyph", "rate": 0.5}]
    task = {"name": "robustness", "src": "src.txt", "attack": attacks, "success_threshold": [1.0, 1.5]}
    return expand({"task": task, "model": "echo", "seed": [1, 2]}, tmp_path)


def test_the_end_of_a_key_is_enough(runs):
    assert len(runs) == 8
    assert len(select(runs, ["task.success_threshold=1.5"])) == 4
    assert select(runs, ["success_threshold=1.5"]) == select(runs, ["task.success_threshold=1.5"])


def test_values_of_one_key_are_alternatives_and_different_keys_must_all_match(runs):
    assert len(select(runs, ["seed=1", "seed=2"])) == 8
    assert len(select(runs, ["seed=1", "success_threshold=1.0"])) == 2


def test_a_plug_in_with_options_is_selected_by_its_name(runs):
    selected = select(runs, ["attack=homoglyph"])
    assert len(selected) == 4
    assert all(run.task["attack"]["rate"] == 0.5 for run in selected)


@pytest.mark.parametrize("text", ["1e-5", "1.0e-5", "1E-05", "0.00001"])
def test_a_number_may_be_written_in_any_way(tmp_path, text):
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "success_threshold": [1e-5, "2e-5"]}
    runs = expand({"task": task, "model": "echo"}, tmp_path)
    (selected,) = select(runs, [f"success_threshold={text}"])
    assert selected.task["success_threshold"] == 1e-5


def test_brackets_that_do_not_match_are_reported_with_the_option_and_the_key(runs):
    with pytest.raises(ConfigError, match=r"--only task\.attack: the brackets of .* do not match"):
        select(runs, ["attack=[homoglyph"])


def test_a_number_is_not_a_truth_value(tmp_path):
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    runs = expand({"task": task, "model": {"name": "outputs", "files": {}, "keep_bom": [True, False]}}, tmp_path)
    assert len(select(runs, ["keep_bom=true"])) == 1
    with pytest.raises(ConfigError, match="keep_bom is true or false"):
        select(runs, ["keep_bom=1"])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("seed=3", r"no run has this value; seed is 1 or 2"),
        ("sede=1", r"no run has this key; did you mean .*seed"),
        ("seed", r"write key=value"),
        ("name=charswap", r"this may be task\.name or .*write more of the key"),
    ],
)
def test_a_selection_without_a_match_says_what_there_is(runs, condition, message):
    with pytest.raises(ConfigError, match=message):
        select(runs, [condition])


def test_values_that_no_run_combines_are_not_reported_as_missing(tmp_path):
    tasks = [{"name": "robustness", "src": "src.txt", "attack": "charswap"}, {"name": "minimal_pairs", "data": "blimp"}]
    runs = expand({"task": tasks, "model": "echo"}, tmp_path)
    with pytest.raises(ConfigError, match=r"--only data=blimp: no run has all of these values$"):
        select(runs, ["attack=charswap", "data=blimp"])


def test_a_combination_is_described_by_the_keys_that_vary(runs):
    assert combination_texts(runs)[0] == "attack=charswap, success_threshold=1, seed=1"


MODELS = """
    from lmassay import Model, Response
    from lmassay.types import Continuation

    class Talker(Model):
        name = "talker"
        can = {"generate"}
        def identity(self): return {"name": self.name}
        def generate(self, requests):
            for number, _ in enumerate(requests):
                yield number, Response(text="yes")

    class Scorer(Model):
        name = "scorer"
        can = {"logprobs"}
        def identity(self): return {"name": self.name}
        def logprobs(self, requests):
            for number, request in enumerate(requests):
                yield number, Response(Continuation(-float(len(request.continuation)), (-1.0,)))
"""


@pytest.fixture
def sweep(tmp_path):
    (tmp_path / "models.py").write_text(textwrap.dedent(MODELS), encoding="utf-8")
    write_lines(tmp_path / "pairs.tsv", ["sentence_good\tsentence_bad", "The cat sleeps.\tThe cat sleep."])
    task = {"name": "minimal_pairs", "data": "pairs.tsv"}
    return write_config(tmp_path / "sweep.yaml", {"task": task, "model": ["models.py:Talker", "models.py:Scorer"]})


def test_an_impossible_combination_is_listed_and_the_others_run(sweep, tmp_path):
    done = lmassay("run", sweep, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["runs"]) == 1
    [skipped] = document["not_applicable"]
    assert skipped["combination"] == "model=models.py:Talker"
    assert "cannot compute log-probabilities" in skipped["reason"]
    assert "warning: not applicable: model=models.py:Talker: " in done.stderr


def test_check_lists_impossible_combinations(sweep, tmp_path):
    done = lmassay("check", sweep, cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: not applicable: model=models.py:Talker: " in done.stderr
    assert "1 run;" in done.stdout


@pytest.mark.parametrize("command", ["run", "check"])
def test_strict_refuses_a_sweep_with_an_impossible_combination(command, sweep, tmp_path):
    done = lmassay(command, sweep, "--strict", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot compute log-probabilities" in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_sweep_without_a_possible_combination_is_an_error(sweep, tmp_path):
    done = lmassay("run", sweep, "--only", "model=models.py:Talker", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot compute log-probabilities" in done.stderr


def test_a_missing_file_is_a_mistake_and_not_an_impossible_combination(sweep, tmp_path):
    tasks = [{"name": "minimal_pairs", "data": data} for data in ("pairs.tsv", "missing.tsv")]
    config = write_config(tmp_path / "two.yaml", {"task": tasks, "model": "models.py:Scorer"})
    done = lmassay("run", config, cwd=tmp_path)
    assert done.returncode == 2
    assert "missing.tsv" in done.stderr


def test_set_reports_different_values_of_list_entries(sweep, tmp_path):
    entries = [{"name": "minimal_pairs", "data": "pairs.tsv"}, {"name": "minimal_pairs", "data": "others.tsv"}]
    config = write_config(tmp_path / "two.yaml", {"task": entries, "model": "models.py:Scorer"})
    done = lmassay("check", config, "--set", "task.data=pairs.tsv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = "--set task.data=pairs.tsv replaces 2 different values in the entries of a list (pairs.tsv, others.tsv)"
    assert expected in done.stderr
    assert "use --only task.data=VALUE" in done.stderr


def test_set_reports_a_value_that_only_some_list_entries_have(sweep, tmp_path):
    models = [{"name": "models.py:Scorer"}, {"name": "models.py:Scorer", "label": "second"}]
    task = {"name": "minimal_pairs", "data": "pairs.tsv"}
    config = write_config(tmp_path / "two.yaml", {"task": task, "model": models})
    done = lmassay("check", config, "--set", "model.label=x", cwd=tmp_path)
    assert "replaces 2 different values in the entries of a list (default, second)" in done.stderr
