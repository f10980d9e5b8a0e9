"""The example packages, installed as a user would, each into a folder of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT


def install_package(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """The folder into which pip has installed a package that a starter writes, once for all workers of the session."""
    pytest.importorskip("setuptools", reason="without setuptools no package is built")
    session = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        session = session.parent
    target = session / "installed" / name
    target.parent.mkdir(exist_ok=True)
    with target.with_name(f"{name}.lock").open("w") as lock:
        # Another worker may be installing it; closing the file releases the lock.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _install(name, target)
    return target


def _install(name: str, target: Path) -> None:
    # A build leaves files behind, which must not lie in the repository.
    source = target.with_name(f"{name}.source")
    (folder,) = (ROOT / "src" / "lmassay").rglob(f"starters/{name}")
    shutil.copytree(folder, source)
    # Another worker finds either the whole package or none.
    unfinished = target.with_name(f"{name}.unfinished")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--target", unfinished, source],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unfinished.rename(target)
