"""The options that select runs by what they are, such as ``--status failed``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from lmassay.errors import UserError

if TYPE_CHECKING:
    from lmassay.types import RunRecord

F = TypeVar("F", bound=Callable[..., Any])
STATUSES = (
    "waiting",
    "running",
    "done",
    "incomplete",
    "stopped",
    "cancelled",
    "failed",
    "interrupted",
    "damaged",
)
_AGE = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The values of ``--task``, ``--model``, ``--status``, ``--tag`` and ``--since``."""

    tasks: Sequence[str] = ()
    models: Sequence[str] = ()
    statuses: Sequence[str] = ()
    tags: Sequence[str] = ()
    since: str | None = None

    def __bool__(self) -> bool:
        """Return whether there is any condition."""
        return self != RunFilter()

    def select(self, records: Iterable[RunRecord]) -> list[RunRecord]:
        """Return the runs that meet all conditions; of several values of one option, one is enough."""
        earliest = None if self.since is None else _earliest(self.since)
        return [record for record in records if self._accepts(record, earliest)]

    def _accepts(self, record: RunRecord, earliest: datetime | None) -> bool:
        if self.tasks and not _matches_any(record.task, self.tasks):
            return False
        if self.models and not _matches_any(record.model, self.models):
            return False
        if self.statuses and record.status not in self.statuses:
            return False
        if self.tags and not any(_matches_any(tag, self.tags) for tag in record.annotation.tags):
            return False
        return earliest is None or _is_since(record.created, earliest)


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    lower_name = name.lower()
    return any(lower_name == pattern.lower() or fnmatchcase(lower_name, pattern.lower()) for pattern in patterns)


def _is_since(created: str, earliest: datetime) -> bool:
    try:
        return datetime.fromisoformat(created) >= earliest
    except ValueError:
        # The time of a damaged run may be lost.
        return False


def _earliest(text: str) -> datetime:
    """Return the time that ``--since`` gives: an age such as 7d, or a date, in the local time zone.

    >>> _earliest("2026-11-17T12:00+00:00").hour
    12
    """
    age = _AGE.fullmatch(text.strip())
    try:
        if age is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError):
        raise UserError(
            f"--since: '{text}' is neither an age (30m, 12h, 7d, 2w) nor a date (2026-11-17 or 2026-11-17T08:30)"
        ) from None


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
        "--since", metavar="TIME", help="Only runs started since a date (2026-11-17) or within an age (12h, 7d, 2w)."
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
