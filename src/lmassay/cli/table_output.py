"""Tables and sentences among the results, on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmassay.cli.console import without_controls

_WIDE_TERMINAL = 140
_MIN_TEXT_WIDTH = 12
# Spaces that rich puts between two columns.
_COLUMN_GAP = 2
# Wider than anything that is printed: a file or a pipe gets each row on one line.
_UNLIMITED = 1 << 20


def stdout_console() -> Console:
    """Return standard output. If it is not a terminal, nothing is wrapped or cut off, whatever ``COLUMNS`` says."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_UNLIMITED)
    return console


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
    """Print a sentence among the results: wrapped between words on a terminal, on one line in a file."""
    console = stdout_console()
    console.print(Text(without_controls(text)), soft_wrap=not console.is_terminal)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """Print a table. Columns in ``right`` are aligned right; cells of columns in ``whole`` are never wrapped.

    On a terminal that is too narrow for the table, each row is printed as a list with one cell per line.
    """
    console = stdout_console()
    if title:
        # The title is not wrapped: it may contain ids that a user wants to copy.
        console.print(Text(without_controls(title)), soft_wrap=True)
    if _min_width(columns, rows, right, whole) > console.width:
        _print_as_lists(console, columns, rows)
        return
    keeps_numbers_whole = fits(columns, rows) or not is_narrow()
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(
            # As Text, because rich would read brackets in a plain string as markup.
            Text(without_controls(column)),
            justify="right" if number in right else "left",
            overflow="fold",
            no_wrap=number in whole or (number in right and keeps_numbers_whole),
        )
    for row in rows:
        table.add_row(*(Text(without_controls(cell)) for cell in row))
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
        while end < len(columns) and widths[0] + sum(widths[start : end + 1]) <= terminal_width:
            end += 1
        numbers = range(1, end - start + 1)
        part = [[row[0], *row[start:end]] for row in rows]
        print_table(title, [columns[0], *columns[start:end]], part, right=numbers, whole=(0, *numbers))
        title = ""
        start = end


def _column_width(cells: Sequence[str]) -> int:
    """Return the width of a column without wrapping, with the gap before the next one."""
    widest = 0
    for cell in cells:
        for line in cell.split("\n"):
            widest = max(widest, cell_len(line))
    return widest + _COLUMN_GAP


def _min_width(
    columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int], whole: Sequence[int]
) -> int:
    """Return the width below which a table cannot be read.

    Numbers and ids are not broken; other text is wrapped between words, and long words are broken if necessary.
    """
    width = 0
    for number, cells in enumerate(zip(columns, *rows, strict=True)):
        longest = 0
        for cell in cells:
            lines = without_controls(cell).split("\n")
            parts = lines if number in whole else " ".join(lines).split()
            longest = max([longest, *map(cell_len, parts)])
        if number not in whole and number not in right:
            longest = min(longest, _MIN_TEXT_WIDTH)
        width += longest + _COLUMN_GAP
    return width - _COLUMN_GAP


def _print_as_lists(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
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
