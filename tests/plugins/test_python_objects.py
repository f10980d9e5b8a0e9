"""Objects of a Python program have names while they are in use."""

from __future__ import annotations

import pytest

from lmassay.errors import PluginError
from lmassay.plugins.python_objects import PythonObjects, is_python_object
from lmassay.plugins.registry import current_registry


class Thing:
    """Any object."""


def test_an_object_is_found_by_its_name_while_it_is_in_use():
    objects = PythonObjects()
    first, second = Thing(), Thing()
    names = [objects.add_object("model", thing) for thing in (first, second)]
    assert names == ["python:Thing", "python:Thing_2"]
    with objects.active():
        assert current_registry().get("model", names[1])() is second
        assert current_registry().source_of(names[0]).startswith("src:")
    with pytest.raises(PluginError, match=r"Thing was passed to lmassay\.evaluate in Python"):
        current_registry().get("model", names[0])


def test_descriptions_are_recognised():
    assert is_python_object("python:Thing")
    assert is_python_object({"name": "python:Thing", "size": 3})
    assert not is_python_object("python.py:Thing")
    assert not is_python_object(None)
