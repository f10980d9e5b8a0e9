"""Differences with their intervals, one below the other, around the line where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.numbers import p_text
from lmassay.reporting.svg import svg
from lmassay.statistics.comparison import Comparison

# About as wide as a telephone: a wider drawing would shrink there, and its texts with it.
_PLOT, _LEFT, _TOP, _ROW = 340, 20, 6, 38
_MOST_CHARACTERS = 54


@dataclass(frozen=True, slots=True)
class Drawn:
    """A difference with its label; one that is ``sure`` is drawn full, another one hollow."""

    label: str
    row: Comparison
    sure: bool


def on_one_scale(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """The rows in figures: all metrics that lie between -1 and 1 in one, others each in their own."""
    apart: dict[str, list[Comparison]] = {}
    for row in rows:
        alike = {r.metric for r in rows if max(abs(r.base_mean), abs(r.new_mean)) > 1}
        apart.setdefault(row.metric if row.metric in alike else "", []).append(row)
    return list(apart.values())


def drawing(rows: Sequence[Drawn], x_label: str, description: str) -> Markup:
    """Labels stand above their intervals, so that the figure also fits a narrow page."""
    values = [v for drawn in rows for v in (drawn.row.difference, drawn.row.low, drawn.row.high) if v is not None]
    low, high, step = _scale([0.0, *values])
    base = _TOP + _ROW * len(rows) + 4

    def x(value: float) -> float:
        return round(_LEFT + _PLOT * (value - low) / (high - low), 1)

    parts = []
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    for number in range(round((high - low) / step) + 1):
        tick = low + step * number
        at = x(tick)
        told = "0" if abs(tick) < step / 2 else f"{tick:+.{digits}f}"
        parts.append(f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{base + 16}" text-anchor="middle">{told}</text>')
    parts.append(f'<line class="zero" x1="{x(0)}" y1="{_TOP}" x2="{x(0)}" y2="{base}"/>')
    parts += [_interval(drawn, _TOP + _ROW * number, x) for number, drawn in enumerate(rows)]
    middle = _LEFT + _PLOT / 2
    parts.append(f'<text class="label" x="{middle}" y="{base + 36}" text-anchor="middle">{_fitting(x_label)}</text>')
    return svg(_LEFT + _PLOT + _LEFT, base + 44, description, parts)


def _interval(drawn: Drawn, y: int, x: Callable[[float], float]) -> str:
    row = drawn.row
    told = f"{drawn.label}: {row.difference:+z.4f}"
    told += "" if row.low is None or row.high is None else f" [{row.low:+z.4f}, {row.high:+z.4f}]"
    told += f", p {p_text(row.p)}, n {row.n}"
    line = ""
    if row.low is not None and row.high is not None:
        line = f'<line class="spread" x1="{x(row.low)}" y1="{y + 26}" x2="{x(row.high)}" y2="{y + 26}"/>'
    shape = "full" if drawn.sure else "hollow"
    return (
        f'<text class="label" x="{_LEFT}" y="{y + 14}">{_fitting(drawn.label)}</text>'
        f'<g class="s0"><title>{escape(told)}</title>{line}'
        f'<circle class="{shape}" cx="{x(row.difference)}" cy="{y + 26}" r="4.5"/></g>'
    )


def _fitting(text: str) -> str:
    """Escaped, and cut in the middle if need be: names of runs often differ at their ends only."""
    if len(text) <= _MOST_CHARACTERS:
        return escape(text)
    half = _MOST_CHARACTERS // 2
    return f"{escape(text[:half])}…{escape(text[1 - half :])}<title>{escape(text)}</title>"


def _scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Ends and step of an axis with three to six round ticks that holds all values and zero."""
    low, high = min(values), max(values)
    span = (high - low) or 0.1
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    # A dot on the edge would be cut, and one without any width needs room to both sides.
    return step * (first if first < last else first - 1), step * (last if first < last else last + 1), step
