"""Heat maps of constructions by metric or, with several models, by model.

The value is written in every cell, so the map can be read without colour. Blue is above 0.5, the level of guessing, and
orange is below it; the further from 0.5, the stronger the colour.
"""

from __future__ import annotations

import itertools
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
MAX_COLUMNS = 12
_METRICS = (("mw", "MW"), ("ew", "EW"), ("tse", "TSE"))
_CHANCE = 0.5
_CELL_WIDTH, _CELL_HEIGHT = 48.0, 26.0
_SHADES_IN_LEGEND = 21


@dataclass(frozen=True, slots=True)
class _ColumnSource:
    """The title of a column, and the system and metric whose values it shows."""

    title: str
    system: System
    metric: str


def blocks(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """Return a map with a column per metric for one system, or a map per metric with a column per system.

    A single construction needs no map.
    """
    metrics = [(metric, title) for metric, title in _METRICS if _is_measured(metric, names, members)]
    if len(names) < 2 or not metrics:
        return []
    if len(members) == 1:
        (system,) = members
        columns = [_ColumnSource(title, system, metric) for metric, title in metrics]
        return [Figures([_figure(names, columns, f"{system.title}: constructions by metric")], "middle")]
    figures = []
    for metric, title in metrics:
        # More columns would be too narrow for their numbers.
        for start in range(0, len(members), MAX_COLUMNS):
            panel = members[start : start + MAX_COLUMNS]
            columns = [_ColumnSource(system.title, system, metric) for system in panel]
            figures.append(_figure(names, columns, f"{title}: constructions by model"))
    return [Figures(figures, "middle")]


def _is_measured(metric: str, names: Sequence[str], members: Sequence[System]) -> bool:
    """Return True if any system has a result of the metric in any construction."""
    for system in members:
        if any(system.result(metric, construction) for construction in names):
            return True
    return False


@dataclass(frozen=True, slots=True)
class HeatValue:
    """A value from 0 to 1, or None if there is none; ``title`` is its tooltip."""

    value: float | None
    title: str = ""
    has_few_contexts: bool = False
    """Whether it is marked, because it is the mean of only a few contexts."""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row with a value for each column; a summary row is set apart from those above it."""

    label: str
    values: Sequence[HeatValue | None]
    is_summary: bool = False


def heat_map(columns: Sequence[str], rows: Sequence[HeatRow], description: str) -> Chart:
    """Draw a cell for each row and column, with a legend of the colours below."""
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


def _figure(names: Sequence[str], columns: Sequence[_ColumnSource], title: str) -> Figure:
    rows = []
    for construction in names:
        values = []
        for column in columns:
            result = column.system.result(column.metric, construction)
            values.append(_heat_value(f"{column.title}, {construction}", result))
        rows.append(HeatRow(construction, values))
    means = []
    for column in columns:
        mean_result = column.system.mean(column.metric)
        means.append(_heat_value(f"{column.title}, {MEAN}", mean_result))
    if any(mean is not None for mean in means):
        rows.append(HeatRow(MEAN, means, is_summary=True))
    caption = f"{title}. Blue is above 0.5, the level of guessing; orange is below it."
    all_values = itertools.chain.from_iterable(row.values for row in rows)
    # The star is explained only where there is one.
    if any(value is not None and value.has_few_contexts for value in all_values):
        caption += f" *: fewer than {FEW_CONTEXTS} contexts."
    chart = heat_map([column.title for column in columns], rows, title)
    return Figure.of(chart, caption)


def _heat_value(subject: str, result: Result | None) -> HeatValue | None:
    if result is None:
        return None
    if result.value is None:
        return HeatValue(None, f"{subject}: {value_text(result)}")
    title = f"{subject}: {number_text(result.value, 3)} {interval_text(result, 3)}, n = {result.n:,}"
    return HeatValue(result.value, title, has_few_contexts=result.n < FEW_CONTEXTS)


def _cell(value: HeatValue | None, column: int, row: int) -> HeatmapCell:
    if value is None:
        return HeatmapCell(column, row, "–", title="not measured")
    if value.value is None:
        return HeatmapCell(column, row, "–", title=value.title)
    star = "*" if value.has_few_contexts else ""
    return HeatmapCell(column, row, f"{value.value:.2f}{star}", _shade(value.value), value.title)


def _shade(value: float) -> float:
    """Map the range 0 to 1 to -1 to 1, with 0 for the level of guessing."""
    return (value - _CHANCE) / _CHANCE


def _colour_key() -> LegendEntry:
    """Return the legend: a strip of all colours."""
    marks: list[Mark] = []
    for number in range(_SHADES_IN_LEGEND):
        start = number / _SHADES_IN_LEGEND
        end = (number + 1) / _SHADES_IN_LEGEND
        marks.append(Shade((start, end), _shade(number / (_SHADES_IN_LEGEND - 1))))
    return LegendEntry("0 to 1 (dotted: a half)", [*marks, ReferenceLine(_CHANCE)], width=126)
