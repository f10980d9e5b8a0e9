"""Panels as SVG: grid lines, marks, labels, titles and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lmassay.reporting.chart import elements
from lmassay.reporting.chart.axes import Axis, CategoryAxis, Tick
from lmassay.reporting.chart.edges import (
    CategoryEdge,
    CategoryRows,
    Edge,
    NumericEdge,
    edge_of,
    fitting_ticks,
    lay_out_rows,
)
from lmassay.reporting.chart.elements import Anchor
from lmassay.reporting.chart.layout import (
    LABEL_GAP,
    TITLE_GAP,
    GridColumn,
    GridSlot,
    divide_width,
    place_panels,
    y_title,
)
from lmassay.reporting.chart.marks import Mark
from lmassay.reporting.chart.panel import Panel
from lmassay.reporting.chart.placement import NumericPlacement, Placement, PlotArea, Span
from lmassay.reporting.chart.text import ASCENT, LINE_HEIGHT, MIDDLE, TextBlock, fit

_ROW_GAP = 16.0
_PANEL_TITLE_LINES = 5
_AXIS_TITLE_LINES = 3
# The smallest gap between the texts that explain the two ends of an axis.
_MIN_GAP_BETWEEN_ENDS = 12.0
_TALL = 360.0
"""A panel with higher rows than this does not fit on the screen of a phone."""


@dataclass(frozen=True, slots=True)
class DrawnPanels:
    """The markup of all panels, and how far it reaches."""

    markup: Markup
    right: float
    bottom: float


def draw_panels(panels: Sequence[Panel | None], columns: int, left: float, top: float, width: float) -> DrawnPanels:
    """Draw panels row by row; None leaves a cell of the grid empty."""
    slots = place_panels(panels, columns)
    grid = divide_width(slots, columns, left, width)
    parts: list[Markup] = []
    bottom = top
    for row in sorted({slot.row for slot in slots}):
        if parts:
            bottom += _ROW_GAP
        slots_of_row = [slot for slot in slots if slot.row == row]
        members = [PlacedPanel(slot, grid[slot.column]) for slot in slots_of_row]
        markup, bottom = _draw_row(members, bottom)
        parts.append(markup)
    right = max((column.cell.end for column in grid), default=left)
    return DrawnPanels(elements.join(parts), right, bottom)


def _draw_row(members: Sequence[PlacedPanel], top: float) -> tuple[Markup, float]:
    """Draw a row of panels whose plots begin and end at the same height.

    Returns the markup and the y coordinate of the bottom of the row.
    """
    plot_top = top + max(member.height_above for member in members)
    plot_bottom = plot_top
    rows_of_members = []
    for member in members:
        sharing = [other for other in members if other.panel.y == member.panel.y]
        # Panels with the same y axis share its labels: the first of them has the labels, which may extend over all.
        rows = sharing[0].rows(plot_top, sharing[-1].column.cell.end)
        rows_of_members.append(rows)
        if rows is None:
            # A panel with a numeric y axis has a fixed height.
            end = plot_top + member.panel.height
        else:
            # Categories on the y axis take the height that they need.
            end = rows.bottom
        room_for_notes = plot_top + LINE_HEIGHT * len(member.panel.notes)
        plot_bottom = max(plot_bottom, end, room_for_notes)
    parts = []
    for member, rows in zip(members, rows_of_members, strict=True):
        parts.append(member.draw(Span(plot_top, plot_bottom), rows, top))
    return elements.join(parts), plot_bottom + max(member.height_below for member in members)


class PlacedPanel:
    """A panel whose column is known, so that its ticks can be chosen and its titles wrapped."""

    def __init__(self, slot: GridSlot, column: GridColumn) -> None:
        self.panel = slot.panel
        self.column = column
        self._shows_y = slot.shows_y
        width = column.plot.length
        self._below: Edge | None = None
        if self.panel.x is not None:
            self._below = edge_of(self.panel.x, "bottom", width)
        self._above: Edge | None = None
        if self.panel.top is not None:
            self._above = edge_of(self.panel.top, "top", width)
        # In a tall panel, the x labels are repeated on top, because the first rows are far from those at the bottom.
        self._repeated = None
        if self.panel.x is not None and self.panel.top is None and _is_tall(self.panel):
            self._repeated = edge_of(self.panel.x, "top", width)
        self._title = fit(self.panel.title, column.cell.length, lines=_PANEL_TITLE_LINES, bold=True)
        self._x_title = self._axis_title(self.panel.x, slot.shows_x_title)
        self._top_title = self._axis_title(self.panel.top, slot.shows_top_title)
        self._ends = self._lines_of_ends()

    def _axis_title(self, axis: Axis | None, is_shown: bool) -> TextBlock:
        title = ""
        if axis is not None and is_shown:
            title = axis.title
        return fit(title, self.column.cell.length, lines=_AXIS_TITLE_LINES)

    def _lines_of_ends(self) -> list[list[tuple[Anchor, TextBlock]]]:
        """Return the lines of text that explain both directions of the x axis: one line if both fit, otherwise two."""
        axis = self.panel.x
        if axis is None or isinstance(axis, CategoryAxis) or not any(axis.ends):
            return []
        width = self.column.plot.length
        start = fit(axis.ends[0], width)
        end = fit(axis.ends[1], width)
        if start.width + _MIN_GAP_BETWEEN_ENDS + end.width <= width:
            return [[("start", start), ("end", end)]]
        return [[("start", start)], [("end", end)]]

    # --- sizes ---

    @property
    def height_above(self) -> float:
        """The height of everything between the top of the row and the plot."""
        height = _with_gap(self._title) + LINE_HEIGHT * len(self._ends)
        if self._ends:
            height += TITLE_GAP
        if self._above is not None:
            height += self._above.height + _with_gap(self._top_title)
        if self._repeated is not None:
            height += self._repeated.height + TITLE_GAP
        return max(height, self._half_a_label)

    @property
    def height_below(self) -> float:
        """The height of everything between the plot and the bottom of the row."""
        height = 0.0
        if self._below is not None:
            height = self._below.height + _with_gap(self._x_title)
        return max(height, self._half_a_label)

    @property
    def _half_a_label(self) -> float:
        """How far the label of a tick at the very end of a numeric y axis extends beyond the plot."""
        if isinstance(self.panel.y, CategoryAxis):
            return 0.0
        return LINE_HEIGHT / 2

    def rows(self, plot_top: float, end_of_labels: float) -> CategoryRows | None:
        """Return the categories of the y axis, if it has any."""
        axis = self.panel.y
        if not isinstance(axis, CategoryAxis):
            return None
        if axis.labels == "beside":
            start = self.column.cell.start
            end = self.column.plot.start - LABEL_GAP
        else:
            start = self.column.plot.start
            end = end_of_labels
        return lay_out_rows(axis, Span(start, end), plot_top)

    # --- drawing ---

    def draw(self, plot: Span, rows: CategoryRows | None, row_top: float) -> Markup:
        """Draw the panel with its plot from the top to the bottom of ``plot``; its row begins at ``row_top``."""
        y = self._y_placement(plot, rows)
        # In the order of painting: grid lines below marks, texts on top.
        parts = [self._draw_y_grid(y)]
        if self._below is not None:
            x = _placement(self._below, self.column.plot)
            parts.append(self._draw_x_grid(self._below, x, y, plot.end))
            parts.append(_draw_marks(self.panel.marks, PlotArea(x, y)))
        if self._above is not None:
            top = _placement(self._above, self.column.plot)
            parts.append(self._draw_x_grid(self._above, top, y, plot.start))
            parts.append(_draw_marks(self.panel.top_marks, PlotArea(top, y)))
        parts.append(self._draw_below(plot.end))
        parts.append(self._draw_above(plot.start))
        parts.append(self._centred(self._title, row_top + ASCENT, "label"))
        parts.append(self._draw_notes(plot, y))
        if self._shows_y:
            parts.append(self._draw_y_labels(plot, y, rows))
        return elements.join(parts)

    def _y_placement(self, plot: Span, rows: CategoryRows | None) -> Placement:
        if rows is not None:
            return rows.placement
        assert not isinstance(self.panel.y, CategoryAxis)
        return NumericPlacement(self.panel.y, Span(plot.end, plot.start))

    def _y_ticks(self) -> list[Tick]:
        if isinstance(self.panel.y, CategoryAxis):
            return []
        return fitting_ticks(self.panel.y, self.panel.height, upright=True)

    def _draw_y_grid(self, y: Placement) -> Markup:
        axis = self.panel.y
        if isinstance(axis, CategoryAxis):
            return Markup("")
        left = self.column.plot.start
        right = self.column.plot.end
        if not axis.grid:
            return elements.line((left, y.span.start), (left, y.span.end), "axis")
        lines = []
        for tick in self._y_ticks():
            height = y(tick.value)
            lines.append(elements.line((left, height), (right, height), _grid_style(tick, axis.low)))
        return elements.join(lines)

    def _draw_x_grid(self, edge: Edge, x: Placement, y: Placement, edge_y: float) -> Markup:
        if isinstance(edge, CategoryEdge):
            return Markup("")
        has_two_axes = self._below is not None and self._above is not None
        if has_two_axes or not edge.axis.grid:
            # With two x axes, nobody could tell which of them lines across the panel belong to.
            axis_line = elements.line((x.span.start, edge_y), (x.span.end, edge_y), "axis")
            return axis_line + edge.draw_tick_marks(x, edge_y)
        lines = []
        for tick in edge.ticks:
            at = x(tick.value)
            style = _grid_style(tick, edge.axis.low)
            # Labels of categories may stand between the marks, so the line is interrupted there.
            for span in y.clear_spans:
                lines.append(elements.line((at, span.start), (at, span.end), style))
        return elements.join(lines)

    def _draw_below(self, plot_bottom: float) -> Markup:
        if self._below is None:
            return Markup("")
        labels = self._below.draw(_placement(self._below, self.column.plot), plot_bottom)
        baseline = plot_bottom + self._below.height + TITLE_GAP + ASCENT
        return labels + self._centred(self._x_title, baseline, "label")

    def _draw_above(self, plot_top: float) -> Markup:
        """Draw, from the plot upwards, tick labels, the title of their axis, and the meaning of the x axis's ends."""
        parts = []
        y = plot_top
        if self._above is not None:
            parts.append(self._above.draw(_placement(self._above, self.column.plot), plot_top))
            y -= self._above.height + _with_gap(self._top_title)
            parts.append(self._centred(self._top_title, y + ASCENT, "label"))
        if self._repeated is not None:
            parts.append(self._repeated.draw(_placement(self._repeated, self.column.plot), plot_top))
            y -= self._repeated.height
        if self._ends:
            y -= TITLE_GAP + LINE_HEIGHT * len(self._ends)
            for number, line in enumerate(self._ends):
                for anchor, block in line:
                    x = self.column.plot.start if anchor == "start" else self.column.plot.end
                    parts.append(elements.text(block, x, y + ASCENT + LINE_HEIGHT * number, "tick", anchor))
        return elements.join(parts)

    def _centred(self, block: TextBlock, baseline: float, style: str) -> Markup:
        """Draw a text above or below the middle of the plot, moved sideways if it would leave the panel's cell."""
        # A title may be wider than its plot, but must not extend into the neighbouring panel.
        half = block.width / 2
        cell = self.column.cell
        x = min(max(self.column.plot.middle, cell.start + half), cell.end - half)
        return elements.text(block, x, baseline, style, "middle")

    def _draw_notes(self, plot: Span, y: Placement) -> Markup:
        """Draw the notes to the right of the plot, moved apart if they would overlap."""
        # From top to bottom, so that notes that would overlap can be moved apart.
        notes = sorted(self.panel.notes, key=lambda note: y(note.y))
        middles = _moved_apart([y(note.y) for note in notes], plot)
        start = self.column.plot.end + LABEL_GAP
        parts = []
        for note, middle in zip(notes, middles, strict=True):
            block = fit(note.text, self.column.cell.end - start)
            parts.append(elements.text(block, start, middle + MIDDLE, "tick"))
        return elements.join(parts)

    def _draw_y_labels(self, plot: Span, y: Placement, rows: CategoryRows | None) -> Markup:
        """Draw the labels of the y axis (of its categories or ticks) and its title."""
        parts = []
        start_of_labels = self.column.plot.start
        if rows is not None:
            parts.append(rows.draw())
            start_of_labels = rows.labels.start
        for tick in self._y_ticks():
            label = TextBlock((tick.label,))
            end = self.column.plot.start - LABEL_GAP
            parts.append(elements.text(label, end, y(tick.value) + MIDDLE, "tick", "end"))
            start_of_labels = min(start_of_labels, end - label.width)
        title = y_title(self.panel)
        left = start_of_labels - TITLE_GAP - title.height
        parts.append(elements.text(title, left + ASCENT, plot.middle, "label", "middle", -90))
        return elements.join(parts)


