"""Texts as outlines: nothing depends on the reader's fonts, and every text is where it was."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from PIL import Image, ImageChops

from lmassay.reporting.blocks import Figure
from lmassay.reporting.chart import Chart, Label, LinearAxis, Panel
from lmassay.reporting.figure_outlines import texts_in, with_outlines
from lmassay.reporting.figure_style import SVG, XLINK
from lmassay.reporting.paper import PaperLayout, paper_drawing
from lmassay.reporting.typesetting import ImageWriter
from tests.reporting.chart.figures import FIGURES, SAMPLES


@pytest.fixture(scope="module")
def writer() -> ImageWriter:
    return ImageWriter(system_fonts=False)


def drawing_of(name: str, style: str = "colour"):
    sample = replace(SAMPLES["usual"], labels=["bert-base", "русский", "עברית", "4"])
    return paper_drawing(Figure.of(FIGURES[name](sample), "cap"), PaperLayout(84.0, style))


@pytest.mark.parametrize("name", ["heat_map", "bias_bars", "upright_bars"])
@pytest.mark.parametrize("style", ["colour", "grey"])
def test_a_drawing_with_outlines_looks_like_the_one_with_texts(writer, name, style):
    drawing = drawing_of(name, style)
    outlined = with_outlines(drawing, writer)
    images = [Image.open(io.BytesIO(writer.image(one, "png"))).convert("L") for one in (drawing, outlined)]
    assert images[0].size == images[1].size
    different = ImageChops.difference(*images).point(lambda value: 255 if value > 100 else 0)
    share = different.histogram()[255] / (different.width * different.height)
    # Edges of letters are smoothed differently.
    assert share < 0.002


def test_no_text_and_no_font_is_left_and_every_outline_is_defined(writer):
    drawing = drawing_of("bias_bars")
    root = ET.fromstring(with_outlines(drawing, writer).text)
    assert not list(root.iter(f"{{{SVG}}}text"))
    assert not [element for element in root.iter() if "font-family" in element.attrib]
    defined = [path.get("id") for path in root.iter(f"{{{SVG}}}path") if path.get("id")]
    used = {use.get(f"{{{XLINK}}}href").removeprefix("#") for use in root.iter(f"{{{SVG}}}use")}
    assert len(defined) == len(set(defined))
    assert used == set(defined)


def test_the_texts_stay_readable_for_screen_readers_and_search(writer):
    drawing = drawing_of("heat_map")
    root = ET.fromstring(with_outlines(drawing, writer).text)
    labels = " ".join(group.get("aria-label", "") for group in root.iter(f"{{{SVG}}}g"))
    for text in texts_in(drawing):
        assert text in labels
    assert root.findtext(f"{{{SVG}}}title") == "Heat map"


def test_a_halo_lies_below_the_letters(writer):
    panel = Panel(y=LinearAxis("y"), x=LinearAxis("x"), marks=[Label(0.2, 0.5, "no data")])
    drawing = paper_drawing(Figure.of(Chart("d", [panel]), ""), PaperLayout(84.0))
    assert 'paint-order="stroke"' in drawing.text
    root = ET.fromstring(with_outlines(drawing, writer).text)
    (group,) = [group for group in root.iter(f"{{{SVG}}}g") if group.get("aria-label") == "no data"]
    halo, letters = group
    assert (halo.get("stroke"), halo.get("fill")) == ("#ffffff", None)
    assert (letters.get("stroke"), letters.get("fill")) == (None, "#57616d")


def test_the_same_drawing_gives_the_same_text(writer):
    drawing = drawing_of("bias_bars")
    assert with_outlines(drawing, writer).text == with_outlines(drawing, ImageWriter(system_fonts=False)).text
