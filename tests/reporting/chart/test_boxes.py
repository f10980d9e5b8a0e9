"""The check of overlapping texts sees what it should see."""

from __future__ import annotations

import pytest

from tests.reporting.chart.boxes import outside, overlaps, text_boxes


def svg(*texts: str) -> str:
    return f'<svg viewBox="0 0 200 100">{"".join(texts)}</svg>'


def text(content: str, x: float, y: float, **more: str) -> str:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x}" y="{y}"{attributes}>{content}</text>'


@pytest.mark.parametrize(
    "other",
    [
        text("beside it", 90, 50),
        text("below it", 10, 65),
        text("ends left of it", 8, 50, text_anchor="end"),
        text("turned", 100, 50, transform="rotate(-40 100 50)"),
    ],
)
def test_texts_that_lie_apart_do_not_overlap(other):
    assert overlaps(text_boxes(svg(text("ten letters", 10, 50), other))) == []


@pytest.mark.parametrize(
    "other",
    [
        text("too near", 60, 50),
        text("too high", 10, 60),
        text("around", 40, 50, text_anchor="middle"),
        text("turned", 40, 60, transform="rotate(-40 40 60)"),
        '<text x="10" y="20">first line<tspan x="10" dy="25">second</tspan></text>',
    ],
)
def test_texts_that_lie_upon_each_other_overlap(other):
    assert len(overlaps(text_boxes(svg(text("ten letters", 10, 50), other)))) == 1


def test_a_text_that_leaves_the_drawing_is_seen():
    boxes = text_boxes(svg(text("fine", 10, 50), text("too far to the right", 150, 50), text("too high", 10, 5)))
    assert outside(boxes, 200, 100) == ["too far to the right", "too high"]
