"""Marks: the lines, dots, bars, intervals and areas that are drawn between the axes of a panel.

Coordinates of a mark are values on the axes. Sizes, such as the radius of a dot, are in units of the drawing.

The ``style`` of a mark is one or more classes of the style sheet (``templates/page.css``). These classes take the
colour of the mark's series, which a `Group` sets:

- lines: ``curve``, ``curve dashed``; intervals: ``spread``, ``spread pale``; dots: ``full``, ``hollow``, ``full light``

These have a fixed colour:

- reference lines: ``chance`` (dotted), ``zero``, ``mark`` (thick)
- a value and its interval: ``value`` (a dot) and ``whisker`` (a line); an interval drawn on a bar: ``interval``
- bars: ``share`` for a rate; ``toward`` and ``against`` for a bias toward the stereotype and against it
- shaded areas behind a bar of bias, for the values that are possible: ``band`` (dark) at the measured accuracy,
  ``reach`` (light) at any accuracy within its interval
- areas: ``region``, with ``line`` for the edge; points inside and outside of an area: ``dot hit``, ``dot miss``
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from markupsafe import Markup

from lmassay.reporting.chart import elements
from lmassay.reporting.chart.elements import Anchor, number
from lmassay.reporting.chart.placement import PlotArea
from lmassay.reporting.chart.text import MIDDLE, fit

MAX_SERIES = 5
"""The number of colours that readers with any kind of colour vision can distinguish, on paper and on a dark screen."""

Direction = Literal["x", "y"]
Marker = Literal[
    "circle", "triangle", "square", "diamond", "triangle-down", "pentagon", "star", "triangle-left", "triangle-right",
    "cross", "plus",
]  # fmt: skip
Point = tuple[float, float]

_HALF_CAP = 2.5
"""Half the length of a cap, the short stroke at each end of an interval."""
_STRONGEST_SHADE = 0.62
"""The largest opacity of a heat map's colours, at which the number in the cell can still be read."""


class Mark(Protocol):
    """Anything that can draw itself in the plot area of a panel."""

    def draw(self, frame: PlotArea) -> Markup:
        """Return the mark as SVG; empty markup if a coordinate is not a finite number."""
        ...


@dataclass(frozen=True, slots=True)
class Group:
    """Marks that belong together: they have the colour of one series, and ``title`` is the tooltip of all of them.

    ``shift`` moves them to the right and down, so that marks of several series with the same coordinates do not hide
    each other.
    """

    marks: Sequence[Mark]
    series: int | None = None
    style: str = ""
    title: str = ""
    shift: tuple[float, float] = (0.0, 0.0)

    def draw(self, frame: PlotArea) -> Markup:
        shifted = frame.shifted(*self.shift)
        drawn = elements.join(mark.draw(shifted) for mark in self.marks)
        if not drawn:
            return Markup("")
        classes = [self.style] if self.style else []
        if self.series is not None:
            classes.insert(0, f"s{self.series % MAX_SERIES}")
        return elements.element("g", elements.title(self.title), drawn, class_=" ".join(classes))


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line through points, in their order."""

    points: Sequence[Point]
    style: str = "curve"
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        placed = [frame.at(*point) for point in self.points if _is_finite(*point)]
        if len(placed) < 2:
            return Markup("")
        points = " ".join(_point_text(point) for point in placed)
        return elements.element("polyline", elements.title(self.title), class_=self.style, points=points)


@dataclass(frozen=True, slots=True)
class Dot:
    """A point, in one of several shapes."""

    x: float
    y: float
    marker: Marker = "circle"
    style: str = "full"
    radius: float = 3.4
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.x, self.y):
            return Markup("")
        x, y = frame.at(self.x, self.y)
        if self.marker == "circle":
            return elements.element(
                "circle", elements.title(self.title), class_=self.style, cx=x, cy=y, r=f"{self.radius:g}"
            )
        if self.marker in _CROSSES:
            # A cross has no area that could be full or hollow, so it has a style of its own.
            return elements.path(_cross(self.marker, x, y, self.radius), "cross", self.title)
        return elements.path(_polygon(self.marker, x, y, self.radius), self.style, self.title)


@dataclass(frozen=True, slots=True)
class Interval:
    """A stroke from ``low`` to ``high`` along one axis, at the coordinate ``at`` of the other axis.

    ``caps`` adds a short stroke across each end.
    """

    low: float
    high: float
    at: float
    along: Direction = "x"
    style: str = "spread"
    caps: bool = False
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.low, self.high, self.at):
            return Markup("")
        start, end = _along(frame, self.along, self.low, self.high, self.at)
        if not self.caps:
            return elements.line(start, end, self.style, self.title)
        (x1, y1), (x2, y2) = start, end
        # One path for the stroke and both caps, so that they are one mark with one tooltip.
        commands = f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"
        for x, y in (start, end):
            if self.along == "x":
                commands += f"M{number(x)} {number(y - _HALF_CAP)}V{number(y + _HALF_CAP)}"
            else:
                commands += f"M{number(x - _HALF_CAP)} {number(y)}H{number(x + _HALF_CAP)}"
        return elements.path(commands, self.style, self.title)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from ``start`` to ``end`` along one axis, at the coordinate ``at`` of the other axis."""

    start: float
    end: float
    at: float
    along: Direction = "x"
    thickness: float = 9.0
    style: str = "share"
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.start, self.end, self.at):
            return Markup("")
        (x1, y1), (x2, y2) = _along(frame, self.along, self.start, self.end, self.at)
        half = self.thickness / 2
        if self.along == "x":
            return elements.rectangle((x1, x2), (y1 - half, y1 + half), self.style, self.title)
        return elements.rectangle((x1 - half, x1 + half), (y1, y2), self.style, self.title)


