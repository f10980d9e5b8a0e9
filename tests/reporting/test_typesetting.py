"""PDF and PNG files and outlines: fonts are embedded, every script is drawn, the same drawing gives the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from dataclasses import replace

import pytest

from lmassay.reporting.blocks import Figure
from lmassay.reporting.figure_outlines import texts_in
from lmassay.reporting.figure_style import Drawing
from lmassay.reporting.paper import PaperLayout, paper_drawing
from lmassay.reporting.typesetting import ImageWriter, TextLine, missing_font_message
from tests.reporting.chart.figures import FIGURES, SAMPLES

LABELS = ["русская модель", "מודל בעברית", "modèle n° 1", "μ ≤ 0.5 ± 10⁻³ →"]


@pytest.fixture(scope="module")
def writer() -> ImageWriter:
    """A writer that has only the fonts that come with lmassay, as on a machine without any other."""
    return ImageWriter(system_fonts=False)


@pytest.fixture(scope="module")
def drawing() -> Drawing:
    sample = replace(SAMPLES["usual"], labels=LABELS)
    return paper_drawing(Figure.of(FIGURES["bias_bars"](sample), ""), PaperLayout(84.0))


def unpacked(pdf: bytes) -> bytes:
    content = pdf
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, flags=re.DOTALL):
        try:
            content += zlib.decompress(stream)
        except zlib.error:
            continue
    return content


def test_a_pdf_embeds_all_its_fonts(writer, drawing):
    content = unpacked(writer.image(drawing, "pdf"))
    descriptors = re.findall(rb"/Type\s*/FontDescriptor\b.*?>>", content, flags=re.DOTALL)
    assert len(descriptors) == 2, "regular and bold"
    assert all(re.search(rb"/FontFile[23]?\b", descriptor) for descriptor in descriptors)
    assert b"LmassaySans" in content


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="poppler is not installed")
def test_poppler_agrees_that_fonts_are_embedded_and_texts_can_be_copied(writer, drawing, tmp_path):
    path = tmp_path / "figure.pdf"
    path.write_bytes(writer.image(drawing, "pdf"))
    listed = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True).stdout.splitlines()[2:]
    # The columns are name, type, encoding, embedded, subset, unicode map, object.
    assert [line.split()[-5:-2] for line in listed] == [["yes"] * 3] * 2
    text = subprocess.run(["pdftotext", path, "-"], capture_output=True, text=True, check=True).stdout
    assert "русская модель" in text


def test_a_pdf_has_the_size_of_the_column(writer, drawing):
    box = re.search(rb"/MediaBox\s*\[([^]]*)]", unpacked(writer.image(drawing, "pdf")))[1]
    width, height = [float(number) for number in box.split()][2:]
    assert width == pytest.approx(84 / 25.4 * 72, abs=0.02)
    assert height == pytest.approx(drawing.height * drawing.unit / 25.4 * 72, abs=0.02)


@pytest.mark.parametrize("image_format", ["pdf", "png"])
def test_the_same_drawing_gives_the_same_bytes(drawing, image_format):
    first, second = (ImageWriter(system_fonts=False).image(drawing, image_format) for _ in range(2))
    assert first == second
    assert b"CreationDate" not in unpacked(first)


def test_the_shipped_fonts_have_the_letters_of_europe_and_hebrew(writer, drawing):
    assert writer.missing_characters(texts_in(drawing)) == []
    assert writer.missing_characters(["Ελλάδα ěščřž ğıİ łążę שלום ﻿ 0.5 → ← ≤ ± − … · ○ ′"]) == []


def test_characters_that_no_font_has_are_reported_with_a_font_that_has_them(writer):
    missing = writer.missing_characters(["a 한국 model", "日本", "অ"])
    assert missing == ["অ", "日", "本", "국", "한"]
    message = missing_font_message(missing)
    assert "অ日本국한" in message
    assert "install Noto Sans Bengali and Noto Sans CJK SC and Noto Sans CJK KR" in message


def test_outlines_are_as_wide_as_the_layout_assumes(writer):
    from lmassay.reporting.chart.text import text_width

    texts = ["accuracy", "W" * 10, "0.300 ± 0.141", "русская модель", "by category"]
    for text, line in zip(texts, writer.outlines([TextLine(text) for text in texts]), strict=True):
        assert line.width <= text_width(text) + 0.1, text
        assert line.width > 0.6 * text_width(text), text
    (bold,) = writer.outlines([TextLine("accuracy", bold=True)])
    (regular,) = writer.outlines([TextLine("accuracy")])
    assert regular.width < bold.width <= text_width("accuracy", bold=True) + 0.1


def test_texts_are_data_and_never_code(writer):
    plain, code = writer.outlines([TextLine("x"), TextLine('#panic("no") $x$ *b* // c')])
    assert len(plain.glyphs) == 1
    # All characters but the spaces are drawn.
    assert len(code.glyphs) == len('#panic("no")$x$*b*//c') + code_spaces(code)


def code_spaces(line) -> int:
    return sum(1 for glyph in line.glyphs if not glyph.path)
