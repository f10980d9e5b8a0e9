"""A heat map of shares: a row a thing, a column a measure or a model, the value written in every cell.

Blue is above chance, orange below it, the stronger the further; readers who see no colour have the numbers. Colours are
thin enough for the ink upon them to be read, on paper as on a dark screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.svg import clipped, svg

CHANCE = 0.5
_STRONGEST = 0.62
_LABEL, _CELL, _ROW, _EDGE = 196, 52, 26, 8
_LONGEST_LABEL, _LONGEST_HEAD, _UPRIGHT_HEAD = 32, 26, 8
_SLOPE = 40
_SIGN = 7
"""How wide a letter is, about."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A value from 0 to 1, None where there is none; ``title`` is told on pointing, ``faint`` ones rest on little."""

    value: float | None
    title: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """A row; one that is ``apart`` sums up those above it."""

    label: str
    shades: Sequence[Shade | None]
    apart: bool = False


def drawing(columns: Sequence[str], rows: Sequence[Strip], description: str) -> Markup:
    """Columns with short names have them above, long names are set at a slope."""
    sloping = any(len(column) > _UPRIGHT_HEAD for column in columns)
    longest = min(max(map(len, columns), default=0), _LONGEST_HEAD) * _SIGN
    rise, run = (f(math.radians(_SLOPE)) * longest for f in (math.sin, math.cos))
    top = round(rise) + 20 if sloping else 24
    width = _EDGE + _LABEL + _CELL * len(columns) + (max(round(run - _CELL / 2) + 14, _EDGE) if sloping else _EDGE)
    parts = [_head(column, _x(place) + _CELL / 2, top - 8, sloping) for place, column in enumerate(columns)]
    y = top
    for row in rows:
        y += 6 if row.apart else 0
        style = "label strong" if row.apart else "label"
        parts.append(
            f'<text class="{style}" x="{_EDGE}" y="{y + 17}">{clipped(row.label, _LONGEST_LABEL)}</text>'
            + "".join(_cell(shade, _x(place), y) for place, shade in enumerate(row.shades))
        )
        y += _ROW
    return svg(width, y + 36, description, [*parts, _scale(y + 12)])


def _x(place: int) -> int:
    return _EDGE + _LABEL + _CELL * place


def _head(text: str, x: float, y: float, sloping: bool) -> str:
    if not sloping:
        return f'<text class="label" x="{x}" y="{y}" text-anchor="middle">{escape(text)}</text>'
    at = f'x="{x}" y="{y}" transform="rotate(-{_SLOPE} {x} {y})"'
    return f'<text class="label" {at}>{clipped(text, _LONGEST_HEAD)}</text>'


def _cell(shade: Shade | None, x: int, y: int) -> str:
    box = f'x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_ROW - 2}"'
    if shade is None or shade.value is None:
        told = escape(shade.title if shade is not None else "not measured")
        return (
            f'<g><title>{told}</title><rect class="heat-none" fill="none" {box}/>'
            f'<text class="tick" x="{x + _CELL / 2}" y="{y + 17}" text-anchor="middle">–</text></g>'
        )
    mark = "*" if shade.faint else ""
    return (
        f'<g><title>{escape(shade.title)}</title><rect class="heat-none" fill="none" {box}/>{_filled(shade.value, box)}'
        f'<text class="label" x="{x + _CELL / 2}" y="{y + 17}" text-anchor="middle">{shade.value:.2f}{mark}</text></g>'
    )


def _filled(value: float, box: str) -> str:
    away = min(abs(value - CHANCE) / CHANCE, 1.0)
    side = "high" if value >= CHANCE else "low"
    return f'<rect class="heat-{side}" {box} fill-opacity="{_STRONGEST * away:.3f}"/>'


def _scale(y: int) -> str:
    """What the colours mean, in small."""
    steps, wide, left = 21, 6, _EDGE + 14
    parts = []
    for step in range(steps):
        parts.append(_filled(step / (steps - 1), f'x="{left + wide * step}" y="{y}" width="{wide}" height="10"'))
    end, middle = left + wide * steps, left + wide * steps / 2
    return (
        f'<text class="tick" x="{_EDGE}" y="{y + 10}">0</text>{"".join(parts)}'
        f'<line class="chance" x1="{middle}" y1="{y - 2}" x2="{middle}" y2="{y + 12}"/>'
        f'<text class="tick" x="{end + 5}" y="{y + 10}">1 <tspan>(dotted: a half)</tspan></text>'
    )
