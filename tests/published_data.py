"""Published data sets for tests, which are not part of the repository: they come from the catalogue, as users get them.

They are kept in lmassay's cache folder, so that they are fetched once. They come from the mirror that
``LMASSAY_DATA_MIRROR`` names, else from ``data`` in the folder ``shared`` beside the repository (or that
``LMASSAY_SHARED`` names), else from the internet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from lmassay.datasets import catalogue
from lmassay.datasets.download import MIRROR_VARIABLE, Downloader
from lmassay.errors import LmassayError, StoreError

FIGURES = Path(__file__).with_name("published") / "figures"
"""What the original programs give on published data: numbers and digests, without the texts."""

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
    return folders[0].parent


@cache
def _fetched(name: str) -> tuple[Path, str]:
    """The folder of a data set, and why it could not be fetched."""
    entry = catalogue.catalogue().find(name)
    with _first_cache():
        folder = catalogue.data_folder() / entry.sources[0].folder
        for attempt in range(_ATTEMPTS):
            try:
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
def _first_cache() -> Iterator[None]:
    """The cache folder that was set when the tests began."""
    current = os.environ.pop(_CACHE_VARIABLE, None)
    if _FIRST_CACHE is not None:
        os.environ[_CACHE_VARIABLE] = _FIRST_CACHE
    try:
        yield
    finally:
        os.environ.pop(_CACHE_VARIABLE, None)
        if current is not None:
            os.environ[_CACHE_VARIABLE] = current


def digests(path: Path) -> dict[str, str]:
    """File → SHA-256, from a file in the format of sha256sum."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ", 1)
        found[name] = digest
    return found
