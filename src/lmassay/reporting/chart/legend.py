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
    """An entry of the legend: sample marks, and the ``label`` that says what they mean.

    The coordinates of the marks run from 0 to 1; ``width`` is the width of the sample in units of the drawing.
    """

    label: str
    marks: Sequence[Mark]
    width: float = 22.0


class Legend:
    """The entries of a legend, laid out in as many columns as fit side by side.

    Labels are wrapped to at most ``lines`` lines; None means that there is no limit.
    """

    def __init__(self, entries: Sequence[LegendEntry], width: float, lines: int | None = 2) -> None:
        widest_sample = max((entry.width for entry in entries), default=0.0)
        # Labels begin at the same offset in all entries.
        self._label_offset = widest_sample + _TEXT_GAP
        label_room = width - self._label_offset
        labels = fit_distinct([Room(entry.label, label_room) for entry in entries], lines)
        widest_label = max((label.width for label in labels), default=0.0)
        self._column_width = self._label_offset + widest_label + _COLUMN_GAP
        labelled = list(zip(entries, labels, strict=True))
        # The last column needs no gap to its right.
        columns = max(1, int((width + _COLUMN_GAP) // self._column_width))
        self._rows = []
        for start in range(0, len(labelled), columns):
            self._rows.append(labelled[start : start + columns])

    @property
    def height(self) -> float:
        """The height of all rows."""
        return sum(_row_height(row) for row in self._rows)

    def draw(self, left: float, top: float) -> Markup:
        """Return the legend with its upper left corner at this point."""
        parts = []
        y = top
        for row in self._rows:
            for column, (entry, label) in enumerate(row):
                x = left + column * self._column_width
                parts.append(self._draw_entry(entry, label, x, y))
            y += _row_height(row)
        return elements.join(parts)

    def _draw_entry(self, entry: LegendEntry, label: TextBlock, left: float, top: float) -> Markup:
        middle = top + LINE_HEIGHT / 2
        horizontal = NumericPlacement(LinearAxis(), Span(left, left + entry.width))
        vertical = NumericPlacement(LinearAxis(), Span(middle + _SAMPLE_HEIGHT / 2, middle - _SAMPLE_HEIGHT / 2))
        frame = PlotArea(horizontal, vertical)
        sample = elements.join(mark.draw(frame) for mark in entry.marks)
        return sample + elements.text(label, left + self._label_offset, middle + MIDDLE, "label")


def _row_height(row: Sequence[tuple[LegendEntry, TextBlock]]) -> float:
    # At least one line: an entry without a label still has a sample.
    height = LINE_HEIGHT
    for _, label in row:
        height = max(height, label.height)
    return height + _ROW_GAP
