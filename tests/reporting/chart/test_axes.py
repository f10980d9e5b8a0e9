"""Axes: round ticks, ranges that hold their values, numbers as readers write them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.reporting.chart.axes import Category, CategoryAxis, LinearAxis, LogAxis
from lmassay.reporting.chart.edges import fitting_ticks
from lmassay.reporting.chart.text import text_width

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


def labels(axis, length=300.0):
    return [tick.label for tick in fitting_ticks(axis, length)]


def test_a_share_has_ticks_by_fifths_and_a_short_axis_fewer():
    assert labels(LinearAxis()) == ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert labels(LinearAxis(), 120) == ["0", "0.5", "1.0"]


def test_all_ticks_of_an_axis_have_the_same_decimals():
    assert labels(LinearAxis(low=-0.1, high=0.1)) == ["−0.10", "−0.05", "0", "0.05", "0.10"]


def test_differences_have_signs():
    assert labels(LinearAxis(low=-0.2, high=0.4, signed=True)) == ["−0.2", "−0.1", "0", "+0.1", "+0.2", "+0.3", "+0.4"]


def test_whole_numbers_have_no_ticks_between_them():
    assert labels(LinearAxis(low=0.6, high=4.4, whole=True)) == ["1", "2", "3", "4"]


def test_very_large_and_very_small_numbers_are_powers():
    assert labels(LinearAxis(low=0, high=4e7)) == ["0", "10⁷", "2×10⁷", "3×10⁷", "4×10⁷"]
    assert labels(LinearAxis(low=0, high=4e-6))[1] == "10⁻⁶"


def test_ticks_that_are_asked_for_are_thinned_evenly():
    axis = LinearAxis(low=-1, high=1, ticks=(-1, -0.5, 0, 0.5, 1))
    assert labels(axis) == ["−1.0", "−0.5", "0", "0.5", "1.0"]
    assert labels(axis, 110) == ["−1.0", "0", "1.0"]


def test_decades_are_ticks_of_a_logarithmic_axis():
    assert labels(LogAxis(low=1e-6, high=1)) == ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]
    assert labels(LogAxis(low=1e-3, high=10)) == ["0.001", "0.01", "0.1", "1", "10"]


def test_many_decades_are_thinned_and_few_have_ticks_between_them():
    assert labels(LogAxis(low=1e-30, high=1), 200) == ["10⁻³⁰", "10⁻²⁴", "10⁻¹⁸", "10⁻¹²", "10⁻⁶", "1"]
    assert labels(LogAxis(low=0.1, high=1)) == ["0.1", "0.2", "0.5", "1"]
    assert labels(LogAxis(low=0.3, high=0.7)) == ["0.3", "0.4", "0.5", "0.6", "0.7"]


def test_values_beyond_the_ends_are_drawn_at_the_ends():
    assert [LinearAxis().fraction(value) for value in (-3, 0, 0.25, 1, 7)] == [0, 0, 0.25, 1, 1]
    assert [LogAxis(low=1e-2, high=1).fraction(value) for value in (0, 1e-9, 0.1, 5)] == pytest.approx([0, 0, 0.5, 1])


@pytest.mark.parametrize("values", [[], [math.nan, math.inf], [0.0], [5.0, 5.0], [-3.0], [1e9, 1e9 + 1]])
def test_an_axis_holds_equal_values_and_none(values):
    axis = LinearAxis.around("x", values)
    assert axis.low < axis.high
    assert all(axis.low < value < axis.high for value in values if math.isfinite(value))
    assert fitting_ticks(axis, 300)


def test_an_axis_does_not_reach_beyond_what_is_possible():
    axis = LinearAxis.around("percent", [0.4, 99.8], within=(0.0, 100.0))
    assert (axis.low, axis.high) == (0.0, 100.0)
    assert LinearAxis.around("percent", [500.0], within=(0.0, 100.0)).high == 100.0


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf)])
def test_an_axis_without_a_range_is_an_error(low, high):
    with pytest.raises(ValueError, match="an axis cannot reach from"):
        LinearAxis(low=low, high=high)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (1, 1)])
def test_a_logarithmic_axis_is_positive(low, high):
    with pytest.raises(ValueError, match="a logarithmic axis cannot reach from"):
        LogAxis(low=low, high=high)


def test_lanes_lie_within_their_category():
    axis = CategoryAxis([Category("a"), Category("b", lanes=4)])
    assert axis.lane_position(0, 0) == 0
    assert [axis.lane_position(1, lane) for lane in range(4)] == [0.625, 0.875, 1.125, 1.375]


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.floats(90, 500), st.booleans())
def test_ticks_lie_on_the_axis_and_their_labels_apart(values, length, signed):
    axis = LinearAxis.around("x", values, signed=signed)
    ticks = fitting_ticks(axis, length)
    slack = (axis.high - axis.low) * 1e-6
    for tick in ticks:
        assert axis.low - slack <= tick.value <= axis.high + slack
    for before, after in pairwise(ticks):
        gap = length * (axis.fraction(after.value) - axis.fraction(before.value))
        assert gap >= (text_width(before.label) + text_width(after.label)) / 2
    assert len({tick.label for tick in ticks}) == len(ticks)


@given(st.floats(1e-250, 1e250), st.floats(1.001, 1e40), st.floats(90, 500))
def test_ticks_of_logarithmic_axes_lie_apart(low, factor, length):
    axis = LogAxis(low=low, high=low * factor)
    ticks = fitting_ticks(axis, length)
    for before, after in pairwise(ticks):
        gap = length * (axis.fraction(after.value) - axis.fraction(before.value))
        assert gap >= (text_width(before.label) + text_width(after.label)) / 2
