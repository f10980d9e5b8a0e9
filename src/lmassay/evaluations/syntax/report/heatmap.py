"""Constructions by metric, or by model where there are several, as a heat map.

The value is written in every cell. Blue is above a half, which guessing reaches, orange below it, the stronger the
further. Readers who see no colour have the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.evaluations.syntax.report.runs import MEAN, System
from lmassay.reporting.blocks import Block, Figure, Figures
from lmassay.reporting.chart import (
    Category,
    CategoryAxis,
    Chart,
    HeatmapCell,
    LegendEntry,
    Mark,
    Panel,
    ReferenceLine,
    Shade,
)
from lmassay.reporting.numbers import interval_text, number_text, value_text
from lmassay.types import Result

FEW_CONTEXTS = 10
MOST_COLUMNS = 12
_METRICS = (("mw", "MW"), ("ew", "EW"), ("tse", "TSE"))
_CHANCE = 0.5
_CELL_WIDTH, _CELL_HEIGHT = 48.0, 26.0
_SHADES_IN_LEGEND = 21


def blocks(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """One system: a column a metric. Several: a figure a metric, a column a system. One number needs no map."""
    shown = [(m, title) for m, title in _METRICS if any(_of(s, m, c) for s in members for c in names)]
    if len(names) < 2 or not shown:
        return []
    if len(members) == 1:
        (system,) = members
        columns = [(title, system, metric) for metric, title in shown]
        return [Figures([_figure(names, columns, f"{system.title}: constructions by metric")], "middle")]
    figures = []
    for metric, title in shown:
        for panel in (members[at : at + MOST_COLUMNS] for at in range(0, len(members), MOST_COLUMNS)):
            columns = [(system.title, system, metric) for system in panel]
            figures.append(_figure(names, columns, f"{title}: constructions by model"))
    return [Figures(figures, "middle")]


@dataclass(frozen=True, slots=True)
class HeatValue:
    """A value from 0 to 1, None where there is none; ``title`` is shown on pointing at it."""

    value: float | None
    title: str = ""
    rests_on_few: bool = False


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row with a value for each column; one that is a ``summary`` stands apart from those above it."""

    label: str
    values: Sequence[HeatValue | None]
    is_summary: bool = False


def heat_map(columns: Sequence[str], rows: Sequence[HeatRow], description: str) -> Chart:
    """A cell for each row and column, and what the colours mean below."""
    cells: list[Mark] = []
    for row_number, row in enumerate(rows):
        for column_number, value in enumerate(row.values):
            cells.append(_cell(value, column_number, row_number))
    categories = [Category(row.label, kind="strong" if row.is_summary else "plain") for row in rows]
    panel = Panel(
        y=CategoryAxis(categories, labels="beside", lane=_CELL_HEIGHT),
        top=CategoryAxis([Category(column) for column in columns], lane=_CELL_WIDTH, stretch=False),
        top_marks=cells,
    )
    return Chart(description, [panel], legend=[_colour_key()])


def _figure(names: Sequence[str], columns: Sequence[tuple[str, System, str]], what: str) -> Figure:
    rows = []
    for name in names:
        values = [_heat_value(f"{title}, {name}", _of(system, metric, name)) for title, system, metric in columns]
        rows.append(HeatRow(name, values))
    means = [_heat_value(f"{title}, {MEAN}", system.mean(metric)) for title, system, metric in columns]
    if any(mean is not None for mean in means):
        rows.append(HeatRow(MEAN, means, is_summary=True))
    few = any(value is not None and value.rests_on_few for row in rows for value in row.values)
    stars = f" A star: fewer than {FEW_CONTEXTS} contexts." if few else ""
    drawing = heat_map([title for title, _, _ in columns], rows, what).svg()
    return Figure(drawing, f"{what}. Blue above a half, which guessing reaches; orange below it.{stars}")


def _of(system: System, metric: str, construction: str) -> Result | None:
    return system.result(metric, construction)


def _heat_value(what: str, result: Result | None) -> HeatValue | None:
    if result is None:
        return None
    if result.value is None:
        return HeatValue(None, f"{what}: {value_text(result)}")
    title = f"{what}: {number_text(result.value, 3)} {interval_text(result, 3)}, n {result.n:,}"
    return HeatValue(result.value, title, rests_on_few=result.n < FEW_CONTEXTS)


def _cell(value: HeatValue | None, column: int, row: int) -> HeatmapCell:
    if value is None:
        return HeatmapCell(column, row, "–", title="not measured")
    if value.value is None:
        return HeatmapCell(column, row, "–", title=value.title)
    star = "*" if value.rests_on_few else ""
    return HeatmapCell(column, row, f"{value.value:.2f}{star}", _shade(value.value), value.title)


def _shade(value: float) -> float:
    """From -1 at 0 over 0 at a half to 1 at 1."""
    return (value - _CHANCE) / _CHANCE


def _colour_key() -> LegendEntry:
    """A strip of all colours."""
    marks: list[Mark] = []
    for number in range(_SHADES_IN_LEGEND):
        start, end = number / _SHADES_IN_LEGEND, (number + 1) / _SHADES_IN_LEGEND
        marks.append(Shade((start, end), _shade(number / (_SHADES_IN_LEGEND - 1))))
    return LegendEntry("0 to 1 (dotted: a half)", [*marks, ReferenceLine(_CHANCE)], width=126)
