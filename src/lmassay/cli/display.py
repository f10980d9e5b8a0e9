"""How far a command is: run after run, or all of its runs on one board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lmassay.cli import console
from lmassay.cli.console import Advance, plain, progress, say


class Display(Protocol):
    """Told what is begun; gives what is to be told how far it is."""

    def work(self, run: str, what: str) -> AbstractContextManager[Advance]: ...


class Lines:
    """A line for what is begun, a bar while it lasts."""

    @contextmanager
    def work(self, run: str, what: str) -> Iterator[Advance]:
        if run:
            say(what)
        with progress(what) as advance:
            yield advance


class Board:
    """One line a run, from the beginning to the end of the command; for a terminal."""

    def __init__(self, runs: Mapping[str, str]) -> None:
        self._console = console.err()
        self._bar = Progress(
            TextColumn("{task.fields[mark]}"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._lines = {run: self._line(what) for run, what in runs.items()}

    def __enter__(self) -> Board:
        console.share(self._console)
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
        console.share(None)

    @contextmanager
    def work(self, run: str, what: str) -> Iterator[Advance]:
        if run not in self._lines:
            self._lines[run] = self._line(what)
        line = self._lines[run]
        self._bar.start_task(line)
        self._bar.update(line, mark="▸")

        def advance(done: float, total: int | None, /) -> None:
            self._bar.update(line, completed=int(done), total=total)

        try:
            yield advance
        except BaseException:
            self._bar.update(line, mark="✗")
            raise
        finally:
            self._bar.stop_task(line)
        self._bar.update(line, mark="✓")

    def _line(self, what: str) -> TaskID:
        return self._bar.add_task(plain(what), total=None, start=False, mark="·")


@contextmanager
def board(runs: Mapping[str, str]) -> Iterator[Display]:
    """The board where it can be shown, else line after line."""
    if not console.is_live():
        yield Lines()
        return
    with Board(runs) as shown:
        yield shown
