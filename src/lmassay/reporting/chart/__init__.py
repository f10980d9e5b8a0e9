"""Charts for report pages, as self-contained SVG.

A `Chart` has panels, a `Panel` has axes and marks. You declare what to draw, and the layout arranges it: it leaves out
ticks, wraps or shortens labels and arranges the legend in columns, so that no two texts overlap.

>>> from lmassay.reporting.chart import (
...     Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Panel, ReferenceLine
... )
>>> scores = {"small model": (0.61, 0.55, 0.67), "large model": (0.82, 0.78, 0.86)}
>>> marks = [ReferenceLine(0.5)]
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

import warnings
from typing import Any

from lmassay.errors import OldPluginWarning
from lmassay.reporting.chart.axes import Axis, Category, CategoryAxis, LinearAxis, LogAxis
from lmassay.reporting.chart.chart import Chart
from lmassay.reporting.chart.legend import LegendEntry
from lmassay.reporting.chart.marks import (
    MAX_SERIES,
    Arrow,
    Bar,
    ChartLine,
    Dot,
    Group,
    HalfPlane,
    HeatmapCell,
    Interval,
    Label,
    Mark,
    Marker,
    ReferenceLine,
    Shade,
    Stroke,
)
from lmassay.reporting.chart.panel import Panel, PanelNote

__all__ = [
    "MAX_SERIES",
    "Arrow",
    "Axis",
    "Bar",
    "Category",
    "CategoryAxis",
    "Chart",
    "ChartLine",
    "Dot",
    "Group",
    "HalfPlane",
    "HeatmapCell",
    "Interval",
    "Label",
    "LegendEntry",
    "LinearAxis",
    "LogAxis",
    "Mark",
    "Marker",
    "Panel",
    "PanelNote",
    "ReferenceLine",
    "Shade",
    "Stroke",
]

# Documented names of earlier versions → their present names.
_OLD_NAMES = {
    "Cell": "HeatmapCell",
    "Key": "LegendEntry",
    "Line": "ChartLine",
    "MOST_SERIES": "MAX_SERIES",
    "Note": "PanelNote",
    "Rule": "ReferenceLine",
}


def __getattr__(name: str) -> Any:
    """Return a member under its old name, with a deprecation warning."""
    if name not in _OLD_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new_name = _OLD_NAMES[name]
    message = f"{__name__}.{name} is now called {new_name}; the old name will be removed in 1.0"
    warnings.warn(message, OldPluginWarning, stacklevel=2)
    return globals()[new_name]
