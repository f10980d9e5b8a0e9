"""``lmassay methods NAME``: the example is a section of a configuration."""

from __future__ import annotations

import json

import pytest
import yaml

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
