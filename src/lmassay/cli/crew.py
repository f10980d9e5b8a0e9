"""``--workers``, ``--executor`` and ``--scheduler``: who does the trainings of a sweep."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from lmassay.cli.console import warn
from lmassay.cli.lists import Added
from lmassay.errors import ConfigError
from lmassay.running.executors import Cluster, Crew, Here, Processes
from lmassay.running.runner import Plan
from lmassay.running.sweep import trains

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Hands:
    """What the command line says of it."""

    executor: str | None = None
    workers: int | None = None
    scheduler: str | None = None

    @contextmanager
    def crew(self, plans: Sequence[Plan] | None = None) -> Iterator[Crew]:
        """The crew, unless none of the plans asks for trainings; sent home at the end however that comes."""
        crew = self._made() if plans is None or any(trains(plan) for plan in plans) else Here()
        try:
            yield crew
        finally:
            crew.close()

    def _made(self) -> Crew:
        if self.executor == "dask" or (self.executor is None and self.scheduler is not None):
            if self.scheduler is None:
                raise ConfigError("--executor dask: say where the scheduler is: --scheduler tcp://HOST:8786")
            if self.workers is not None:
                raise ConfigError("--workers: the cluster has as many workers as were started; leave it out")
            return Cluster(self.scheduler, warn)
        if self.scheduler is not None:
            raise ConfigError(f"--scheduler goes with --executor dask, not with {self.executor}")
        if self.executor == "here" and (self.workers or 1) > 1:
            raise ConfigError("--executor here: this is one process; leave it out to have several --workers")
        if self.executor == "processes" or (self.workers or 1) > 1:
            return Processes(self.workers or 2)
        return Here()


def crew_options(function: F) -> F:
    """Give a verb the three options; it is called with ``hands``."""

    # What other options have noted on the function comes along.
    @functools.wraps(function)
    def wrapped(*args: Any, executor: str | None, workers: int | None, scheduler: str | None, **options: Any) -> Any:
        return function(*args, hands=Hands(executor, workers, scheduler), **options)

    for option in (
        click.option("--scheduler", cls=Added, metavar="ADDRESS", help="Of a Dask cluster: tcp://HOST:8786."),
        click.option(
            "--workers",
            cls=Added,
            type=click.IntRange(min=1, max=512),
            help="Trainings side by side on this machine.",
        ),
        click.option(
            "--executor",
            cls=Added,
            type=click.Choice(["here", "processes", "dask"]),
            help="Where trainings are done.  [default: here, or as --workers and --scheduler say]",
        ),
    ):
        wrapped = option(wrapped)
    return cast(F, wrapped)
