"""What the commands of a page may need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import chromium  # noqa: F401 - a fixture
from tests.helpers import ROOT
from tests.servers import Reply, completion, openai_server, prompt_of


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The base URL of an OpenAI-compatible server on loopback."""
    with openai_server(_answer) as running:
        yield running.url


def _answer(body: dict[str, Any], _: int) -> Reply:
    """The first letter where letters are offered, else the prompt's last line."""
    prompt = prompt_of(body)
    return completion("A" if re.search(r"^\(?A[:).]", prompt, re.MULTILINE) else prompt.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    """The folder into which pip has installed examples/small_package."""
    pytest.importorskip("setuptools", reason="without setuptools no package is built")
    source, target = tmp_path_factory.mktemp("package") / "source", tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "examples" / "small_package", source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--target", target, source], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return target
