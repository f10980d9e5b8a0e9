"""The options that select runs by their properties, such as ``--status failed``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import click

from lmassay.storage.run_filter import STATUSES, RunFilter

F = TypeVar("F", bound=Callable[..., Any])


def filter_options(function: F) -> F:
    """Add the options that select runs to a command, which receives them as one :class:`RunFilter` in ``selected``."""

    @functools.wraps(function)
    def wrapped(
        *args: Any,
        tasks: Sequence[str],
        models: Sequence[str],
        statuses: Sequence[str],
        tags: Sequence[str],
        since: str | None,
        **options: Any,
    ) -> Any:
        return function(*args, selected=RunFilter(tasks, models, statuses, tags, since), **options)

    # Click lists options in the reverse order of decoration.
    wrapped = click.option(
        "--since",
        metavar="TIME",
        help="Only runs started since a date (2026-11-17), or within the last hours, days or weeks (12h, 7d, 2w).",
    )(wrapped)
    wrapped = click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only runs with this tag; repeatable.")(
        wrapped
    )
    wrapped = click.option(
        "--status",
        "statuses",
        type=click.Choice(STATUSES),
        multiple=True,
        metavar="STATUS",
        help=f"Only runs with this status; repeatable: {', '.join(STATUSES)}.",
    )(wrapped)
    wrapped = click.option(
        "--model",
        "models",
        metavar="MODEL",
        multiple=True,
        help="Only runs of this model; * stands for any characters; repeatable.",
    )(wrapped)
    wrapped = click.option(
        "--task",
        "tasks",
        metavar="TASK",
        multiple=True,
        help="Only runs of this task; * stands for any characters; repeatable.",
    )(wrapped)
    return cast(F, wrapped)
