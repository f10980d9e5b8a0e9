"""The two kinds of charts in the few-shot section: points and lines over two axes, and rows of dots.

Series differ in colour and in the shape of their marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.reporting.chart import (
    MAX_SERIES,
    Category,
    CategoryAxis,
    Chart,
    ChartLine,
    Dot,
    Group,
    Interval,
    LegendEntry,
    LinearAxis,
    Mark,
    Marker,
    Panel,
    PanelNote,
    Stroke,
)

# Shapes by the number of a series. Two successive series have the same shape: the marks of the first are filled, those
# of the second are hollow.
_MARKERS: tuple[Marker, ...] = ("circle", "circle", "triangle", "triangle", "square")
_MAX_NAMED = 16
"""With more series than this there is no legend; the tooltip of a mark names its series."""
_SERIES_DISTANCE = 5.0
"""The points of several series at the same x are drawn next to each other, at this distance in pixels."""
_MAX_SPREAD = 20.0
"""The maximum distance between the first and the last of these points, in pixels."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval."""

    x: float
    y: float
    title: str
    """The text of its tooltip."""
    low: float | None = None
    high: float | None = None
    strong: bool = False
    """Whether the point is emphasized by a ring, or the only kind of point that is drawn (see ``Series.dots``)."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[Point]
    line: bool = False
    """Whether the points are joined by a line."""
    dots: bool = True
    """If False, only strong points are drawn, without a ring."""


@dataclass(frozen=True, slots=True)
class DotRow:
    """A label with one row of dots for each series."""

    label: str
    series: Sequence[Sequence[tuple[str, float]]]
    """For each series, the tooltip and the value of each dot."""
    summaries: Sequence[str]
    """For each series, the text at the end of its row."""


def percent_axis(title: str, values: Sequence[float]) -> LinearAxis:
    """An axis of percentages that contains the values, with at least half a percentage point of space around them."""
    return LinearAxis.around(title, values, within=(0.0, 100.0), least_room=0.5)


def series_chart(
    series: Sequence[Series],
    x: LinearAxis,
    y: LinearAxis,
    description: str,
    *,
    square: bool = False,
    diagonal: bool = False,
) -> Chart:
    """A chart of series over two axes. There is a legend below if there are several series, but not too many."""
    marks: list[Mark] = []
    if diagonal:
        low = max(x.low, y.low)
        high = min(x.high, y.high)
        if low < high:
            marks.append(ChartLine([(low, low), (high, high)], "chance"))
    # Many series are drawn closer together, so that their points stay near their x.
    largest_distance = _MAX_SPREAD / max(len(series) - 1, 1)
    distance = min(_SERIES_DISTANCE, largest_distance)
    middle = (len(series) - 1) / 2
    for number, one_series in enumerate(series):
        shift = 0.0
        if one_series.line and one_series.dots:
            # Without a shift, the intervals of several series at the same x would cover each other.
            shift = (number - middle) * distance
        marks.append(Group(_marks_of(one_series, number), series=number, shift=(shift, 0.0)))
    legend = []
    if 1 < len(series) <= _MAX_NAMED:
        legend = [_legend_entry(one_series, number) for number, one_series in enumerate(series)]
    panel = Panel(y=y, x=x, marks=marks, height=256 if square else 190)
    return Chart(description, [panel], legend=legend, width=330)


def dot_rows_chart(
    rows: Sequence[DotRow], names: Sequence[str], scale: Sequence[float], title: str, description: str
) -> Chart:
    """A chart with rows of dots below their labels, each with its range and mean.

    ``names`` are the names of the series, and the axis contains all values in ``scale``.
    """
    categories = [Category(row.label, lanes=len(names), kind="strong") for row in rows]
    axis = CategoryAxis(categories, lane=17)
    marks: list[Mark] = []
    notes: list[PanelNote] = []
    for number, row in enumerate(rows):
        for lane, (dots, summary) in enumerate(zip(row.series, row.summaries, strict=True)):
            y = axis.lane_position(number, lane)
            notes.append(PanelNote(y, summary))
            if dots:
                marks.append(_row_of_dots(dots, lane, y))
    panel = Panel(y=axis, x=percent_axis(title, scale or (0.0, 100.0)), marks=marks, notes=notes)
    legend = []
    for number, name in enumerate(names):
        sample = Group([_dot(0.5, 0.5, number)], series=number)
        legend.append(LegendEntry(name, [sample], width=10))
    return Chart(description, [panel], legend=legend, legend_side="top")


def _marks_of(series: Series, number: int) -> list[Mark]:
    """The line and points of a series."""
    marks: list[Mark] = []
    if series.line:
        vertices = [(point.x, point.y) for point in series.points]
        marks.append(ChartLine(vertices, _line_style(number, series.dots)))
    for point in series.points:
        if series.dots or point.strong:
            marks.append(_point(point, number, has_ring=point.strong and series.dots))
    return marks


def _point(point: Point, number: int, has_ring: bool) -> Group:
    """The marks of a point: its interval, its dot and its ring."""
    marks: list[Mark] = []
    if point.low is not None and point.high is not None:
        marks.append(Interval(point.low, point.high, point.x, along="y", style="spread pale"))
    marks.append(_dot(point.x, point.y, number))
    if has_ring:
        marks.append(Dot(point.x, point.y, style="interval", radius=7))
    return Group(marks, title=point.title)


def _dot(x: float, y: float, series: int) -> Dot:
    style = "hollow" if series % 2 else "full"
    return Dot(x, y, _MARKERS[series % len(_MARKERS)], style)


def _line_style(series: int, has_dots: bool) -> str:
    style = "curve" if has_dots else "curve unmarked"
    return f"{style} dashed" if series >= MAX_SERIES else style


def _legend_entry(series: Series, number: int) -> LegendEntry:
    sample: list[Mark] = [_dot(0.5, 0.5, number)]
    if series.line:
        sample.insert(0, Interval(0.0, 1.0, 0.5, style=_line_style(number, series.dots)))
    return LegendEntry(series.name, [Group(sample, series=number)])


def _row_of_dots(dots: Sequence[tuple[str, float]], series: int, y: float) -> Group:
    """The marks of one row: a bar over its range, its dots, and a stroke at their mean."""
    values = [value for _, value in dots]
    marks: list[Mark] = [Interval(min(values), max(values), y, style="spread pale")]
    for title, value in dots:
        marks.append(Group([_dot(value, y, series)], title=title))
    marks.append(Stroke(sum(values) / len(values), y))
    return Group(marks, series=series)
