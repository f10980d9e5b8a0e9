"""A task in a user's file that extends a shipped one, under another name and with one more metric."""

from __future__ import annotations

import json

import pytest

from tests.helpers import ROOT, lmassay, write_config

DATA = ROOT / "src" / "lmassay" / "evaluations" / "bias" / "card_data" / "bias.yaml"
MODEL = f"{ROOT / 'tests' / 'reporting' / 'card' / 'models.py'}:Talker"
PLUS = """
from dataclasses import replace
from lmassay import Metric
from lmassay.evaluations.bias.task import Bias

class BiasPlus(Bias):
    name = "bias_plus"
    metrics = (Metric("words", "words per answer", better="lower", meaning="How long the answers are."),)

    def score(self, examples, responses):
        scores = super().score(examples, responses)
        counts = [len(answers[0].text.split()) + len(example.id) % 3 for example, answers in zip(examples, responses)]
        return [replace(s, values={**s.values, "words": float(n)}) for s, n in zip(scores, counts)]
"""


def report(folder, task: str) -> str:
    options = {"data": str(DATA), "prompt_id": [1, 2], "per_category": 1, "answer_by": "letters"}
    config = write_config(folder / f"{len(task)}.yaml", {"task": {"name": task, **options}, "model": MODEL})
    results = folder / f"results-{len(task)}"
    done = lmassay("run", config, "--results", results)
    assert done.returncode == 0, done.stderr
    assert lmassay("report", "-o", folder / "page.html", "--results", results).returncode == 0
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.fixture
def extended(tmp_path):
    (tmp_path / "plus.py").write_text(PLUS, encoding="utf-8")
    return report(tmp_path, f"{tmp_path / 'plus.py'}:BiasPlus"), tmp_path


def test_its_report_has_the_figures_and_the_tile_of_the_task_it_extends_and_its_own_metric(extended, tmp_path):
    page, _ = extended
    plain = report(tmp_path, "bias")
    assert page.count("<svg") == plain.count("<svg") > 2
    assert page.count('class="tile') == plain.count('class="tile') > 0
    assert "bias in ambiguous contexts; 0 is best" in page
    assert "Further metrics" in page
    assert "How long the answers are." in page
    assert "Further metrics" not in plain


def test_its_metric_is_compared_gated_and_exported_in_its_direction(extended):
    _, folder = extended
    results = next(path for path in folder.iterdir() if path.name.startswith("results-"))
    runs = [run["run"] for run in json.loads(lmassay("ls", "--json", "--results", results).stdout)["runs"]]
    compared = lmassay("compare", *runs, "--metric", "words", "--json", "--results", results)
    (row,) = json.loads(compared.stdout)["comparisons"]
    assert row["better"] == "lower"
    assert "lower is better: words" in lmassay("compare", *runs, "--metric", "words", "--results", results).stdout
    gated = lmassay("compare", *runs, "--fail-if", "words worse by 0.5", "--json", "--results", results)
    (check,) = json.loads(gated.stdout)["gate"]["checks"]
    assert check["condition"] == "words>0.5"
    slip = lmassay("compare", *runs, "--fail-if", "words<-0.5", "--results", results)
    assert (
        "lower is better for words, so this fails on an improvement; did you mean 'words worse by 0.5'?" in slip.stderr
    )
    zero = lmassay("compare", *runs, "--fail-if", "diff_bias_amb worse by 0.1", "--results", results)
    assert "0 is the best value of diff_bias_amb" in zero.stderr
    lmassay("export", runs[0], "--format", "lm-eval", "-o", folder / "out", "--results", results)
    (totals,) = (folder / "out").rglob("results_*.json")
    (directions,) = json.loads(totals.read_text(encoding="utf-8"))["higher_is_better"].values()
    assert (directions["words"], directions["accuracy_amb"], directions["diff_bias_amb"]) == (False, True, False)


def test_a_task_and_the_one_it_extends_are_distinguished_in_the_overview(extended):
    _, folder = extended
    options = {"data": str(DATA), "prompt_id": 1, "per_category": 1, "answer_by": "letters"}
    plus = f"{folder / 'plus.py'}:BiasPlus"
    results = folder / "both"
    for number, task in enumerate(["bias", plus]):
        config = write_config(folder / f"{number}.yaml", {"task": {"name": task, **options}, "model": MODEL})
        assert lmassay("run", config, "--results", results).returncode == 0
    assert lmassay("report", "--all", "-o", folder / "both.html", "--results", results).returncode == 0
    page = (folder / "both.html").read_text(encoding="utf-8")
    assert "task bias, 96 answers" in page
    assert "task bias_plus, 96 answers" in page


def test_only_metrics_that_it_declares_are_listed_as_its_own(tmp_path):
    """Those of the task it extends are in the section already, or are steps on the way to one that is."""
    source = """
from dataclasses import replace
from lmassay import Metric
from lmassay.evaluations.syntax.task import Syntax
from lmassay.statistics.intervals import mean_result

class Longer(Syntax):
    name = "longer"
    metrics = (Metric("length", "length of the text"),)

    def score(self, examples, responses):
        scores = super().score(examples, responses)
        return [replace(s, values={**s.values, "length": float(len(e.id))}) for s, e in zip(scores, examples)]

    def aggregate(self, table, settings):
        return [*super().aggregate(table, settings), mean_result(table, "length", settings)]
"""
    (tmp_path / "longer.py").write_text(source, encoding="utf-8")
    task = {"name": f"{tmp_path / 'longer.py'}:Longer", "data": {"Simple": "english:simple"}, "max_per_file": 4}
    config = write_config(tmp_path / "c.yaml", {"task": task, "model": MODEL.replace("Talker", "Knower")})
    assert lmassay("run", config, "--results", tmp_path / "r").returncode == 0
    assert lmassay("report", "-o", tmp_path / "r.md", "--results", tmp_path / "r").returncode == 0
    _, _, further = (tmp_path / "r.md").read_text(encoding="utf-8").partition("Further metrics")
    table = further.partition("\n#")[0]
    assert "length" in table
    assert "invalid" not in table
