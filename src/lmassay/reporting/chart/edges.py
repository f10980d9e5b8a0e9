"""The labels of an axis along an edge of a panel: how much room they need, and how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from lmassay.reporting.chart import elements
from lmassay.reporting.chart.axes import Axis, Category, CategoryAxis, NumericAxis, Tick
from lmassay.reporting.chart.placement import CategoryPlacement, Placement, Span
from lmassay.reporting.chart.text import (
    ASCENT,
    DESCENT,
    LINE_HEIGHT,
    MIDDLE,
    Room,
    TextBlock,
    clean_text,
    fit,
    fit_distinct,
    text_width,
)

Side = Literal["top", "bottom"]

# Half a line of text is 7 units high, so with this gap the labels below a panel do not touch the lowest label beside
# it.
_EDGE_GAP = 8.0
_TICK_LENGTH = 4.0
_MIN_LABEL_GAP = 8.0
_MIN_GAP_BETWEEN_CATEGORIES = 4.0
_MIN_LINE_GAP = 2.0
_SLOPE = 40
_SIN = math.sin(math.radians(_SLOPE))
_COS = math.cos(math.radians(_SLOPE))
_MAX_SLOPING_LENGTH = 150.0
_MIN_SLOPING_WIDTH = 24.0
"""The smallest width of a category with a sloping label; in narrower categories, the labels would touch."""
_CATEGORY_LABEL_LINES = 2
_ROW_GAP = 7.0
_HEADING_GAP = 2.0
_STRONG_GAP = 6.0


# --- numeric axes -----------------------------------------------------------------------------------------------------


def fitting_ticks(axis: NumericAxis, length: float, *, upright: bool = False) -> list[Tick]:
    """Return the largest set of ticks that the axis proposes and whose labels do not touch.

    ``length`` is the length of the axis on the drawing; ``upright`` says that the axis is vertical.
    """
    for ticks in axis.tick_choices():
        if _are_apart(axis, ticks, length, upright):
            return ticks
    return []


def _are_apart(axis: NumericAxis, ticks: Sequence[Tick], length: float, upright: bool) -> bool:
    different_labels = {tick.label for tick in ticks}
    if len(different_labels) < len(ticks):
        # Two ticks have the same label: they are closer together than the decimals of the labels show.
        return False
    end_of_last = -math.inf
    for tick in ticks:
        middle = length * axis.fraction(tick.value)
        if upright:
            half = LINE_HEIGHT / 2
            gap = _MIN_LINE_GAP
        else:
            half = text_width(tick.label) / 2
            gap = _MIN_LABEL_GAP
        if middle - half < end_of_last + gap:
            return False
        end_of_last = middle + half
    return True


@dataclass(frozen=True, slots=True)
class NumericEdge:
    """Tick labels of a numeric axis above or below a panel."""

    axis: NumericAxis
    ticks: Sequence[Tick]
    side: Side

    @property
    def height(self) -> float:
        if self.ticks:
            return _EDGE_GAP + LINE_HEIGHT
        return 0.0

    def overhang(self, length: float) -> tuple[float, float]:
        """Return how far the labels extend beyond the left and the right end of an axis of this length."""
        left = right = 0.0
        for tick in self.ticks:
            middle = length * self.axis.fraction(tick.value)
            half = text_width(tick.label) / 2
            left = max(left, half - middle)
            right = max(right, half - (length - middle))
        return left, right

    def draw(self, placement: Placement, edge: float) -> Markup:
        parts = []
        if self.side == "top":
            baseline = edge - _EDGE_GAP - DESCENT
        else:
            baseline = edge + _EDGE_GAP + ASCENT
        for tick in self.ticks:
            label = TextBlock((tick.label,))
            parts.append(elements.text(label, placement(tick.value), baseline, "tick", "middle"))
        return elements.join(parts)

    def draw_tick_marks(self, placement: Placement, edge: float) -> Markup:
        """Draw short strokes at the ticks, in place of lines across the panel."""
        length = -_TICK_LENGTH if self.side == "top" else _TICK_LENGTH
        parts = []
        for tick in self.ticks:
            x = placement(tick.value)
            parts.append(elements.line((x, edge), (x, edge + length), "axis"))
        return elements.join(parts)


# --- categories from left to right ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CategoryEdge:
    """Labels of categories above or below a panel: all horizontal if all of them fit, otherwise all sloping."""

    axis: CategoryAxis
    side: Side
    labels: Sequence[TextBlock]
    is_sloping: bool

    @property
    def least_widths(self) -> list[float]:
        """The smallest width that each category may have."""
        least = _MIN_SLOPING_WIDTH if self.is_sloping else 0.0
        widths = []
        for category in self.axis.categories:
            width_of_lanes = category.lanes * self.axis.lane
            widths.append(max(width_of_lanes, least))
        return widths

    @property
    def height(self) -> float:
        if self.is_sloping:
            longest = max((label.width for label in self.labels), default=0.0)
            return _EDGE_GAP + _SIN * longest + _COS * (ASCENT + DESCENT)
        most_lines = max((len(label.lines) for label in self.labels), default=0)
        return _EDGE_GAP + LINE_HEIGHT * most_lines

    def placement(self, left: float, width: float) -> CategoryPlacement:
        """Place the categories side by side, widened in proportion if the width is more than they need."""
        least_widths = self.least_widths
        stretch = width / sum(least_widths) if least_widths else 1.0
        spans = []
        start = left
        for least in least_widths:
            end = start + stretch * least
            spans.append(Span(start, end))
            start = end
        return CategoryPlacement(spans, spans)

    def overhang(self, length: float) -> tuple[float, float]:
        """Return how far the labels extend beyond the left and the right end of an axis of this length."""
        if not self.is_sloping:
            return 0.0, 0.0
        left = right = 0.0
        for label, span in zip(self.labels, self.placement(0.0, length).spans, strict=True):
            # How far a sloping label extends to the side of its category.
            run = _COS * label.width + _SIN * ASCENT
            if self.side == "top":
                right = max(right, span.middle + run - length)
            else:
                left = max(left, run - span.middle)
        return left, right

    def draw(self, placement: Placement, edge: float) -> Markup:
        draw_label = self._draw_sloping if self.is_sloping else self._draw_horizontal
        parts = []
        for label, span in zip(self.labels, placement.spans, strict=True):
            parts.append(draw_label(label, span.middle, edge))
        return elements.join(parts)

    def _draw_sloping(self, label: TextBlock, x: float, edge: float) -> Markup:
        """Draw a sloping label: above the panel it rises from its category, below the panel it rises to it."""
        if self.side == "top":
            return elements.text(label, x, edge - _EDGE_GAP, "label", "start", -_SLOPE)
        return elements.text(label, x + 4, edge + _EDGE_GAP + _COS * ASCENT, "label", "end", -_SLOPE)

    def _draw_horizontal(self, label: TextBlock, x: float, edge: float) -> Markup:
        if self.side == "top":
            baseline = edge - _EDGE_GAP - DESCENT - LINE_HEIGHT * (len(label.lines) - 1)
        else:
            baseline = edge + _EDGE_GAP + ASCENT
        return elements.text(label, x, baseline, "label", "middle")


def _category_edge(axis: CategoryAxis, side: Side) -> CategoryEdge:
    horizontal = []
    fits = True
    for category in axis.categories:
        width = category.lanes * axis.lane - _MIN_GAP_BETWEEN_CATEGORIES
        label = fit(category.label, width, lines=_CATEGORY_LABEL_LINES)
        longest_word = 0.0
        for word in category.label.split():
            longest_word = max(longest_word, text_width(word))
        # A sloping label is easier to read than one that is broken within a word.
        fits = fits and not label.full and longest_word <= width
        horizontal.append(label)
    if fits:
        return CategoryEdge(axis, side, horizontal, is_sloping=False)
    return CategoryEdge(axis, side, _sloping_labels(axis), is_sloping=True)


def _sloping_labels(axis: CategoryAxis) -> list[TextBlock]:
    """Return labels of one line each, cut at a length at which different labels stay different."""
    texts = {clean_text(category.label) for category in axis.categories}
    length = _MAX_SLOPING_LENGTH
    while True:
        labels = [fit(category.label, length) for category in axis.categories]
        different_labels = {tuple(label.lines) for label in labels}
        if len(different_labels) >= len(texts):
            return labels
        # Two labels differ only in the part that was cut out, so more of them is shown.
        length += _MAX_SLOPING_LENGTH / 2


Edge = NumericEdge | CategoryEdge


def edge_of(axis: Axis, side: Side, length: float) -> Edge:
    """Return the labels of an axis of this length along the upper or lower edge of a panel."""
    if isinstance(axis, CategoryAxis):
        return _category_edge(axis, side)
    return NumericEdge(axis, fitting_ticks(axis, length), side)


# --- categories from top to bottom ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """A category of a y axis on the drawing: ``top`` is where its label begins, ``body`` is where its marks lie."""

    category: Category
    label: TextBlock
    note: TextBlock
    top: float
    body: Span


@dataclass(frozen=True, slots=True)
class CategoryRows:
    """All categories of a y axis, laid out from top to bottom; ``labels`` is the width that labels and notes fill."""

    axis: CategoryAxis
    title: TextBlock
    rows: Sequence[CategoryRow]
    labels: Span
    top: float
    bottom: float

    @property
    def placement(self) -> CategoryPlacement:
        clear_spans = []
        for position, row in enumerate(self.rows):
            is_last = position == len(self.rows) - 1
            end = self.bottom if is_last else self.rows[position + 1].top
            if row.body.length:
                clear_spans.append(Span(row.body.start, end))
        return CategoryPlacement([row.body for row in self.rows], clear_spans)

    def draw(self) -> Markup:
        """Draw the title, the labels and the notes."""
        left = self.labels.start
        right = self.labels.end
        parts = [elements.text(self.title, left, self.top + ASCENT, "tick")]
        for row in self.rows:
            style = "tick" if row.category.kind == "heading" else "label"
            if self.axis.labels == "beside":
                # The middle of all lines of the label is the middle of the row.
                first = row.body.middle - LINE_HEIGHT * (len(row.label.lines) - 1) / 2
                parts.append(elements.text(row.label, left, first + MIDDLE, style))
            else:
                parts.append(elements.text(row.label, left, row.top + ASCENT, style))
                parts.append(elements.text(row.note, right, row.top + ASCENT, "tick", "end"))
        return elements.join(parts)


def lay_out_rows(axis: CategoryAxis, labels: Span, top: float) -> CategoryRows:
    """Lay out the categories of a y axis from ``top`` downwards; labels and notes fill the width of ``labels``."""
    title = fit(axis.title, labels.length)
    notes = [fit(category.note, labels.length / 2) for category in axis.categories]
    rooms = []
    for category, note in zip(axis.categories, notes, strict=True):
        width = labels.length - note.width
        if note.lines:
            width -= _MIN_LABEL_GAP
        rooms.append(Room(category.label, width, bold=category.kind == "strong"))
    blocks = fit_distinct(rooms, _CATEGORY_LABEL_LINES)
    rows = []
    y = top + title.height
    for position, (category, label, note) in enumerate(zip(axis.categories, blocks, notes, strict=True)):
        if position and category.kind != "plain":
            y += _STRONG_GAP
        row = _row(axis, category, label, note, y)
        rows.append(row)
        y = row.body.end
        is_last = position == len(axis.categories) - 1
        if axis.labels == "above" and not is_last:
            y += _ROW_GAP if row.body.length else _HEADING_GAP
    return CategoryRows(axis, title, rows, labels, top, y)


def _row(axis: CategoryAxis, category: Category, label: TextBlock, note: TextBlock, top: float) -> CategoryRow:
    # A heading has a label but no marks.
    lanes = 0 if category.kind == "heading" else category.lanes
    if axis.labels == "beside":
        height = max(lanes * axis.lane, label.height + _MIN_LINE_GAP)
        return CategoryRow(category, label, note, top, Span(top, top + height))
    label_height = max(label.height, note.height)
    start = top + label_height
    return CategoryRow(category, label, note, top, Span(start, start + lanes * axis.lane))


def label_column_width(axis: CategoryAxis, limit: float) -> float:
    """Return the width of the column of labels next to the rows, at most ``limit``."""
    rooms = [Room(category.label, limit, bold=category.kind == "strong") for category in axis.categories]
    return max((label.width for label in fit_distinct(rooms, _CATEGORY_LABEL_LINES)), default=0.0)
