"""Show progress on standard error: a bar on a terminal, a line every half minute in a log file."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console, RenderableType
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
    TransferSpeedColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from lmassay.cli.console import say, stderr_console, use_shared_console, without_controls
from lmassay.types.wording import counted, duration_text

# A bar that appears for an instant during a short command would only distract.
_SECONDS_BEFORE_BAR = 1.0
# Between two runs of a command, the display should not disappear for a whole second.
_SECONDS_BEFORE_LATER_BAR = 0.1
_SECONDS_BETWEEN_LINES = 30.0
# A line may be due in a log file although no example has advanced, so this is checked at these intervals.
_SECONDS_BETWEEN_CHECKS = 1.0
# The remaining time is shown only above these amounts; below them, the estimate would jump with every update.
_MIN_SECONDS_FOR_ESTIMATE = 5.0
_MIN_DONE_FOR_ESTIMATE = 3.0
_MIN_SHARE_FOR_ESTIMATE = 0.01
_BAR_WIDTH = 20
_NARROW_BAR_WIDTH = 10
_MIN_WIDTH_FOR_LONG_BAR = 100
# On a narrow terminal, the name of a run is shortened before anything else.
_NAME_COLUMN = Column(ratio=1, no_wrap=True, overflow="ellipsis")


class Advance(Protocol):
    """A callback that receives how much is done, and the total if it is known.

    Both are numbers of examples, or of bytes for a download. ``done`` may have a fraction.
    """

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
        _Times(),
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
    """Return whether the output can show a moving bar.

    With FORCE_COLOR, rich treats even a file as a terminal, so standard error itself is also asked.
    """
    return console.is_terminal and not console.is_dumb_terminal and sys.stderr.isatty()


def _log_lines(description: str, counts_bytes: bool) -> Advance:
    """Return a callback that prints a line with the progress, at most every half minute."""
    started = time.monotonic()
    last_line = started

    def advance(done: float, total: int | None, /) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line < _SECONDS_BETWEEN_LINES:
            return
        last_line = now
        elapsed = now - started
        rate = done / max(elapsed, 1e-9)
        if counts_bytes:
            count = _megabytes_text(done, total)
            speed = f"{rate / 1e6:.1f} MB/s"
        else:
            count = f"{int(done):,}"
            if total:
                count += f" of {total:,}"
            speed = rate_text(rate)
        parts = [f"{description}: {count}"]
        if rate > 0:
            parts.append(speed)
        say(" · ".join([*parts, times_text(elapsed, done, total)]))

    return advance


def _megabytes_text(done: float, total: int | None) -> str:
    if not total:
        return f"{done / 1e6:.1f} MB"
    return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"


class _Times(ProgressColumn):
    """The elapsed time, and the remaining time once it can be estimated."""

    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        return Text(times_text(task.elapsed or 0.0, task.completed, total))


def times_text(elapsed: float, done: float, total: int | None) -> str:
    """Return the elapsed time in seconds and, once enough is done to estimate it, the remaining time.

    >>> times_text(65, 340, 1000)
    '1:05 elapsed · about 2:06 left'
    >>> times_text(68, 0.6, 40)
    '1:08 elapsed'
    """
    text = f"{duration_text(elapsed)} elapsed"
    if total is None or done >= total or not _is_enough_to_estimate(elapsed, done, total):
        return text
    return f"{text} · about {duration_text(elapsed * (total - done) / done)} left"


def _is_enough_to_estimate(elapsed: float, done: float, total: int) -> bool:
    """Return whether the speed so far is representative: the first examples also load the model or fill the queue."""
    return (
        elapsed >= _MIN_SECONDS_FOR_ESTIMATE
        and done >= _MIN_DONE_FOR_ESTIMATE
        and done >= _MIN_SHARE_FOR_ESTIMATE * total
    )


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

    def work(self, run: str, description: str, unit: str = "example") -> AbstractContextManager[Advance]:
        """Show the progress of a run, counted in ``unit``, while the block lasts.

        An empty id stands for work that several runs share.
        """

    def ended(self, run: str) -> None:
        """Mark a run as finished. It is needed for a run that was finished without a ``work`` block of its own."""


class LineDisplay:
    """Prints a line when a run begins, and shows a progress bar of this run until it ends."""

    @contextmanager
    def work(self, run: str, description: str, unit: str = "example") -> Iterator[Advance]:
        if run:
            say(description)
        with progress_bar(description) as advance:
            yield advance

    def ended(self, run: str) -> None:
        pass


class SweepDisplay:
    """Shows the progress of all runs of a command together: on a terminal as one bar, in a log file as lines.

    ``sizes`` maps the id of each run, in the order of the runs, to its number of examples, or None if it is unknown.
    On a terminal, the name of the current run is above the bar; in a log file, a line names each run when it begins.
    """

    def __init__(self, sizes: Mapping[str, int | None]) -> None:
        self._sizes = dict(sizes)
        self._numbers = {run: number for number, run in enumerate(sizes, 1)}
        self._finished: set[str] = set()
        self._started = time.monotonic()
        self._last_line = self._started
        self._line_lock = threading.Lock()

    @contextmanager
    def work(self, run: str, description: str, unit: str = "example") -> Iterator[Advance]:
        if not run:
            with progress_bar(description) as advance_bar:
                yield advance_bar
            return
        state = _RunState(run, unit)

        def advance(done: float, total: int | None, /) -> None:
            state.done = done
            if total is not None:
                self._sizes[run] = total
            if not is_animated:
                self._write_line(state)

        console = stderr_console()
        is_animated = _can_animate(console)
        try:
            if is_animated:
                # The bar of a later run appears soon, so that the display does not vanish between runs.
                delay = max(_SECONDS_BEFORE_LATER_BAR, _SECONDS_BEFORE_BAR - (time.monotonic() - self._started))
                bar = _delayed_bar(console, description, delay, lambda: self._share(state), lambda: self._text(state))
                with bar:
                    yield advance
            else:
                say(description)
                # A local model may take minutes to answer its first batch; the lines show that the run is alive.
                with _repeated(lambda: self._write_line(state)):
                    yield advance
        except BaseException:
            if is_animated:
                # The bar, which named the run, is gone; the message about the failure comes next.
                say(description)
            raise
        finally:
            self._finished.add(run)

    def ended(self, run: str) -> None:
        self._finished.add(run)

    def _write_line(self, state: _RunState) -> None:
        with self._line_lock:
            now = time.monotonic()
            if now - self._last_line >= _SECONDS_BETWEEN_LINES:
                self._last_line = now
                say(self._text(state))

    def _text(self, state: _RunState) -> str:
        """Return a text such as ``run 2 of 6 · 340/1,000 examples · 1:05 elapsed · about 2:10 left``."""
        size = self._sizes.get(state.run)
        count = counted(int(state.done), state.unit)
        if size is not None:
            count = f"{int(state.done):,}/{counted(size, state.unit)}"
        parts = [count]
        if len(self._sizes) > 1:
            parts.insert(0, f"run {self._numbers[state.run]} of {len(self._sizes)}")
        elapsed = time.monotonic() - self._started
        parts.append(times_text(elapsed, self._done_by_command(state), self._total_of_command()))
        return " · ".join(parts)

    def _total_of_command(self) -> int | None:
        """Return the number of examples of all runs; None if it is unknown for one of them."""
        total = 0
        for size in self._sizes.values():
            if size is None:
                return None
            total += size
        return total

    def _done_by_command(self, state: _RunState) -> float:
        """Return how many examples of all runs are done. All examples of a run that failed or was stopped count."""
        return state.done + sum(self._sizes[run] or 0 for run in self._finished)

    def _share(self, state: _RunState) -> float | None:
        """Return the share of the examples of all runs that is done; None if their number is unknown."""
        total = self._total_of_command()
        if not total:
            return None
        return min(self._done_by_command(state) / total, 1.0)


@contextmanager
def _repeated(action: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again in a thread, while the block lasts."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(_SECONDS_BETWEEN_CHECKS):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(slots=True)
class _RunState:
    """A run in progress, and how many of its examples are done."""

    run: str
    unit: str
    done: float = 0.0


@contextmanager
def _delayed_bar(
    console: Console, description: str, delay: float, share: Callable[[], float | None], text: Callable[[], str]
) -> Iterator[None]:
    """Show a bar after a delay in seconds.

    ``share`` returns the share that is done, or None if it is unknown; ``text`` returns the text next to the bar.
    """
    progress = _ProgressBelowName(
        _LiveBar(share),
        _LiveText(text),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    progress.add_task(without_controls(description), total=None)
    timer = threading.Timer(delay, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


class _ProgressBelowName(Progress):
    """A bar with the name of its task above it, so that a long name does not take space away from the bar."""

    def get_renderables(self) -> Iterator[RenderableType]:
        for task in self.tasks:
            yield Text(task.description, no_wrap=True, overflow="ellipsis")
        yield self.make_tasks_table(self.tasks)


class _LiveText(ProgressColumn):
    """A text that is computed whenever the bar is drawn, so that the clock also runs during a long step."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True))
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


