"""Figures of the few-shot section: marks and lines over axes that fit them, and rows of dots.

Series are told apart by colour and by the shape of their marks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.svg import MOST_SERIES, clipped, svg

_ROW, _LONGEST, _MOST_NAMED = 19, 46, 8
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Mark:
    """A value at a place, with its interval; ``title`` is told on pointing, ``strong`` marks are ringed."""

    x: float
    y: float
    title: str
    low: float | None = None
    high: float | None = None
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """``line`` joins the marks; ``dots`` are drawn for every one, else for the strong ones alone."""

    name: str
    marks: Sequence[Mark]
    line: bool = False
    dots: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """A range with its title; ``whole`` numbers have ticks on themselves."""

    title: str
    low: float
    high: float
    whole: bool = False

    @property
    def ticks(self) -> list[float]:
        span = self.high - self.low
        if self.whole and span <= 8:
            return [float(n) for n in range(math.ceil(self.low), math.floor(self.high) + 1)]
        rough = max(span / 5, 1.0 if self.whole else 0.0)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * s for s in _STEPS if power * s >= rough - 1e-9)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def fitting(
    title: str, values: Sequence[float], *, room: float = 0.06, within: tuple[float, float] | None = None
) -> Axis:
    """An axis that holds the values with some room beside them."""
    low, high = min(values), max(values)
    spare = max((high - low) * room, 0.5)
    low, high = low - spare, high + spare
    if within is not None:
        low, high = max(low, within[0]), min(high, within[1])
    return Axis(title, low, high)


@dataclass(frozen=True, slots=True)
class _Frame:
    x_axis: Axis
    y_axis: Axis
    left: int = 48
    top: int = 10
    width: int = 300
    height: int = 210
    right: int = 14

    @property
    def base(self) -> int:
        return self.top + self.height

    def x(self, value: float) -> float:
        axis = self.x_axis
        return round(self.left + self.width * (value - axis.low) / (axis.high - axis.low), 1)

    def y(self, value: float) -> float:
        axis = self.y_axis
        share = (min(max(value, axis.low), axis.high) - axis.low) / (axis.high - axis.low)
        return round(self.base - self.height * share, 1)


def chart(
    series: Sequence[Series], x: Axis, y: Axis, description: str, *, square: bool = False, diagonal: bool = False
) -> Markup:
    """Series over two axes, their names below where there are several, but not too many to follow."""
    frame = _Frame(x, y, height=300) if square else _Frame(x, y)
    parts = [_axes(frame)]
    if diagonal:
        low, high = max(x.low, y.low), min(x.high, y.high)
        if low < high:
            ends = f'x1="{frame.x(low)}" y1="{frame.y(low)}" x2="{frame.x(high)}" y2="{frame.y(high)}"'
            parts.append(f'<line class="chance" {ends}/>')
    parts += [_drawn(frame, number, one, len(series)) for number, one in enumerate(series)]
    height = frame.base + 44
    if 1 < len(series) <= _MOST_NAMED:
        for number, one in enumerate(series):
            parts.append(_legend_row(number, one, height + _ROW * number + 6))
        height += _ROW * len(series) + 4
    return svg(frame.left + frame.width + frame.right, height, description, parts)


def _drawn(frame: _Frame, number: int, series: Series, many: int) -> str:
    shapes = []
    # Intervals of several series over the same places would lie upon each other.
    aside = (number - (many - 1) / 2) * 5 if series.line and series.dots else 0.0
    if series.line and len(series.marks) > 1:
        points = " ".join(f"{round(frame.x(m.x) + aside, 1)},{frame.y(m.y)}" for m in series.marks)
        dashed = " dashed" if number >= MOST_SERIES else ""
        shapes.append(f'<polyline class="curve{dashed}" points="{points}"/>')
    for mark in series.marks:
        x, y = round(frame.x(mark.x) + aside, 1), frame.y(mark.y)
        inner = f"<title>{escape(mark.title)}</title>"
        if mark.low is not None and mark.high is not None:
            inner += f'<line class="spread pale" x1="{x}" y1="{frame.y(mark.low)}" x2="{x}" y2="{frame.y(mark.high)}"/>'
        if series.dots or mark.strong:
            inner += _shape(number, x, y)
            inner += f'<circle class="interval" cx="{x}" cy="{y}" r="7"/>' if mark.strong and series.dots else ""
            shapes.append(f"<g>{inner}</g>")
    return f'<g class="s{number % MOST_SERIES}">{"".join(shapes)}</g>'


def _shape(number: int, x: float, y: float) -> str:
    style = "hollow" if number % 2 else "full"
    match number % MOST_SERIES:
        case 0 | 1:
            return f'<circle class="{style}" cx="{x}" cy="{y}" r="3.4"/>'
        case 2 | 3:
            return f'<path class="{style}" d="M{x} {round(y - 4.4, 1)}l4 7.4h-8z"/>'
        case _:
            return f'<path class="{style}" d="M{round(x - 3.2, 1)} {round(y - 3.2, 1)}h6.4v6.4h-6.4z"/>'


def _legend_row(number: int, series: Series, y: int) -> str:
    dashed = " dashed" if number >= MOST_SERIES else ""
    line = f'<line class="curve{dashed}" x1="8" y1="{y}" x2="30" y2="{y}"/>' if series.line else ""
    return (
        f'<g class="s{number % MOST_SERIES}">{line}{_shape(number, 19, y)}</g>'
        f'<text class="label" x="38" y="{y + 4}">{clipped(series.name, _LONGEST)}</text>'
    )


def _axes(frame: _Frame) -> str:
    parts = []
    right = frame.left + frame.width
    for tick in frame.y_axis.ticks:
        y = frame.y(tick)
        style = "zero" if tick == 0 and frame.y_axis.low < 0 else "grid"
        parts.append(f'<line class="{style}" x1="{frame.left}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{frame.left - 6}" y="{y + 4}" text-anchor="end">{_tick(tick)}</text>')
    for tick in frame.x_axis.ticks:
        x = frame.x(tick)
        parts.append(f'<line class="grid" x1="{x}" y1="{frame.top}" x2="{x}" y2="{frame.base}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{frame.base + 16}" text-anchor="middle">{_tick(tick)}</text>')
    middle, half = frame.left + frame.width / 2, frame.top + frame.height / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{frame.base + 34}" text-anchor="middle">'
        f"{escape(frame.x_axis.title)}</text>"
        f'<text class="label" x="11" y="{half}" text-anchor="middle" transform="rotate(-90 11 {half})">'
        f"{escape(frame.y_axis.title)}</text>"
    )
    return "".join(parts)


def _tick(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


# --- rows of dots -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dots:
    """One label with a row of dots a series: what is told of each dot, and its value."""

    label: str
    series: Sequence[Sequence[tuple[str, float]]]
    summaries: Sequence[str]


def dot_rows(
    rows: Sequence[Dots], names: Sequence[str], scale: Sequence[float], title: str, description: str
) -> Markup:
    """Rows of dots below their labels, each with its range and mean; the axis holds all values of ``scale``."""
    axis = fitting(title, scale or [0.0, 100.0], within=(0.0, 100.0))
    left, width, label, line = 14, 400, 18, 17
    top = 10 + _ROW * len(names)
    each = label + line * len(names) + 8
    base = top + each * len(rows)

    def x(value: float) -> float:
        return round(left + (width - 110) * (value - axis.low) / (axis.high - axis.low), 1)

    parts = [
        f'<g class="s{n}">{_shape(n, left + 5, 10 + _ROW * n)}</g>'
        f'<text class="label" x="{left + 16}" y="{14 + _ROW * n}">{escape(name)}</text>'
        for n, name in enumerate(names)
    ]
    for tick in axis.ticks:
        at = x(tick)
        parts.append(f'<line class="grid" x1="{at}" y1="{top}" x2="{at}" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{base + 15}" text-anchor="middle">{_tick(tick)}</text>')
    middle = left + (width - 110) / 2
    parts.append(f'<text class="label" x="{middle}" y="{base + 33}" text-anchor="middle">{escape(title)}</text>')
    for place, row in enumerate(rows):
        y = top + each * place
        parts.append(f'<text class="label strong" x="{left}" y="{y + 14}">{clipped(row.label, 58)}</text>')
        for n, (dots, summary) in enumerate(zip(row.series, row.summaries, strict=True)):
            at = y + label + line * n + 8
            parts.append(_dots(n, [(told, x(value)) for told, value in dots], at))
            parts.append(
                f'<text class="tick" x="{left + width}" y="{at + 4}" text-anchor="end">{escape(summary)}</text>'
            )
    return svg(left + width + 8, base + 42, description, parts)


def _dots(number: int, dots: Sequence[tuple[str, float]], y: float) -> str:
    if not dots:
        return ""
    places = [x for _, x in dots]
    mean = round(sum(places) / len(places), 1)
    parts = [f'<line class="spread pale" x1="{min(places)}" y1="{y}" x2="{max(places)}" y2="{y}"/>']
    parts += [f"<g><title>{escape(told)}</title>{_shape(number, x, y)}</g>" for told, x in dots]
    parts.append(f'<line class="mark" x1="{mean}" y1="{y - 6}" x2="{mean}" y2="{y + 6}"/>')
    return f'<g class="s{number}">{"".join(parts)}</g>'