def _placement(edge: Edge, plot: Span) -> Placement:
    if isinstance(edge, NumericEdge):
        return NumericPlacement(edge.axis, plot)
    return edge.placement(plot.start, plot.length)


def _is_tall(panel: Panel) -> bool:
    """Return whether the categories of the y axis together are higher than the screen of a phone."""
    if not isinstance(panel.y, CategoryAxis):
        return False
    lanes = sum(category.lanes for category in panel.y.categories)
    return lanes * panel.y.lane > _TALL


def _draw_marks(marks: Sequence[Mark], frame: PlotArea) -> Markup:
    return elements.join(mark.draw(frame) for mark in marks)


def _grid_style(tick: Tick, low: float) -> str:
    # The line at zero is emphasized only inside the panel, not at the lower end of an axis.
    is_inner_zero = tick.value == 0 and low < 0
    return "zero" if is_inner_zero else "grid"


def _moved_apart(middles: Sequence[float], plot: Span) -> list[float]:
    """Move apart lines of text that would touch: first down and then, if they would leave the plot, up again.

    ``middles`` are the y coordinates of the middles of the lines, from top to bottom.
    """
    moved = list(middles)
    for position in range(1, len(moved)):
        moved[position] = max(moved[position], moved[position - 1] + LINE_HEIGHT)
    lowest = plot.end
    for position in reversed(range(len(moved))):
        moved[position] = min(moved[position], lowest)
        lowest = moved[position] - LINE_HEIGHT
    return moved


def _with_gap(block: TextBlock) -> float:
    """Return the height of a title together with the gap below it; 0 without a title."""
    if block.lines:
        return block.height + TITLE_GAP
    return 0.0
