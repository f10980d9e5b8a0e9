"""Curves over a cut-off, drawn as in Newman et al. (2021): top cut-offs on the upper axis, bottom ones on the lower.

Top: linear axis, solid lines, full or hollow marks. Bottom: logarithmic axis, dashed lines, crosses or hollow marks.
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
        return self.top if side == "top" else self.bottom

    def fill(self, side: Side) -> str:
        if side == "bottom":
            return "hollow"
        return "hollow" if self.hollow_top else "full"


@dataclass(frozen=True, slots=True)
class CutoffCurve:
    """A curve of the figure; it has two lines, one over top and one over bottom cut-offs."""

    name: str
    points: Sequence[CutoffPoint]
    style: CurveStyle


def series_style(number: int) -> CurveStyle:
    """Return the style of the n-th curve: marks alternate between filled and hollow, diagonal and upright crosses."""
    is_odd = number % 2 == 1
    return CurveStyle(f"s{number}", bottom="plus" if is_odd else "cross", hollow_top=is_odd)


def cutoff_panel(
    curves: Sequence[CutoffCurve], y: Axis, top: LinearAxis, bottom: LogAxis, *, title: str = "", height: float = 210.0
) -> Panel:
    """Draw the curves between their two axes."""
    return Panel(
        y=y,
        x=bottom,
        marks=[_curve(curve, "bottom") for curve in curves],
        top=top,
        top_marks=[_curve(curve, "top") for curve in curves],
        title=title,
        height=height,
    )


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
        Dot(0.21, 0.5, style.marker("top"), style.fill("top"), radius=3),
        Interval(0.58, 1.0, 0.5, style="curve dashed"),
        Dot(0.79, 0.5, style.marker("bottom"), style.fill("bottom"), radius=3),
    ]
    return LegendEntry(curve.name, [Group(marks, style=style.colour)], width=52)


def _curve(curve: CutoffCurve, side: Side) -> Mark:
    points = [point for point in curve.points if point.side == side]
    points.sort(key=lambda point: point.cutoff)
    coordinates = [(point.cutoff, point.value) for point in points]
    line_style = "curve" if side == "top" else "curve dashed"
    marks: list[Mark] = [ChartLine(coordinates, line_style)]
    radius = 3.0 if len(points) <= _DENSE else 1.5
    for point in points:
        dot = Dot(point.cutoff, point.value, curve.style.marker(side), curve.style.fill(side), radius)
        dot_style = "faint" if point.faint else ""
        marks.append(Group([dot], style=dot_style, title=point.title))
    return Group(marks, style=curve.style.colour)