class _LiveBar(ProgressColumn):
    """A bar whose length is computed whenever it is drawn; it pulses while the share is unknown."""

    def __init__(self, share: Callable[[], float | None]) -> None:
        super().__init__()
        self._share = share

    def render(self, task: Task) -> ProgressBar:
        # The bar must leave room for the text next to it.
        has_room = stderr_console().width >= _MIN_WIDTH_FOR_LONG_BAR
        width = _BAR_WIDTH if has_room else _NARROW_BAR_WIDTH
        share = self._share()
        return ProgressBar(
            total=None if share is None else 1.0,
            completed=share or 0.0,
            width=width,
            pulse=share is None,
            animation_time=task.get_time(),
        )


class BoardDisplay:
    """Shows all runs of a command on a terminal, with one bar for each group of runs.

    ``group_of_run`` maps the id of each run to the name of its group. All bars are shown from the beginning to the end.
    """

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
    def work(self, run: str, description: str, unit: str = "example") -> Iterator[Advance]:
        # Work that several runs share, such as trainings, belongs to no group. It gets a bar of its own.
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
            self._progress.update(bar, mark=mark, count=counted(runs, "run"))
            self._progress.stop_task(bar)

    def _add_bar(self, name: str) -> TaskID:
        return self._progress.add_task(without_controls(name), total=1.0, start=False, mark="·", count="")


@contextmanager
def progress_board(group_of_run: Mapping[str, str]) -> Iterator[ProgressDisplay]:
    """Yield a board with one bar per group of runs; without a terminal, a display that prints lines."""
    if not _can_animate(stderr_console()):
        yield LineDisplay()
        return
    with BoardDisplay(group_of_run) as board:
        yield board
