"""``lmassay methods NAME``: every option is explained, and the example is a section of a configuration."""

from __future__ import annotations

import json

import pytest
import yaml

from lmassay.evaluations.fewshot.commands.actions.method_help import method_help
from lmassay.plugins.registry import current_registry
from tests.helpers import lmassay


@pytest.mark.parametrize("name", current_registry().names("method"))
def test_the_example_of_a_method_is_a_few_shot_task(name):
    done = lmassay("methods", name, "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["methods"]
    task = yaml.safe_load(document["example"])["task"]
    assert task["name"] == "fewshot"
    assert task["method"] == {"name": name}


@pytest.mark.parametrize("name", current_registry().names("method"))
def test_every_option_of_a_method_has_a_meaning(name):
    options = method_help(name, current_registry().get("method", name)).options
    assert [option.name for option in options if not option.meaning] == []
