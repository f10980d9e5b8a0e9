"""Figures of the bias section: accuracy and bias side by side, a row a category; arrows between two; prompts as dots.

Labels stand above their bars, so that the figures also fit a narrow page. What a colour says, a place says too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.svg import clipped, svg

NO_DATA = "no data (n = 0)"
_LIMITS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_ROW, _LABEL, _BAR, _TOP = 33, 14, 9, 58
_WIDTH, _LONGEST = 400, 62


@dataclass(frozen=True, slots=True)
class Scale:
    """Where on the page a value stands."""

    left: float
    width: float
    low: float = 0.0
    high: float = 1.0

    def x(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.left + self.width * share, 1)

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def ticks(self) -> list[float]:
        if self.low < 0:
            return [self.low, self.low / 2, 0.0, self.high / 2, self.high]
        return [self.low + (self.high - self.low) * step / 4 for step in range(5)]


@dataclass(frozen=True, slots=True)
class Spot:
    """A value with its interval, those of single prompts, and how far from zero it could be.

    ``told`` is said on pointing, or written where there is no value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    prompts: Sequence[float] = ()
    bound: tuple[float, float] | None = None
    told: str = ""


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A label with its two values. A row without values is a heading."""

    label: str
    accuracy: Spot | None = None
    bias: Spot | None = None


@dataclass(frozen=True, slots=True)
class ArrowRow:
    """A label with accuracy and bias before and after."""

    label: str
    accuracy: tuple[Spot, Spot] | None = None
    bias: tuple[Spot, Spot] | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """The values of single prompts (what is told of each, and the value)."""

    label: str
    values: Sequence[tuple[str, float]]
    summary: str


def limit_of(spots: Sequence[Spot]) -> float:
    """Half the width of a scale around zero: as little as holds all values, intervals and bounds."""
    ends = [abs(end) for s in spots for end in (s.value, s.low, s.high, *s.prompts, *(s.bound or ())[:1]) if end]
    largest = max(ends, default=0.0)
    return next((limit for limit in _LIMITS if largest <= limit), 1.0)


def bars(rows: Sequence[PlotRow], heads: tuple[str, str], limit: float, description: str) -> Markup:
    """Accuracy to the left, bias to the right with the room that its bound leaves shaded.

    ``heads`` are what the figure is about, and what its bias is called.
    """
    left, right = _scales(limit)
    parts, heights = _frame(rows, left, right, heads)
    for row, y in zip(rows, heights, strict=True):
        if row.accuracy is not None:
            parts.append(_accuracy(row.accuracy, left, y))
        if row.bias is not None:
            parts.append(_bias(row.bias, right, y))
    return svg(_WIDTH, _base(rows) + 22, description, parts)


def arrows(rows: Sequence[ArrowRow], heads: tuple[str, str], limit: float, description: str) -> Markup:
    """From a hollow dot (before) to a full one (after)."""
    left, right = _scales(limit)
    parts, heights = _frame(rows, left, right, heads)
    for row, y in zip(rows, heights, strict=True):
        for pair, scale in ((row.accuracy, left), (row.bias, right)):
            if pair is not None:
                parts.append(_arrow(*pair, scale, y))
    return svg(_WIDTH, _base(rows) + 22, description, parts)


def strips(found: Sequence[Strip], low: float, title: str, description: str) -> Markup:
    """A row of dots for each series, with their range and their mean; ``low`` is 0, or the lower end around zero."""
    scale = Scale(12, _WIDTH - 24, low, 1.0 if low == 0 else -low)
    rows = [PlotRow(strip.label) for strip in found]
    top, base = 24, 24 + _ROW * len(rows)
    parts = [f'<text class="label" x="{scale.left}" y="14">{escape(title)}</text>', _axis(scale, top, base)]
    for number, strip in enumerate(found):
        y = top + _ROW * number
        parts.append(f'<text class="label" x="{scale.left}" y="{y + 11}">{clipped(strip.label, 40)}</text>')
        parts.append(
            f'<text class="tick" x="{scale.right}" y="{y + 11}" text-anchor="end">{escape(strip.summary)}</text>'
        )
        parts.append(_strip(strip, scale, y + 22))
    return svg(_WIDTH, base + 22, description, parts)


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign; a zero has none.

    >>> signed(0.25), signed(-0.25), signed(-0.0001)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]


# --- parts ------------------------------------------------------------------------------------------------------------


def _scales(limit: float) -> tuple[Scale, Scale]:
    return Scale(10, 120), Scale(188, 158, -limit, limit)


def _base(rows: Sequence[PlotRow] | Sequence[ArrowRow]) -> int:
    return _TOP + sum(_height(row) for row in rows)


def _height(row: PlotRow | ArrowRow) -> int:
    return _ROW if row.accuracy is not None or row.bias is not None else _ROW // 2 + 6


def _frame(
    rows: Sequence[PlotRow] | Sequence[ArrowRow], left: Scale, right: Scale, heads: tuple[str, str]
) -> tuple[list[str], list[int]]:
    """Titles, axes and labels, and where each row begins."""
    base, y = _base(rows), _TOP
    parts = [
        f'<text class="label strong" x="{left.left}" y="13">{escape(heads[0])}</text>',
        f'<text class="label" x="{left.left}" y="32">accuracy</text>',
        f'<text class="label" x="{right.x(0)}" y="32" text-anchor="middle">{escape(heads[1])}</text>',
        f'<text class="tick" x="{right.left}" y="47">← counter</text>',
        f'<text class="tick" x="{right.right}" y="47" text-anchor="end">stereotype →</text>',
        _axis(left, _TOP - 4, base),
        _axis(right, _TOP - 4, base),
    ]
    heights = []
    for row in rows:
        heights.append(y)
        heading = row.accuracy is None and row.bias is None
        style, at = ("tick", y + 15) if heading else ("label", y + 11)
        parts.append(f'<text class="{style}" x="{left.left}" y="{at}">{clipped(row.label, _LONGEST)}</text>')
        y += _height(row)
    return parts, heights


def _axis(scale: Scale, top: float, base: float) -> str:
    parts = []
    for tick in scale.ticks:
        x = scale.x(tick)
        style = "zero" if tick == 0 and scale.low < 0 else "grid"
        parts.append(f'<line class="{style}" x1="{x}" y1="{top}" x2="{x}" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{base + 15}" text-anchor="middle">{_tick(tick)}</text>')
    return "".join(parts)


def _tick(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _accuracy(spot: Spot, scale: Scale, y: float) -> str:
    if spot.value is None:
        return _empty(scale, y, spot)
    top = y + _LABEL + 1
    shape = f'<rect class="share" x="{scale.x(0)}" y="{top}" width="{_span(scale, 0, spot.value)}" height="{_BAR}"/>'
    return _group(spot, shape + _marks(spot, scale, top), f"{spot.value:.3f}", scale, y)


def _bias(spot: Spot, scale: Scale, y: float) -> str:
    value = spot.value
    if value is None:
        return _empty(scale, y, spot)
    top = y + _LABEL + 1
    room = ""
    for style, end in zip(("band", "reach"), spot.bound or (), strict=False):
        span = _span(scale, -end, end)
        room += f'<rect class="{style}" x="{scale.x(-end)}" y="{top - 1}" width="{span}" height="{_BAR + 2}"/>'
    style = "toward" if value > 0 else "against"
    start, end = sorted((0.0, value))
    shape = f'<rect class="{style}" x="{scale.x(start)}" y="{top}" width="{_span(scale, start, end)}" height="{_BAR}"/>'
    return _group(spot, room + shape + _marks(_within_bound(spot), scale, top), signed(value), scale, y)


def _within_bound(spot: Spot) -> Spot:
    """What the accuracy leaves no room for cannot be, whatever an interval made of few templates says."""
    if spot.value is None or spot.bound is None or spot.low is None or spot.high is None:
        return spot
    most = max(spot.bound[1], abs(spot.value))
    return replace(spot, low=max(spot.low, -most), high=min(spot.high, most))


def _marks(spot: Spot, scale: Scale, top: float) -> str:
    """The interval across the bar, single prompts below it."""
    parts, middle = [], top + _BAR / 2
    if spot.low is not None and spot.high is not None:
        a, b = scale.x(spot.low), scale.x(spot.high)
        parts.append(
            f'<path class="interval" d="M{a} {middle}H{b}M{a} {middle - 2.5}v5M{b} {middle - 2.5}v5"/>',
        )
    for value in spot.prompts:
        parts.append(
            f'<line class="prompt" x1="{scale.x(value)}" y1="{top + 10}" x2="{scale.x(value)}" y2="{top + 15}"/>'
        )
    return "".join(parts)


def _arrow(before: Spot, after: Spot, scale: Scale, y: float) -> str:
    if before.value is None or after.value is None:
        return _empty(scale, y, after)
    a, b, at = scale.x(before.value), scale.x(after.value), y + _LABEL + 7
    parts = [f'<circle class="hollow" cx="{a}" cy="{at}" r="3.6"/>']
    away = math.copysign(1.0, b - a)
    if abs(b - a) > 9:
        parts.insert(0, f'<line class="spread" x1="{a}" y1="{at}" x2="{round(b - 4 * away, 1)}" y2="{at}"/>')
        tip = round(b - 5 * away, 1)
        parts.append(f'<path class="full" d="M{b} {at}L{tip} {at - 4}V{at + 4}Z"/>')
    else:
        parts.append(f'<circle class="full" cx="{b}" cy="{at}" r="2.6"/>')
    change = signed(100 * (after.value - before.value), 1)
    return _group(after, "".join(parts), change, scale, y)


def _strip(strip: Strip, scale: Scale, y: float) -> str:
    values = [value for _, value in strip.values]
    if not values:
        return ""
    mean = scale.x(sum(values) / len(values))
    parts = [f'<line class="spread pale" x1="{scale.x(min(values))}" y1="{y}" x2="{scale.x(max(values))}" y2="{y}"/>']
    parts += [
        f'<circle class="full light" cx="{scale.x(value)}" cy="{y}" r="4"><title>{escape(told)}</title></circle>'
        for told, value in strip.values
    ]
    parts.append(f'<line class="mark" x1="{mean}" y1="{y - 6}" x2="{mean}" y2="{y + 6}"/>')
    return f'<g class="s0">{"".join(parts)}</g>'


def _group(spot: Spot, shapes: str, text: str, scale: Scale, y: float) -> str:
    """Shapes with the number beside them and what is told of them on pointing."""
    number = f'<text class="tick" x="{scale.right + 8}" y="{y + _LABEL + 10}">{escape(text)}</text>'
    return f'<g class="s0"><title>{escape(spot.told)}</title>{shapes}{number}</g>'


def _empty(scale: Scale, y: float, spot: Spot) -> str:
    return f'<text class="tick" x="{scale.left + 4}" y="{y + _LABEL + 10}">{escape(spot.told or NO_DATA)}</text>'


def _span(scale: Scale, start: float, end: float) -> float:
    return round(scale.x(end) - scale.x(start), 1)
