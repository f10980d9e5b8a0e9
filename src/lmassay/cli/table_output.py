"""Print tables, and sentences between them, on standard output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmassay.cli.console import without_controls

_WIDE_TERMINAL = 140
_MIN_TEXT_WIDTH = 12
_WORDS = re.compile(r"\s*\S+\s*")
# The part of a long name up to and including a separator, such as a folder in a path.
_PARTS_OF_WORDS = re.compile(r"\s*[^\s/_=:·-]*(?:[/_=:·-]+\s*|\s+|$)")
# Spaces that rich puts between two columns.
_COLUMN_GAP = 2
UNLIMITED_WIDTH = 1 << 20
"""Wider than anything that is printed: a file or a pipe gets each row on one line."""


def stdout_console() -> Console:
    """Return standard output. In a file or a pipe, nothing is wrapped or cut off."""
    console = Console(highlight=False)
    if not _has_width(console):
        console = Console(highlight=False, width=UNLIMITED_WIDTH)
    return console


def _has_width(console: Console) -> bool:
    # With FORCE_COLOR, rich treats even a file as a terminal. It has a width only if COLUMNS gives one.
    return console.is_terminal and (sys.stdout.isatty() or "COLUMNS" in os.environ)


def is_narrow() -> bool:
    """Return whether the terminal is too narrow for a wide table."""
    return stdout_console().width < _WIDE_TERMINAL


def fits(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Return whether the terminal has room for a table without wrapping any cell."""
    width = -_COLUMN_GAP
    for cells in zip(columns, *rows, strict=True):
        width += _column_width([without_controls(cell) for cell in cells])
    return width <= stdout_console().width


def print_sentence(text: str) -> None:
    """Print a sentence on standard output: wrapped between words on a terminal, on one line in a file or pipe."""
    console = stdout_console()
    console.print(Text(without_controls(text)), soft_wrap=console.width == UNLIMITED_WIDTH)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """Print a table.

    ``right`` and ``whole`` are indices of columns: those in ``right`` are aligned right, and the cells of those in
    ``whole`` are never wrapped.

    On a terminal that is too narrow for the table, each row is printed as a list with one cell per line.
    """
    console = stdout_console()
    if title:
        # The title is not wrapped: it may contain ids that a user wants to copy.
        console.print(Text(without_controls(title)), soft_wrap=True)
    shown_columns = [without_controls(column) for column in columns]
    shown_rows = [[without_controls(cell) for cell in row] for row in rows]
    layout = []
    for index, cells in enumerate(zip(shown_columns, *shown_rows, strict=True)):
        layout.append(_column_space(cells, index in right, index in whole))
    widths = _widths(layout, console.width)
    if widths is None:
        _print_as_lists(console, columns, rows)
        return
    table = Table(box=None, pad_edge=False)
    for index, (column, width) in enumerate(zip(shown_columns, widths, strict=True)):
        table.add_column(
            # As Text, because rich would read brackets in a plain string as markup.
            Text(wrapped(column, width)),
            justify="right" if index in right else "left",
            overflow="fold",
            width=width,
        )
    for row in shown_rows:
        table.add_row(*(Text(wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)))
    console.print(table)


