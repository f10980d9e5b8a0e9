"""The folder in which lmassay keeps models and data sets that it has downloaded or converted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lmassay.errors import DataError


def cache_folder() -> Path:
    """Return ``$LMASSAY_CACHE`` or, by default, the user's cache folder of the operating system."""
    configured = os.environ.get("LMASSAY_CACHE")
    if configured:
        return Path(configured).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("lmassay", appauthor=False)


def require_space(folder: Path, needed: int) -> None:
    """Raise DataError unless ``needed`` bytes are free on the disk of ``folder``, which need not exist yet."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise DataError(
            f"{_size_text(needed)} are needed in {folder}, but only {_size_text(free)} are free; make room or set "
            "LMASSAY_CACHE to a folder on a larger disk"
        )


def _size_text(size: int) -> str:
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.1f} MB"
