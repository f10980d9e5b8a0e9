"""Charts for report pages, as self-contained SVG.

A `Chart` has panels, a `Panel` has axes and marks. Say what is drawn; the layout finds the room: ticks are thinned out,
labels wrapped or cut, legends set in columns, so that no two texts overlap.

>>> from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Panel, Rule
>>> scores = {"small model": (0.61, 0.55, 0.67), "large model": (0.82, 0.78, 0.86)}
>>> marks = [Rule(0.5)]
>>> for row, (value, low, high) in enumerate(scores.values()):
...     marks.append(Interval(low, high, at=row, style="whisker"))
...     marks.append(Dot(value, row, style="value", title=f"{value:.2f} [{low:.2f}, {high:.2f}]"))
>>> rows = CategoryAxis([Category(name) for name in scores])
>>> chart = Chart("Accuracy of two models", [Panel(y=rows, x=LinearAxis("accuracy"), marks=marks)])
>>> chart.svg()[:34]
Markup('<svg viewBox="0 0 400 122" role="i')

``chart.svg()`` goes into a `lmassay.reporting.blocks.Figure`; reports show it on the page, and write it as SVG, PNG and
PDF files. Colours come from the style sheet, for light and dark screens and for print.
"""

from lmassay.reporting.chart.axes import Axis, Category, CategoryAxis, LinearAxis, LogAxis
from lmassay.reporting.chart.chart import Chart
from lmassay.reporting.chart.legend import Key
from lmassay.reporting.chart.marks import (
    MOST_SERIES,
    Arrow,
    Bar,
    Cell,
    Dot,
    Group,
    HalfPlane,
    Interval,
    Label,
    Line,
    Mark,
    Marker,
    Rule,
    Shade,
    Stroke,
)
from lmassay.reporting.chart.panel import Note, Panel

__all__ = [
    "MOST_SERIES",
    "Arrow",
    "Axis",
    "Bar",
    "Category",
    "CategoryAxis",
    "Cell",
    "Chart",
    "Dot",
    "Group",
    "HalfPlane",
    "Interval",
    "Key",
    "Label",
    "Line",
    "LinearAxis",
    "LogAxis",
    "Mark",
    "Marker",
    "Note",
    "Panel",
    "Rule",
    "Shade",
    "Stroke",
]
