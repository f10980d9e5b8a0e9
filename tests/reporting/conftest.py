"""Fixtures that several tests of the report share."""

from __future__ import annotations

import pytest

from tests.reporting.four_evaluations import fill


@pytest.fixture(scope="session")
def four(tmp_path_factory):
    """A results folder with runs of all four evaluations."""
    return fill(tmp_path_factory.mktemp("four"))
