"""Tables of differences between runs."""

from __future__ import annotations

from lmassay.reporting.comparison_tables import differences_table
from lmassay.statistics.comparison import Comparison


def test_a_difference_that_rounds_to_zero_has_no_minus():
    comparison = Comparison("accuracy", "a", "b", "a", "b", 0.5, 0.49999, -0.00001, None, None, None, None, 10)
    (body,) = differences_table([comparison]).bodies
    (row,) = body.rows
    assert row.cells[4].text == "+0.0000"
