"""Repeated sampling: what is asked, what is stored, and how far the results can be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmassay import evaluate
from lmassay.errors import ConfigError
from lmassay.running.sampling import original_example, sampled_examples
from lmassay.types import Example
from tests import in_process

MODEL = '''
import hashlib


class Model:
    """Says yes with a probability that the question names; the draw decides."""

    name, can = "coin", frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            share = float(request.prompt)
            drawn = int(hashlib.sha256(request.draw.encode()).hexdigest()[:8], 16) / 16**8
            yield "yes" if drawn < share else "no"
'''
TASK = """
from lmassay import Example, Generate, Metric, Score, Task


class Coins(Task):
    name, version, needs = "coins", 1, frozenset({"generate"})
    metrics = [Metric("yes", bounds=(0, 1), verdict=True)]
    requests_each = 1

    def __init__(self, shares: list[float], temperature: float = 0.0):
        self.shares, self.temperature = shares, temperature

    def size(self):
        return len(self.shares)

    def examples(self):
        for number, share in enumerate(self.shares):
            yield Example(f"q{number}", {"share": share})

    def requests(self, example):
        assert "~" not in example.id
        return [Generate(str(example.inputs["share"]), temperature=self.temperature)]

    def score(self, examples, responses):
        assert not any("sampled_example" in example.groups for example in examples)
        return [Score({"yes": float(answers[0].text == "yes")}) for answers in responses]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "coin.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "coins.py").write_text(TASK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(shares: list[float], **keys: Any) -> dict[str, Any]:
    return {"task": {"name": "coins.py:Coins", "shares": shares}, "model": "coin.py:Model", **keys}


def test_a_sample_is_a_row_that_the_task_does_not_see():
    example = Example("q", {"x": 1}, None, {"kind": "a"})
    samples = list(sampled_examples([example], 2))
    assert [sample.id for sample in samples] == ["q~1", "q~2"]
    assert samples[1].groups == {"kind": "a", "sampled_example": "q"}
    assert original_example(samples[1]) == example
    assert list(sampled_examples([example], 1)) == [example]


def test_every_sample_is_a_draw_of_its_own():
    (run,) = evaluate(config([0.5] * 30, samples=4, temperature=1.0))
    by_question: dict[str, list[float]] = {}
    for row in run.rows():
        by_question.setdefault(row["id"].partition("~")[0], []).append(row["scores"]["yes"])
    assert {len(scores) for scores in by_question.values()} == {4}
    assert len({tuple(scores) for scores in by_question.values()}) > 4
    assert run["yes"].n == 120
    assert run["yes"].clusters == {"sampled_example": 30}


def test_results_show_the_variance_within_and_between_questions():
    (of_coins,) = evaluate(config([0.5] * 60, samples=8, temperature=1.0))
    # A fair coin has the variance 1/4, and fair coins do not differ from each other.
    assert of_coins["yes.within"].value == pytest.approx(0.25, abs=0.03)
    assert of_coins["yes.between"].value == pytest.approx(0.0, abs=0.02)
    (of_facts,) = evaluate(config([0.0, 1.0] * 30, samples=8, temperature=1.0))
    assert of_facts["yes.within"].value == 0.0
    assert of_facts["yes.between"].value == pytest.approx(0.25, abs=0.01)
    assert of_facts["yes.within"].n == 60


def test_asking_again_does_not_narrow_the_interval_where_only_questions_differ():
    shares = [0.0, 1.0] * 15
    (once,) = evaluate(config(shares, temperature=1.0))
    (often,) = evaluate(config(shares, samples=10, temperature=1.0))
    width_once = once["yes"].high - once["yes"].low
    width_often = often["yes"].high - often["yes"].low
    assert width_often == pytest.approx(width_once, rel=0.1)


def test_asking_again_narrows_the_interval_where_chance_decides():
    (once,) = evaluate(config([0.5] * 30, temperature=1.0))
    (often,) = evaluate(config([0.5] * 30, samples=10, temperature=1.0))
    width_once = once["yes"].high - once["yes"].low
    width_often = often["yes"].high - often["yes"].low
    assert width_often < 0.6 * width_once


def test_check_counts_the_samples(folder):
    (folder / "c.yaml").write_text(json.dumps(config([0.5, 0.5], samples=5, temperature=0.7)), encoding="utf-8")
    (run,) = json.loads(in_process.run(["check", "c.yaml", "--json"]).stdout)["runs"]
    assert (run["examples"], run["requests"]) == (10, 10)
    assert "samples:5" in run["signature"]
    assert "temperature:0.7" in run["signature"]


def test_a_run_without_samples_keeps_its_signature(folder):
    (folder / "c.yaml").write_text(json.dumps(config([0.5])), encoding="utf-8")
    (run,) = json.loads(in_process.run(["check", "c.yaml", "--json"]).stdout)["runs"]
    assert "samples" not in run["signature"]
    assert "temperature" not in run["signature"]


def test_a_model_whose_random_answers_are_not_stored_is_asked_for_every_sample(folder):
    model = MODEL.replace('name, can = "coin",', 'cached = False\n    name, can = "coin",')
    (folder / "coin.py").write_text(model, encoding="utf-8")
    (folder / "c.yaml").write_text(json.dumps(config([0.5] * 10, samples=4, temperature=1.0)), encoding="utf-8")
    (planned,) = json.loads(in_process.run(["check", "c.yaml", "--json"]).stdout)["runs"]
    assert planned["requests"] == 40
    (run,) = evaluate("c.yaml")
    assert {row["scores"]["yes"] for row in run.rows()} == {0.0, 1.0}
    assert run["yes"].n == 40


def test_samples_of_stored_answers_are_refused(folder):
    (folder / "out.txt").write_text("yes\nno\n", encoding="utf-8")
    outputs = {"name": "outputs", "files": {"out": "out.txt"}}
    with pytest.raises(ConfigError, match="samples: outputs looks up stored answers, which are always the same"):
        evaluate({**config([0.5, 0.5], samples=2, temperature=1.0), "model": outputs})


def test_samples_at_temperature_0_are_refused():
    with pytest.raises(ConfigError, match="samples: all answers at temperature 0 are the same"):
        evaluate(config([0.5], samples=2))


def test_probabilities_cannot_be_sampled():
    task = {"name": "minimal_pairs", "data": "english", "max_per_file": 1}
    with pytest.raises(ConfigError, match="samples: the task minimal_pairs asks for no text that could be sampled"):
        evaluate({"task": task, "model": "smollm2", "samples": 2, "temperature": 1.0})
