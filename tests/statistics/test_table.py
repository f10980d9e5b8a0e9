"""Scores of a whole run as columns."""

from __future__ import annotations

import pytest

from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Row, Score


def test_the_old_name_of_has_error_works_with_a_warning():
    scored = Row(Example("a", {}, None), "scored", Score({"accuracy": 1.0}))
    failed = Row(Example("b", {}, None), "error", error="the server did not answer")
    table = ScoreTable([scored, failed])
    assert table.has_error().tolist() == [False, True]
    with pytest.warns(DeprecationWarning, match="use has_error"):
        assert table.in_error().tolist() == [False, True]
