"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_folder() -> Path | None:
    """The folder with data and gold results: $LMASSAY_SHARED, else ``shared`` beside the repository."""
    folder = Path(os.environ.get("LMASSAY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("there is no folder ../shared with data and gold results; set LMASSAY_SHARED")
    return folder
