"""``lmassay models NAME`` and ``lmassay tasks NAME`` explain every option."""

from __future__ import annotations

import json

import pytest

from tests.helpers import lmassay


@pytest.mark.parametrize(("command", "name", "option"), [("models", "hf", "dtype"), ("tasks", "bias", "rotations")])
def test_a_name_explains_every_option_with_an_example(command, name, option):
    done = lmassay(command, name)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["option", "type", "default", "meaning"]
    (row,) = [line for line in lines if line.startswith(f"{option} ")]
    assert "auto |" in row
    assert lines[-1].startswith(f"Example: {command[:-1]}: {{name: {name}, ")


def test_the_json_document_has_the_options():
    (document,) = json.loads(lmassay("models", "hf", "--json").stdout)["models"]
    assert {"name", "type", "default", "meaning"} == set(document["options"][0])
    assert document["example"].startswith("model: {name: hf, ")


@pytest.mark.parametrize("names", [("models", "hf"), ("models", "ls"), ("data", "show", "blimp")], ids=" ".join)
def test_json_may_precede_the_name_or_command(names):
    group, *others = names
    expected = lmassay(*names, "--json").stdout
    json.loads(expected)
    assert lmassay(group, "--json", *others).stdout == expected


def test_without_a_name_the_models_are_listed():
    assert lmassay("models").stdout.splitlines()[0].split() == ["name", "description", "options", "from"]


def test_a_model_that_does_not_exist_is_an_error_with_a_hint():
    done = lmassay("models", "hff")
    assert done.returncode == 2
    assert "there is no model 'hff'; did you mean 'hf'?" in done.stderr


def test_a_mistyped_command_of_models_is_still_recognized():
    assert "did you mean 'get'?" in lmassay("models", "gett").stderr


def test_the_commands_of_models_still_work():
    assert lmassay("models", "ls", "--json").returncode == 0
