"""Figures for papers: they have the width that was asked for, and texts that can be read at that size."""

from __future__ import annotations

import doctest
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from lmassay.errors import UserError
from lmassay.reporting import figure_files as files_module
from lmassay.reporting import paper
from lmassay.reporting.blocks import Figure
from lmassay.reporting.chart import Category, CategoryAxis, Chart, LinearAxis, Panel
from lmassay.reporting.figure_files import figure_files, too_wide_message
from lmassay.reporting.figure_style import SVG
from lmassay.reporting.formats.content import chapters
from lmassay.reporting.paper import MIN_TEXT_POINTS, PaperLayout, is_too_wide, paper_drawing, parse_width
from lmassay.storage.store import Store
from tests.reporting.chart.boxes import outside, overlaps, size_of, text_boxes
from tests.reporting.chart.figures import FIGURES, SAMPLES

WIDTHS = (60.0, 84.0, 178.0)
ONE_COLUMN = PaperLayout(84.0)


def units(width: float) -> float:
    """The width of a chart in units of the drawing."""
    return width / (PaperLayout(width).text_points * 25.4 / 72 / 12)


@pytest.mark.parametrize("sample", ["usual", "long", "many", "missing"])
@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_two_texts_overlap_at_the_widths_of_papers(figure, sample, width):
    svg = FIGURES[figure](SAMPLES[sample]).laid_out(units(width)).svg()
    boxes = text_boxes(svg)
    assert overlaps(boxes) == []
    assert outside(boxes, *size_of(svg)) == []


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("width", [84.0, 178.0])
def test_texts_have_at_least_7_points(figure, width):
    drawing = paper_drawing(Figure.of(FIGURES[figure](SAMPLES["usual"]), ""), PaperLayout(width))
    points_per_unit = drawing.unit * 72 / 25.4
    sizes = [float(text.get("font-size")) for text in ET.fromstring(drawing.text).iter(f"{{{SVG}}}text")]
    assert sizes
    assert min(sizes) * points_per_unit >= MIN_TEXT_POINTS - 1e-6
    assert drawing.width_mm == pytest.approx(width, abs=0.01)


def test_every_figure_of_the_four_evaluations_fits_one_column(four):
    with Store(four) as store:
        content = chapters(store, store.runs())
    files = figure_files(content, ONE_COLUMN)
    assert len(files) > 20
    for file in files:
        root = ET.fromstring(file.drawing.text)
        assert root.get("width") == f"{file.drawing.width_mm:.2f}mm"
        assert file.figure.chart is not None, "it could only be scaled"
        # Heat maps with many columns say that they need more room; everything else fits.
        assert not is_too_wide(file.drawing, ONE_COLUMN) or "constructions-by-model" in file.name
    assert [file.name for file in files] == [file.name for file in figure_files(content)]


def test_a_chart_that_needs_more_room_keeps_its_text_and_says_how_wide_it_is():
    names = CategoryAxis([Category(f"model {number}") for number in range(40)])
    figure = Figure.of(Chart("d", [Panel(y=LinearAxis(), x=names)]), "")
    drawing = paper_drawing(figure, ONE_COLUMN)
    assert drawing.unit * 12 * 72 / 25.4 == pytest.approx(MIN_TEXT_POINTS)
    assert is_too_wide(drawing, ONE_COLUMN)
    message = too_wide_message("models", drawing, ONE_COLUMN)
    assert message == f"models is {drawing.width_mm:.0f} mm wide instead of 84 mm: its text would be smaller than 7 pt"


def test_a_chart_that_grew_a_little_fits_with_smaller_text():
    axis = CategoryAxis([Category(str(number)) for number in range(40)], lane=20.0)
    layout = PaperLayout(178.0)
    drawing = paper_drawing(Figure.of(Chart("d", [Panel(y=LinearAxis(), x=axis)]), ""), layout)
    assert drawing.width > units(178.0)
    assert drawing.width_mm == pytest.approx(178.0)


def test_a_drawing_without_a_chart_is_scaled():
    figure = Figure.of(FIGURES["scatter"](SAMPLES["usual"]), "")
    drawing = paper_drawing(replace(figure, chart=None), PaperLayout(178.0))
    assert (drawing.width, drawing.width_mm) == (330, pytest.approx(178.0))


@pytest.mark.parametrize(
    ("text", "millimetres"),
    [("one-column", 84), ("Two-Column", 178), ("120mm", 120), ("3.5in", 88.9), ("8 cm", 80), (99.5, 99.5), ("90", 90)],
)
def test_widths_are_names_or_lengths(text, millimetres):
    assert parse_width(text) == pytest.approx(millimetres)


@pytest.mark.parametrize("text", ["wide", "", "-5mm", "84 px", "nan", "1e9"])
def test_a_width_that_is_none_is_an_error(text):
    with pytest.raises(UserError, match="is not a width; write one-column, two-column or a length"):
        parse_width(text)


@pytest.mark.parametrize("width", [10, 5000])
def test_a_width_that_no_paper_has_is_an_error(width):
    with pytest.raises(UserError, match="from 40 to 600 mm"):
        parse_width(width)


def test_panels_side_by_side_are_placed_below_each_other_where_there_is_little_room():
    panel = Panel(y=LinearAxis("y"), x=LinearAxis("x"))
    chart = Chart("d", [panel, panel], columns=2, width=800)
    assert [chart.laid_out(width).columns for width in (408, 757)] == [1, 2]
    assert chart.laid_out(300).panels[0].height == panel.height
    assert Chart("d", [panel]).laid_out(757).panels[0].height > panel.height


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(paper).failed == 0
    assert doctest.testmod(files_module).failed == 0
