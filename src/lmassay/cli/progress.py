"""Progress on standard error: a bar on a terminal, a line every half minute in a log file."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column
from rich.text import Text

from lmassay.cli.console import say, stderr_console, use_shared_console, without_controls

_SECONDS_BEFORE_BAR = 1.0
_SECONDS_BETWEEN_LINES = 30.0
# On a narrow terminal, the name of a run is shortened before anything else.
_NAME_COLUMN = Column(ratio=1, no_wrap=True, overflow="ellipsis")


class Advance(Protocol):
    """A callback that is called with the number of examples done (a fraction counts) and the total, if known."""

    def __call__(self, done: float, total: int | None, /) -> None: ...


# --- one piece of work ------------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(description: str, *, counts_bytes: bool = False) -> Iterator[Advance]:
    """Show the progress of one piece of work, in MB if it is counted in bytes.

    On a terminal, a bar appears if the work takes longer than a second. In a log file, a line is written from time to
    time.
    """
    console = stderr_console()
    if not _can_animate(console):
        yield _log_lines(description, counts_bytes)
        return
    counts: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), _Rate())
    if counts_bytes:
        counts = (DownloadColumn(), TransferSpeedColumn())
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counts,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        # The bar is drawn by a thread. A plug-in's output may be redirected at that moment, so leave the streams alone.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(without_controls(description), total=None)

    def advance(done: float, total: int | None, /) -> None:
        bar.update(task, completed=int(done), total=total)

    # A timer starts the bar, not the first call of advance: the first step of the work may itself take long.
    timer = threading.Timer(_SECONDS_BEFORE_BAR, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def _can_animate(console: Console) -> bool:
    """Return whether a bar can move. With FORCE_COLOR, rich calls a file a terminal, hence the last test."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stderr.isatty()


def _log_lines(description: str, counts_bytes: bool) -> Advance:
    started = time.monotonic()
    last_line = started

    def advance(done: float, total: int | None, /) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line < _SECONDS_BETWEEN_LINES:
            return
        last_line = now
        elapsed = now - started
        rate = done / elapsed
        if counts_bytes:
            count = f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
            speed = f"{rate / 1e6:.1f} MB/s"
        else:
            count = f"{int(done)} of {total}" if total else f"{int(done)}"
            speed = rate_text(rate)
        remaining = ""
        if total and rate > 0:
            remaining = f", {speed}, {(total - done) / rate:.0f} s left"
        say(f"{description}: {count} after {elapsed:.0f} s{remaining}")

    return advance


class _Rate(ProgressColumn):
    """The number of examples per second, once rich can estimate it."""

    def render(self, task: Task) -> Text:
        return Text(rate_text(task.speed) if task.speed else "")


def rate_text(speed: float) -> str:
    """Return a rate in examples per second as text, per minute if it is slow.

    >>> rate_text(12.34), rate_text(0.05)
    ('12.3/s', '3/min')
    """
    if speed >= 1:
        return f"{speed:.1f}/s"
    return f"{60 * speed:.0f}/min"


# --- the runs of a command --------------------------------------------------------------------------------------------


class ProgressDisplay(Protocol):
    """Shows the progress of the runs of a command."""

    def work(self, run: str, description: str) -> AbstractContextManager[Advance]:
        """Show the progress of a run while the block lasts; an empty id stands for work that several runs share."""

    def ended(self, run: str) -> None:
        """Mark a run as finished that was finished together with others, outside of ``work``."""


class LineDisplay:
    """Prints a line when a run begins and shows a bar while it lasts."""

    @contextmanager
    def work(self, run: str, description: str) -> Iterator[Advance]:
        if run:
            say(description)
        with progress_bar(description) as advance:
            yield advance

    def ended(self, run: str) -> None:
        pass


class BoardDisplay:
    """Shows all runs of a command at once on a terminal: one bar for each group of runs, from beginning to end."""

    def __init__(self, group_of_run: Mapping[str, str]) -> None:
        self._console = stderr_console()
        self._progress = Progress(
            TextColumn("{task.fields[mark]}"),
            TextColumn("{task.description}", markup=False, table_column=_NAME_COLUMN),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[count]}", justify="right"),
            TimeElapsedColumn(),
            expand=True,
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._group_of_run = dict(group_of_run)
        self._total = Counter(group_of_run.values())
        self._remaining = Counter(self._total)
        self._failed: set[str] = set()
        self._bars: dict[str, TaskID] = {}
        for group in self._total:
            self._bars[group] = self._add_bar(group)

    def __enter__(self) -> BoardDisplay:
        use_shared_console(self._console)
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()
        use_shared_console(None)

    @contextmanager
    def work(self, run: str, description: str) -> Iterator[Advance]:
        group = self._group_of_run.get(run, description)
        if group not in self._bars:
            self._bars[group] = self._add_bar(group)
            self._total[group] = 1
            self._remaining[group] = 1
        bar = self._bars[group]
        runs = self._total[group]
        self._progress.start_task(bar)
        self._progress.update(bar, mark="▸")

        def advance(done: float, total: int | None, /) -> None:
            share = min(done / total, 1.0) if total else 0.0
            finished = runs - self._remaining[group]
            count = f"{int(done)}/{total or '?'}"
            if runs > 1:
                count += f", run {finished + 1} of {runs}"
            self._progress.update(bar, completed=(finished + share) / runs, count=count)

        try:
            yield advance
        except BaseException:
            self._failed.add(group)
            raise
        finally:
            self._finish_run(group)

    def ended(self, run: str) -> None:
        self._finish_run(self._group_of_run[run])

    def _finish_run(self, group: str) -> None:
        """Count a run as finished, and stop the clock of its bar after the last one."""
        bar = self._bars[group]
        runs = self._total[group]
        self._remaining[group] -= 1
        self._progress.update(bar, completed=(runs - self._remaining[group]) / runs)
        if not self._remaining[group]:
            mark = "✗" if group in self._failed else "✓"
            self._progress.update(bar, mark=mark, count="1 run" if runs == 1 else f"{runs} runs")
            self._progress.stop_task(bar)

    def _add_bar(self, name: str) -> TaskID:
        return self._progress.add_task(without_controls(name), total=1.0, start=False, mark="·", count="")


@contextmanager
def progress_board(group_of_run: Mapping[str, str]) -> Iterator[ProgressDisplay]:
    """Yield a board with one bar per group of runs; where a bar cannot move, a display that prints lines."""
    if not _can_animate(stderr_console()):
        yield LineDisplay()
        return
    with BoardDisplay(group_of_run) as board:
        yield board
