"""Curves as functions of a cut-off, drawn as in Newman et al. (2021).

Top cut-offs: upper axis, linear, with solid lines and full or hollow marks. Bottom cut-offs: lower axis, logarithmic,
with dashed lines and crosses or hollow marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lmassay.reporting.chart import (
    Axis,
    ChartLine,
    Dot,
    Group,
    Interval,
    LegendEntry,
    LinearAxis,
    LogAxis,
    Mark,
    Marker,
    Panel,
)

Side = Literal["top", "bottom"]
_RADIUS = 3.0
_SMALL_RADIUS = 1.5
_DENSE = 60
"""With more points than this, marks are drawn small, because they would hide the line."""


@dataclass(frozen=True, slots=True)
class CutoffPoint:
    """A value at a cut-off; ``title`` is its tooltip, and ``faint`` says that it is based on few contexts."""

    side: Side
    cutoff: float
    value: float
    title: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True)
class CurveStyle:
    """The colour of a curve, as a class of the style sheet, and the marks of its points."""

    colour: str
    top: Marker = "circle"
    bottom: Marker = "cross"
    hollow_top: bool = False

    def marker(self, side: Side) -> Marker:
        """Return the shape of the marks on one of the two lines."""
        if side == "top":
            return self.top
        return self.bottom

    def fill(self, side: Side) -> str:
        """Return whether the marks on one of the two lines are full or hollow."""
        if side == "bottom" or self.hollow_top:
            return "hollow"
        return "full"


@dataclass(frozen=True, slots=True)
class CutoffCurve:
    """A curve of the figure. It has two lines: one for top cut-offs and one for bottom cut-offs."""

    name: str
    points: Sequence[CutoffPoint]
    style: CurveStyle


def series_style(number: int) -> CurveStyle:
    """Return the style of the n-th curve: marks alternate between filled and hollow, diagonal and upright crosses."""
    colour = f"s{number}"
    # Neighbouring curves also differ in their marks, for readers and printers that do not distinguish the colours.
    if number % 2 == 0:
        return CurveStyle(colour, bottom="cross", hollow_top=False)
    return CurveStyle(colour, bottom="plus", hollow_top=True)


def cutoff_panel(
    curves: Sequence[CutoffCurve], y: Axis, top: LinearAxis, bottom: LogAxis, *, title: str = "", height: float = 210.0
) -> Panel:
    """Draw the curves between their two axes."""
    bottom_marks: list[Mark] = []
    top_marks: list[Mark] = []
    for curve in curves:
        bottom_marks.append(_curve(curve, "bottom"))
        top_marks.append(_curve(curve, "top"))
    return Panel(y=y, x=bottom, marks=bottom_marks, top=top, top_marks=top_marks, title=title, height=height)


def bottom_axis(title: str, curves: Iterable[CutoffCurve]) -> LogAxis:
    """Return an axis from the decade of the lowest cut-off to 1, the whole distribution."""
    cutoffs = [1.0]
    for curve in curves:
        cutoffs += [point.cutoff for point in curve.points if point.side == "bottom"]
    return LogAxis.around(title, cutoffs)


def curve_key(curve: CutoffCurve) -> LegendEntry:
    """Return the legend entry of a curve: a piece of its solid and of its dashed line."""
    style = curve.style
    marks: list[Mark] = [
        Interval(0.0, 0.42, 0.5, style="curve"),
        Dot(0.21, 0.5, style.marker("top"), style.fill("top"), _RADIUS),
        Interval(0.58, 1.0, 0.5, style="curve dashed"),
        Dot(0.79, 0.5, style.marker("bottom"), style.fill("bottom"), _RADIUS),
    ]
    return LegendEntry(curve.name, [Group(marks, style=style.colour)], width=52)


def _curve(curve: CutoffCurve, side: Side) -> Mark:
    """Draw one of the two lines of a curve, with a mark for each of its points."""
    points = [point for point in curve.points if point.side == side]
    points.sort(key=lambda point: point.cutoff)

    line_style = "curve"
    if side == "bottom":
        line_style = "curve dashed"
    radius = _RADIUS
    if len(points) > _DENSE:
        radius = _SMALL_RADIUS
    marker = curve.style.marker(side)
    fill = curve.style.fill(side)

    coordinates: list[tuple[float, float]] = []
    dots: list[Mark] = []
    for point in points:
        coordinates.append((point.cutoff, point.value))
        dot = Dot(point.cutoff, point.value, marker, fill, radius)
        dot_style = ""
        if point.faint:
            dot_style = "faint"
        dots.append(Group([dot], style=dot_style, title=point.title))
    # The line comes first, so that the dots are drawn on top of it.
    return Group([ChartLine(coordinates, line_style), *dots], style=curve.style.colour)
