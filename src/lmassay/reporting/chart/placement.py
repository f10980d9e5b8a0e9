"""Where the values of an axis lie on the drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.chart.axes import NumericAxis


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the drawing's width or height, from ``start`` to ``end``."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return abs(self.end - self.start)

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, slots=True)
class NumericPlacement:
    """A numeric axis and its ``span`` on the drawing; the span of a y axis starts at the bottom.

    Calling it with a value of the axis returns the coordinate on the drawing.
    """

    axis: NumericAxis
    span: Span

    def __call__(self, value: float) -> float:
        # Not the length of the span: along the y axis, the end is above the start.
        distance = self.span.end - self.span.start
        return self.span.start + distance * self.axis.fraction(value)

    @property
    def spans(self) -> Sequence[Span]:
        """The parts of the axis in which marks may lie: all of it."""
        return (self.span,)

    @property
    def clear_spans(self) -> Sequence[Span]:
        """The parts of the axis in which a line across it crosses no label: all of it."""
        return (self.span,)

    @property
    def range(self) -> tuple[float, float]:
        return self.axis.low, self.axis.high


@dataclass(frozen=True, slots=True)
class CategoryPlacement:
    """Categories, each with its own part of the axis (``spans``).

    Labels may be printed between the categories. A line across the axis is drawn only in the ``clear_spans``, so that
    it crosses no label. Calling the object with a value of the axis returns the coordinate on the drawing.
    """

    spans: Sequence[Span]
    clear_spans: Sequence[Span]

    def __call__(self, value: float) -> float:
        # The n-th category reaches from n - 0.5 to n + 0.5.
        nearest = math.floor(value + 0.5)
        category = min(max(nearest, 0), len(self.spans) - 1)
        span = self.spans[category]
        # A value beyond the first or last category is drawn at the end of that category.
        fraction = min(max(value - category + 0.5, 0.0), 1.0)
        return span.start + (span.end - span.start) * fraction

    @property
    def span(self) -> Span:
        if self.spans:
            return Span(self.spans[0].start, self.spans[-1].end)
        return Span(0.0, 0.0)

    @property
    def range(self) -> tuple[float, float]:
        return -0.5, len(self.spans) - 0.5


Placement = NumericPlacement | CategoryPlacement


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The area of the drawing that marks are drawn in, and how their coordinates are placed there."""

    x: Placement
    y: Placement
    shift: tuple[float, float] = (0.0, 0.0)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of a point on the drawing."""
        right, down = self.shift
        return self.x(x) + right, self.y(y) + down

    def shifted(self, right: float, down: float) -> PlotArea:
        return replace(self, shift=(self.shift[0] + right, self.shift[1] + down))
