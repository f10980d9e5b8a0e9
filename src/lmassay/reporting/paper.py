"""Figures laid out for papers: as wide as a column or the page, with text that can be read at that size.

Charts are laid out again for the width, instead of scaled, so that texts keep their size and do not overlap.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lmassay.errors import UserError
from lmassay.reporting.blocks import Figure
from lmassay.reporting.chart.text import FONT_SIZE
from lmassay.reporting.figure_style import Drawing, FigureStyle, page_style_sheet, standalone

COLUMN_WIDTHS = {"one-column": 84.0, "two-column": 178.0}
"""Widths in millimetres of a column and of the full page in the ACM's two-column format; others are similar."""
MIN_TEXT_POINTS = 7.0
"""The smallest font size that journals accept."""
_WIDE_TEXT_POINTS = 8.0
_WIDE = 120.0
"""From this width on (in millimetres), texts have the size _WIDE_TEXT_POINTS."""
_MIN_WIDTH, _MAX_WIDTH = 40.0, 600.0
_MILLIMETRES_PER_POINT = 25.4 / 72
_UNITS = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": _MILLIMETRES_PER_POINT}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(mm|cm|in|pt)?")


@dataclass(frozen=True, slots=True)
class PaperLayout:
    """How a figure is drawn for a paper: ``width`` in millimetres, in colours or in greys."""

    width: float
    style: FigureStyle = "colour"

    @property
    def text_points(self) -> float:
        """The font size of the texts, in points."""
        return MIN_TEXT_POINTS if self.width < _WIDE else _WIDE_TEXT_POINTS


def parse_width(text: str | float) -> float:
    """Read a width: ``one-column``, ``two-column``, a length such as ``120mm`` or ``3.5in``, or millimetres.

    >>> parse_width("one-column"), parse_width("12.5 cm"), parse_width(100)
    (84.0, 125.0, 100.0)
    """
    words = str(text).strip().lower()
    if words in COLUMN_WIDTHS:
        return COLUMN_WIDTHS[words]
    match = _LENGTH.fullmatch(words)
    if match is None:
        raise UserError(f"'{text}' is not a width; write one-column, two-column or a length such as 120mm or 3.5in")
    width = float(match[1]) * _UNITS[match[2] or "mm"]
    if not _MIN_WIDTH <= width <= _MAX_WIDTH:
        raise UserError(f"a figure cannot be {width:g} mm wide; write a width from {_MIN_WIDTH:g} to {_MAX_WIDTH:g} mm")
    return width


def paper_drawing(figure: Figure, layout: PaperLayout) -> Drawing:
    """Draw a figure at the width of the layout, or wider if its categories need more room (see `is_too_wide`)."""
    unit = layout.text_points * _MILLIMETRES_PER_POINT / FONT_SIZE
    sheet = page_style_sheet(layout.style)
    markup = figure.drawing
    if figure.chart is not None:
        # Drawings have whole tenths of a unit. The width is rounded down, so that texts become larger, not smaller.
        width = math.floor(10 * layout.width / unit) / 10
        markup = figure.chart.laid_out(width).svg()
    drawing = standalone(markup, figure.caption, sheet, unit)
    # A drawing that grew may still fit with smaller texts.
    smallest_unit = MIN_TEXT_POINTS * _MILLIMETRES_PER_POINT / FONT_SIZE
    fitting_unit = max(layout.width / drawing.width, smallest_unit)
    return standalone(markup, figure.caption, sheet, fitting_unit)


def is_too_wide(drawing: Drawing, layout: PaperLayout) -> bool:
    """Return whether a drawing is wider than the layout asks for, because its texts would otherwise be too small."""
    return drawing.width_mm > layout.width + 0.05