@dataclass(frozen=True, slots=True)
class Stroke:
    """A short upright stroke at a point, from ``above`` units above it to ``below`` units below it."""

    x: float
    y: float
    above: float = 6.0
    below: float = 6.0
    style: str = "mark"
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.x, self.y):
            return Markup("")
        x, y = frame.at(self.x, self.y)
        return elements.line((x, y - self.above), (x, y + self.below), self.style, self.title)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow along the x axis from a hollow dot at ``start`` to an arrowhead at ``end``.

    If both are so close that an arrow does not fit between them, a small dot takes the place of the arrowhead.
    """

    start: float
    end: float
    at: float

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.start, self.end, self.at):
            return Markup("")
        (x1, y), (x2, _) = _along(frame, "x", self.start, self.end, self.at)
        origin = elements.element("circle", class_="hollow", cx=x1, cy=y, r=3.6)
        # Nine units are too short for a shaft and an arrowhead.
        if abs(x2 - x1) <= 9:
            return origin + elements.element("circle", class_="full", cx=x2, cy=y, r=2.6)
        direction = math.copysign(1.0, x2 - x1)
        # The shaft ends inside the arrowhead, so that it does not blunt the point.
        shaft = elements.line((x1, y), (x2 - 4 * direction, y), "spread")
        back = x2 - 5 * direction
        head = f"M{number(x2)} {number(y)}L{number(back)} {number(y - 4)}V{number(y + 4)}Z"
        return shaft + origin + elements.path(head, "full")


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A reference line at a value of one axis, across the panel, or across one category of the other axis."""

    value: float
    axis: Direction = "x"
    style: str = "chance"
    category: int | None = None
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        if not _is_finite(self.value):
            return Markup("")
        across = frame.y if self.axis == "x" else frame.x
        spans = across.clear_spans
        if self.category is not None:
            spans = [across.spans[self.category]]
        lines = []
        for span in spans:
            if self.axis == "x":
                x = frame.x(self.value) + frame.shift[0]
                lines.append(elements.line((x, span.start), (x, span.end), self.style, self.title))
            else:
                y = frame.y(self.value) + frame.shift[1]
                lines.append(elements.line((span.start, y), (span.end, y), self.style, self.title))
        return elements.join(lines)


@dataclass(frozen=True, slots=True)
class HalfPlane:
    """The part of a panel in which ``a * x + b * y > c``: a shaded area and the line along its edge."""

    a: float
    b: float
    c: float

    def draw(self, frame: PlotArea) -> Markup:
        corners, edge = self.clipped(frame.x.range, frame.y.range)
        parts = []
        if len(corners) > 2:
            points = " ".join(_point_text(frame.at(*corner)) for corner in corners)
            parts.append(elements.element("polygon", class_="region", points=points))
        if len(edge) == 2:
            parts.append(elements.line(frame.at(*edge[0]), frame.at(*edge[1]), "line"))
        return elements.join(parts)

    def clipped(self, x: tuple[float, float], y: tuple[float, float]) -> tuple[list[Point], list[Point]]:
        """Clip the half plane to a rectangle (Sutherland and Hodgman, 1974).

        Returns the corners of the remaining polygon, and the two points at which the edge crosses the rectangle.

        >>> HalfPlane(1, 1, 1).clipped((0, 1), (0, 1))
        ([(1.0, 0.0), (1, 1), (0.0, 1.0)], [(1.0, 0.0), (0.0, 1.0)])
        """
        left, right = x
        bottom, top = y
        rectangle = [(left, bottom), (right, bottom), (right, top), (left, top)]
        following = [*rectangle[1:], rectangle[0]]
        corners: list[Point] = []
        edge: list[Point] = []
        for start, end in zip(rectangle, following, strict=True):
            height_at_start = self._height(start)
            height_at_end = self._height(end)
            if height_at_start > 0:
                corners.append(start)
            # Different signs: the edge crosses this side of the rectangle.
            if (height_at_start > 0) != (height_at_end > 0):
                # Heights change linearly along a side, so this share of the side lies before the crossing.
                share = height_at_start / (height_at_start - height_at_end)
                crossing = _point_between(start, end, share)
                edge.append(crossing)
                corners.append(crossing)
        return corners, edge

    def _height(self, point: Point) -> float:
        """Return ``a * x + b * y - c``, which is positive inside the half plane and negative outside."""
        return self.a * point[0] + self.b * point[1] - self.c


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """A cell of a heat map: its text, and a shade from -1 (one colour) through 0 (none) to 1 (the other colour)."""

    column: int
    row: int
    text: str
    shade: float | None = None
    title: str = ""

    def draw(self, frame: PlotArea) -> Markup:
        x = frame.x.spans[self.column]
        y = frame.y.spans[self.row]
        # A gap of two units between neighbouring cells.
        inside_x = (x.start + 1, x.end - 1)
        inside_y = (y.start + 1, y.end - 1)
        parts = [elements.title(self.title), elements.rectangle(inside_x, inside_y, "heat-none", fill="none")]
        if self.shade is not None:
            parts.append(shaded(inside_x, inside_y, self.shade))
        style = "tick" if self.shade is None else "label"
        text = fit(self.text, x.length - 4)
        parts.append(elements.text(text, x.middle, y.middle + MIDDLE, style, "middle"))
        return elements.element("g", *parts)


