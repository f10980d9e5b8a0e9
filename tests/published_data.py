"""Published data sets for tests, which are not part of the repository: they come from the catalogue, as users get them.

A data set that is complete in lmassay's cache folder is used there. Any other is fetched once into a folder that all
workers of the test session share, so that tests write nothing into the user's cache. Data sets come from the mirror
that ``LMASSAY_DATA_MIRROR`` names, else from ``data`` in the folder ``shared`` beside the repository (or that
``LMASSAY_SHARED`` names), else from the internet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

from lmassay.datasets import catalogue
from lmassay.datasets.download import MIRROR_VARIABLE, Downloader
from lmassay.errors import LmassayError, StoreError
from tests.offline import network_guard

FIGURES = Path(__file__).with_name("published") / "figures"
"""What the original programs give on published data: numbers and digests, without the texts."""

session_cache: Path | None = None
"""Where data sets are fetched to: conftest.py puts a folder there that all workers of the session share."""

_CACHE_VARIABLE = "LMASSAY_CACHE"
# As they were when the tests began: single tests set them to something else.
_FIRST_CACHE = os.environ.get(_CACHE_VARIABLE)
_FIRST_MIRROR = os.environ.get(MIRROR_VARIABLE)
_ATTEMPTS = 60


def shared_folder() -> Path | None:
    """The folder with data and gold results: $LMASSAY_SHARED, else ``shared`` beside the repository."""
    folder = Path(os.environ.get("LMASSAY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    return folder if folder.is_dir() else None


def mirror() -> str | None:
    """Where data sets are fetched from; None for the repositories that they were published in."""
    if _FIRST_MIRROR:
        return _FIRST_MIRROR
    shared = shared_folder()
    if shared is not None and (shared / "data").is_dir():
        return str(shared / "data")
    return None


def published_set(name: str) -> Path:
    """The folder of a data set; skips the test with the reason if it cannot be fetched."""
    folder, reason = _fetched(name)
    if reason:
        pytest.skip(f"the data set {name} cannot be fetched: {reason}; set {MIRROR_VARIABLE} to a mirror")
    return folder


def published_sets(*names: str) -> Path:
    """The folder that these data sets are in, each in a folder of its name. It can serve as a mirror."""
    folders = [published_set(name) for name in names]
    parents = {folder.parent for folder in folders}
    if len(parents) == 1:
        return parents.pop()
    # Some are in the user's cache and some are not.
    assert session_cache is not None
    together = session_cache / "data"
    for name, folder in zip(names, folders, strict=True):
        for source in catalogue.catalogue().find(name).sources:
            # Another worker may have made the same link.
            with suppress(FileExistsError):
                (together / source.folder).symlink_to(folder.parent / source.folder, target_is_directory=True)
    return together


@cache
def _fetched(name: str) -> tuple[Path, str]:
    """The folder of a data set, and why it could not be fetched."""
    entry = catalogue.catalogue().find(name)
    first_folder = entry.sources[0].folder
    with _cache_at(_FIRST_CACHE):
        is_complete = not catalogue.missing_files(entry.files()) and not catalogue.verify(entry)
        if is_complete:
            return catalogue.data_folder() / first_folder, ""
    with _cache_at(str(session_cache) if session_cache else _FIRST_CACHE):
        folder = catalogue.data_folder() / first_folder
        for attempt in range(_ATTEMPTS):
            try:
                with network_guard.lifted():
                    failures = catalogue.get(entry, Downloader(mirror()), lambda _: None)
            except StoreError:
                # Another worker of the same test run is fetching it.
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(1)
            except LmassayError as error:
                return folder, str(error)
            else:
                # A mirror may lack files; the tests that need one of them say so.
                reasons = [failure.reason for failure in failures if not failure.is_missing]
                return folder, reasons[0] if reasons else ""
    raise AssertionError


@contextmanager
def _cache_at(folder: str | None) -> Iterator[None]:
    """Use this cache folder; None for the one that is used where none is set."""
    current = os.environ.pop(_CACHE_VARIABLE, None)
    if folder is not None:
        os.environ[_CACHE_VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(_CACHE_VARIABLE, None)
        if current is not None:
            os.environ[_CACHE_VARIABLE] = current


def digests(path: Path) -> dict[str, str]:
    """File → SHA-256, from a file in the format of sha256sum."""
    digest_of: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ", 1)
        digest_of[name] = digest
    return digest_of
