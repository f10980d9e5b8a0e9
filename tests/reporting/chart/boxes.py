"""The boxes of the texts in a figure, as the layout estimates them, and which of them overlap."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lmassay.reporting.chart.text import ASCENT, DESCENT, text_width

Corner = tuple[float, float]
_ROTATION = re.compile(r"rotate\((\S+) (\S+) (\S+)\)")


@dataclass(frozen=True)
class TextBox:
    """A line of text and the four corners of its box."""

    text: str
    corners: Sequence[Corner]


def text_boxes(svg: str) -> list[TextBox]:
    """The box of every line of text in a drawing."""
    return [box for element in ET.fromstring(svg).iter("text") for box in _boxes(element)]


def overlaps(boxes: Sequence[TextBox], tolerance: float = 0.3) -> list[tuple[str, str]]:
    """The pairs of texts whose boxes share more than a tolerance of their area's width or height."""
    found = []
    for first, second in sorted(_neighbours(boxes)):
        if _overlap(boxes[first].corners, boxes[second].corners) > tolerance:
            found.append((boxes[first].text, boxes[second].text))
    return found


def outside(boxes: Sequence[TextBox], width: float, height: float, tolerance: float = 0.3) -> list[str]:
    """The texts that leave a drawing of this size."""
    beyond = []
    for box in boxes:
        for x, y in box.corners:
            if not (-tolerance <= x <= width + tolerance and -tolerance <= y <= height + tolerance):
                beyond.append(box.text)
                break
    return beyond


def size_of(svg: str) -> tuple[float, float]:
    _, _, width, height = map(float, ET.fromstring(svg).get("viewBox").split())
    return width, height


def _boxes(element: ET.Element) -> Iterator[TextBox]:
    bold = "strong" in element.get("class", "").split()
    anchor = element.get("text-anchor", "start")
    x, y = float(element.get("x")), float(element.get("y"))
    lines = [(element.text or "", x, y)]
    for span in element.findall("tspan"):
        y += float(span.get("dy"))
        lines.append((span.text or "", float(span.get("x")), y))
    for text, left, baseline in lines:
        width = text_width(text, bold=bold)
        start = left - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        top, bottom = baseline - ASCENT, baseline + DESCENT
        corners = [(start, top), (start + width, top), (start + width, bottom), (start, bottom)]
        yield TextBox(text, _rotated(corners, element.get("transform", "")))


def _rotated(corners: Sequence[Corner], transform: str) -> list[Corner]:
    rotation = _ROTATION.fullmatch(transform)
    if rotation is None:
        return list(corners)
    angle, x, y = map(float, rotation.groups())
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    return [(x + (a - x) * cosine - (b - y) * sine, y + (a - x) * sine + (b - y) * cosine) for a, b in corners]


def _neighbours(boxes: Sequence[TextBox]) -> Iterator[tuple[int, int]]:
    """The places of all pairs of boxes that share a part of the width and of the height; no others can overlap."""
    extents = []
    for place, box in enumerate(boxes):
        columns, rows = zip(*box.corners, strict=True)
        extents.append((min(columns), max(columns), min(rows), max(rows), place))
    extents.sort()
    for number, (_, right, top, bottom, place) in enumerate(extents):
        for other_left, _, other_top, other_bottom, other in islice(extents, number + 1, None):
            if other_left > right:
                break
            if other_top <= bottom and top <= other_bottom:
                yield min(place, other), max(place, other)


def _overlap(first: Sequence[Corner], second: Sequence[Corner]) -> float:
    """How deep two rectangles reach into each other: not at all if a line along one of their sides parts them."""
    depth = math.inf
    for corners in (first, second):
        for (ax, ay), (bx, by) in (corners[0:2], corners[1:3]):
            length = math.hypot(bx - ax, by - ay)
            if not length:
                return 0.0
            direction = ((bx - ax) / length, (by - ay) / length)
            depth = min(depth, _shared(_shadow(first, direction), _shadow(second, direction)))
    return depth


def _shadow(corners: Sequence[Corner], direction: Corner) -> tuple[float, float]:
    places = [x * direction[0] + y * direction[1] for x, y in corners]
    return min(places), max(places)


def _shared(first: tuple[float, float], second: tuple[float, float]) -> float:
    return min(first[1], second[1]) - max(first[0], second[0])
