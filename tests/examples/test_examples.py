"""Every example runs as its own words say."""

from __future__ import annotations

import json

import pytest

from tests.helpers import ROOT, lmassay, write_config, write_lines

EXAMPLES = ROOT / "examples"


def test_the_demonstration_runs_and_the_careful_translator_breaks_less(tmp_path):
    done = lmassay("run", EXAMPLES / "robustness.yaml", "--results", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == 14
    success = {(r["label"], r["model"]): r["results"][0]["value"] for r in runs}
    for attack in ("charswap", "keyboard", "homoglyph", "diacritics", "best of 8"):
        assert success[attack, "careful translator"] < success[attack, "plain translator"]


@pytest.mark.slow
def test_the_small_model_knows_the_agreement_of_the_shipped_grammar(smollm2, tmp_path):
    done = lmassay("run", EXAMPLES / "syntax.yaml", "--results", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    result_of = {(r["metric"], r["group"]): r for r in json.loads(done.stdout)["runs"][0]["results"]}
    assert (
        sum(group.startswith("construction=") and "," not in group for metric, group in result_of if metric == "tse")
        == 7
    )
    assert result_of["tse", "construction=Simple"]["value"] > 0.9
    assert result_of["mw", "mean of constructions"]["value"] > 0.7
    page = tmp_path / "report.html"
    assert lmassay("report", "--results", tmp_path, "-o", page).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "In a sentential complement" in text
    assert "<svg" in text


@pytest.mark.slow
def test_the_whole_grammar_is_asked_under_three_conventions(smollm2, tmp_path):
    done = lmassay(
        "run", EXAMPLES / "minimal_pairs.yaml", "--results", tmp_path, "--json", "--set", "task.max_per_file=2"
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == 3
    for run in runs:
        groups = {r["group"] for r in run["results"]}
        assert {"overall", "paradigm=npi", "paradigm=reflexive", "paradigm=determiner_noun"} <= groups


def test_the_bigram_model_learns_agreement_from_its_text(tmp_path):
    text = ["The nurse sings. The nurses sing. The lamp is expensive. The lamps are expensive."] * 3
    write_lines(tmp_path / "corpus.txt", text)
    config = {
        "task": {"name": "syntax", "data": "english:simple"},
        "model": {"name": f"{EXAMPLES / 'my_slot_model.py'}:Bigrams", "text": "corpus.txt"},
    }
    done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--results", tmp_path / "r", "--json")
    assert done.returncode == 0, done.stderr
    result_of = {(r["metric"], r["group"]): r for r in json.loads(done.stdout)["runs"][0]["results"]}
    assert result_of["tse", "overall"]["n"] > 0
    assert result_of["tse", "overall"]["n_unscored"] > 0
    assert result_of["mw", "overall"]["value"] > 0.5


def test_the_teapot_style_scorers_work_from_their_file(tmp_path):
    src = write_lines(tmp_path / "src", ["the cat sat", "a b c d"])
    adv = write_lines(tmp_path / "adv", ["the cat sat", "a b x y"])
    common = [
        "teapot",
        "--src",
        src,
        "--adv-src",
        adv,
        "--terse",
        "--custom-scores-source",
        EXAMPLES / "custom_scorers.py",
    ]
    assert lmassay(*common, "--s-src", "f1").stdout.splitlines()[-1] == "75.000"
    assert lmassay(*common, "--s-src", "constant", "--value", "0.3").stdout.splitlines()[-1] == "30.000"


def test_the_new_style_scorer_works_from_the_command_line_and_from_a_configuration(tmp_path):
    src = write_lines(tmp_path / "src", ["abcd"])
    adv = write_lines(tmp_path / "adv", ["abdc"])
    done = lmassay(
        "teapot",
        "--src",
        src,
        "--adv-src",
        adv,
        "--custom-scores-source",
        EXAMPLES / "my_scorer.py",
        "--s-src",
        "letters",
    )
    assert "Source side preservation (letters):\nMean:\t75.000" in done.stdout
    task = {"name": "robustness", "side": "source", "src": "src", "attack": {"name": "a", "file": "adv"}}
    task["s_src"] = f"{EXAMPLES / 'my_scorer.py'}:letters"
    write_config(tmp_path / "c.yaml", {"task": task})
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    (document,) = json.loads(done.stdout)["runs"]
    assert document["results"][0]["value"] == 0.75
    assert "letters(src:" in document["signature"]


def test_the_perturbation_works_from_the_command_line_and_from_a_configuration(tmp_path):
    write_lines(tmp_path / "src", ["leet speakers are elite testers"])
    name = f"{EXAMPLES / 'my_perturbation.py'}:leet"
    done = lmassay("perturb", name, "--in", "src", "--out", "adv", "--rate", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    changed = (tmp_path / "adv").read_text().strip()
    assert changed != "leet speakers are elite testers"
    task = {
        "name": "robustness",
        "side": "source",
        "src": "src",
        "attack": {"name": "leet", "perturb": name, "rate": 1.0},
    }
    write_config(tmp_path / "c.yaml", {"task": task})
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 0
    row = json.loads(lmassay("export", "latest", cwd=tmp_path).stdout)
    assert row["details"]["adv_src"] == changed


def test_a_few_shot_method_of_ones_own_is_swept_like_any_other(tmp_path):
    method = {"name": str(EXAMPLES / "fewshot" / "my_method.py:SharedWords"), "power": [1, 2]}
    task = {"name": "fewshot", "data": str(EXAMPLES / "fewshot" / "reviews.yaml"), "labelled": ["train"]}
    config = write_config(tmp_path / "c.yaml", {"task": {**task, "method": ["majority", method]}, "resamples": 200})
    done = lmassay("run", config, "--results", tmp_path / "results", "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["status"] for run in runs] == ["done"] * 3
    assert {(r["n"], r["n_error"]) for run in runs for r in run["results"][:1]} == {(4, 0)}
    assert len({run["results"][0]["value"] for run in runs}) == 3


def test_the_task_in_fewnlus_style_and_the_yaml_one_are_learned_alike(tmp_path):
    folder = EXAMPLES / "fewshot"
    accuracy = []
    for data, data_dir in ((folder / "mrpc.yaml", None), (f"{folder / 'mrpc.py'}:mrpc", str(folder / "data" / "mrpc"))):
        task = {"name": "fewshot", "data": str(data), "labelled": ["train"], "splits": {"k": 2}}
        method = str(folder / "my_method.py:SharedWords")
        config = {"task": {**task, "method": method, "data_dir": data_dir}, "resamples": 200}
        done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--results", tmp_path / "results", "--json")
        assert done.returncode == 0, done.stderr
        accuracy.append(json.loads(done.stdout)["runs"][0]["results"][0]["value"])
    assert accuracy[0] == accuracy[1]
