"""Dots with intervals, several in a row of the figure, beside a mark to measure them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from markupsafe import Markup

from lmassay.reporting.svg import MOST_SERIES, Bar, clipped, svg

_PLOT, _LEFT, _LABEL, _GAP, _LEGEND_ROW = 360, 14, 20, 11, 18


@dataclass(frozen=True, slots=True)
class DotRow:
    """A label, a value for each series (None where there is none; its label is told on pointing), and the mark."""

    label: str
    values: Sequence[Bar | None]
    mark: float | None = None


def drawing(rows: Sequence[DotRow], series: Sequence[str], mark: str, x_label: str, description: str) -> Markup:
    """Over the range 0 to 1 with chance at a half; labels above their dots, so that it also fits a narrow page."""
    if len(series) > MOST_SERIES:
        raise ValueError(f"{len(series)} series in one figure; {MOST_SERIES} can be told apart")
    legend = _legend(series if len(series) > 1 else (), mark if any(row.mark is not None for row in rows) else "")
    top = _LEGEND_ROW * len(legend) + 6
    height = _LABEL + _GAP * len(series) + 4
    base = top + height * len(rows) + 2
    parts = [*legend, _scale(top, base, x_label)]
    parts += [_row(row, top + height * number, mark) for number, row in enumerate(rows)]
    return svg(_LEFT + _PLOT + _LEFT, base + 44, description, parts)


def _x(value: float) -> float:
    return round(_LEFT + _PLOT * min(max(value, 0.0), 1.0), 1)


def _scale(top: int, base: int, x_label: str) -> str:
    parts = [f'<line class="chance" x1="{_x(0.5)}" y1="{top}" x2="{_x(0.5)}" y2="{base}"/>']
    for tick in range(0, 11, 2):
        x = _x(tick / 10)
        parts.append(f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{base + 16}" text-anchor="middle">{tick / 10:g}</text>')
    parts.append(
        f'<text class="label" x="{_x(0.5)}" y="{base + 36}" text-anchor="middle">{escape(x_label)}'
        ' <tspan class="tick">(dotted: chance)</tspan></text>'
    )
    return "".join(parts)


def _row(row: DotRow, y: int, mark: str) -> str:
    parts = [f'<text class="label" x="{_LEFT}" y="{y + 14}">{clipped(row.label, 54)}</text>']
    if row.mark is not None:
        x, told = _x(row.mark), escape(f"{mark} {row.mark:.3f}")
        end = y + _LABEL + _GAP * len(row.values)
        parts.append(f'<line class="mark" x1="{x}" y1="{y + _LABEL}" x2="{x}" y2="{end}"><title>{told}</title></line>')
    for number, bar in enumerate(row.values):
        if bar is None or bar.value is None:
            continue
        at = y + _LABEL + _GAP * number + _GAP / 2
        low, high = (bar.value if end is None else end for end in (bar.low, bar.high))
        parts.append(_dot(number, (_x(low), _x(bar.value), _x(high)), at, bar.label))
    return "".join(parts)


def _dot(number: int, across: tuple[float, float, float], y: float, title: str) -> str:
    low, value, high = across
    shape = "hollow" if number % 2 else "full"
    return (
        f'<g class="s{number}"><title>{escape(title)}</title>'
        f'<line class="spread" x1="{low}" y1="{y}" x2="{high}" y2="{y}"/>'
        f'<circle class="{shape}" cx="{value}" cy="{y}" r="4"/></g>'
    )


def _legend(series: Sequence[str], mark: str) -> list[str]:
    """One row of text for each series, and one for the mark."""
    rows = [
        _dot(number, (_LEFT, _LEFT + 11, _LEFT + 22), 10 + _LEGEND_ROW * number, name)
        for number, name in enumerate(series)
    ]
    if mark:
        x, y = _LEFT + 11, 10 + _LEGEND_ROW * len(series)
        rows.append(f'<line class="mark" x1="{x}" y1="{y - 6}" x2="{x}" y2="{y + 6}"/>')
    return [
        f'{drawn}<text class="label" x="{_LEFT + 30}" y="{14 + _LEGEND_ROW * number}">{clipped(name, 50)}</text>'
        for number, (drawn, name) in enumerate(zip(rows, [*series, *([mark] if mark else [])], strict=True))
    ]
