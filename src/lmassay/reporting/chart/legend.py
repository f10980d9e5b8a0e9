"""The legend of a chart: samples of marks, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lmassay.reporting.chart import elements
from lmassay.reporting.chart.axes import LinearAxis
from lmassay.reporting.chart.marks import Mark
from lmassay.reporting.chart.placement import NumericPlacement, PlotArea, Span
from lmassay.reporting.chart.text import LINE_HEIGHT, MIDDLE, Room, TextBlock, fit_distinct

_SAMPLE_HEIGHT = 12.0
_TEXT_GAP = 8.0
_COLUMN_GAP = 18.0
_ROW_GAP = 4.0


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """An entry of the legend: a sample of marks, whose coordinates run from 0 to 1, and what they stand for."""

    label: str
    marks: Sequence[Mark]
    width: float = 22.0


class Legend:
    """Keys in rows and columns: as many columns as fit side by side, each label in at most ``lines`` lines."""

    def __init__(self, keys: Sequence[LegendEntry], width: float, lines: int | None = 2) -> None:
        # Labels begin at the same place in all entries of a column.
        self._label_offset = max((key.width for key in keys), default=0.0) + _TEXT_GAP
        labels = fit_distinct([Room(key.label, width - self._label_offset) for key in keys], lines)
        entries = list(zip(keys, labels, strict=True))
        widest = max((label.width for _, label in entries), default=0.0)
        self._column_width = self._label_offset + widest + _COLUMN_GAP
        columns = max(1, int((width + _COLUMN_GAP) // self._column_width))
        self._rows = [entries[start : start + columns] for start in range(0, len(entries), columns)]

    @property
    def height(self) -> float:
        return sum(_row_height(row) for row in self._rows)

    def draw(self, left: float, top: float) -> Markup:
        parts = []
        y = top
        for row in self._rows:
            for column, (key, label) in enumerate(row):
                parts.append(self._draw_entry(key, label, left + column * self._column_width, y))
            y += _row_height(row)
        return elements.join(parts)

    def _draw_entry(self, key: LegendEntry, label: TextBlock, left: float, top: float) -> Markup:
        middle = top + LINE_HEIGHT / 2
        horizontal = NumericPlacement(LinearAxis(), Span(left, left + key.width))
        upright = NumericPlacement(LinearAxis(), Span(middle + _SAMPLE_HEIGHT / 2, middle - _SAMPLE_HEIGHT / 2))
        frame = PlotArea(horizontal, upright)
        sample = elements.join(mark.draw(frame) for mark in key.marks)
        return sample + elements.text(label, left + self._label_offset, middle + MIDDLE, "label")


def _row_height(row: Sequence[tuple[LegendEntry, TextBlock]]) -> float:
    # A key without a label is as high as a line all the same.
    return max(LINE_HEIGHT, *(label.height for _, label in row)) + _ROW_GAP
