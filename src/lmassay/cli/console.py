"""Printing: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from lmassay.errors import HookWarning, OldPluginWarning

# C0 and C1 controls (escape sequences start with one), and the marks that reorder text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SHOW_AFTER = 1.0
_LINE_EVERY = 30.0
_WIDE = 140
_LEAST_WORDS = 12
# Wider than anything that is printed: whoever reads a file or a pipe wants each row on one line.
_UNLIMITED = 1 << 20
_shared: Console | None = None


def out() -> Console:
    """Standard output. Where it is not a terminal nothing is wrapped or cut off, whatever ``COLUMNS`` says."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_UNLIMITED)
    return console


def is_narrow() -> bool:
    """True where a wide table would not fit."""
    return out().width < _WIDE


def err() -> Console:
    return _shared or Console(stderr=True, highlight=False)


def share(console: Console | None) -> None:
    """Let a display that stays on the screen have all that is said go through its console, lest it be garbled."""
    global _shared
    _shared = console


def is_live() -> bool:
    """Whether a display can stay on the screen and move."""
    return _is_live(err())


def plain(text: object) -> str:
    """Text without terminal control characters, whatever a model, a file or a server put into it."""
    return _CONTROLS.sub("�", str(text))


def say(text: str) -> None:
    """A line for the user that is no result."""
    _tell(Text(plain(text)))


def warn(text: str) -> None:
    _tell(Text.assemble(("warning: ", "yellow"), plain(text)))


def show_warnings() -> None:
    """Show our own warnings as one line on standard error, each once. Python would hide or clutter them."""
    shown: set[str] = set()
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not isinstance(message, OldPluginWarning | HookWarning):
            show_others(message, category, filename, lineno, file, line)
            return
        # A hook that fails for each example may give another reason each time.
        what = message.part if isinstance(message, HookWarning) else str(message)
        if what not in shown:
            shown.add(what)
            warn(str(message))

    warnings.showwarning = show
    # Whoever says on Python's command line what to do with warnings is heeded.
    if not sys.warnoptions:
        warnings.simplefilter("always", OldPluginWarning)
        warnings.simplefilter("always", HookWarning)


def complain(text: str, notes: Sequence[str] = ()) -> None:
    _tell(Text.assemble(("error: ", "bold red"), plain(text)))
    for note in notes:
        say(note)


def _tell(text: Text) -> None:
    # A log file on a full disk is no reason to give up the work that it tells of.
    with suppress(OSError):
        err().print(text, soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document and nothing else; plain ASCII, so that no console can garble it."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def sentence(text: str) -> None:
    """A sentence among the results: broken between words on a terminal, one line in a file."""
    console = out()
    console.print(Text(plain(text)), soft_wrap=not console.is_terminal)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """A table of plain cells; columns in ``right`` are aligned right, those in ``whole`` are never broken.

    On a terminal that is too narrow for that, each row is a list of its cells, one a line.
    """
    console = out()
    if title:
        # Not broken: it may hold names that a user wants to copy.
        console.print(Text(plain(title)), soft_wrap=True)
    if _least_width(columns, rows, right, whole) > console.width:
        _print_as_lists(console, columns, rows)
        return
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(
            # As text, lest a name with brackets be read as rich's markup.
            Text(plain(column)),
            justify="right" if number in right else "left",
            overflow="fold",
            no_wrap=number in whole or (number in right and not is_narrow()),
        )
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def print_table_in_parts(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of names and numbers, its columns in as many parts as the terminal is too narrow for.

    Each part begins with the names of the rows, which are the first column.
    """
    widths = []
    for cells in zip(columns, *rows, strict=True):
        widths.append(2 + max(cell_len(line) for cell in cells for line in cell.split("\n")))
    start = 1
    while start < len(columns):
        # At least one column besides the names.
        end = start + 1
        while end < len(columns) and widths[0] + sum(widths[start : end + 1]) <= out().width:
            end += 1
        numbers = range(1, end - start + 1)
        part = [[row[0], *row[start:end]] for row in rows]
        print_table(title, [columns[0], *columns[start:end]], part, right=numbers, whole=(0, *numbers))
        title, start = "", end


def _least_width(
    columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int], whole: Sequence[int]
) -> int:
    """The width below which a table cannot be read: numbers and names are not broken, long words if they must be."""
    width = 0
    for number, cells in enumerate(zip(columns, *rows, strict=True)):
        lines = [line for cell in cells for line in plain(cell).split("\n")]
        parts = lines if number in whole else [word for line in lines for word in line.split()]
        longest = max(map(cell_len, parts), default=0)
        width += 2 + (longest if number in whole or number in right else min(longest, _LEAST_WORDS))
    return width - 2


def _print_as_lists(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    names = [" ".join(plain(column).split()) for column in columns]
    for first, *cells in rows:
        if str(first):
            console.print(Text(plain(first)))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for name, cell in zip(names[1:], cells, strict=True):
            if str(cell):
                grid.add_row(Text(f"  {name}"), Text(" ".join(plain(cell).split())))
        console.print(grid)


class Advance(Protocol):
    """Told how far the work is."""

    def __call__(self, done: float, total: int | None, /) -> None: ...


class _Rate(ProgressColumn):
    """How many a second, once that can be told."""

    def render(self, task: Task) -> Text:
        return Text(f"{rate_text(task.speed)}" if task.speed else "")


def rate_text(speed: float) -> str:
    """
    >>> rate_text(12.34), rate_text(0.05)
    ('12.3/s', '3/min')
    """
    return f"{speed:.1f}/s" if speed >= 1 else f"{60 * speed:.0f}/min"


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A bar on the terminal once work takes over a second; a line now and then where there is no terminal."""
    console = err()
    started = time.monotonic()
    if not _is_live(console):
        yield _line_now_and_then(what, started)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        # The bar starts in a thread while a plug-in's output may be turned aside: it must not touch the streams.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(plain(what), total=None)

    def advance(done: float, total: int | None, /) -> None:
        bar.update(task, completed=int(done), total=total)

    # Started by the clock, not by the first step of the work, which may take long itself.
    timer = threading.Timer(_SHOW_AFTER, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def _is_live(console: Console) -> bool:
    """Whether a bar can move: FORCE_COLOR makes a file colourful, but no terminal."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stderr.isatty()


def _line_now_and_then(what: str, started: float) -> Advance:
    last = started

    def advance(done: float, total: int | None, /) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LINE_EVERY:
            last = now
            rate = done / (now - started)
            left = f", {rate_text(rate)}, {(total - done) / rate:.0f} s left" if total and rate > 0 else ""
            say(f"{what}: {int(done)}{f' of {total}' if total else ''} after {now - started:.0f} s{left}")

    return advance
