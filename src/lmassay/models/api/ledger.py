"""Which batches are open: noted before the waiting begins, so that a crash loses none of them."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmassay.data import atomic_write
from lmassay.types import digest

# Providers keep the results of a batch for about a month.
_KEPT = 31 * 86_400.0
_PREFIX = "batch-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch: its id with the provider, and the ids of those of its requests that were not yet answered."""

    batch: str
    requests: tuple[str, ...]
    noted: float = 0.0


class Ledger:
    """One small file a batch. Prompts and keys are not in it; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def check(self) -> None:
        """Raise unless notes can be taken: a batch that cannot be noted must not be paid for."""
        if self._folder is not None:
            trial = self._folder / f"{_PREFIX}trial"
            with atomic_write(trial) as stream:
                stream.write("{}")
            trial.unlink(missing_ok=True)

    def note(self, entry: Entry) -> None:
        """Write an entry, or what is left of it."""
        if self._folder is None:
            return
        with atomic_write(self._path(entry.batch)) as stream:
            json.dump({"batch": entry.batch, "requests": entry.requests, "noted": entry.noted or time.time()}, stream)

    def forget(self, batch: str) -> None:
        if self._folder is not None:
            self._path(batch).unlink(missing_ok=True)

    def holding(self, requests: Collection[str]) -> list[Entry]:
        """The open batches that hold some of these requests."""
        wanted = set(requests)
        return [entry for entry in self._entries() if not wanted.isdisjoint(entry.requests)]

    def _entries(self) -> Iterator[Entry]:
        if self._folder is None or not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob(f"{_PREFIX}*.json")):
            entry = _read(path)
            if entry is None or entry.noted + _KEPT < time.time():
                path.unlink(missing_ok=True)
            else:
                yield entry

    def _path(self, batch: str) -> Path:
        # The id is the provider's and may hold anything; its hash is a safe name everywhere.
        assert self._folder is not None
        return self._folder / f"{_PREFIX}{digest(batch)[:16]}.json"


def _read(path: Path) -> Entry | None:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        return Entry(str(row["batch"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
