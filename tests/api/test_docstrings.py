"""The examples in the docstrings of the Python interface are right."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module", ["api.evaluation", "api.plugins", "api.display", "storage.in_memory", "plugins.fingerprint"]
)
def test_the_examples_of_a_module_are_right(module):
    result = doctest.testmod(importlib.import_module(f"lmassay.{module}"))
    assert result.failed == 0
    assert result.attempted > 0
