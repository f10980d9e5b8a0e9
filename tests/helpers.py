"""Small things that many tests need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import in_process

ROOT = Path(__file__).resolve().parents[1]
# Here are the samples and starters that `lmassay init` writes.
EVALUATIONS = ROOT / "src" / "lmassay" / "evaluations"


def lmassay(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, but in this process: without starting Python again."""
    return in_process.run([str(argument) for argument in arguments], cwd, env)


def lmassay_process(
    *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, where the process is what is tested.

    Such are its encodings and ``PYTHON…`` variables, libraries that are missing, workers, locks, and its death.
    """
    return subprocess.run(
        [sys.executable, "-m", "lmassay", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_config(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path
