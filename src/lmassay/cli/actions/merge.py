"""What ``lmassay merge`` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmassay.cli.console import print_json, warn
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.table_output import print_table
from lmassay.storage.commands import command_line
from lmassay.storage.merging import MergedFolder
from lmassay.storage.merging import merge as merge_folders
from lmassay.types.wording import counted

_MAX_LISTED = 5


def merge(folders: Sequence[Path], output: Path, as_json: bool) -> int:
    """Merge results folders, print what was copied from each, and return the exit code."""
    merged = merge_folders(folders, output)
    for folder in merged:
        _warn_about(folder)
    if as_json:
        print_json({"folders": [_as_json(folder) for folder in merged]})
    else:
        columns = ("folder", "runs copied", "already there", "conflicts", "answers copied")
        rows = []
        for folder in merged:
            counts = (len(folder.copied), len(folder.duplicates), len(folder.conflicts), folder.answers)
            rows.append((str(folder.folder), *counts))
        print_table("", columns, rows, right=(1, 2, 3, 4))
    return INCOMPLETE if any(map(_has_problems, merged)) else 0


def _has_problems(folder: MergedFolder) -> bool:
    """Return whether there are conflicts, or something was not copied.

    Different answers to a request are not a problem, because each run keeps its own.
    """
    return bool(folder.conflicts or folder.damaged or folder.damaged_answers or folder.foreign)


def _warn_about(folder: MergedFolder) -> None:
    """Print warnings about conflicts, damage and files that were not copied from a folder."""
    for conflict in folder.conflicts:
        warn(f"conflict: {folder.folder}: {conflict}")
    check = command_line("doctor", "--results", folder.folder)
    if len(folder.damaged) == 1:
        warn(f"{folder.folder}: the run {folder.damaged[0]} is damaged, so it was not copied; see `{check}`")
    elif folder.damaged:
        ids = ", ".join(folder.damaged[:_MAX_LISTED])
        more = " …" if len(folder.damaged) > _MAX_LISTED else ""
        warn(f"{folder.folder}: {len(folder.damaged):,} damaged runs were not copied ({ids}{more}); see `{check}`")
    if folder.damaged_answers:
        warn(f"{folder.folder}: its answers are damaged, so they were not copied; see `{check}`")
    if folder.foreign:
        names = ", ".join(folder.foreign[:_MAX_LISTED])
        more = " …" if len(folder.foreign) > _MAX_LISTED else ""
        warn(
            f"{folder.folder}: links, and files that lmassay did not write, were not copied: {names}{more}; if you "
            "need them, replace each link with what it points to and merge again, or copy the files yourself"
        )
    if folder.different_answers:
        requests = counted(folder.different_answers, "request")
        warn(
            f"{folder.folder}: another folder has a different answer to {requests}; "
            "the runs of this folder keep its answers, and new runs use those of the other folder"
        )


def _as_json(folder: MergedFolder) -> dict[str, Any]:
    return {
        "folder": str(folder.folder),
        "copied": folder.copied,
        "already_there": folder.duplicates,
        "conflicts": folder.conflicts,
        "damaged": folder.damaged,
        "answers": folder.answers,
        "damaged_answers": folder.damaged_answers,
        "different_answers": folder.different_answers,
        "not_copied": folder.foreign,
    }
