"""Which batches are open: noted before the waiting begins, so that a crash loses none of them."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import FatalModelError
from lmassay.storage.files import atomic_write
from lmassay.types import digest

# Providers keep the results of a batch for about a month.
_KEPT = 31 * 86_400.0
_PREFIX = "batch-"
_INTENT = "intent-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch: its id with the provider, and the ids of those of its requests that were not yet answered."""

    batch: str
    requests: tuple[str, ...]
    noted: float = 0.0


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is about to be created: how to know it again at the provider's, and the ids of its requests."""

    mark: str
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

    def intend(self, intent: Intent) -> None:
        """Written before a batch is created, for the case that nobody is there to note the answer."""
        if (path := self.path_of(intent)) is not None:
            with atomic_write(path) as stream:
                row = {"mark": intent.mark, "requests": intent.requests, "noted": intent.noted or time.time()}
                json.dump(row, stream)

    def drop(self, intent: Intent) -> None:
        """It is known what became of it."""
        if (path := self.path_of(intent)) is not None:
            path.unlink(missing_ok=True)

    def path_of(self, intent: Intent) -> Path | None:
        name = f"{_INTENT}{digest(intent.mark, list(intent.requests))[:16]}.json"
        return None if self._folder is None else self._folder / name

    def intents(self, requests: Collection[str]) -> list[Intent]:
        """Batches with some of these requests of which it is not known whether they were created."""
        wanted = set(requests)
        found = (_intent(row) for row in self._rows(_INTENT))
        return [intent for intent in found if intent is not None and not wanted.isdisjoint(intent.requests)]

    def forget(self, batch: str) -> None:
        if self._folder is not None:
            self._path(batch).unlink(missing_ok=True)

    def holding(self, requests: Collection[str]) -> list[Entry]:
        """The open batches that hold some of these requests."""
        wanted = set(requests)
        return [entry for entry in self._entries() if not wanted.isdisjoint(entry.requests)]

    def _entries(self) -> Iterator[Entry]:
        return (entry for row in self._rows(_PREFIX) if (entry := _entry(row)) is not None)

    def _rows(self, prefix: str) -> Iterator[dict[str, Any]]:
        """What the notes of a kind say. Only one that was read and is old is removed."""
        if self._folder is None or not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob(f"{prefix}*.json")):
            row = _read(path)
            noted = row.get("noted")
            if isinstance(noted, int | float) and noted + _KEPT < time.time():
                path.unlink(missing_ok=True)
            else:
                yield row

    def _path(self, batch: str) -> Path:
        # The id is the provider's and may hold anything; its hash is a safe name everywhere.
        assert self._folder is not None
        return self._folder / f"{_PREFIX}{digest(batch)[:16]}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        told = "it may tell of a batch that was paid for: make it readable, or delete it"
        raise FatalModelError(f"cannot read {path}: {error.strerror or error}; {told}") from None
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _entry(row: dict[str, Any]) -> Entry | None:
    try:
        return Entry(str(row["batch"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None


def _intent(row: dict[str, Any]) -> Intent | None:
    try:
        return Intent(str(row["mark"]), tuple(map(str, row["requests"])), float(row["noted"]))
    except (ValueError, LookupError, TypeError):
        return None
