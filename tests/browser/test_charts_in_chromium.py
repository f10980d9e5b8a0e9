"""Every kind of figure in a real browser: texts are no wider than estimated, do not overlap and stay in the drawing."""

from __future__ import annotations

from typing import Any

import pytest
from markupsafe import Markup

from lmassay.reporting.chart.text import text_width
from lmassay.reporting.html_document import document
from tests.browser.reader import Reader
from tests.reporting.chart.boxes import TextBox, outside, overlaps
from tests.reporting.chart.figures import FIGURES, SAMPLES

# For each figure its size, and for each of its texts the words of its lines, their widths and the corners of the text's
# box in units of the drawing, turned as the text is.
MEASURE = """
return [...document.querySelectorAll("svg")].map((svg) => ({
  size: [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height],
  texts: [...svg.querySelectorAll("text")].map((text) => {
    const box = text.getBBox();
    const turned = text.transform.baseVal.consolidate();
    const corners = [
      [box.x, box.y], [box.x + box.width, box.y],
      [box.x + box.width, box.y + box.height], [box.x, box.y + box.height],
    ].map(([x, y]) => {
      const point = new DOMPoint(x, y);
      const place = turned ? point.matrixTransform(turned.matrix) : point;
      return [place.x, place.y];
    });
    const first = text.firstChild.textContent;
    const lines = [[first, text.getSubStringLength(0, first.length)]];
    for (const span of text.querySelectorAll("tspan")) lines.push([span.textContent, span.getComputedTextLength()]);
    return { lines, corners, bold: Number(getComputedStyle(text).fontWeight) >= 600 };
  }),
}));
"""
# A rounding error of the browser's, which lays out text in steps of 1/64 of a pixel.
TOLERANCE = 1.0


@pytest.fixture(scope="module", params=SAMPLES)
def measured(request, chromium, tmp_path_factory) -> dict[str, Any]:
    """All figures of a sample, as chromium draws them."""
    folder = tmp_path_factory.mktemp("charts")
    body = Markup("")
    for figure in FIGURES.values():
        body += Markup("<figure>{}</figure>").format(figure(SAMPLES[request.param]).svg())
    (folder / "page.html").write_text(document("charts", body), encoding="utf-8")
    reader = Reader(chromium, (folder / "page.html").as_uri())
    reader.open()
    assert reader.js("return window.stopped") == [], "the policy of the page forbids nothing that a figure has"
    return dict(zip(FIGURES, reader.js(MEASURE), strict=True))


def test_texts_are_as_wide_as_estimated_or_a_little_narrower(measured):
    for figure, drawing in measured.items():
        assert drawing["texts"], figure
        for text in drawing["texts"]:
            for words, width in text["lines"]:
                estimate = text_width(words, bold=text["bold"])
                assert width <= 1.03 * estimate + TOLERANCE, (figure, words)
                assert width >= 0.6 * estimate - TOLERANCE, (figure, words)


@pytest.mark.parametrize("figure", FIGURES)
def test_texts_do_not_overlap_and_stay_in_the_drawing(measured, figure):
    drawing = measured[figure]
    boxes = [TextBox(" ".join(words for words, _ in text["lines"]), text["corners"]) for text in drawing["texts"]]
    assert overlaps(boxes, TOLERANCE) == []
    assert outside(boxes, *drawing["size"], TOLERANCE) == []