def print_wide_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose columns are split into several parts if the terminal is too narrow.

    Each part begins with the first column, which names the rows.
    """
    widths = [_column_width(cells) for cells in zip(columns, *rows, strict=True)]
    terminal_width = stdout_console().width
    start = 1
    while start < len(columns):
        # Each part has at least one column next to the names.
        end = start + 1
        # There is no gap after the last column.
        while end < len(columns) and widths[0] + sum(widths[start : end + 1]) - _COLUMN_GAP <= terminal_width:
            end += 1
        value_columns = range(1, end - start + 1)
        part = [[row[0], *row[start:end]] for row in rows]
        print_table(title, [columns[0], *columns[start:end]], part, right=value_columns, whole=(0, *value_columns))
        title = ""
        start = end


def _column_width(cells: Sequence[str]) -> int:
    """Return the width of a column without wrapping, with the gap before the next one."""
    widest = 0
    for cell in cells:
        for line in cell.split("\n"):
            widest = max(widest, cell_len(line))
    return widest + _COLUMN_GAP


# --- the widths of columns --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ColumnSpace:
    """The widths that suit a column, in characters."""

    least: int
    """The width below which the column cannot be read."""
    useful: Sequence[int]
    """The widths in which some cell is just not wrapped, in ascending order."""
    is_numeric: bool

    @property
    def full(self) -> int:
        """The width in which no cell is wrapped."""
        return self.useful[-1]


def _column_space(cells: Sequence[str], is_numeric: bool, is_whole: bool) -> _ColumnSpace:
    """Return the widths that suit a column with these cells.

    Columns that must stay whole need their full width. Numbers are never broken, and an interval only between its two
    ends. Other text is wrapped between words; a word that is longer than the minimum width may be broken.
    """
    widths_of_cells: set[int] = set()
    least = 0
    for cell in cells:
        lines = cell.split("\n")
        widths_of_cells.add(max(map(cell_len, lines)))
        for line in lines:
            least = max([least, *map(cell_len, line.split())])
    useful = sorted(widths_of_cells)
    if is_whole:
        least = useful[-1]
    elif not is_numeric:
        least = min(least, _MIN_TEXT_WIDTH)
    return _ColumnSpace(least, useful, is_numeric)


def _widths(columns: Sequence[_ColumnSpace], available: int) -> list[int] | None:
    """Return the width of each column so that all fit; None if they cannot.

    Numbers get the room they need first, from left to right, or as much of it as helps; texts share what is left.
    """
    widths = [column.least for column in columns]
    free = available - sum(widths) - _COLUMN_GAP * (len(columns) - 1)
    if free < 0:
        return None
    for index, column in enumerate(columns):
        if not column.is_numeric:
            continue
        # If there is no room for a long remark in place of a number, the numbers themselves may still fit.
        for width in column.useful:
            if 0 < width - widths[index] <= free:
                free -= width - widths[index]
                widths[index] = width
    growing: list[int] = []
    for index, column in enumerate(columns):
        if not column.is_numeric and widths[index] < column.full:
            growing.append(index)
    while free > 0 and growing:
        for index in list(growing):
            if free > 0 and widths[index] < columns[index].full:
                widths[index] += 1
                free -= 1
        growing = [index for index in growing if widths[index] < columns[index].full]
    return widths


def wrapped(text: str, width: int) -> str:
    """Break the lines of a text that are too long: between words, in long words after a separator, or else anywhere."""
    lines: list[str] = []
    for line in text.split("\n"):
        if cell_len(line) <= width:
            lines.append(line)
            continue
        current = ""
        for piece in _pieces(line, width):
            if current and cell_len((current + piece).rstrip()) > width:
                lines.append(current.rstrip())
                current = ""
                piece = piece.lstrip()
            current += piece
        lines.append(current.rstrip())
    return "\n".join(lines)


def least_width(text: str, longest_word: int) -> int:
    """Return the width in which :func:`wrapped` breaks a text only between words and after separators.

    It is at most ``longest_word``: a longer word may be broken anywhere.
    """
    widest = max(cell_len(part.strip()) for part in _PARTS_OF_WORDS.findall(text))
    return min(widest, longest_word)


def _pieces(line: str, width: int) -> Iterator[str]:
    """Yield the words of a line, each with the spaces around it. A word that is wider than a column is split."""
    for word in _WORDS.findall(line):
        if cell_len(word.strip()) <= width:
            yield word
            continue
        for part in _PARTS_OF_WORDS.findall(word):
            if cell_len(part.rstrip()) <= width:
                yield part
            else:
                yield from chop_cells(part, width)


def _print_as_lists(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print each row as a list of header and cell; the first cell is the title of the list."""
    headers = [" ".join(without_controls(column).split()) for column in columns]
    for first, *cells in rows:
        if str(first):
            console.print(Text(without_controls(first)))
        grid = Table.grid(padding=(0, _COLUMN_GAP, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for header, cell in zip(headers[1:], cells, strict=True):
            if str(cell):
                grid.add_row(Text(f"  {header}"), Text(" ".join(without_controls(cell).split())))
        console.print(grid)
