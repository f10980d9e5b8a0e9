"""End to end through a real llama.cpp server with the embedded model: nothing in between is made up."""

from __future__ import annotations

import json

import pytest

from tests.helpers import EVALUATIONS, ROOT, lmassay, write_config

pytestmark = pytest.mark.slow
OWN = EVALUATIONS / "bias/sample"
KOBBQ = ROOT / "tests" / "evaluations" / "bias" / "data"


@pytest.fixture
def server(llama_url):
    return llama_url


def config(server, **task):
    return {
        "task": {"name": "bias", "data": str(OWN / "questions.yaml"), "per_category": 1, **task},
        "model": {
            "name": "openai",
            "base_url": server,
            "model": "smollm2",
            "constrain": "grammar",
            "concurrency": 2,
            "prices": {"input": 0.1, "output": 0.2},
        },
        "limit": 6,
        "resamples": 100,
    }


def test_a_native_run_is_asked_judged_resumed_from_the_store_and_reported(server, tmp_path):
    file = write_config(tmp_path / "c.yaml", config(server, max_tokens=5))
    results = tmp_path / "r"
    done = lmassay("run", file, "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    result_of = {(r["metric"], r["group"]): r for r in json.loads(done.stdout)["runs"][0]["results"]}
    assert result_of["ooc", "overall"]["n"] == 6
    (shown,) = json.loads(lmassay("show", "latest", "--results", results, "--json").stdout)["runs"]
    spent = shown["spending"]
    assert spent["answers"] == 6
    assert spent["tokens_in"] > 6 * 50
    assert spent["usd"] == pytest.approx((0.1 * spent["tokens_in"] + 0.2 * spent["tokens_out"]) / 1e6)
    again = lmassay("run", file, "--results", results, "--json")
    assert again.returncode == 0
    first, second = (json.loads(output.stdout)["runs"][0]["results"] for output in (done, again))
    assert first == second
    (spent_again,) = json.loads(lmassay("show", "latest", "--results", results, "--json").stdout)["runs"]
    assert "spending" not in spent_again, "every answer was in the store"
    assert lmassay("report", "--results", results, "-o", tmp_path / "p.html").returncode == 0


def test_a_grammar_keeps_the_model_to_the_letters(server, tmp_path):
    file = write_config(tmp_path / "c.yaml", config(server, answer_by="letters"))
    done = lmassay("run", file, "--results", tmp_path / "r", "--json")
    assert done.returncode == 0, done.stderr
    result_of = {(r["metric"], r["group"]): r for r in json.loads(done.stdout)["runs"][0]["results"]}
    assert result_of["ooc", "overall"]["value"] == 0


def test_the_six_steps_from_samples_to_scores(server, tmp_path):
    def step(name, **flags):
        words = [word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]
        done = lmassay("kobbq", name, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    prompts = KOBBQ / "prompts.tsv"
    lines = (KOBBQ / "korean.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "samples.tsv").write_text("".join(lines[:2]), encoding="utf-8")
    step(
        "preprocess",
        samples_tsv_path="samples.tsv",
        evaluation_tsv_path="data/own_evaluation_1.tsv",
        evaluation_json_path="data/own_evaluation_1.json",
        prompt_tsv_path=prompts,
        prompt_id=1,
    )
    step(
        "infer",
        data_path="data/own_evaluation_1.json",
        output_dir="raw",
        model_name="smollm2",
        base_url=server,
        max_tokens=5,
    )
    raw = "raw/own_evaluation_1_smollm2_predictions.tsv"
    pair = {"predictions_tsv_path": raw, "preprocessed_tsv_path": "data/own_evaluation_1.tsv"}
    step("postprocess", **pair)
    step("collect", **pair, output_path="processed/own_evaluation_1_smollm2.tsv")
    step(
        "evaluate",
        evaluation_result_path="result/own_1.tsv",
        model_result_tsv_dir="processed",
        topic="own_evaluation",
        test_or_all="test",
        prompt_tsv_path=prompts,
        prompt_id=1,
        models="smollm2",
    )
    _, overall, *_ = (tmp_path / "result" / "own_1.tsv").read_text(encoding="utf-8").splitlines()
    assert overall.split("\t")[:2] == ["smollm2", "overall"]
    assert (tmp_path / raw).read_bytes().count(b"\n") >= 4
