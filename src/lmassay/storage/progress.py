"""The progress of a run, for other processes that show it.

Examples are stored in chunks, so their number in the store says little about a run that has just begun. So the process
that executes a run writes its progress to a small file, at most once a second. The file is not part of the results: it
is removed when the run ends, and stays only if the process is killed.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lmassay.storage.file_names import run_file
from lmassay.storage.single_rows import UNREADABLE

_FOLDER = ".progress"
_SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run at one time."""

    done: float
    """The number of examples that are done. An example with answers to some of its requests counts as a fraction."""
    total: int | None
    """The number of all examples; None if it is unknown."""
    began: float
    """When this process began to work on the run, in seconds since 1970."""
    done_before: float
    """The number of examples that were already done when this process began."""
    updated: float
    """When this progress was recorded, in seconds since 1970."""

    def seconds_left(self) -> float | None:
        """Return an estimate of the remaining time; None if too little is known.

        >>> RunProgress(30, 120, began=1000.0, done_before=10, updated=1020.0).seconds_left()
        90.0
        """
        done_here = self.done - self.done_before
        # A fraction of an example says too little: its first requests also load the model.
        if self.total is None or done_here < 1 or self.updated <= self.began:
            return None
        return (self.updated - self.began) / done_here * max(self.total - self.done, 0)


class ProgressFile:
    """Writes the progress of a run, or of the trainings of a sweep. If this fails, the run continues."""

    def __init__(self, results: Path, run: str) -> None:
        self._file = _file(results, run)
        self._began = time.time()
        self._done_before: float | None = None
        # A run that takes less than a second writes nothing.
        self._next_write = time.monotonic() + _SECONDS_BETWEEN_WRITES

    def update(self, done: float, total: int | None) -> None:
        """Record the number of examples that are done."""
        if self._done_before is None:
            self._done_before = done
        if time.monotonic() < self._next_write:
            return
        self._next_write = time.monotonic() + _SECONDS_BETWEEN_WRITES
        progress = RunProgress(done, total, self._began, self._done_before, time.time())
        with suppress(OSError):
            if self._file.parent.is_symlink():
                return
            self._file.parent.mkdir(exist_ok=True)
            # The file is renamed when it is complete, so that a reader never finds half a file. There is no fsync: it
            # would take longer than everything else, and the file is not needed after a power failure.
            unfinished = self._file.with_suffix(".new")
            # Only somebody else can have put a link there; writing would change the file to which it leads.
            unfinished.unlink(missing_ok=True)
            unfinished.write_text(json.dumps(asdict(progress)), encoding="utf-8")
            unfinished.replace(self._file)

    def remove(self) -> None:
        """Remove the file, because the run has ended."""
        _remove(self._file)


def trainings_of(sweep: str) -> str:
    """Return the name under which the trainings of a sweep, which all its runs share, are recorded."""
    return f"sweep-{sweep}"


def forget_progress(results: Path, run: str) -> None:
    """Remove the file that a killed process has left."""
    _remove(_file(results, run))


def _remove(file: Path) -> None:
    with suppress(OSError):
        # lmassay creates no links. A link leads to files of somebody else, which must not be deleted.
        if file.parent.is_symlink():
            return
        file.unlink(missing_ok=True)
        # Fails if the folder has files of other runs.
        file.parent.rmdir()


def recorded_progress(results: Path, run: str) -> RunProgress | None:
    """Return the progress that the process of a run last recorded; None if there is no record."""
    file = _file(results, run)
    try:
        # Reading from a pipe, which only somebody else can have put there, would wait forever.
        if not file.is_file():
            return None
        fields = json.loads(file.read_text(encoding="utf-8"))
        done, began, done_before, updated = (
            float(fields[name]) for name in ("done", "began", "done_before", "updated")
        )
        if not all(map(math.isfinite, (done, began, done_before, updated))):
            return None
        total = fields["total"]
        return RunProgress(done, None if total is None else int(total), began, done_before, updated)
    except (OSError, *UNREADABLE):
        return None


def _file(results: Path, run: str) -> Path:
    return run_file(results / _FOLDER, run, ".json")
