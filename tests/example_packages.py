"""The example packages, installed as a user would, into a folder of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT


def install_packages(tmp_path_factory: pytest.TempPathFactory, *names: str) -> Path:
    """The folder into which pip has installed packages of ``examples/``."""
    pytest.importorskip("setuptools", reason="without setuptools no package is built")
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    for name in names:
        # A build leaves files behind, which must not lie in the repository.
        source = tmp_path_factory.mktemp("package") / name
        shutil.copytree(ROOT / "examples" / name, source)
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--target", target, source],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return target
