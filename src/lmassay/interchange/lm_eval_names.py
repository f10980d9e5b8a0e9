"""What the files of a log are called: as the harness does it, in names that every file system takes, no two alike."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import datetime

# What leads elsewhere or is refused by some file system; controls, ends of lines and marks that reorder text, which a
# terminal must not meet; lone surrogates, which have no UTF-8.
_UNSAFE = re.compile(
    r"[\"<>:/|\\?*\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+",
)
# Names that one family of systems keeps for its devices.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
_MOST_BYTES = 120


def safe_name(name: str) -> str:
    """A name as part of a path.

    >>> safe_name("acme/lengths: 1b"), safe_name("CON"), safe_name("..")
    ('acme__lengths__ 1b', '_CON', '_')
    """
    # File systems count bytes.
    text = _UNSAFE.sub("__", name).encode()[:_MOST_BYTES].decode(errors="ignore").strip(". ")
    return f"_{text}" if not text or _RESERVED.fullmatch(text.partition(".")[0]) else text


class TaskNames:
    """A safe name for each log of a run, for file names and totals alike: what is read back is found by it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, task: str) -> str:
        if task not in self._names:
            self._names[task] = self._free(safe_name(task))
        return self._names[task]

    def _free(self, name: str) -> str:
        free, number = name, 1
        while _as_files_are_told_apart(free) in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(_as_files_are_told_apart(free))
        return free


def _as_files_are_told_apart(name: str) -> str:
    """Some file systems see no difference between large and small letters, or between two spellings of one letter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def stamp(moment: datetime, run: str) -> str:
    """The time in file names. Runs know it to the second; the microseconds come from the run's id.

    So two runs of one second have files of their own, and a run that is exported again has the same.
    """
    own = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) % 1_000_000
    return moment.replace(microsecond=own).strftime("%Y-%m-%dT%H-%M-%S.%f")
