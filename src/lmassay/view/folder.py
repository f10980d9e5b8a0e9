"""Read a results folder again and again while other processes write to it.

All reading is done in short steps with a connection that cannot write, so that a run never waits for it. The list of
runs with their progress (a snapshot) is read about once a second at most, however many pages are open, and only if
something may have changed.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lmassay.errors import DamageError, StoreError
from lmassay.storage.progress import RunProgress, recorded_progress, trainings_of
from lmassay.storage.store import DAMAGED, STORE_FILE, Spending, Store
from lmassay.types import RunRecord

# How long a snapshot is used. This is less than the time between two requests of a page (1.5 s, see view.js), so that
# each request of a page gets a new one, but several open pages share it.
_SECONDS_TO_KEEP = 0.8


@dataclass(frozen=True, slots=True)
class RunState:
    """A run and its progress."""

    record: RunRecord
    in_progress: bool
    """Whether a process is working on the run, or on the sweep in which the run waits for its turn."""
    scored: int = 0
    """The number of examples with scores."""
    unscored: int = 0
    """The number of examples that were answered but could not be scored."""
    errors: int = 0
    """The number of examples whose requests failed."""
    progress: RunProgress | None = None
    """The progress that the process of the run has recorded, if the run is in progress or its process was killed."""
    spending: Spending | None = None
    """What the run has cost; None if nothing."""
    trainings: RunProgress | None = None
    """If the run waits for trainings, the progress of these."""
    problem: str = ""
    """What is damaged; empty if everything could be read."""

    @property
    def stored(self) -> int:
        """The number of examples in the store."""
        return self.scored + self.unscored + self.errors

    @property
    def total(self) -> int | None:
        """The number of all examples of the run; None if it is not known yet."""
        if self.record.planned is not None:
            return self.record.planned
        return None if self.progress is None else self.progress.total

    @property
    def done(self) -> int:
        """The number of examples that are done, including those that are answered but not stored yet."""
        answered = 0 if self.progress is None else int(self.progress.done)
        if self.total is not None:
            answered = min(answered, self.total)
        return max(self.stored, answered)

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the remaining time of a run in progress."""
        if self.record.status != "running" or self.progress is None:
            return None
        return self.progress.seconds_left()

    @property
    def can_be_resumed(self) -> bool:
        """Whether `lmassay resume` has something to do for this run."""
        if self.in_progress or self.record.status in ("done", DAMAGED):
            return False
        # Without errors, all requests were answered, but no example could be scored: nothing would be requested again.
        return self.record.status != "incomplete" or self.errors > 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a results folder contains at one moment."""

    runs: Sequence[RunState] = ()
    """All runs, in the order in which they were recorded."""
    problem: str = ""
    """Why the folder cannot be read; empty if it can, or if it has no results yet."""
    version: str = ""
    """A text that changes whenever anything in the folder changes."""

    def run(self, run: str) -> RunState | None:
        """Return a run by its id; None if there is none (any more)."""
        for state in self.runs:
            if state.record.id == run:
                return state
        return None


@dataclass(slots=True)
class _CountsOfRun:
    """The counts of a run that no process is working on, kept so that its examples are not counted again."""

    key: tuple[object, ...]
    """If this changes, the examples must be counted again."""
    counts: dict[str, int]
    """State of examples (scored, unscored, error) → number of examples."""


@dataclass(slots=True)
class ResultsFolder:
    """A results folder that may not exist yet, and that other processes change."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _read_at: float = -1.0
    """When the folder was last checked, by ``time.monotonic()``; negative if the snapshot must not be used any more."""
    _files: tuple[object, ...] = ()
    _counts: dict[str, _CountsOfRun] = field(default_factory=dict)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the store for reading. All reads show it as it is at one moment, even if a run goes on writing."""
        with Store(self.path, read_only=True, for_display=True) as store:
            # A transaction that only reads does not make anybody wait, because the store has a write-ahead log.
            store.database.execute("BEGIN")
            yield store

    @contextmanager
    def writable_store(self) -> Iterator[Store]:
        """Open the store to change something. A folder that has been deleted is not created again."""
        # Raises an error unless there are results.
        Store(self.path, read_only=True).close()
        # Opened for display, like the pages: the text that a form was filled in with is compared with what is read now.
        with Store(self.path, create=True, for_display=True) as store:
            yield store

    def snapshot(self) -> Snapshot:
        """Return all runs with their progress, as they were at most a second ago."""
        with self._lock:
            if time.monotonic() - self._read_at > _SECONDS_TO_KEEP:
                files = self._state_of_files()
                if self._may_differ(files):
                    self._snapshot = self._read(files)
                    self._files = files
                self._read_at = time.monotonic()
            return self._snapshot

    def _may_differ(self, files: tuple[object, ...]) -> bool:
        """Return whether the folder may have changed since the last snapshot."""
        # The folder was never read, or this process has changed it (see ``forget_snapshot``).
        has_no_current_snapshot = self._read_at < 0
        if has_no_current_snapshot or files != self._files:
            return True
        if self._snapshot.problem:
            # A problem such as a missing permission can be solved without any change in the files.
            return True
        # A process that is killed changes no file, but its lock is gone.
        return any(state.in_progress for state in self._snapshot.runs)

    def forget_snapshot(self) -> None:
        """Discard the snapshot after this process has changed the folder, so that the next page reads it again."""
        with self._lock:
            self._read_at = -1.0

    def _state_of_files(self) -> tuple[object, ...]:
        """Return the size and the time of the last change of the store's files."""
        states: list[object] = []
        for name in (STORE_FILE, f"{STORE_FILE}-wal"):
            try:
                status = (self.path / name).stat()
            except OSError:
                status = None
            # Even a reader may create an empty write-ahead log, which does not count as a change.
            if status is not None and status.st_size:
                states.append((name, status.st_mtime_ns, status.st_size))
        return tuple(states)

    def _read(self, files: tuple[object, ...]) -> Snapshot:
        """Read the folder and return a new snapshot."""
        if not (self.path / STORE_FILE).is_file():
            return Snapshot(version="empty")
        try:
            with self.store() as store:
                runs = [self._state(store, record) for record in store.runs()]
        except StoreError as error:
            file = self.path / STORE_FILE
            if not file.is_file() or file.stat().st_size == 0:
                # It has just been deleted, or is just being created.
                return Snapshot(version="empty")
            return Snapshot(problem=str(error), version=_digest("problem", str(error)))
        existing_runs = {state.record.id for state in runs}
        for run in set(self._counts) - existing_runs:
            del self._counts[run]
        changing = []
        for state in runs:
            changing.append((state.record.id, state.record.status, state.done, state.in_progress, state.trainings))
        return Snapshot(runs, version=_digest(files, changing))

    def _state(self, store: Store, record: RunRecord) -> RunState:
        """Return a run with its progress and counts; if they cannot be read, with the problem."""
        if record.status == DAMAGED:
            return RunState(record, in_progress=False, problem=record.note)
        in_progress = store.is_in_progress(record)
        progress = None
        if record.status in ("running", "interrupted"):
            progress = recorded_progress(self.path, record.id)
        trainings = None
        if record.status == "waiting" and in_progress:
            trainings = recorded_progress(self.path, trainings_of(record.sweep))
        try:
            counts = self._counts_of(store, record, in_progress, progress)
            spending = store.spending(run=record.id)
        except DamageError as error:
            return RunState(record, in_progress, progress=progress, problem=error.problem)
        return RunState(
            record,
            in_progress,
            counts["scored"],
            counts["unscored"],
            counts["error"],
            progress,
            spending,
            trainings,
        )

    def _counts_of(
        self, store: Store, record: RunRecord, in_progress: bool, progress: RunProgress | None
    ) -> dict[str, int]:
        """Return the counts of a run's examples by state, from the cache if nothing can have changed."""
        if in_progress:
            self._counts.pop(record.id, None)
            return store.count(record.id)
        key = (record.status, record.finished, progress)
        cached = self._counts.get(record.id)
        if cached is None or cached.key != key:
            # A finished run has its counts recorded, so its examples need not be counted.
            cached = _CountsOfRun(key, store.recorded_counts(record.id))
            self._counts[record.id] = cached
        return cached.counts


def _digest(*values: object) -> str:
    return hashlib.blake2b(repr(values).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()
