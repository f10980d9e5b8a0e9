"""Warnings about damaged runs, for commands that show several runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lmassay.cli.console import warn
from lmassay.storage.commands import command_line
from lmassay.storage.store import DAMAGED
from lmassay.types import RunRecord

_MAX_WARNINGS = 3


def damage_messages(records: Iterable[RunRecord]) -> list[str]:
    """Return a message for each damaged run."""
    return [f"the run {record.id} is damaged: {record.note}" for record in records if record.status == DAMAGED]


def warn_about_damage(messages: Sequence[str], results: Path) -> None:
    """Print the messages about damaged runs, in at most three lines: one damaged database page can affect many runs."""
    printed = messages if len(messages) <= _MAX_WARNINGS else messages[: _MAX_WARNINGS - 1]
    for message in printed:
        warn(message)
    others = len(messages) - len(printed)
    if others:
        check = command_line("doctor", "--results", results)
        warn(f"{others:,} more runs are damaged; `{check}` lists them all")
