"""Differences with their intervals, one below the other, around the line where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Group, Interval, LinearAxis, Mark, Panel
from lmassay.reporting.numbers import p_text
from lmassay.statistics.comparison import Comparison


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A difference with its label; a significant one is drawn as a full dot, another one as a hollow dot."""

    label: str
    comparison: Comparison
    is_significant: bool


def on_one_scale(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """The rows in figures: all metrics that lie between -1 and 1 in one, others each in their own."""
    large_metrics = {row.metric for row in rows if max(abs(row.base_mean), abs(row.new_mean)) > 1}
    figures: dict[str, list[Comparison]] = {}
    for row in rows:
        figure = row.metric if row.metric in large_metrics else ""
        figures.setdefault(figure, []).append(row)
    return list(figures.values())


def difference_chart(rows: Sequence[DifferenceRow], x_title: str, description: str) -> Chart:
    """One row a difference; the axis holds all intervals and zero."""
    values = [0.0]
    marks: list[Mark] = []
    for number, row in enumerate(rows):
        marks.append(_marks(row, number))
        comparison = row.comparison
        for value in (comparison.difference, comparison.low, comparison.high):
            if value is not None:
                values.append(value)
    axis = LinearAxis.around(x_title, values, signed=True)
    categories = CategoryAxis([Category(row.label) for row in rows])
    return Chart(description, [Panel(y=categories, x=axis, marks=marks)], width=380)


def _marks(row: DifferenceRow, number: int) -> Group:
    comparison = row.comparison
    title = f"{row.label}: {comparison.difference:+z.4f}"
    marks: list[Mark] = []
    if comparison.low is not None and comparison.high is not None:
        title += f" [{comparison.low:+z.4f}, {comparison.high:+z.4f}]"
        marks.append(Interval(comparison.low, comparison.high, number))
    title += f", p {p_text(comparison.p)}, n {comparison.n}"
    style = "full" if row.is_significant else "hollow"
    marks.append(Dot(comparison.difference, number, style=style, radius=4.5))
    return Group(marks, series=0, title=title)
