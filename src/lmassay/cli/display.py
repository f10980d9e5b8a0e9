"""How far a command is: run after run, or all of its runs on one board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Protocol

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from lmassay.cli import console
from lmassay.cli.console import Advance, plain, progress, say

# Names give way first where a terminal is narrow.
_ROOM = Column(ratio=1, no_wrap=True, overflow="ellipsis")


class Display(Protocol):
    """Told what is begun; gives what is to be told how far it is."""

    def work(self, run: str, what: str) -> AbstractContextManager[Advance]: ...

    def ended(self, run: str) -> None:
        """A run was done along with others."""


class Lines:
    """A line for what is begun, a bar while it lasts."""

    @contextmanager
    def work(self, run: str, what: str) -> Iterator[Advance]:
        if run:
            say(what)
        with progress(what) as advance:
            yield advance

    def ended(self, run: str) -> None:
        pass


class Board:
    """One line for runs that belong together, from the beginning to the end of the command; for a terminal."""

    def __init__(self, runs: Mapping[str, str]) -> None:
        self._console = console.err()
        self._bar = Progress(
            TextColumn("{task.fields[mark]}"),
            TextColumn("{task.description}", markup=False, table_column=_ROOM),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[told]}", justify="right"),
            TimeElapsedColumn(),
            expand=True,
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._of_run = dict(runs)
        self._total = Counter(runs.values())
        self._open = Counter(self._total)
        self._failed: set[str] = set()
        self._lines = {line: self._line(line) for line in dict.fromkeys(runs.values())}

    def __enter__(self) -> Board:
        console.share(self._console)
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
        console.share(None)

    @contextmanager
    def work(self, run: str, what: str) -> Iterator[Advance]:
        name = self._of_run.get(run, what)
        if name not in self._lines:
            self._lines[name], self._total[name], self._open[name] = self._line(name), 1, 1
        line, runs = self._lines[name], self._total[name]
        self._bar.start_task(line)
        self._bar.update(line, mark="▸")

        def advance(done: float, total: int | None, /) -> None:
            share = min(done / total, 1.0) if total else 0.0
            ended = runs - self._open[name]
            part = f", run {ended + 1} of {runs}" if runs > 1 else ""
            self._bar.update(line, completed=(ended + share) / runs, told=f"{int(done)}/{total or '?'}{part}")

        try:
            yield advance
        except BaseException:
            self._failed.add(name)
            raise
        finally:
            self._count(name)

    def ended(self, run: str) -> None:
        self._count(self._of_run[run])

    def _count(self, name: str) -> None:
        """One run less; with the last one its line is done."""
        line, runs = self._lines[name], self._total[name]
        self._open[name] -= 1
        self._bar.update(line, completed=(runs - self._open[name]) / runs)
        if not self._open[name]:
            told = f"{runs} run{'' if runs == 1 else 's'}"
            self._bar.update(line, mark="✗" if name in self._failed else "✓", told=told)
            self._bar.stop_task(line)

    def _line(self, what: str) -> TaskID:
        return self._bar.add_task(plain(what), total=1.0, start=False, mark="·", told="")


@contextmanager
def board(runs: Mapping[str, str]) -> Iterator[Display]:
    """The board where it can be shown, else line after line; ``runs`` says on which line each run is."""
    if not console.is_live():
        yield Lines()
        return
    with Board(runs) as shown:
        yield shown
