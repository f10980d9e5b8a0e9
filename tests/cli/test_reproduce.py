"""``lmassay reproduce``"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lmassay.contracts import Reproduction
from tests.helpers import ROOT, lmassay


@pytest.fixture
def environment(data_mirror: str, tmp_path: Path) -> dict[str, str]:
    return {"LMASSAY_CACHE": str(tmp_path / "cache"), "LMASSAY_DATA_MIRROR": data_mirror}


def test_the_list_names_what_can_be_reproduced_and_the_data_it_needs(environment):
    printed = lmassay("reproduce", "--json", env=environment).stdout
    needs = {row["name"]: row["datasets"] for row in json.loads(printed)["reproductions"]}
    assert {"teapot": ["teapot"], "blimp": ["blimp"], "bbq": ["bbq"], "kobbq": ["kobbq"]}.items() <= needs.items()
    assert "teapot" in lmassay("reproduce", env=environment).stdout


def test_without_the_data_the_command_to_fetch_it_is_named(environment):
    done = lmassay("reproduce", "blimp", env=environment)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("run lmassay data get blimp")


def test_an_unknown_name_is_one_line_with_a_hint(environment):
    done = lmassay("reproduce", "blimb", env=environment)
    assert done.returncode == 2
    assert "did you mean 'blimp'?" in done.stderr


@pytest.mark.parametrize(("name", "figures"), [("teapot", 9), ("blimp", 53), ("kobbq", 4)])
def test_published_numbers_agree_to_the_last_digit(environment, name, figures):
    lmassay("data", "get", name, env=environment)
    done = lmassay("reproduce", name, env=environment)
    assert done.returncode == 0, done.stdout
    assert f"{figures} of {figures} figures agree to the last printed digit." in done.stdout


def test_only_six_figures_of_bbq_are_excused(environment):
    lmassay("data", "get", "bbq", "--partial", env=environment)
    done = lmassay("reproduce", "bbq", "--json", env=environment)
    assert done.returncode == 0
    figures = json.loads(done.stdout)["figures"]
    assert len(figures) == 60
    excused = [figure["name"] for figure in figures if not figure["agrees"]]
    assert len(excused) == 6
    assert all(name.startswith("Physical_appearance") for name in excused)
    assert {figure["verdict"] for figure in figures} == {"agrees", "differs, cause unknown"}


def test_a_number_that_should_agree_and_does_not_is_an_error(environment, monkeypatch):
    from lmassay.evaluations.robustness import reproduce

    lmassay("data", "get", "teapot", env=environment)
    changed = (("source preservation (chrF), mean", "86.909"), *reproduce._PUBLISHED[1:])
    monkeypatch.setattr(reproduce, "_PUBLISHED", changed)
    done = lmassay("reproduce", "teapot", env=environment)
    assert done.returncode == 1
    row = next(line for line in done.stdout.splitlines() if "DIFFERS" in line)
    assert row.split()[-4:] == ["86.909", "86.908", "-0.001", "DIFFERS"]


# --- reproductions that run models ------------------------------------------------------------------------------------

TINY_BERT = ROOT / "tests" / "published" / "figures" / "tse" / "models" / "bert-tiny"


@pytest.fixture(scope="module")
def data(data_mirror: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the data sets of these reproductions are fetched."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {"LMASSAY_CACHE": str(cache), "LMASSAY_DATA_MIRROR": data_mirror}
    assert lmassay("data", "get", "tse", "fewglue", env=environment).returncode == 0
    return environment


def test_a_stand_in_under_the_name_of_a_published_model_differs(data, tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    done = lmassay(
        *("reproduce", "refining-tse", "--model", f"bert-large-cased={TINY_BERT}", "--part", "ML_simple*"),
        cwd=tmp_path,
        env=data,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    # The estimate is printed before anything runs.
    assert lines[0] == "Estimated time with the published models"
    assert lines[2].startswith("bert-large-cased  yes       1")
    # EW of the original program for this model is 0.5010 (figures/tse).
    assert "bert-large-cased, Simple: EW        0.94    0.501      -0.439     0.0070  DIFFERS" in lines
    assert "0 of 3 figures agree within their tolerance." in lines


def test_figures_of_the_original_program_for_the_same_model_agree(data, tmp_path, monkeypatch):
    """With the numbers that the original computes with the stand-in, everything agrees, and the exit code is 0."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from lmassay.evaluations.syntax import reproduce
    from lmassay.evaluations.syntax.refining_tse.published import TEMPLATE_SETS

    gold_file = TINY_BERT.parents[1] / "gold_bert-tiny_fixed.json"
    gold = json.loads(gold_file.read_text(encoding="utf-8"))["results"]["simple_agrmt"]
    numbers = (gold["MW"]["overall_top"][-1], gold["EW"]["overall_top"][-1], gold["TSE"]["score"])
    printed = tuple(f"{number:.2f}" for number in numbers)
    published = replace(TEMPLATE_SETS["ML_simple_agrmt"], scores={"bert-large-cased": printed})
    monkeypatch.setattr(reproduce, "TEMPLATE_SETS", {"ML_simple_agrmt": published})
    monkeypatch.setattr(reproduce, "_WEIGHTS", {"bert-large-cased": 1})
    done = lmassay(
        "reproduce", "refining-tse", "--model", f"bert-large-cased={TINY_BERT}", "--json", cwd=tmp_path, env=data
    )
    assert done.returncode == 0, done.stdout
    assert [figure["verdict"] for figure in json.loads(done.stdout)["figures"]] == ["agrees"] * 3


