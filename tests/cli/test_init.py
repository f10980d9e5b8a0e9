"""``lmassay init``: a configuration that runs as it is written."""

from __future__ import annotations

import json

import pytest
import yaml

from lmassay.cli.init import EVALUATIONS
from tests.helpers import ROOT, lmassay
from tests.terminal import in_terminal

SAMPLES = ROOT / "src" / "lmassay" / "samples"


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_what_is_written_is_accepted_by_check(evaluation, smollm2, tmp_path):
    done = lmassay("init", evaluation, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"lmassay run {evaluation}.yaml" in done.stderr
    assert done.stdout == ""
    checked = lmassay("check", f"{evaluation}.yaml", "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert {run["task"] for run in json.loads(checked.stdout)["runs"]} == {evaluation}


def test_the_robustness_configuration_runs_without_any_model_fetched(tmp_path):
    assert lmassay("init", "robustness", "-o", "sub/what's: it.yaml", cwd=tmp_path).returncode == 0
    done = lmassay("run", "sub/what's: it.yaml", "--json", "--limit", 5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["status"] for run in runs] == ["done"] * 3
    assert {run["name"] for run in runs if "name" in run} <= {"what's: it"}


def test_the_bias_configuration_runs_on_the_embedded_model(smollm2, tmp_path):
    assert lmassay("init", "bias", cwd=tmp_path).returncode == 0
    done = lmassay("run", "bias.yaml", "--limit", 2, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "SmolLM2-135M"


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_every_key_has_a_comment(evaluation):
    lines = (SAMPLES / evaluation / "config.yaml").read_text(encoding="utf-8").splitlines()
    commented = False
    for line in lines:
        if line.strip().startswith("#"):
            commented = True
        elif not line.strip():
            commented = False
        elif line.lstrip().split(":")[0] not in ("task", "name"):
            assert commented, line
        assert len(line) <= 112, line


def test_nothing_is_overwritten_unless_asked_to(tmp_path):
    assert lmassay("init", "bias", cwd=tmp_path).returncode == 0
    (tmp_path / "bias-data" / "questions.yaml").write_text("mine", encoding="utf-8")
    done = lmassay("init", "bias", cwd=tmp_path)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert "--force" in done.stderr
    assert (tmp_path / "bias-data" / "questions.yaml").read_text(encoding="utf-8") == "mine"
    assert lmassay("init", "bias", "--force", cwd=tmp_path).returncode == 0
    assert (tmp_path / "bias-data" / "questions.yaml").read_text(encoding="utf-8") != "mine"


def test_without_a_terminal_the_evaluation_must_be_named(tmp_path):
    done = lmassay("init", cwd=tmp_path)
    assert done.returncode == 2
    assert "say which evaluation" in done.stderr
    assert all(name in done.stderr for name in EVALUATIONS)
    assert not list(tmp_path.iterdir())


def test_in_a_terminal_it_asks_which(tmp_path):
    done = in_terminal("init", cwd=tmp_path, typed="nonsense\nrobustness\n")
    assert done.returncode == 0, done.screen
    assert "is it biased?" in done.screen
    assert (tmp_path / "robustness.yaml").is_file()


def test_the_model_is_filled_in(tmp_path):
    done = lmassay("init", "bias", "--model", "openai:gpt-4o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = yaml.safe_load((tmp_path / "bias.yaml").read_text(encoding="utf-8"))
    assert written["model"] == {"name": "openai", "model": "gpt-4o"}
    assert written["task"]["answer_by"] == "generate"
    assert lmassay("init", "robustness", "--model", "echo", cwd=tmp_path).returncode == 0
    written = yaml.safe_load((tmp_path / "robustness.yaml").read_text(encoding="utf-8"))
    assert written["model"] == "echo"
    assert "{x}" in written["task"]["prompt"]
    assert lmassay("check", "robustness.yaml", cwd=tmp_path).returncode == 0


def test_the_way_to_a_model_of_ones_own_starts_at_the_configuration(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "m.py").touch()
    for number, (name, wanted) in enumerate(
        {"folder": {"name": "hf", "model": "../folder"}, "m.py:M": "../m.py:M", "smollm2": "smollm2"}.items()
    ):
        done = lmassay("init", "syntax", "--model", name, "-o", f"sub/{number}.yaml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert yaml.safe_load((tmp_path / "sub" / f"{number}.yaml").read_text(encoding="utf-8"))["model"] == wanted


def test_a_model_that_there_is_not_is_refused_with_what_was_meant(tmp_path):
    done = lmassay("init", "bias", "--model", "smolm2", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'smollm2'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_samples_and_examples_are_the_same_data():
    examples = ROOT / "examples"
    for sample, example in {
        "robustness/src.fr": "data/src.fr",
        "robustness/ref.en": "data/ref.en",
        "robustness/dictionary.tsv": "data/dictionary.tsv",
        "bias/questions.jsonl": "bias/questions.jsonl",
        "fewshot/train.jsonl": "fewshot/data/reviews/train.jsonl",
        "fewshot/dev.jsonl": "fewshot/data/reviews/dev.jsonl",
    }.items():
        assert (SAMPLES / sample).read_bytes() == (examples / example).read_bytes(), sample
