"""Marks are drawn at their positions and have different shapes; those without a position are left out."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import get_args

import pytest

from lmassay.reporting.chart import (
    Arrow,
    Bar,
    ChartLine,
    Dot,
    Group,
    HeatmapCell,
    Interval,
    Label,
    LinearAxis,
    Marker,
    ReferenceLine,
    Stroke,
)
from lmassay.reporting.chart.placement import CategoryPlacement, NumericPlacement, PlotArea, Span

# Data from 0 to 1 on a square of 100 units; y grows upwards.
FRAME = PlotArea(NumericPlacement(LinearAxis(), Span(0, 100)), NumericPlacement(LinearAxis(), Span(100, 0)))
ROWS = PlotArea(FRAME.x, CategoryPlacement([Span(10, 20), Span(30, 40)], [Span(10, 25), Span(30, 45)]))


def drawn(mark, frame=FRAME) -> list[ET.Element]:
    return list(ET.fromstring(f"<svg>{mark.draw(frame)}</svg>"))


def test_a_dot_lies_at_its_coordinates():
    (circle,) = drawn(Dot(0.25, 0.75, title="here"))
    assert (circle.get("cx"), circle.get("cy"), circle.findtext("title")) == ("25", "25", "here")


def test_categories_count_from_0_at_the_middle_of_their_rows():
    heights = [drawn(Dot(0.5, row), ROWS)[0].get("cy") for row in (-0.5, 0, 0.25, 1)]
    assert heights == ["10", "15", "17.5", "35"]


def test_every_marker_has_a_shape_of_its_own():
    shapes = {tuple(sorted(drawn(Dot(0.5, 0.5, marker))[0].attrib.items())) for marker in get_args(Marker)}
    assert len(shapes) == len(get_args(Marker))


def test_a_group_has_the_colour_of_its_series_a_title_and_a_shift():
    (group,) = drawn(Group([Dot(0.5, 0.5)], series=6, title="both", shift=(5, -5)))
    assert (group.get("class"), group.findtext("title")) == ("s1", "both")
    assert (group.find("circle").get("cx"), group.find("circle").get("cy")) == ("55", "45")


def test_an_interval_has_caps_where_it_is_asked_to():
    (line,) = drawn(Interval(0.2, 0.6, 0.5))
    assert (line.get("x1"), line.get("x2"), line.get("y1")) == ("20", "60", "50")
    (path,) = drawn(Interval(0.2, 0.6, 0.5, along="y", caps=True))
    assert path.get("d") == "M50 80L50 40M47.5 80H52.5M47.5 40H52.5"


@pytest.mark.parametrize(("start", "end"), [(0.2, 0.7), (0.7, 0.2)])
def test_a_bar_has_its_length_in_either_direction(start, end):
    (lying,) = drawn(Bar(start, end, 0.5))
    (upright,) = drawn(Bar(start, end, 0.5, along="y"))
    assert (lying.get("x"), lying.get("width")) == ("20", "50")
    assert (upright.get("y"), upright.get("height")) == ("30", "50")


def test_a_rule_stops_where_labels_stand_and_may_keep_to_one_category():
    assert [(line.get("y1"), line.get("y2")) for line in drawn(ReferenceLine(0.5), ROWS)] == [
        ("10", "25"),
        ("30", "45"),
    ]
    assert [(line.get("y1"), line.get("y2")) for line in drawn(ReferenceLine(0.5, category=1), ROWS)] == [("30", "40")]
    assert [(line.get("x1"), line.get("x2")) for line in drawn(ReferenceLine(0.5, axis="y"))] == [("0", "100")]


def test_a_label_is_cut_at_the_edge_of_the_panel():
    (text,) = drawn(Label(0.2, 0.5, "no data, and a reason that is much too long"))
    assert "…" in text.text
    assert text.findtext("title") == "no data, and a reason that is much too long"


def test_a_cell_without_a_shade_has_its_text_only():
    frame = PlotArea(CategoryPlacement([Span(0, 50)], []), CategoryPlacement([Span(0, 20)], []))
    (plain,) = drawn(HeatmapCell(0, 0, "–", title="not measured"), frame)
    (shaded,) = drawn(HeatmapCell(0, 0, "0.10", -0.8), frame)
    assert [rect.get("class") for rect in plain.iter("rect")] == ["heat-none"]
    assert [rect.get("class") for rect in shaded.iter("rect")] == ["heat-none", "heat-low"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_has_no_place_is_not_drawn(bad):
    marks = [
        Dot(bad, 0.5),
        Interval(0.1, bad, 0.5),
        Bar(0.1, 0.2, bad),
        Stroke(bad, 0.5),
        Arrow(bad, 0.5, 0.5),
        ReferenceLine(bad),
        ChartLine([(bad, 0.5), (0.5, bad), (0.1, 0.1)]),
    ]
    assert drawn(Group(marks)) == []


def test_a_line_leaves_out_points_without_a_place():
    (line,) = drawn(ChartLine([(0.1, 0.1), (0.2, math.nan), (0.3, 0.3)]))
    assert line.get("points") == "10,90 30,70"
