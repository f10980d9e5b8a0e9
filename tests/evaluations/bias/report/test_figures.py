"""Figures of the bias section: bars, bounds, arrows and dots where they belong."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.plots import ArrowRow, BarRow, PlottedValue, Strip

HEADS = ("ambiguous contexts", "diff-bias")


def shapes(drawing, tag, style):
    root = ElementTree.fromstring(str(drawing))
    return [e for e in root.iter(tag) if e.get("class") == style]


def texts(drawing):
    return [e.text for e in ElementTree.fromstring(str(drawing)).iter("text")]


def number(element, name):
    return float(element.get(name))


def one(accuracy=None, bias=None, limit=1.0):
    return plots.bar_chart([BarRow("age", accuracy, bias)], HEADS, limit, "d").svg()


def bias_unit(drawing):
    """How wide a bias of 1 is, by the ticks at the ends of a scale from -1 to 1."""
    ticks = {e.text: number(e, "x") for e in ElementTree.fromstring(str(drawing)).iter("text")}
    return (ticks["1.0"] - ticks["−1.0"]) / 2


def ends(drawing):
    """Where each interval begins and ends."""
    return [
        tuple(map(float, re.match(r"M(\S+) \S+?L([\d.]+)", e.get("d")).groups()))
        for e in shapes(drawing, "path", "interval")
    ]


def test_accuracy_is_a_bar_as_long_as_its_share_of_the_scale():
    full, half = (shapes(one(PlottedValue(value)), "rect", "share")[0] for value in (1.0, 0.5))
    assert number(half, "width") == pytest.approx(number(full, "width") / 2, abs=0.1)
    assert number(half, "x") == number(full, "x")


@pytest.mark.parametrize(("value", "style"), [(0.4, "toward"), (-0.4, "against")])
def test_bias_goes_from_zero_to_the_side_it_leans_to(value, style):
    drawing = one(bias=PlottedValue(value))
    (bar,) = shapes(drawing, "rect", style)
    zero = number(shapes(drawing, "line", "zero")[0], "x1")
    start, end = number(bar, "x"), number(bar, "x") + number(bar, "width")
    assert (start if value > 0 else end) == pytest.approx(zero, abs=0.2)
    assert number(bar, "width") == pytest.approx(0.4 * bias_unit(drawing), abs=0.2)
    assert ("+0.400" if value > 0 else "−0.400") in texts(drawing)


def test_the_room_that_the_accuracy_leaves_is_shaded_on_both_sides_of_zero():
    drawing = one(bias=PlottedValue(0.1, bound=(0.25, 0.5)))
    zero = number(shapes(drawing, "line", "zero")[0], "x1")
    for style, reach in (("band", 0.25), ("reach", 0.5)):
        (room,) = shapes(drawing, "rect", style)
        assert number(room, "x") + number(room, "width") / 2 == pytest.approx(zero, abs=0.2)
        assert number(room, "width") == pytest.approx(2 * reach * bias_unit(drawing), abs=0.2)


def test_an_interval_ends_where_its_bound_does():
    loose, bound = (one(bias=PlottedValue(0.1, -0.9, 0.9, bound=b)) for b in (None, (0.2, 0.4)))
    (room,) = shapes(bound, "rect", "reach")
    (inside,), (beyond,) = ends(bound), ends(loose)
    assert inside == pytest.approx((number(room, "x"), number(room, "x") + number(room, "width")), abs=0.2)
    assert beyond[0] < inside[0] < inside[1] < beyond[1]


def test_a_value_beyond_its_bound_stays_inside_its_interval():
    # Out-of-choice answers can leave the two kinds of contexts unequal, for which the bound is only near.
    drawing = one(bias=PlottedValue(0.6, 0.55, 0.7, bound=(0.4, 0.5)))
    ((low, high),) = ends(drawing)
    assert low < high


def test_values_off_the_scale_stay_in_the_figure():
    drawing = one(PlottedValue(1.0, 0.9, 1.2), PlottedValue(0.9, 0.2, 1.4), limit=0.4)
    for element in ElementTree.fromstring(str(drawing)).iter("rect"):
        assert 0 <= number(element, "x") <= number(element, "x") + number(element, "width") <= 400


def test_single_prompts_are_ticks_under_the_bar():
    drawing = one(PlottedValue(0.5, prompts=[0.4, 0.5, 0.6]))
    ticks = shapes(drawing, "line", "prompt")
    (bar,) = shapes(drawing, "rect", "share")
    assert len(ticks) == 3
    assert all(number(tick, "y1") > number(bar, "y") + number(bar, "height") for tick in ticks)


def test_what_has_no_value_says_so():
    drawing = one(PlottedValue(None), PlottedValue(None, title="no data (n = 3)"))
    assert {"no data (n = 0)", "no data (n = 3)"} <= set(texts(drawing))
    assert not shapes(drawing, "rect", "share")


@pytest.mark.parametrize(
    ("estimates", "limit"),
    [
        ([], 0.1),
        ([PlottedValue(0.04, -0.05, 0.09)], 0.1),
        ([PlottedValue(0.04, -0.15, 0.09)], 0.2),
        ([PlottedValue(0.04, bound=(0.35, 0.9))], 0.4),
        ([PlottedValue(0.04, prompts=[-0.55])], 0.6),
        ([PlottedValue(None), PlottedValue(-1.0)], 1.0),
    ],
)
def test_the_scale_holds_values_intervals_prompts_and_bounds(estimates, limit):
    assert plots.limit_of(estimates) == limit


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.8), (0.8, 0.2)])
def test_an_arrow_points_from_before_to_after(before, after):
    drawing = plots.arrow_chart([ArrowRow("age", (PlottedValue(before), PlottedValue(after)))], HEADS, 1.0, "d").svg()
    (hollow,), (tip,) = shapes(drawing, "circle", "hollow"), shapes(drawing, "path", "full")
    at, back = map(float, re.match(r"M([\d.]+) \S+?L([\d.]+)", tip.get("d")).groups())
    assert (number(hollow, "cx") < back < at) if after > before else (number(hollow, "cx") > back > at)
    assert ("+60.0" if after > before else "−60.0") in texts(drawing)


def test_a_small_change_is_a_dot_and_no_change_has_no_sign():
    drawing = plots.arrow_chart([ArrowRow("age", (PlottedValue(0.5), PlottedValue(0.5)))], HEADS, 1.0, "d").svg()
    assert len(shapes(drawing, "circle", "full")) == 1
    assert "0.0" in texts(drawing)


def test_where_one_side_has_no_value_there_is_no_arrow():
    drawing = plots.arrow_chart([ArrowRow("age", (PlottedValue(0.5), PlottedValue(None)))], HEADS, 1.0, "d").svg()
    assert "no data (n = 0)" in texts(drawing)
    assert not shapes(drawing, "circle", "hollow")


def test_prompts_are_dots_around_their_mean():
    strip = Strip("m", [("prompt 1", 0.2), ("prompt 2", 0.4)], "0.300 ± 0.141")
    drawing = plots.strip_chart([strip], 0.0, "accuracy", "d").svg()
    dots = [number(dot, "cx") for dot in shapes(drawing, "circle", "full light")]
    (mean,) = shapes(drawing, "line", "mark")
    assert number(mean, "x1") == pytest.approx(sum(dots) / 2, abs=0.1)
    assert {"m", "0.300 ± 0.141", "accuracy"} <= set(texts(drawing))


def test_texts_in_figures_are_escaped():
    nasty = '<script>"&'
    estimate = PlottedValue(0.5, title=nasty)
    for chart in (
        plots.bar_chart([BarRow(nasty, estimate, PlottedValue(None, title=nasty))], (nasty, nasty), 1.0, nasty),
        plots.arrow_chart([ArrowRow(nasty, (estimate, estimate))], (nasty, nasty), 1.0, nasty),
        plots.strip_chart([Strip(nasty, [(nasty, 0.5)], nasty)], -1.0, nasty, nasty),
    ):
        drawing = chart.svg()
        assert "<script" not in drawing
        ElementTree.fromstring(str(drawing))
