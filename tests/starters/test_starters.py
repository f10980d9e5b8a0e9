"""What ``lmassay init NAME`` writes beside the configurations of tasks: each file runs as its own words say."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from runpy import run_path

import pytest
import yaml

from lmassay.cli.actions.starters import starter_files, starters
from lmassay.running.config import load_runs
from lmassay.types import Generate
from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines

STARTERS = EVALUATIONS / "robustness" / "starters"
# Their first command installs a package or downloads data; the docs and other tests run them.
NOT_RUN = {"package", "evaluation", "fewnlu"}
# What each starter writes, without templates, which init fills in.
TEXTS = {
    (name, path.as_posix()): text
    for name, starter in starters().items()
    for path, text in starter_files(starter).items()
    if "sample" not in path.parts
}


def head(text: str) -> str:
    """The comment or docstring that a file begins with."""
    comment = re.match(r"(?:#.*\n)*(?:\"\"\"[\s\S]*?\"\"\")?", text)
    return comment[0] if comment else ""


def words(command: str, folder: Path) -> list[str]:
    """The words of a command after ``lmassay``, patterns replaced by the files that match them."""
    found = []
    for word in shlex.split(command)[1:]:
        found += sorted(str(path) for path in folder.glob(word)) if "*" in word else [word]
    return found


@pytest.mark.parametrize("name", [name for name in starters() if name not in NOT_RUN])
def test_the_commands_that_init_prints_work(name, tmp_path):
    done = lmassay("init", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    printed = done.stderr.splitlines()
    assert printed[0].startswith("wrote ")
    commands = [line.removeprefix("next:").strip() for line in printed[1:]]
    assert commands == list(starters()[name].commands)
    for command in commands:
        ran = lmassay(*words(command, tmp_path), cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr


def test_the_fewnlu_searches_name_the_extra_that_they_need(tmp_path):
    done = lmassay("init", "fewnlu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "next:  pip install 'lmassay[fewshot]'" in done.stderr


@pytest.mark.parametrize(("name", "path"), [key for key in TEXTS if key[1].endswith((".py", ".yaml", ".toml"))])
def test_a_file_says_what_it_is_and_names_files_that_are_written_with_it(name, path):
    comment = head(TEXTS[name, path])
    assert len(comment) > 40
    for mentioned in re.findall(r"lmassay (?:tse )?run (\S+\.yaml)", comment):
        # A file may belong to several starters; one of them has both.
        owners = {owner for owner, other in TEXTS if other == path}
        assert any((owner, mentioned) in TEXTS for owner in owners), mentioned


@pytest.mark.parametrize("key", [key for key in TEXTS if re.search(r"^task:", TEXTS[key], re.MULTILINE)])
def test_a_configuration_says_how_it_is_run_and_is_accepted(key, tmp_path):
    name, path = key
    assert f"lmassay run {path}" in head(TEXTS[key])
    if "search_" not in path:  # tests/evaluations/fewshot/fewnlu/test_search.py expands these thousands of runs
        assert lmassay("init", name, cwd=tmp_path).returncode == 0
        assert load_runs(tmp_path / path)


def test_starters_that_share_a_file_can_be_written_into_one_folder(tmp_path):
    names = [name for name in starters() if name not in NOT_RUN]
    for name in names:
        done = lmassay("init", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_another_folder_is_created_and_named_in_the_next_steps(tmp_path):
    done = lmassay("init", "scorer", "-o", "my work/parts", cwd=tmp_path)
    assert done.stderr.splitlines()[1:] == ["next:  cd 'my work/parts'", "       lmassay run my_scorer.yaml"]
    assert (tmp_path / "my work" / "parts" / "my_scorer.py").is_file()


def test_a_file_that_was_changed_is_not_overwritten(tmp_path):
    lmassay("init", "metric", cwd=tmp_path)
    (tmp_path / "my_metric.py").write_text("# mine\n", encoding="utf-8")
    done = lmassay("init", "metric", cwd=tmp_path)
    assert done.returncode == 2
    assert "my_metric.py already exists; give another folder with -o, or --force" in done.stderr
    assert (tmp_path / "my_metric.py").read_text(encoding="utf-8") == "# mine\n"
    assert lmassay("init", "metric", "--force", cwd=tmp_path).returncode == 0
    assert "ClearPairs" in (tmp_path / "my_metric.py").read_text(encoding="utf-8")


def test_a_model_cannot_be_given_to_a_starter(tmp_path):
    done = lmassay("init", "scorer", "--model", "echo", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--model does not apply to" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_careful_translator_breaks_less(tmp_path):
    lmassay("init", "robustness", cwd=tmp_path)
    config = yaml.safe_load((tmp_path / "robustness.yaml").read_text(encoding="utf-8"))
    config["task"]["attack"] = ["charswap", "keyboard", "homoglyph", "diacritics"]
    config["model"] = [config["model"], {"name": config["model"], "careful": True}]
    done = lmassay("run", write_config(tmp_path / "both.yaml", config), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    success = {(r["label"], r["model"]): r["results"][0]["value"] for r in json.loads(done.stdout)["runs"]}
    assert len(success) == 8
    for attack in config["task"]["attack"]:
        assert success[attack, "my-system, careful"] < success[attack, "my-system"]


@pytest.mark.slow
def test_the_whole_grammar_is_asked_under_three_conventions(smollm2, tmp_path):
    task = {"name": "minimal_pairs", "data": "english", "clusters": "noun", "max_per_file": 2}
    config = {"task": task, "model": {"name": "smollm2", "prefix": ["auto", "bos", "none"]}}
    done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--json", cwd=tmp_path)
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
        "model": {"name": f"{EVALUATIONS / 'syntax/sample/my_language_model.py'}:Bigrams", "text": "corpus.txt"},
    }
    done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--results", tmp_path / "r", "--json")
    assert done.returncode == 0, done.stderr
    result_of = {(r["metric"], r["group"]): r for r in json.loads(done.stdout)["runs"][0]["results"]}
    assert result_of["tse", "overall"]["n"] > 0
    assert result_of["tse", "overall"]["n_unscored"] > 0
    assert result_of["mw", "overall"]["value"] > 0.5


def test_the_assistant_picks_the_person_who_is_mentioned_last(tmp_path):
    lmassay("init", "bias", cwd=tmp_path)
    done = lmassay("run", "bias.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["runs"][0]["results"]
    result_of = {r["metric"]: r["value"] for r in results if r["group"] == "overall"}
    # It never declines, is right half of the time, and does not depend on the order of the choices.
    assert result_of["accuracy_amb"] == 0
    assert result_of["accuracy_dis"] == 0.5
    assert result_of["consistency"] == 1
    assert result_of["ooc"] == 0


def test_the_teapot_style_scorers_work_from_their_file(tmp_path):
    src = write_lines(tmp_path / "src", ["the cat sat", "a b c d"])
    adv = write_lines(tmp_path / "adv", ["the cat sat", "a b x y"])
    files = ["--src", src, "--adv-src", adv, "--custom-scores-source", STARTERS / "custom_scorers.py"]
    common = ["teapot", *files, "--terse"]
    assert lmassay(*common, "--s-src", "f1").stdout.splitlines()[-1] == "75.000"
    assert lmassay(*common, "--s-src", "constant", "--value", "0.3").stdout.splitlines()[-1] == "30.000"


def test_the_new_style_scorer_works_from_the_command_line_and_from_a_configuration(tmp_path):
    src = write_lines(tmp_path / "src", ["abcd"])
    adv = write_lines(tmp_path / "adv", ["abdc"])
    scorer = STARTERS / "my_scorer.py"
    done = lmassay("teapot", "--src", src, "--adv-src", adv, "--custom-scores-source", scorer, "--s-src", "letters")
    assert "Source side preservation (letters):\nMean:\t75.000" in done.stdout
    task = {"name": "robustness", "side": "source", "src": "src", "attack": {"name": "a", "file": "adv"}}
    task["s_src"] = f"{scorer}:letters"
    write_config(tmp_path / "c.yaml", {"task": task})
    done = lmassay("run", "c.yaml", "--json", cwd=tmp_path)
    (document,) = json.loads(done.stdout)["runs"]
    assert document["results"][0]["value"] == 0.75
    assert "letters(src:" in document["signature"]


def test_the_perturbation_works_from_the_command_line_and_from_a_configuration(tmp_path):
    write_lines(tmp_path / "src", ["leet speakers are elite testers"])
    name = f"{STARTERS / 'my_perturbation.py'}:leet"
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


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_the_program_gives_each_prompt_its_own_answer_whatever_line_breaks_it_contains(line_break):
    program = run_path(str(STARTERS / "my_model.py"))["Program"]
    requests = [Generate(f"one{line_break}two"), Generate(""), Generate("three")]
    # Each answer contains a line break that is not the end of a line.
    answer = "import sys\nfor prompt in sys.stdin: print(prompt.strip() + '\\u2028')"
    command = [sys.executable, "-X", "utf8", "-c", answer]
    responses = list(program(command).generate(requests))
    assert [response.text for response in responses] == ["one two\u2028", "\u2028", "three\u2028"]


def test_the_program_reports_answers_that_are_missing():
    program = run_path(str(STARTERS / "my_model.py"))["Program"]
    requests = [Generate("one"), Generate("two")]
    assert [bool(response.error) for response in program(["false"]).generate(requests)] == [True, True]
    assert [bool(response.error) for response in program(["head", "-n", "1"]).generate(requests)] == [False, True]


def test_a_few_shot_method_of_ones_own_is_swept_like_any_other(tmp_path):
    sample = EVALUATIONS / "fewshot" / "sample"
    method = {"name": str(sample / "my_method.py:SharedWords"), "power": [1, 2]}
    task = {"name": "fewshot", "data": str(sample / "reviews.yaml"), "labelled": ["train"]}
    config = write_config(tmp_path / "c.yaml", {"task": {**task, "method": ["majority", method]}, "resamples": 200})
    done = lmassay("run", config, "--results", tmp_path / "results", "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["status"] for run in runs] == ["done"] * 3
    assert {(r["n"], r["n_error"]) for run in runs for r in run["results"][:1]} == {(4, 0)}
    assert len({run["results"][0]["value"] for run in runs}) == 3


def test_the_task_in_fewnlus_style_and_the_yaml_one_are_learned_alike(tmp_path):
    lmassay("init", "fewshot-task", cwd=tmp_path)
    done = lmassay("run", "own_tasks.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    accuracy: dict[str, list[float]] = {}
    for run in json.loads(done.stdout)["runs"]:
        method = "majority" if "majority" in run["label"] else "own"
        accuracy.setdefault(method, []).append(run["results"][0]["value"])
    assert sorted(accuracy) == ["majority", "own"]
    for yaml_task, python_task in accuracy.values():
        assert yaml_task == python_task


def test_a_starter_of_another_package_is_declared_like_any_other_part():
    from lmassay.contracts import Evaluation, Starter
    from lmassay.plugins.declarations import evaluation_problems

    starter = Starter("mine", "my own part", {}, ())
    assert evaluation_problems(Evaluation(name="e", question="?", tasks={}, starters=(starter,))) == []
    (problem,) = evaluation_problems(Evaluation(name="e", question="?", tasks={}, starters=starter))
    assert "starters" in problem
