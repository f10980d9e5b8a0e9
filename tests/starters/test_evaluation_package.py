"""A complete evaluation in its own package is an equal of lmassay's own: calibration, which lmassay does not know."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.example_packages import install_package
from tests.helpers import ROOT, lmassay, write_config

MODELS = ROOT / "tests" / "reporting" / "card" / "models.py"
# Twenty questions with three choices: the probabilities that the model gives them, and the right choice.
PROBABILITIES = [
    ([0.95, 0.03, 0.02], 0), ([0.92, 0.05, 0.03], 0), ([0.94, 0.04, 0.02], 1), ([0.91, 0.06, 0.03], 0),
    ([0.85, 0.10, 0.05], 0), ([0.10, 0.82, 0.08], 1), ([0.08, 0.84, 0.08], 2), ([0.05, 0.06, 0.89], 2),
    ([0.75, 0.15, 0.10], 0), ([0.12, 0.72, 0.16], 0), ([0.13, 0.14, 0.73], 2), ([0.65, 0.20, 0.15], 1),
    ([0.62, 0.18, 0.20], 0), ([0.18, 0.66, 0.16], 1), ([0.55, 0.25, 0.20], 2), ([0.23, 0.53, 0.24], 1),
    ([0.45, 0.30, 0.25], 0), ([0.28, 0.44, 0.28], 2), ([0.30, 0.31, 0.39], 2), ([0.36, 0.34, 0.30], 1),
]  # fmt: skip
# By hand, bin by bin: number of answers, mean confidence, share that is right.
#   0.9–1.0: 4 answers, 0.93, 3/4   0.8–0.9: 4 answers, 0.85, 3/4   0.7–0.8: 3 answers, 0.7333…, 2/3
#   0.6–0.7: 3 answers, 0.6433…, 2/3   0.5–0.6: 2 answers, 0.54, 1/2   0.4–0.5: 2 answers, 0.445, 1/2
#   0.3–0.4: 2 answers, 0.375, 1/2
ECE = (
    4 * abs(0.93 - 3 / 4)
    + 4 * abs(0.85 - 3 / 4)
    + 3 * abs(2.20 / 3 - 2 / 3)
    + 3 * abs(1.93 / 3 - 2 / 3)
    + 2 * abs(0.54 - 1 / 2)
    + 2 * abs(0.445 - 1 / 2)
    + 2 * abs(0.375 - 1 / 2)
) / 20
BRIER = sum(sum((p - (k == right)) ** 2 for k, p in enumerate(shares)) for shares, right in PROBABILITIES) / 20

MODEL = """
import json
import math
from pathlib import Path
from lmassay import Continuation, Model

class Fixed(Model):
    name, can = "fixed", frozenset({"logprobs"})

    def __init__(self, table: Path):
        self.table = json.loads(table.read_text())

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        for request in requests:
            logprob = math.log(self.table[request.context][request.continuation.strip()])
            yield Continuation(logprob, (logprob,))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    return install_package(tmp_path_factory, "lmassay-calibration")


@pytest.fixture
def with_calibration(installed, monkeypatch):
    """The package is on the path, as if pip had installed it beside lmassay."""
    monkeypatch.syspath_prepend(str(installed))


@pytest.fixture
def runs(with_calibration, tmp_path) -> Path:
    """A results folder with a run of the twenty questions."""
    questions, table = [], {}
    for number, (shares, right) in enumerate(PROBABILITIES):
        choices = [f"choice {place}" for place in range(3)]
        questions.append(json.dumps({"question": f"question {number}", "choices": choices, "answer": right}))
        table[f"Question: question {number}\nAnswer:"] = dict(zip(choices, shares, strict=True))
    (tmp_path / "questions.jsonl").write_text("\n".join(questions), encoding="utf-8")
    (tmp_path / "table.json").write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "fixed.py").write_text(MODEL, encoding="utf-8")
    config = {
        "task": {"name": "calibration", "data": "questions.jsonl"},
        "model": {"name": "fixed.py:Fixed", "table": "table.json"},
        "resamples": 200,
    }
    done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    return tmp_path / "results"


def test_no_file_of_lmassay_names_it():
    for path in (ROOT / "src").rglob("*"):
        if "starters" in path.parts:
            continue
        if path.is_file() and path.suffix in (".py", ".html", ".css", ".js", ".yaml"):
            text = path.read_text(encoding="utf-8")
            assert "lmassay_calibration" not in text
            assert not re.search(r"[\"']calibration[\"']", text), path


def test_page_card_and_export_have_the_numbers_computed_by_hand(runs, tmp_path):
    (shown,) = json.loads(lmassay("show", "latest", "--json", "--results", runs).stdout)["runs"]
    results = {result["metric"]: result for result in shown["results"] if result["group"] == "overall"}
    assert results["ece"]["value"] == pytest.approx(ECE, abs=1e-12)
    assert results["brier"]["value"] == pytest.approx(BRIER, abs=1e-12)
    for metric in ("ece", "brier"):
        result = results[metric]
        assert result["low"] < result["value"] < result["high"]
        assert result["n"] == 20
    assert lmassay("report", "-o", tmp_path / "page.html", "--results", runs).returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    # The tile has three digits, the section four.
    for text in (f"{ECE:.3f}", f"{ECE:.4f}", f"{BRIER:.4f}", "Does it know what it knows?", "calibration error (ECE)"):
        assert text in page
    assert "lower is better" in page
    assert "Reliability diagram" in page
    target = tmp_path / "out.json"
    exported = lmassay("export", "latest", "--format", "every-eval-ever", "-o", target, "--results", runs)
    assert exported.returncode == 0, exported.stderr
    document = json.loads(target.read_text(encoding="utf-8"))
    by_metric = {r["metric_config"]["metric_name"]: r for r in document["evaluation_results"]}
    for metric, value in (("ece", ECE), ("brier", BRIER)):
        assert by_metric[metric]["score_details"]["score"] == pytest.approx(value, abs=1e-12)
        assert by_metric[metric]["metric_config"]["lower_is_better"] is True
    assert by_metric["brier"]["metric_config"]["max_score"] == 2.0