def test_models_that_are_not_here_are_listed(data, tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    (tmp_path / "gpt2-xl").symlink_to(TINY_BERT.with_name("gpt2-tiny"))
    done = lmassay("reproduce", "refining-tse", "--part", "ML_simple_agrmt", cwd=tmp_path, env=data)
    assert done.returncode == 1
    not_run = [line for line in done.stdout.splitlines() if line.startswith("Not run: ")]
    assert len(not_run) == 3
    assert not_run[0] == (
        "Not run: bert-large-cased: the model bert-large-cased is not on this machine; fetch it: lmassay models get "
        "bert-large-cased, or name its folder: --model bert-large-cased=FOLDER."
    )


def test_without_any_of_the_models_nothing_is_compared(data, tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    done = lmassay("reproduce", "fewnlu", cwd=tmp_path, env=data)
    assert done.returncode == 2
    assert done.stdout.startswith("Estimated time")
    assert done.stderr.startswith("error: none of the published models is on this machine")
    assert not (tmp_path / "results").exists()


def test_if_every_part_is_optional_one_must_be_selected(tmp_path, monkeypatch):
    from lmassay.cli.actions import reproduce as action
    from lmassay.evaluations.fewshot import reproduce

    first, second, *_ = reproduce.fewnlu()
    parts = [replace(first, is_optional=True), replace(second, is_optional=True)]
    monkeypatch.setattr(reproduce, "fewnlu", lambda: parts)
    # Without data sets, which this test does not need.
    slow = Reproduction("slow", "a slow one", parts="lmassay.evaluations.fewshot.reproduce:fewnlu")
    monkeypatch.setattr(action, "reproductions", lambda: {"slow": slow})
    done = lmassay("reproduce", "slow", cwd=tmp_path)
    assert done.returncode == 2
    assert f"no part is selected; use --part with one of {first.name}, {second.name}" in done.stderr


def test_few_shot_settings_run_with_stand_ins(data, tmp_path, monkeypatch):
    """The whole path with a tiny ALBERT, except that it is trained for two updates on two splits."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from lmassay.evaluations.fewshot import reproduce
    from tests.tiny_models import save_model

    name = "albert-xxlarge-v2"
    model = save_model(tmp_path / "albert", "albert", window=512, words=["true", "false", "neither"])
    few_updates = {**reproduce._SELECTED[name], "cb": (2e-5, 2, 4, 0.5)}
    monkeypatch.setattr(reproduce, "_SELECTED", {**reproduce._SELECTED, name: few_updates})
    monkeypatch.setattr(reproduce, "_SPLITS", 2)
    done = lmassay(
        "reproduce", "fewnlu", "--model", f"{name}={model}", "--part", "pet/cb", "--json", cwd=tmp_path, env=data
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    accuracy, f1 = document["figures"]
    assert accuracy["name"] == "albert-xxlarge-v2, PET, CB: accuracy, %"
    assert (accuracy["published"], f1["published"]) == ("84.38", "62.56")
    assert (accuracy["verdict"], f1["verdict"]) == ("DIFFERS", "DIFFERS")
    assert document["estimate"][0]["gpu_hours"] > 0


def test_every_search_of_a_few_shot_method_is_a_valid_configuration(data, monkeypatch):
    from lmassay.evaluations.fewshot.reproduce import fewnlu
    from lmassay.running.config import expand

    for name, value in data.items():
        monkeypatch.setenv(name, value)
    runs = {}
    for part in fewnlu():
        if part.model == "albert-xxlarge-v2" and part.name.endswith("/rte"):
            configs = expand({**part.config, "model": {"name": "hf", "model": str(TINY_BERT)}}, Path())
            runs[part.name] = len(configs)
    # One training serves both evaluation ratios, so there are half as many runs as configurations in FewNLU.
    assert runs == {"pet/rte": 1, "adapet/rte": 24, "ptuning/rte": 16, "pet_mlm/rte": 24, "cls/rte": 4}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("teapot", "--model", "gpt2-xl"),
            "reproducing teapot runs no model; leave out --model, --part and --estimate",
        ),
        (
            ("refining-tse", "--model", "gpt2-x=."),
            "'gpt2-x' is not one of the published models; did you mean 'gpt2-xl'?",
        ),
        (("refining-tse", "--model", "gpt2-xl=nowhere/at/all"), "'nowhere/at/all' is not a folder"),
        (("refining-tse", "--part", "ML_simple"), "refining-tse has no part 'ML_simple'"),
    ],
)
def test_a_wrong_option_is_one_line(data, tmp_path, arguments, message):
    done = lmassay("reproduce", *arguments, cwd=tmp_path, env=data)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
