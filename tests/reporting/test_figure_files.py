"""Figures as files: drawings that stand alone, pictures of the right size, documents with text in them."""

from __future__ import annotations

import errno
import io
import re
import sys
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace

import pytest
from PIL import Image

from lmassay.errors import DataError, MissingExtra
from lmassay.evaluations.robustness.report import success_chart
from lmassay.reporting.figure_files import figure_files, write_figures
from lmassay.reporting.figure_style import SVG, page_style_sheet, parse_style_sheet, standalone
from lmassay.reporting.formats.content import chapters
from lmassay.reporting.typesetting import DOTS_PER_UNIT, ImageWriter
from lmassay.storage.store import Store
from lmassay.types import Result
from tests.reporting.four_evaluations import KOREAN

SHAPES = ("circle", "line", "path", "polygon", "polyline", "rect", "text")


@pytest.fixture(scope="module")
def drawn(four):
    with Store(four) as store:
        return figure_files(chapters(store, store.runs()))


def bars(label: str = "an attack") -> str:
    return str(success_chart([(label, Result("success", "overall", 0.5, 0.25, 0.75, 8))]).svg())


def test_every_figure_of_the_four_evaluations_has_a_name_of_its_own(drawn):
    names = [file.name for file in drawn]
    assert len(names) == len(set(names)) > 20
    assert {name.partition("-")[0] for name in names} == {"robustness", "syntax", "bias", "fewshot"}
    assert "syntax-01-mw-constructions-by-model" in names
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)


def test_figures_of_long_chapters_have_names_of_their_own(four):
    with Store(four) as store:
        long = [replace(chapter, title="한글" * 100) for chapter in chapters(store, store.runs())]
    names = [file.name for file in figure_files(long)]
    assert len(names) == len(set(names)) > 20
    assert all(len(name.encode()) <= 150 for name in names)


def test_every_class_of_every_figure_is_in_the_style_sheet(drawn):
    used = {
        name
        for file in drawn
        for classes in re.findall(r'class="([^"]*)"', file.figure.drawing)
        for name in classes.split()
    }
    # These say what a shape is; types and other classes say how it looks.
    assert used - page_style_sheet().classes <= {"tick", "dot", "firm"}


def test_a_drawing_that_stands_alone_needs_no_style_sheet(drawn):
    for file in drawn:
        root = ET.fromstring(file.drawing.text)
        assert root.tag == f"{{{SVG}}}svg"
        assert (root.get("width"), root.get("height")) == (f"{file.drawing.width:g}", f"{file.drawing.height:g}")
        assert "var(" not in file.drawing.text
        assert "class=" not in file.drawing.text
        for element in root.iter():
            if element.tag.removeprefix(f"{{{SVG}}}") in SHAPES:
                assert element.get("fill") or element.get("stroke"), (file.name, ET.tostring(element))
            if element.tag == f"{{{SVG}}}text":
                assert element.get("font-size"), (file.name, ET.tostring(element))


def test_variables_classes_and_series_become_paint():
    sheet = parse_style_sheet(
        ":root { --hit: #ff000080; } /* .a { fill: blue } */"
        "@media (prefers-color-scheme: dark) { :root { --hit: #000000 } .a { fill: pink } }"
        ".a, .b { fill: var(--hit); fill-opacity: .5 } .s0 { --series: #123456 } .c { stroke: var(--series, red) }"
        "svg text { font: 12px system-ui, sans-serif; fill: #111111 } svg .a:hover { fill: green }"
    )
    drawing = (
        '<svg viewBox="0 0 4 3" aria-label="t"><rect class="a"/><g class="s0"><path class="c"/></g><path class="c"/>'
        "<text>x<title>more</title></text></svg>"
    )
    root = ET.fromstring(standalone(drawing, "said", sheet).text)
    (_, rect), (first, second), (text,) = (root.findall(f".//{{{SVG}}}{tag}") for tag in ("rect", "path", "text"))
    assert (rect.get("fill"), rect.get("fill-opacity")) == ("#ff0000", "0.251")
    assert (first.get("stroke"), second.get("stroke")) == ("#123456", "red")
    assert (text.get("font-size"), text.get("fill"), len(text)) == ("12", "#111111", 0)
    assert [e.text for e in root[:2]] == ["t", "said"]


def test_signs_that_xml_cannot_hold_do_not_spoil_a_figure():
    made = standalone(bars("a\x00b\ud800 <&"), "c\x0bd")
    assert "a\ufffdb\ufffd" in "".join(ET.fromstring(made.text).itertext())


def test_a_png_has_its_size_and_shows_something(drawn):
    writer = ImageWriter()
    for file in drawn[::9]:
        picture = Image.open(io.BytesIO(writer.image(file.drawing, "png"))).convert("RGB")
        wanted = (file.drawing.width * DOTS_PER_UNIT, file.drawing.height * DOTS_PER_UNIT)
        assert picture.size == pytest.approx(wanted, abs=1)
        assert picture.getpixel((0, 0)) == (255, 255, 255)
        assert len(picture.getcolors(1 << 24)) > 10


def ink(label: str) -> int:
    picture = Image.open(io.BytesIO(ImageWriter().image(standalone(bars(label)), "png"))).convert("L")
    # Where labels stand: above the line, to the left.
    return sum(picture.crop((0, 0, picture.width // 2, 20 * DOTS_PER_UNIT)).histogram()[:128])


def test_labels_are_drawn():
    assert ink("a long label of an attack") > ink("short") > ink(" ")


def test_a_pdf_has_text_in_it(drawn):
    (file,) = [f for f in drawn if "by-category" in f.name and "-ambiguous" in f.name]
    made = ImageWriter().image(file.drawing, "pdf")
    assert made.startswith(b"%PDF-1.")
    assert b"/Font" in made + b"".join(unpacked(made))
    assert file.drawing.title.startswith(KOREAN)


def unpacked(pdf: bytes) -> list[bytes]:
    streams = []
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, flags=re.DOTALL):
        try:
            streams.append(zlib.decompress(stream))
        except zlib.error:
            continue
    return streams


def test_svg_needs_no_optional_part_and_png_says_which(drawn, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    assert [p.suffix for p in write_figures(drawn[:2], tmp_path, ["svg"])] == [".svg"] * 2
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[figures\]'"):
        write_figures(drawn[:2], tmp_path / "more", ["png"])
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_a_figure_that_cannot_be_finished_leaves_the_old_one(drawn, tmp_path, monkeypatch, form):
    (path,) = write_figures(drawn[:1], tmp_path, [form])
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="No space left on device"):
        write_figures([replace(drawn[1], name=drawn[0].name)], tmp_path, [form])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_reported(drawn, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot write figures to"):
        write_figures(drawn[:1], tmp_path / "file" / "figures", ["svg"])