@dataclass(frozen=True, slots=True)
class Shade:
    """A rectangle in the colour of a heat map, for its legend."""

    x: tuple[float, float]
    shade: float

    def draw(self, frame: PlotArea) -> Markup:
        left = frame.x(self.x[0])
        right = frame.x(self.x[1])
        bottom = frame.y(0.0)
        top = frame.y(1.0)
        return shaded((left, right), (top, bottom), self.shade)


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a point of the panel, cut where it would leave the panel."""

    x: float
    y: float
    text: str
    style: str = "tick"
    anchor: Anchor = "start"

    def draw(self, frame: PlotArea) -> Markup:
        x, y = frame.at(self.x, self.y)
        left, right = sorted((frame.x.span.start, frame.x.span.end))
        if self.anchor == "start":
            room = right - x
        elif self.anchor == "end":
            room = x - left
        else:
            room = 2 * min(right - x, x - left)
        # The halo keeps lines of the panel, such as the one at zero, from running through the letters.
        return elements.text(fit(self.text, room), x, y + MIDDLE, f"{self.style} halo", self.anchor)


def shaded(x: tuple[float, float], y: tuple[float, float], shade: float) -> Markup:
    """Return a rectangle in the colour of a heat map.

    The sign of ``shade`` selects the colour, and its absolute value (up to 1) the opacity.
    """
    side = "high" if shade >= 0 else "low"
    strength = _STRONGEST_SHADE * min(abs(shade), 1.0)
    return elements.rectangle(x, y, f"heat-{side}", fill_opacity=f"{strength:.3f}")


def _is_finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


def _along(frame: PlotArea, along: Direction, start: float, end: float, at: float) -> tuple[Point, Point]:
    """Return both ends of a stroke along an axis, as points of the drawing."""
    if along == "x":
        return frame.at(start, at), frame.at(end, at)
    return frame.at(at, start), frame.at(at, end)


def _point_between(start: Point, end: Point, share: float) -> Point:
    x = start[0] + share * (end[0] - start[0])
    y = start[1] + share * (end[1] - start[1])
    return x, y


def _point_text(point: Point) -> str:
    return f"{number(point[0])},{number(point[1])}"


# --- shapes of dots ---------------------------------------------------------------------------------------------------

_CROSSES = ("cross", "plus")
# Shape → the number of corners, the direction of the first corner (in degrees, clockwise from the top), and by what
# factor the shape is drawn larger than a circle, so that both look equally large.
_CORNERS = {
    "triangle": (3, 0, 1.25),
    "triangle-right": (3, 90, 1.25),
    "triangle-down": (3, 180, 1.25),
    "triangle-left": (3, 270, 1.25),
    "square": (4, 45, 1.25),
    "diamond": (4, 0, 1.3),
    "pentagon": (5, 0, 1.15),
    "star": (5, 0, 1.45),
}


def _polygon(marker: Marker, x: float, y: float, radius: float) -> str:
    count, first, scale = _CORNERS[marker]
    corners = []
    for corner in range(count):
        angle = math.radians(first + 360 * corner / count)
        corners.append(_point_at_angle(x, y, angle, scale * radius))
        if marker == "star":
            # Between two points of a star lies a corner near its middle.
            corners.append(_point_at_angle(x, y, angle + math.pi / count, 0.45 * scale * radius))
    return "M" + "L".join(corners) + "Z"


def _point_at_angle(x: float, y: float, angle: float, radius: float) -> str:
    """Return the point of a circle around (x, y) at an angle that is measured clockwise from the top."""
    return f"{number(x + radius * math.sin(angle))} {number(y - radius * math.cos(angle))}"


def _cross(marker: Marker, x: float, y: float, radius: float) -> str:
    if marker == "plus":
        arm = radius * 1.15
        horizontal = f"M{number(x - arm)} {number(y)}h{number(2 * arm)}"
        vertical = f"M{number(x)} {number(y - arm)}v{number(2 * arm)}"
        return horizontal + vertical
    arm = radius * 0.85
    left = number(x - arm)
    right = number(x + arm)
    top = number(y - arm)
    bottom = number(y + arm)
    return f"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}"
