"""``lmassay perturbations NAME`` and ``lmassay scorers NAME``: what they print works in a configuration."""

from __future__ import annotations

import json

import pytest
import yaml

from lmassay.errors import PluginError
from lmassay.evaluations.robustness.commands.actions.component_help import perturbation_help, scorer_help
from lmassay.evaluations.robustness.scorers.exact import ZeroOne
from lmassay.plugins.registry import current_registry
from tests.helpers import lmassay, write_lines

PERTURBATIONS = current_registry().names("perturbation")
# The others need a model, a Java program or another Python.
SCORERS_WITHOUT_FILES = ["bleu", "chrf", "chrf++", "edit_distance", "exact_match", "ter", "zero_one"]


def explained(command, name):
    done = lmassay(command, name, "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)[command]
    return document


def check(example, folder):
    # Enough words that every perturbation changes one of them at its default rate.
    write_lines(
        folder / "src.txt", [f"Robust models shrug at sentence number {n}." for n in ("one", "two", "three", "four")]
    )
    (folder / "config.yaml").write_text(f"{example}\nmodel: echo\n", encoding="utf-8")
    return lmassay("check", "config.yaml", cwd=folder)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_the_example_of_a_perturbation_is_accepted_in_a_configuration(name, tmp_path):
    example = explained("perturbations", name)["example"]
    assert yaml.safe_load(example)["task"]["attack"]["name"] == name
    done = check(example, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_every_option_of_a_perturbation_can_be_left_out(name, tmp_path):
    document = explained("perturbations", name)
    assert [option["name"] for option in document["options"] if option["default"] == "required"] == []
    done = check(f"task: {{name: robustness, src: src.txt, attack: {name}}}", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_the_options_of_a_perturbation_are_the_rate_and_those_in_its_example(name):
    document = explained("perturbations", name)
    attack = yaml.safe_load(document["example"])["task"]["attack"]
    assert [option["name"] for option in document["options"]] == ["rate", *attack.get("options", {})]


def test_the_rate_has_the_default_of_an_attack():
    (rate,) = explained("perturbations", "charswap")["options"]
    assert (rate["type"], rate["default"]) == ("number, at least 0, at most 1", "0.3")
    assert rate["meaning"] == "probability that each eligible word is changed"


def test_a_default_that_yaml_would_misread_is_quoted():
    def shout(text, rng, rate, *, sign: str, mark: str = "!", words: list[str] | None = None): ...

    attack = yaml.safe_load(perturbation_help("shout", shout).example)["task"]["attack"]
    assert attack == {"name": "shout", "rate": 0.3, "options": {"sign": "…", "mark": "!"}}


def test_a_function_that_cannot_be_a_perturbation_is_refused():
    with pytest.raises(PluginError, match=r"must take \(text, rng, rate\)"):
        perturbation_help("shout", lambda text: text)


@pytest.mark.parametrize("name", SCORERS_WITHOUT_FILES)
def test_the_example_of_a_scorer_is_accepted_in_a_configuration(name, tmp_path):
    example = explained("scorers", name)["example"]
    assert yaml.safe_load(example)["task"]["s_src"] == {"name": name}
    done = check(example, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_texts_that_a_scorer_function_compares_are_not_options():
    def overlap(hyp, ref, lang=None): ...

    explanation = scorer_help("overlap", overlap)
    assert explanation.options == []
    assert yaml.safe_load(explanation.example)["task"]["s_src"] == {"name": "overlap"}


def test_the_parameters_of_a_function_that_creates_a_scorer_are_options():
    def make(quasi: bool = False, fold: bool = True):
        return ZeroOne(quasi)

    assert [option.name for option in scorer_help("make", make).options] == ["quasi", "fold"]


def test_a_scorer_that_reads_the_source_is_shown_as_the_target_scorer():
    assert yaml.safe_load(explained("scorers", "comet")["example"])["task"]["s_tgt"] == {"name": "comet"}


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_every_option_of_a_perturbation_has_a_meaning(name):
    options = perturbation_help(name, current_registry().get("perturbation", name)).options
    assert [option.name for option in options if not option.meaning] == []


@pytest.mark.parametrize("name", current_registry().names("scorer"))
def test_every_option_of_a_scorer_has_a_meaning(name):
    options = scorer_help(name, current_registry().get("scorer", name)).options
    assert [option.name for option in options if not option.meaning] == []
