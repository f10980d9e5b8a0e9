"""Every formula exists once: replace it, and ``lmassay run`` and the original program's command change together."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lmassay.evaluations.bias import scores
from lmassay.evaluations.fewshot.protocol import estimates
from lmassay.evaluations.robustness import criterion
from lmassay.evaluations.syntax import metrics
from lmassay.storage.store import Store
from tests.evaluations.fewshot.commands import fewnlu_kit
from tests.helpers import EVALUATIONS, lmassay, write_config
from tests.published.reference_files import REFERENCE

Numbers = Mapping[str, float]
TEAPOT = REFERENCE / "teapot" / "inputs"
KOBBQ = REFERENCE / "kobbq"


def done(*arguments: object, cwd: Path) -> str:
    """What a command prints; it must end well."""
    result = lmassay(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def results_of(folder: Path, config: dict[str, Any], name: str) -> Numbers:
    """The overall numbers of one run of ``lmassay run``."""
    done("run", write_config(folder / f"{name}.yaml", config), "--results", name, cwd=folder)
    with Store(folder / name) as store:
        (record,) = store.runs()
    return {r.metric: r.value for r in record.results if r.group == "overall" and r.value is not None}


def assert_both_change(
    native: Callable[[], Numbers], original: Callable[[], Numbers], replace: Callable[[], None], tolerance: float = 1e-9
) -> None:
    """Both commands give the same numbers, and other ones, again the same, when a formula is replaced."""
    before = native()
    assert original() == pytest.approx(before, abs=tolerance)
    replace()
    after = native()
    assert original() == pytest.approx(after, abs=tolerance)
    for number, value in before.items():
        assert after[number] != pytest.approx(value, abs=1e-3 + tolerance), f"{number} has not changed"


# --- robustness and TEAPOT --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "replacement", "number"),
    [
        ("success", lambda s_src, target, threshold, **_: s_src > 0.5, "success"),
        ("relative_decrease", lambda base, adversarial: base / 3, "d_tgt"),
    ],
)
def test_the_criterion(tmp_path, monkeypatch, formula, replacement, number):
    files = {role: str(TEAPOT / f"de.{role}") for role in ("src", "adv", "out", "aout", "ref")}
    task = {"name": "robustness", "src": files["src"], "ref": files["ref"], "attack": {"file": files["adv"]}}
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": files["aout"]}}
    runs = iter(("before", "after"))

    def native() -> Numbers:
        return {number: results_of(tmp_path, {"task": task, "model": model}, next(runs))[number]}

    def original() -> Numbers:
        flags = {"--src": "src", "--adv-src": "adv", "--out": "out", "--adv-out": "aout", "--ref": "ref"}
        words = [word for flag, role in flags.items() for word in (flag, files[role])]
        printed = done("teapot", *words, "--terse", "--scale", "1", cwd=tmp_path).splitlines()
        _, d_tgt, success = map(float, printed)
        return {number: {"d_tgt": d_tgt, "success": success / 100}[number]}

    # The original prints three decimals.
    assert_both_change(native, original, lambda: monkeypatch.setattr(criterion, formula, replacement), 5.1e-4)


def test_a_scorer_that_imports_teapot_has_the_same_d_tgt(monkeypatch):
    from lmassay.evaluations.robustness.teapot import module

    assert module.relative_decrease(0.5, 0.25) == 0.5
    monkeypatch.setattr(criterion, "relative_decrease", lambda base, adversarial: base * 0)
    assert module.relative_decrease(0.5, 0.25) == 0


# --- bias and KoBBQ ---------------------------------------------------------------------------------------------------


@pytest.fixture
def kobbq(tmp_path):
    """A folder with a model's answers to two prompts: raw, and as the fourth step collects them."""
    for prompt in (1, 2):
        for packed, name in (
            (KOBBQ / f"inputs/raw/Own_test_evaluation_{prompt}_messy_predictions.tsv.gz", f"raw_{prompt}.tsv"),
            (KOBBQ / f"step4/Own_test_evaluation_{prompt}_messy.tsv.gz", f"Own_{prompt}_messy.tsv"),
        ):
            (tmp_path / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return tmp_path


def bias_config(folder: Path, prompt: int, averaging: str = "test") -> dict[str, Any]:
    task = {
        "name": "bias",
        "data": str(KOBBQ / "inputs/Own_test_samples.tsv"),
        "prompts": str(KOBBQ / "inputs/0_own_prompts.tsv"),
        "prompt_id": prompt,
        "averaging": averaging,
    }
    model = {"name": "predictions", "file": str(folder / f"raw_{prompt}.tsv"), "label": "messy"}
    return {"task": task, "model": model, "resamples": 100}


def kobbq_evaluate(folder: Path, prompt: int, mode: str = "test") -> list[dict[str, str]]:
    prompts = KOBBQ / "inputs/0_own_prompts.tsv"
    words = ["--evaluation-result-path", f"result_{prompt}.tsv", "--model-result-tsv-dir", ".", "--topic", "Own"]
    words += ["--test-or-all", mode, "--prompt-tsv-path", prompts, "--prompt-id", prompt, "--models", "messy"]
    done("kobbq", "evaluate", *words, cwd=folder)
    with (folder / f"result_{prompt}.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


KOBBQ_NAMES = {
    "accuracy_amb": "accuracy in ambiguous contexts",
    "accuracy_dis": "accuracy in disambiguated contexts",
    "diff_bias_amb": "diff-bias in ambiguous contexts",
    "diff_bias_dis": "diff-bias in disambiguated contexts",
}


@pytest.mark.parametrize("mode", ["test", "all"])
@pytest.mark.parametrize(
    ("formula", "replacement", "numbers"),
    [
        ("accuracy", lambda is_correct: 1.0 if is_correct else 0.5, ("accuracy_amb", "accuracy_dis")),
        ("diff_bias", lambda towards, against: 2 * towards - against, ("diff_bias_amb", "diff_bias_dis")),
    ],
)
def test_accuracy_and_diff_bias(kobbq, monkeypatch, formula, replacement, numbers, mode):
    runs = iter(("before", "after"))

    def native() -> Numbers:
        results = results_of(kobbq, bias_config(kobbq, 1, mode), next(runs))
        return {number: results[number] for number in numbers}

    def original() -> Numbers:
        overall = kobbq_evaluate(kobbq, 1, mode)[0]
        return {number: float(overall[KOBBQ_NAMES[number]]) for number in numbers}

    assert_both_change(native, original, lambda: monkeypatch.setattr(scores, formula, replacement))


def test_the_average_over_prompts(kobbq, monkeypatch):
    configs = [write_config(kobbq / f"{prompt}.yaml", bias_config(kobbq, prompt)) for prompt in (1, 2)]
    for config in configs:
        done("run", config, cwd=kobbq)
    for prompt in (1, 2):
        kobbq_evaluate(kobbq, prompt)

    def report() -> str:
        done("report", "--all", "--format", "md", "-o", "report.md", cwd=kobbq)
        return (kobbq / "report.md").read_text(encoding="utf-8")

    def compare() -> str:
        names = ("--evaluation-result-name", "result", "--evaluation-debiased-result-name", "result")
        return done("kobbq", "compare", *names, "--prompt_ids", 1, 2, "--models", "messy", cwd=kobbq)

    assert "mean of 2 prompts" in report()
    assert "0.777" not in report() + compare()
    monkeypatch.setattr(scores, "mean_over_prompts", lambda values: 0.777)
    assert "0.777" in report()
    assert compare().count("0.777") == 10  # five numbers before and after


# --- syntax and refining-tse ------------------------------------------------------------------------------------------

SLOT_MODEL = """
import math
from lmassay import Model
from lmassay.types import Candidates

class Fixed(Model):
    name, can, cached = "fixed", frozenset({"slot"}), False

    def identity(self):
        return {"name": self.name}

    def slot(self, requests):
        for request in requests:
            yield Candidates([math.log(0.01 + 0.0001 * len(word)) for word in request.candidates])
"""


@pytest.mark.parametrize(
    ("formula", "replacement", "number", "value"),
    [
        ("tse_of_pair", lambda right, wrong: 0, "tse", 0.0),
        ("ew_of_lemmas", lambda agreeing, counted: np.full(np.shape(counted), 0.375), "ew", 0.375),
        ("mw_of_masses", lambda right, wrong: np.full(np.shape(right), 0.625), "mw", 0.625),
    ],
)
def test_tse_ew_and_mw(tmp_path, monkeypatch, formula, replacement, number, value):
    data = EVALUATIONS / "syntax/starters/tse/data"
    (tmp_path / "slots.py").write_text(SLOT_MODEL, encoding="utf-8")
    task = {"name": "syntax", "data": str(data / "across_prep.jsonl"), "verbs": str(data / "verbs.csv")}
    native = {"task": task, "model": {"name": "slots.py:Fixed"}}
    text = (
        (EVALUATIONS / "syntax/starters/tse/nearest_noun.yaml")
        .read_text(encoding="utf-8")
        .replace("tse/", f"{EVALUATIONS}/syntax/starters/tse/")
    )
    original = yaml.safe_load(text)
    original["metrics"]["main"]["use_equal_verb_voting"] = number != "mw"
    write_config(tmp_path / "tse.yaml", original)
    file = "ML.txt" if number == "tse" else "main.txt"

    def numbers(name: str) -> tuple[float, float]:
        original["logger"]["path"] = f"original/{name}/across_prep/tse_ew"
        done("tse", "run", write_config(tmp_path / f"{name}-tse.yaml", original), cwd=tmp_path)
        (written,) = (tmp_path / "original" / name).rglob(file)
        score = re.search(r"^Overall model score: (.*)$", written.read_text(encoding="utf-8"), re.MULTILINE)
        assert score is not None
        return results_of(tmp_path, native, name)[number], float(score[1])

    assert value not in numbers("before")
    monkeypatch.setattr(metrics, formula, replacement)
    assert numbers("after") == (value, value)


# --- few-shot and FewNLU ----------------------------------------------------------------------------------------------


def test_mean_and_standard_deviation_over_splits(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    model = fewnlu_kit.save_bert(tmp_path / "bert")
    fewnlu_kit.write_data(tmp_path / "RTE")
    monkeypatch.setattr(estimates, "mean_and_std", lambda values: (0.3125, 0.0625))
    done("fewnlu", *fewnlu_kit.flags(model), cwd=tmp_path)
    assert "acc-all-p: 0.3125 +- 0.0625" in (tmp_path / "out/result_test.txt").read_text(encoding="utf-8")
    (study,) = json.loads(done("protocol", "--all", "--json", "--results", "out/lmassay", cwd=tmp_path))["studies"]
    (strategy,) = study["strategies"]
    (verdict,) = strategy["tasks"].values()
    assert (verdict["selected"]["test"]["value"], verdict["selected"]["test"]["std"]) == (0.3125, 0.0625)
