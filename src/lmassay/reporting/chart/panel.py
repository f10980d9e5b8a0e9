"""A panel: marks between two axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.reporting.chart.axes import Axis
from lmassay.reporting.chart.marks import Mark


@dataclass(frozen=True, slots=True)
class PanelNote:
    """A text to the right of a panel, at a coordinate of its y axis."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Marks between a y axis and an x axis along the lower edge, the upper edge (``top``), or one along each.

    ``marks`` have coordinates on the axis ``x``, ``top_marks`` on the axis ``top``. ``share`` is the width of the plot
    relative to those of its neighbours. ``height`` is that of a plot with a numeric y axis; categories take the height
    that they need.
    """

    y: Axis
    x: Axis | None = None
    marks: Sequence[Mark] = ()
    top: Axis | None = None
    top_marks: Sequence[Mark] = ()
    title: str = ""
    notes: Sequence[PanelNote] = ()
    share: float = 1.0
    height: float = 210.0
