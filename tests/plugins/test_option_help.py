"""Every option of every built-in task and model is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import Field

from lmassay.contracts import Model
from lmassay.plugins.option_help import OptionHelp, example_of, options_of
from lmassay.plugins.options import options_model
from lmassay.plugins.registry import current_registry

BUILT_IN = [(kind, entry.name) for kind in ("task", "model") for entry in current_registry().entries(kind)]


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_every_option_has_a_type_and_a_meaning(kind, name):
    options = options_of(current_registry().get(kind, name))
    assert [option.name for option in options if not option.meaning or option.type == "value"] == []


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_every_option_of_the_model_that_checks_them_is_listed(kind, name):
    factory = current_registry().get(kind, name)
    listed = {option.name for option in options_of(factory)}
    assert set(options_model(factory).model_fields) <= listed


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_no_meaning_is_about_an_option_that_does_not_exist(kind, name):
    factory = current_registry().get(kind, name)
    own_meanings = vars(factory).get("option_help", {})
    assert set(own_meanings) <= {option.name for option in options_of(factory)}


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_the_example_is_a_configuration_with_known_keys_and_all_required_ones(kind, name):
    factory = current_registry().get(kind, name)
    section = yaml.safe_load(example_of(kind, name, factory))[kind]
    assert section.pop("name") == name
    fields = options_model(factory).model_fields
    assert set(section) <= set(fields)
    assert {option for option, field in fields.items() if field.is_required()} <= set(section)


class Mine(Model):
    name = "mine"
    option_help = {"size": "how large it is"}

    def __init__(
        self,
        size: Annotated[int, Field(ge=1, le=9)],
        mode: Literal["fast", "slow"] = "fast",
        words: list[str] | None = None,
        path: Path | None = None,
        on: bool = True,
    ) -> None: ...


class Larger(Mine):
    option_help = {"mode": "how it works"}


def test_types_and_defaults_are_in_the_words_of_a_configuration():
    assert options_of(Mine) == [
        OptionHelp("size", "whole number, at least 1, at most 9", "required", "how large it is"),
        OptionHelp("mode", "fast | slow", "fast", ""),
        OptionHelp("words", "list of text", "", ""),
        OptionHelp("path", "path", "", ""),
        OptionHelp("on", "true or false", "true", ""),
    ]


def test_a_list_without_a_type_is_a_list():
    def component(words: list, pairs: tuple = ()) -> None:
        pass

    assert [option.type for option in options_of(component)] == ["list", "list"]


def test_a_subclass_inherits_meanings():
    assert [option.meaning for option in options_of(Larger)][:2] == ["how large it is", "how it works"]


def test_a_plugin_without_an_example_gets_one_with_the_required_options():
    assert example_of("model", "mine", Mine) == "model: {name: mine, size: …}"
