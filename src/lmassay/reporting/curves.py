"""Curves over a cut-off, drawn as in Newman et al. (2021): top cut-offs on the upper axis, bottom ones on the lower.

Top: linear axis, solid lines, circles. Bottom: logarithmic axis, dashed lines, crosses. Lines are told apart by colour
and by their marks, which are filled and hollow, diagonal and upright in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.svg import MOST_SERIES, clipped, svg

Side = Literal["top", "bottom"]
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST_NAME = 46


@dataclass(frozen=True, slots=True)
class At:
    """A value at a cut-off; ``title`` is told to those who point at it, ``faint`` says that it rests on little."""

    side: Side
    cutoff: float
    value: float
    title: str
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the figure, or rather two: at top and at bottom cut-offs."""

    name: str
    points: Sequence[At]


@dataclass(frozen=True, slots=True)
class _Frame:
    left: int = 52
    top: int = 44
    width: int = 330
    height: int = 210
    right: int = 14
    bottom: int = 48
    row: int = 19

    @property
    def base(self) -> int:
        return self.top + self.height

    def x(self, share: float) -> float:
        return round(self.left + self.width * share, 1)

    def y(self, value: float) -> float:
        return round(self.top + self.height * (1 - min(max(value, 0.0), 1.0)), 1)


def drawing(curves: Sequence[Curve], y_label: str, description: str) -> Markup:
    """At most ``MOST_SERIES`` curves in the unit square, their names in rows below."""
    if len(curves) > MOST_SERIES:
        raise ValueError(f"{len(curves)} curves in one figure; {MOST_SERIES} can be told apart")
    frame = _Frame()
    decades = _decades(curves)
    place: dict[Side, Callable[[float], float]] = {
        "top": lambda cutoff: cutoff,
        "bottom": lambda cutoff: 1 + math.log10(cutoff) / decades,
    }
    parts = [_axes(frame, decades, y_label)]
    for number, curve in enumerate(curves):
        for side in ("bottom", "top"):
            points = sorted((p for p in curve.points if p.side == side), key=lambda p: p.cutoff)
            parts.append(_line(frame, number, side, [(place[side](p.cutoff), p) for p in points]))
    legend = frame.base + frame.bottom
    parts += [
        _legend_row(frame, number, curve.name, legend + frame.row * number) for number, curve in enumerate(curves)
    ]
    return svg(frame.left + frame.width + frame.right, legend + frame.row * len(curves) + 4, description, parts)


def _decades(curves: Sequence[Curve]) -> int:
    lowest = min((p.cutoff for curve in curves for p in curve.points if p.side == "bottom"), default=0.1)
    return max(math.ceil(-math.log10(lowest) - 1e-9), 1)


def _line(frame: _Frame, number: int, side: Side, points: Sequence[tuple[float, At]]) -> str:
    if not points:
        return ""
    course = " ".join(f"{frame.x(share)},{frame.y(p.value)}" for share, p in points)
    marks = [
        f'<g class="{"faint" if p.faint else "firm"}"><title>{escape(p.title)}</title>'
        f"{_mark(number, side, frame.x(share), frame.y(p.value))}</g>"
        for share, p in points
    ]
    dashed = " dashed" if side == "bottom" else ""
    return f'<g class="s{number}"><polyline class="curve{dashed}" points="{course}"/>{"".join(marks)}</g>'


def _mark(number: int, side: Side, x: float, y: float) -> str:
    if side == "top":
        return f'<circle class="{"hollow" if number % 2 else "full"}" cx="{x}" cy="{y}" r="3"/>'
    arms = "M-3.5 0H3.5M0-3.5V3.5" if number % 2 else "M-2.7-2.7 2.7 2.7M-2.7 2.7 2.7-2.7"
    return f'<path class="cross" transform="translate({x} {y})" d="{arms}"/>'


def _legend_row(frame: _Frame, number: int, name: str, y: int) -> str:
    left, middle = 8, y + 2
    return (
        f'<g class="s{number}"><line class="curve" x1="{left}" y1="{middle}" x2="{left + 22}" y2="{middle}"/>'
        f"{_mark(number, 'top', left + 11, middle)}"
        f'<line class="curve dashed" x1="{left + 30}" y1="{middle}" x2="{left + 52}" y2="{middle}"/>'
        f"{_mark(number, 'bottom', left + 41, middle)}</g>"
        f'<text class="label" x="{left + 60}" y="{y + 6}">{clipped(name, _LONGEST_NAME)}</text>'
    )


def _axes(frame: _Frame, decades: int, y_label: str) -> str:
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = frame.y(tick)
        parts.append(f'<line class="grid" x1="{frame.x(0)}" y1="{y}" x2="{frame.x(1)}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{frame.left - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(_tick(frame.x(tick), frame.top, -4, f"{tick:g}", frame.top - 8))
    step = math.ceil(decades / 7)
    for power in range(0, -decades - 1, -step):
        text = "1" if power == 0 else f"10{str(power).translate(_SUPERSCRIPT)}"
        parts.append(_tick(frame.x(1 + power / decades), frame.base, 4, text, frame.base + 17))
    middle, half = frame.left + frame.width / 2, frame.top + frame.height / 2
    parts.append(
        f'<text class="label" x="{middle}" y="14" text-anchor="middle">top cut-off (solid, ○)</text>'
        f'<text class="label" x="{middle}" y="{frame.base + 34}" text-anchor="middle">bottom cut-off (dashed, ×)</text>'
        f'<text class="label" x="11" y="{half}" text-anchor="middle" transform="rotate(-90 11 {half})">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)


def _tick(x: float, y: int, length: int, text: str, text_y: int) -> str:
    return (
        f'<line class="axis" x1="{x}" y1="{y}" x2="{x}" y2="{y + length}"/>'
        f'<text class="tick" x="{x}" y="{text_y}" text-anchor="middle">{text}</text>'
    )
