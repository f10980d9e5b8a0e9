"""A chart of accuracies with their intervals: a row per group with all models in it, next to the accuracy of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.reporting.chart import (
    MAX_SERIES,
    Category,
    CategoryAxis,
    Chart,
    Dot,
    Group,
    Interval,
    LegendEntry,
    LinearAxis,
    Mark,
    Panel,
    ReferenceLine,
    Stroke,
)

_CHANCE = 0.5
_LANE = 13.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A value with its interval; ``title`` is its tooltip."""

    title: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """A label, a value for each series (None if it has none), and the reference that the values are compared with."""

    label: str
    values: Sequence[Accuracy | None]
    reference: float | None = None


def accuracy_chart(
    rows: Sequence[AccuracyRow], series: Sequence[str], reference: str, x_title: str, description: str
) -> Chart:
    """Draw a lane for each series in each row, over the range 0 to 1, with chance at a half.

    ``reference`` is the name of the rows' references in tooltips and in the legend.
    """
    if len(series) > MAX_SERIES:
        raise ValueError(f"{len(series)} series in one figure; readers can distinguish {MAX_SERIES}")
    lanes = max(len(series), 1)
    axis = CategoryAxis([Category(row.label, lanes=lanes) for row in rows], lane=_LANE)
    marks: list[Mark] = [ReferenceLine(_CHANCE)]
    for number, row in enumerate(rows):
        if row.reference is not None:
            title = f"{reference} {row.reference:.3f}"
            marks.append(ReferenceLine(row.reference, style="mark", category=number, title=title))
        for lane, accuracy in enumerate(row.values):
            if accuracy is not None:
                marks.append(_accuracy(accuracy, lane, axis.lane_position(number, lane)))
    panel = Panel(y=axis, x=LinearAxis(f"{x_title} (dotted: chance)"), marks=marks)
    legend: list[LegendEntry] = []
    if len(series) > 1:
        for number, name in enumerate(series):
            legend.append(_series_key(name, number))
    if any(row.reference is not None for row in rows):
        legend.append(LegendEntry(reference, [Stroke(0.5, 0.5)]))
    return Chart(description, [panel], legend=legend, legend_side="top", width=388)


def _accuracy(accuracy: Accuracy, series: int, y: float) -> Group:
    marks: list[Mark] = []
    if accuracy.low is not None and accuracy.high is not None:
        marks.append(Interval(accuracy.low, accuracy.high, y))
    marks.append(Dot(accuracy.value, y, style=_fill(series), radius=4))
    return Group(marks, series=series, title=accuracy.title)


def _series_key(name: str, series: int) -> LegendEntry:
    sample = Group([Interval(0.0, 1.0, 0.5), Dot(0.5, 0.5, style=_fill(series), radius=4)], series=series)
    return LegendEntry(name, [sample])


def _fill(series: int) -> str:
    """Every second series has hollow dots, so that series can be distinguished without colour."""
    return "hollow" if series % 2 else "full"