def test_the_reliability_diagram_has_the_bins_of_the_run(runs, tmp_path):
    done = lmassay("run", tmp_path / "c.yaml", "--set", "task.bins=2", "--results", runs)
    assert done.returncode == 0, done.stderr
    assert lmassay("report", "-o", tmp_path / "page.html", "--results", runs).returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    # The four answers below 0.5, and the sixteen above.
    assert re.findall(r"confidence [\d.]+, accuracy [\d.]+ \[.*?\], n = (\d+)", page) == ["4", "16"]


def test_the_interval_of_the_brier_score_stays_within_its_bounds(runs, tmp_path):
    # Four of five answers are right and sure, and one is wrong: without bounds, the interval would begin below 0.
    lines = (tmp_path / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "five.jsonl").write_text("\n".join([lines[2], *lines[4:6], lines[7], lines[8]]), encoding="utf-8")
    done = lmassay("run", tmp_path / "c.yaml", "--set", "task.data=five.jsonl", "--results", runs)
    assert done.returncode == 0, done.stderr
    (shown,) = json.loads(lmassay("show", "latest", "--json", "--results", runs).stdout)["runs"]
    (result,) = [result for result in shown["results"] if result["metric"] == "brier"]
    assert 0 <= result["low"] < result["value"] < result["high"] <= 2


def test_questions_may_contain_line_separators_and_follow_a_byte_order_mark(runs, tmp_path):
    text = (tmp_path / "questions.jsonl").read_text(encoding="utf-8").replace("question 0", "question\u20280")
    (tmp_path / "marked.jsonl").write_text(text, encoding="utf-8-sig")
    checked = lmassay("check", tmp_path / "c.yaml", "--set", "task.data=marked.jsonl", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["runs"][0]["examples"] == 20


@pytest.mark.parametrize(
    ("line", "option", "message"),
    [
        (b'{"question": "a", "choices": ["b", "c"], "answer": true}', "task.bins=10", "line 1: 'answer' must be"),
        (b'{"question": "\xe9", "choices": ["b", "c"], "answer": 0}', "task.bins=10", "UTF-8"),
        (b'{"question": "a", "choices": ["b", "c"], "answer": 0}', "task.bins=0", "task.bins: 0 is not a number"),
    ],
    ids=["an answer that is true", "another encoding", "no bins"],
)
def test_data_and_options_that_would_give_wrong_numbers_are_refused(runs, tmp_path, line, option, message):
    (tmp_path / "bad.jsonl").write_bytes(line + b"\n")
    checked = lmassay("check", tmp_path / "c.yaml", "--set", "task.data=bad.jsonl", "--set", option)
    assert (checked.returncode, message in checked.stderr) == (2, True), checked.stderr


def test_it_stands_on_the_card_next_to_the_others(with_calibration, tmp_path):
    done = lmassay(
        "card", f"{MODELS}:Knower", "--quick", "--json", "--results", tmp_path / "r", "-o", tmp_path / "card.html"
    )
    assert done.returncode == 0, done.stderr
    headlines = json.loads(done.stdout)["headlines"]
    assert [headline["evaluation"] for headline in headlines][-1] == "calibration"
    assert len(headlines) == 5
    assert math.isfinite(headlines[-1]["result"]["value"])
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert 'id="evaluation-calibration"' in page
    assert page.count("Does it know what it knows?") >= 2


def test_init_writes_a_configuration_that_check_accepts(with_calibration, tmp_path, smollm2):
    done = lmassay("init", "calibration", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calibration-data" / "questions.jsonl").is_file()
    checked = lmassay("check", "calibration.yaml", "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["runs"][0]["examples"] == 12


def test_it_brings_its_command_and_its_listing(with_calibration, tmp_path):
    assert "calibration " in lmassay("--help").stdout
    assert "calibration" in lmassay("tasks").stdout
    (tmp_path / "c.csv").write_text("confidence,correct\n0.9,1\n0.8,1\n0.7,0\n0.6,1\n", encoding="utf-8")
    printed = json.loads(lmassay("calibration", tmp_path / "c.csv", "--json").stdout)
    assert printed["results"]["ece"]["value"] == pytest.approx(0.35)
    assert printed["results"]["brier"]["value"] == pytest.approx(0.175)
    (tmp_path / "bad.csv").write_text("confidence,correct\n1.9,1\n", encoding="utf-8")
    refused = lmassay("calibration", tmp_path / "bad.csv")
    assert (refused.returncode, "line 2" in refused.stderr) == (2, True)


def test_without_the_package_nothing_of_it_is_left():
    assert "calibration" not in lmassay("--help").stdout
