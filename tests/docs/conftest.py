"""What the commands of a page may need."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmassay.storage.cache import cache_folder
from tests.example_packages import install_package
from tests.published_data import published_sets
from tests.servers import Reply, completion, openai_server, prompt_of


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The base URL of an OpenAI-compatible server on loopback."""
    with openai_server(_answer) as running:
        yield running.url


@pytest.fixture(scope="session")
def mirror(data_mirror: str, data_cache: Path) -> dict[str, str]:
    """Variables for a separate cache, which has the user's models, and the mirror of data sets."""
    for folder in cache_folder().iterdir():
        link = data_cache / folder.name
        if folder.name != "data" and not link.exists():
            link.symlink_to(folder, target_is_directory=True)
    return {"LMASSAY_CACHE": str(data_cache), "LMASSAY_DATA_MIRROR": data_mirror}


@pytest.fixture(scope="session")
def data_folder() -> str:
    """The folder of fetched data sets."""
    return str(published_sets("teapot", "kobbq", "tse", "blimp", "fewglue"))


def _answer(body: dict[str, Any], _: int) -> Reply:
    """The first letter where letters are offered, else the prompt's last line."""
    prompt = prompt_of(body)
    return completion("A" if re.search(r"^\(?A[:).]", prompt, re.MULTILINE) else prompt.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> str:
    """The search path of the folders into which pip has installed the example packages."""
    folders = [install_package(tmp_path_factory, name) for name in ("lmassay-shouting", "lmassay-calibration")]
    return os.pathsep.join(map(str, folders))
