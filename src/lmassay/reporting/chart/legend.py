"""The legend of a chart: samples of marks, and what they mean."""

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
    """An entry of the legend: a sample of marks, whose coordinates run from 0 to 1, and what they mean."""

    label: str
    marks: Sequence[Mark]
    width: float = 22.0


class Legend:
    """Entries in as many columns as fit side by side, each label in at most ``lines`` lines."""

    def __init__(self, keys: Sequence[LegendEntry], width: float, lines: int | None = 2) -> None:
        widest_sample = max((key.width for key in keys), default=0.0)
        # Labels begin at the same offset in all entries.
        self._label_offset = widest_sample + _TEXT_GAP
        label_room = width - self._label_offset
        labels = fit_distinct([Room(key.label, label_room) for key in keys], lines)
        widest_label = max((label.width for label in labels), default=0.0)
        self._column_width = self._label_offset + widest_label + _COLUMN_GAP
        entries = list(zip(keys, labels, strict=True))
        # The last column needs no gap to its right.
        columns = max(1, int((width + _COLUMN_GAP) // self._column_width))
        self._rows = []
        for start in range(0, len(entries), columns):
            self._rows.append(entries[start : start + columns])

    @property
    def height(self) -> float:
        """The height of all rows."""
        return sum(_row_height(row) for row in self._rows)

    def draw(self, left: float, top: float) -> Markup:
        """The legend with its upper left corner at this point."""
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
    # At least one line: an entry without a label still has a sample.
    height = LINE_HEIGHT
    for _, label in row:
        height = max(height, label.height)
    return height + _ROW_GAP
