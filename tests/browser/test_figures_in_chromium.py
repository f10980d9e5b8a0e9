"""Figures are saved from the page in a real browser, under its policy, with the colours of the light page."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET

import pytest

from lmassay.reporting.figure_style import SVG, standalone
from lmassay.reporting.formats.content import chapters, figures_in
from lmassay.reporting.page import render
from lmassay.storage.store import Store
from tests.browser.reader import Reader
from tests.reporting.four_evaluations import fill


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("four"))


@pytest.fixture(scope="module")
def reader(chromium, results):
    with Store(results) as store:
        (results / "page.html").write_text(render(store, store.runs()), encoding="utf-8")
    # In the dark, where the colours on the screen are others than those in the file.
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    reader = Reader(chromium, (results / "page.html").as_uri())
    reader.open()
    yield reader
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_every_figure_has_a_button_that_names_it(reader):
    count = reader.js("return document.querySelectorAll('figure svg').length")
    assert count > 10
    labels = reader.js("return [...document.querySelectorAll('.save-figure')].map((b) => b.getAttribute('aria-label'))")
    assert len(labels) == count
    assert "Save as SVG: MW over the cut-off, first" in labels


def test_a_saved_figure_is_the_one_that_the_command_line_writes(reader, results, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    reader.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    reader.js(
        "[...document.querySelectorAll('.save-figure')].forEach((b) => b.closest('details')?.setAttribute('open', ''))"
    )
    reader.js("document.querySelector('[aria-label^=\"Save as SVG: MW over the cut-off, first\"]').click()")
    path = tmp_path / "mw-over-the-cut-off-first.svg"
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, list(tmp_path.iterdir())
        time.sleep(0.05)
    saved = ET.parse(path).getroot()
    assert reader.js("return window.stopped") == []
    with Store(results) as store:
        figures = [figure for chapter in chapters(store, store.runs()) for figure in figures_in(chapter.blocks)]
    (figure,) = [figure for figure in figures if 'aria-label="MW over the cut-off, first' in figure.drawing]
    expected = ET.fromstring(standalone(figure.drawing).text)
    assert saved.get("viewBox") == expected.get("viewBox")
    assert saved.get("width") == "81.49mm"
    assert "class" not in {name for element in saved.iter() for name in element.attrib}
    assert painted(saved) == painted(expected)


def painted(root: ET.Element) -> list[tuple[str, str, str]]:
    """The paint of all shapes; a browser may write a colour in another way."""
    shapes = []
    for element in root.iter():
        tag = element.tag.removeprefix(f"{{{SVG}}}")
        if tag in ("circle", "line", "path", "text"):
            shapes.append((tag, hexadecimal(element.get("fill", "")), hexadecimal(element.get("stroke", ""))))
    return shapes


def hexadecimal(colour: str) -> str:
    if not colour.startswith("rgb("):
        return colour
    return "#" + "".join(f"{int(part):02x}" for part in colour[4:-1].split(","))
