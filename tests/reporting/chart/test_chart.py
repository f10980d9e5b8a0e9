"""Whole charts: whatever the labels and values, no two texts overlap and none leaves the drawing."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.errors import OldPluginWarning
from lmassay.reporting import chart as package
from lmassay.reporting import tiles
from lmassay.reporting.chart import (
    Category,
    CategoryAxis,
    Chart,
    Dot,
    LegendEntry,
    LinearAxis,
    LogAxis,
    Panel,
    PanelNote,
    ReferenceLine,
)
from lmassay.reporting.figure_style import page_style_sheet
from tests.reporting.chart.boxes import outside, overlaps, size_of, text_boxes
from tests.reporting.chart.figures import FIGURES, LONG, SAMPLES, Sample

MODULES = [package.__name__, *(f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__))]
# Names as people give them, in several scripts, with or without spaces, and some that are no names at all.
WORDS = st.text(st.characters(codec="utf-8"), max_size=70) | st.sampled_from(
    [LONG, "한국어 모델" * 12, "W" * 90, "a b"]
)
VALUES = st.lists(st.none() | st.floats(0, 1), max_size=12)
FACTORS = st.sampled_from([1.0, -1.0, 100.0, 1e-7, 3e9, -12345.678])
SIMPLE = Panel(y=LinearAxis("y"), x=LinearAxis("x"), marks=[Dot(0.5, 0.5)])


def check(svg: str) -> None:
    boxes = text_boxes(svg)
    assert overlaps(boxes) == []
    assert outside(boxes, *size_of(svg)) == []


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("figure", FIGURES)
def test_no_two_texts_of_a_figure_overlap(figure, sample):
    check(FIGURES[figure](SAMPLES[sample]).svg())


@pytest.mark.parametrize("figure", FIGURES)
@settings(max_examples=25, deadline=None)
@given(labels=st.lists(WORDS, max_size=6), values=VALUES, title=WORDS, factor=FACTORS)
def test_no_two_texts_overlap_whatever_labels_and_values_are(figure, labels, values, title, factor):
    check(FIGURES[figure](Sample(list(dict.fromkeys(labels)), values, title, factor)).svg())


@pytest.mark.parametrize("figure", FIGURES)
def test_every_class_of_a_figure_is_in_the_style_sheet(figure):
    used = set()
    for classes in re.findall(r'class="([^"]*)"', FIGURES[figure](SAMPLES["usual"]).svg()):
        used.update(classes.split())
    # These say what a shape is; its type and its other classes say how it looks.
    assert used - page_style_sheet().classes <= {"tick", "dot"}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_have_no_style_of_their_own_and_keep_texts_as_texts(figure):
    nasty = '</svg><script>alert(1)</script>"&'
    svg = FIGURES[figure](Sample([nasty, f"{nasty} 2"], [0.2, 0.4], nasty)).svg()
    root = ET.fromstring(svg)
    assert not list(root.iter("script"))
    assert not [element for element in root.iter() if "style" in element.attrib]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_the_docstrings_run(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_example_of_the_gauge_runs():
    assert doctest.testmod(tiles).failed == 0


def test_a_chart_says_what_it_shows_to_those_who_cannot_see_it():
    root = ET.fromstring(Chart('Accuracy of "both" models', [SIMPLE]).svg())
    assert (root.get("role"), root.get("aria-label")) == ("img", 'Accuracy of "both" models')


def test_a_chart_is_as_wide_as_it_is_asked_to_be_unless_categories_need_more():
    assert size_of(Chart("d", [SIMPLE], width=330).svg())[0] == 330
    names = CategoryAxis([Category(f"model {number}") for number in range(40)])
    assert size_of(Chart("d", [Panel(y=LinearAxis(), x=names)]).svg())[0] > 900


def test_panels_side_by_side_share_the_labels_of_their_y_axis():
    def ticks(*axes: LinearAxis) -> int:
        chart = Chart("d", [Panel(y=axis, x=LogAxis("x")) for axis in axes], columns=2, width=800)
        return sum(1 for text in ET.fromstring(chart.svg()).iter("text") if text.text in ("Score", "0.4"))

    assert ticks(LinearAxis("Score"), LinearAxis("Score")) == 2
    assert ticks(LinearAxis("Score"), LinearAxis("Score", high=0.9)) == 4


def test_panels_below_each_other_share_the_title_of_their_x_axis():
    root = ET.fromstring(Chart("d", [SIMPLE, SIMPLE]).svg())
    assert [text.text for text in root.iter("text")].count("x") == 1


def test_a_figure_with_two_x_axes_has_no_lines_that_belong_to_one_of_them():
    panel = Panel(y=LinearAxis(), x=LogAxis("below"), top=LinearAxis("above"))
    grid = [line for line in ET.fromstring(Chart("d", [panel]).svg()).iter("line") if line.get("class") == "grid"]
    assert all(line.get("y1") == line.get("y2") for line in grid)


def test_grid_and_reference_lines_stop_at_the_labels_of_rows():
    rows = CategoryAxis([Category("first", note="0.5"), Category("second")])
    svg = Chart("d", [Panel(y=rows, x=LinearAxis("x"), marks=[ReferenceLine(0.3)])]).svg()
    labels = [box for box in text_boxes(svg) if box.text in ("first", "second", "0.5")]
    assert len(labels) == 3
    lines = [line for line in ET.fromstring(svg).iter("line") if line.get("class") in ("grid", "chance")]
    assert len(lines) == 2 * (6 + 1)
    for line in lines:
        top, bottom = float(line.get("y1")), float(line.get("y2"))
        for label in labels:
            heights = [y for _, y in label.corners]
            assert bottom <= min(heights) + 0.5 or top >= max(heights) - 1.5


def test_notes_that_would_touch_are_moved_apart():
    notes = [PanelNote(value, f"note {value}") for value in (0.5, 0.51, 0.52, 0.0, 0.01)]
    check(Chart("d", [Panel(y=LinearAxis(), x=LinearAxis(), notes=notes)]).svg())


def test_a_note_as_wide_as_its_room_is_not_cut():
    for text in ("+0.125", "71.0±1.4", "bert-base-cased", "아주 긴 이름"):
        svg = Chart("d", [Panel(y=LinearAxis(), x=LinearAxis(), notes=[PanelNote(0.5, text)])]).svg()
        assert text in [box.text for box in text_boxes(svg)]


def test_the_meaning_of_both_ends_stands_in_one_line_where_it_fits():
    def lines(width: float) -> int:
        axis = LinearAxis(low=-1, ends=("← counter to it", "with the stereotype →"))
        root = ET.fromstring(Chart("d", [Panel(y=CategoryAxis([Category("a")]), x=axis)], width=width).svg())
        return len({text.get("y") for text in root.iter("text") if "←" in text.text or "→" in text.text})

    assert (lines(400), lines(220)) == (1, 2)


def test_the_legend_stands_above_or_below_the_panels():
    def height(side: str) -> float:
        chart = Chart("d", [SIMPLE], legend=[LegendEntry("name", [Dot(0.5, 0.5)])], legend_side=side)
        (text,) = [text for text in ET.fromstring(chart.svg()).iter("text") if text.text == "name"]
        return float(text.get("y"))

    assert height("top") < 40 < 200 < height("bottom")


def test_a_thousand_rows_are_drawn():
    rows = CategoryAxis([Category(f"row {number}") for number in range(1000)])
    svg = Chart("d", [Panel(y=rows, x=LinearAxis("x"), marks=[Dot(0.5, row) for row in range(1000)])]).svg()
    assert svg.count("<circle") == 1000


@pytest.mark.parametrize(
    ("old", "new"),
    [("Line", "ChartLine"), ("Key", "LegendEntry"), ("Rule", "ReferenceLine"), ("MOST_SERIES", "MAX_SERIES")],
)
def test_names_that_the_docs_used_keep_working_with_a_warning(old, new):
    with pytest.warns(OldPluginWarning, match=f"{old} is now called {new}"):
        assert getattr(package, old) is getattr(package, new)


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'Pie'"):
        _ = package.Pie
