"""How the width of a chart is divided among its panels: labels get the room they need, plots share the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.reporting.chart.axes import CategoryAxis
from lmassay.reporting.chart.edges import CategoryEdge, Edge, edge_of, fitting_ticks, label_column_width
from lmassay.reporting.chart.panel import Panel
from lmassay.reporting.chart.placement import Span
from lmassay.reporting.chart.text import TextBlock, fit, text_width

LABEL_GAP = 8.0
"""The gap between the labels of an axis and the plot."""
TITLE_GAP = 5.0
"""The gap between the title of an axis and its labels."""
_COLUMN_GAP = 14.0
_MIN_PLOT_WIDTH = 80.0
# Labels next to rows may always be this wide, even if the chart has to grow, because shorter labels would say too
# little.
_MIN_LABEL_COLUMN = 110.0
# Notes to the right of a plot take at most this share of the width of their column.
_MAX_NOTE_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class GridSlot:
    """A panel with its row and column in the grid of panels.

    The flags say which labels and titles the panel shows itself: neighbours that share an axis show them only once.
    """

    panel: Panel
    row: int
    column: int
    shows_y: bool
    shows_x_title: bool
    shows_top_title: bool


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column of the grid: ``plot`` is the part of the width for plots, ``cell`` that for plots and labels."""

    plot: Span
    cell: Span


def place_panels(panels: Sequence[Panel | None], columns: int) -> list[GridSlot]:
    """Place panels row by row; None leaves a cell of the grid empty."""
    present: dict[tuple[int, int], Panel] = {}
    for position, panel in enumerate(panels):
        if panel is not None:
            present[divmod(position, columns)] = panel
    slots = []
    for (row, column), panel in present.items():
        shows_y = shows_x_title = shows_top_title = True
        for (other_row, other_column), other in present.items():
            # Of panels that share an axis, the first of a row has the labels of the y axis, the last of a column the
            # title of the x axis, and the first of a column the title of the upper axis.
            if other_row == row and other_column < column and other.y == panel.y:
                shows_y = False
            if other_column == column and other_row > row and other.x == panel.x:
                shows_x_title = False
            if other_column == column and other_row < row and other.top == panel.top:
                shows_top_title = False
        slots.append(GridSlot(panel, row, column, shows_y, shows_x_title, shows_top_title))
    return slots


def divide_width(slots: Sequence[GridSlot], count: int, left: float, width: float) -> list[GridColumn]:
    """Divide the width among the columns. The last one ends beyond ``left + width`` if there is too little room."""
    cell_width = (width - _COLUMN_GAP * (count - 1)) / count
    needs = []
    for column in range(count):
        members = [slot for slot in slots if slot.column == column]
        needs.append(_need(members, cell_width))
    for_labels = sum(need.left + need.right for need in needs)
    for_plots = width - for_labels - _COLUMN_GAP * (count - 1)
    all_shares = sum(need.share for need in needs)
    columns = []
    x = left
    for need in needs:
        start = x + need.left
        # A plot is at least as wide as its categories need, even if the chart becomes wider than asked for.
        plot_width = max(for_plots * need.share / all_shares, need.least_plot)
        if need.most_plot is not None:
            plot_width = min(plot_width, need.most_plot)
        plot = Span(start, start + plot_width)
        cell = Span(x, plot.end + need.right)
        columns.append(GridColumn(plot, cell))
        x = cell.end + _COLUMN_GAP
    return columns


@dataclass(frozen=True, slots=True)
class _Need:
    """What a column needs: room for labels on both sides, its share of the remaining width, and limits of its plots.

    ``left``, ``right``, ``least_plot`` and ``most_plot`` are in units of the drawing; ``share`` is relative to the
    others.
    """

    left: float = 0.0
    right: float = 0.0
    share: float = 1.0
    least_plot: float = _MIN_PLOT_WIDTH
    most_plot: float | None = None


def _need(members: Sequence[GridSlot], cell_width: float) -> _Need:
    if not members:
        return _Need()
    least_plot = _MIN_PLOT_WIDTH
    most_plot = None
    for slot in members:
        for edge in _category_edges(slot.panel):
            needed = sum(edge.least_widths)
            least_plot = max(least_plot, needed)
            if not edge.axis.stretch:
                most_plot = needed
    return _Need(
        left=max(_room_left(slot, cell_width) for slot in members),
        right=max(_room_right(slot, cell_width) for slot in members),
        share=max(slot.panel.share for slot in members),
        least_plot=least_plot,
        most_plot=most_plot,
    )


def y_title(panel: Panel) -> TextBlock:
    """Return the title of a numeric y axis, which is written from bottom to top."""
    if isinstance(panel.y, CategoryAxis):
        # The title of a category axis is written above its labels.
        return fit("", panel.height)
    return fit(panel.y.title, panel.height, lines=2)


def _room_left(slot: GridSlot, cell_width: float) -> float:
    """Return the room needed to the left of the plot: for the labels and the title of the y axis, or for an overhang.

    The overhang is the part of the x labels that begins to the left of the plot.
    """
    overhang = 0.0
    for edge in _edges(slot.panel, cell_width):
        beyond_left, _ = _overhang(edge, cell_width)
        overhang = max(overhang, beyond_left)
    if not slot.shows_y:
        return overhang
    room = 0.0
    labels = _y_label_width(slot.panel, cell_width)
    if labels:
        room += labels + LABEL_GAP
    title = y_title(slot.panel)
    if title.lines:
        room += title.height + TITLE_GAP
    return max(room, overhang)


def _room_right(slot: GridSlot, cell_width: float) -> float:
    """Return the room needed to the right of the plot: for the notes, or for x labels that end to the right of it."""
    room = 0.0
    for edge in _edges(slot.panel, cell_width):
        _, beyond_right = _overhang(edge, cell_width)
        room = max(room, beyond_right)
    for note in slot.panel.notes:
        room = max(room, LABEL_GAP + fit(note.text, _MAX_NOTE_SHARE * cell_width).width)
    return room


def _y_label_width(panel: Panel, cell_width: float) -> float:
    """Return the width of the labels next to the y axis."""
    if not isinstance(panel.y, CategoryAxis):
        ticks = fitting_ticks(panel.y, panel.height, upright=True)
        return max((text_width(tick.label) for tick in ticks), default=0.0)
    if panel.y.labels == "above":
        return 0.0
    limit = cell_width / 2
    for edge in _category_edges(panel):
        if not edge.axis.stretch:
            # A heat map, whose cells have a fixed width: labels may take all the rest.
            limit = cell_width - sum(edge.least_widths) - _overhang(edge, cell_width)[1] - LABEL_GAP
    return label_column_width(panel.y, max(limit, _MIN_LABEL_COLUMN))


def _edges(panel: Panel, width: float) -> list[Edge]:
    edges = []
    if panel.x is not None:
        edges.append(edge_of(panel.x, "bottom", width))
    if panel.top is not None:
        edges.append(edge_of(panel.top, "top", width))
    return edges


def _category_edges(panel: Panel) -> list[CategoryEdge]:
    return [edge for edge in _edges(panel, 0.0) if isinstance(edge, CategoryEdge)]


def _overhang(edge: Edge, cell_width: float) -> tuple[float, float]:
    """Return the farthest that labels may extend beyond the left and the right end of a plot of unknown width.

    The narrower the plot, the farther labels extend beyond it. The narrowest one is assumed: categories that are as
    wide as their lanes, and a numeric axis that is half as wide as the cell.
    """
    if isinstance(edge, CategoryEdge):
        return edge.overhang(sum(edge.least_widths))
    return edge.overhang(cell_width / 2)
