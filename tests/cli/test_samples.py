"""``samples: n`` through the command line: every question is asked n times, and the table shows both variances."""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines
from tests.servers import completion, openai_server, prompt_of

SAMPLES = 3


def server_model(server):
    return {"name": "openai", "base_url": server.url, "model": "m"}


def run_with_samples(folder, task, server, **further):
    config = {"task": task, "model": server_model(server), "samples": SAMPLES, "temperature": 0.7, **further}
    file = write_config(folder / "c.yaml", config)
    done = lmassay("run", file, "--results", folder / "r", "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["runs"]
    return {result["metric"]: result for result in document["results"] if result["group"] == "overall"}


def test_robustness_attacks_every_sample(tmp_path):
    sentences = [f"the house number {number} stands on the hill" for number in range(6)]
    task = {"name": "robustness", "attack": {"name": "charswap", "rate": 1.0}, "s_tgt": "zero_one"}
    task["src"] = str(write_lines(tmp_path / "src", sentences))
    task["ref"] = str(write_lines(tmp_path / "ref", sentences))

    def answer(body, before):
        # Without attack, the system is always right; under attack, in one of three samples.
        prompt = prompt_of(body)
        is_right = prompt in sentences or before == 0
        number = int(re.search(r"\d", prompt).group())
        return completion(sentences[number] if is_right else "wrong")

    with openai_server(answer) as server:
        results = run_with_samples(tmp_path, task, server)
    assert len(server.bodies) == 2 * SAMPLES * len(sentences)
    assert {body["temperature"] for body in server.bodies} == {0.7}
    assert results["success"]["n"] == SAMPLES * len(sentences)
    assert results["success.within"]["n"] == len(sentences)
    assert results["success"]["value"] == pytest.approx(2 / 3)
    # Of three attacks on every sentence two succeed: the variance is 1/3, and sentences do not differ.
    assert results["success.within"]["value"] == pytest.approx(1 / 3)
    assert results["success.between"]["value"] == 0


def test_bias_asks_every_question_several_times(tmp_path):
    task = {"name": "bias", "data": str(EVALUATIONS / "bias/sample/questions.yaml"), "per_category": 1}

    def answer(body, before):
        # The third time, the answer is another one.
        return completion("B" if before % SAMPLES == SAMPLES - 1 else "A")

    with openai_server(answer) as server:
        results = run_with_samples(tmp_path, task, server)
    assert len(server.bodies) == SAMPLES * len({prompt_of(body) for body in server.bodies})
    assert results["accuracy_amb.within"]["value"] > 0
    assert results["accuracy_amb"]["n"] % SAMPLES == 0


@pytest.mark.parametrize(
    ("further", "complaint"),
    [
        ({"samples": 0}, "samples"),
        ({"temperature": 0.0}, "temperature"),
        ({"samples": "many"}, "samples"),
    ],
)
def test_samples_that_cannot_work_are_refused_in_one_line(tmp_path, further, complaint):
    task = {"name": "bias", "data": str(EVALUATIONS / "bias/sample/questions.yaml"), "per_category": 1}
    model = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    config = {"task": task, "model": model, "samples": SAMPLES, "temperature": 0.7, **further}
    done = lmassay("check", write_config(tmp_path / "c.yaml", config))
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
