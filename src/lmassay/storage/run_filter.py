"""Selects runs by task, model, status, tags and age."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lmassay.errors import UserError, did_you_mean

# Not imported at run time, because every command that selects runs imports this module for its help screen.
if TYPE_CHECKING:
    from lmassay.types import RunRecord

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
"""All possible values of the status of a run."""
_AGE = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on runs: the values of ``--task``, ``--model``, ``--status``, ``--tag`` and ``--since``."""

    tasks: Sequence[str] = ()
    models: Sequence[str] = ()
    statuses: Sequence[str] = ()
    """Some of :data:`STATUSES`. Tasks, models and tags, in contrast, may be patterns such as ``opus*``."""
    tags: Sequence[str] = ()
    since: str | None = None
    """The largest age of a run, such as ``7d``, or the earliest date on which it may have been recorded."""

    def __bool__(self) -> bool:
        """Return whether there is any condition."""
        return self != RunFilter()

    def select(self, records: Iterable[RunRecord]) -> list[RunRecord]:
        """Return the runs that meet all conditions. If an option has several values, a run must match one of them."""
        earliest = None if self.since is None else _earliest(self.since)
        return [record for record in records if self._accepts(record, earliest)]

    def unmatched(self, records: Sequence[RunRecord]) -> list[str]:
        """Return a hint for each task, model or tag that no run has, with similar names if there are any.

        >>> RunFilter(tasks=["bias"]).unmatched([])
        ["--task 'bias' matches no run"]
        """
        tags: list[str] = []
        for record in records:
            tags += record.annotation.tags
        values_by_option = {
            "--task": (self.tasks, [record.task for record in records]),
            "--model": (self.models, [record.model for record in records]),
            "--tag": (self.tags, tags),
        }
        hints = []
        for option, (patterns, names) in values_by_option.items():
            for pattern in patterns:
                if not any(_matches_any(name, [pattern]) for name in names):
                    hints.append(f"{option} '{pattern}' matches no run{did_you_mean(pattern, set(names))}")
        return hints

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
    except (ValueError, TypeError):
        # The time of a damaged run may be lost or lack its time zone, so it cannot be compared.
        return False


def _earliest(text: str) -> datetime:
    """Return the time that ``--since`` means: an age such as 7d, or a date in the local time zone.

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
