"""The starters that ``lmassay init`` can write in addition to configurations: the beginnings of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lmassay
from lmassay.contracts import Starter
from lmassay.errors import PluginError
from lmassay.plugins.evaluations import evaluations

_FOLDER = Path(lmassay.__file__).parent / "starters"
# The starters that do not belong to an evaluation.
_CORE = (
    Starter(
        "task",
        "your own task: what to ask, and how to score the answers",
        {name: _FOLDER / name for name in ("my_task.py", "my_calculator.py", "my_task.yaml")},
        ("lmassay run my_task.yaml",),
    ),
    Starter(
        "evaluation",
        "a package with a complete evaluation: task, report, card and command",
        {"lmassay-calibration": _FOLDER / "lmassay-calibration"},
        ("pip install ./lmassay-calibration", "lmassay init calibration"),
    ),
)


def starters() -> dict[str, Starter]:
    """Return all starters by name; if two packages use the same name, the first one is used."""
    by_name: dict[str, Starter] = {}
    for evaluation in evaluations():
        for starter in evaluation.starters:
            by_name.setdefault(starter.name, starter)
    for starter in _CORE:
        by_name.setdefault(starter.name, starter)
    return by_name


def starter_files(starter: Starter) -> Mapping[Path, str]:
    """Return the files that a starter writes: path in the user's folder → text."""
    files: dict[Path, str] = {}
    for target, source in starter.files.items():
        if not source.exists():
            raise PluginError(f"the starter {starter.name} lacks a file: {source}")
        if source.is_file():
            files[Path(target)] = read_text(source)
            continue
        for name, text in texts_in(source).items():
            files[Path(target) / name] = text
    return files


def texts_in(folder: Path) -> dict[str, str]:
    """Return the texts of all files in a folder: path relative to the folder → text."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            texts[path.relative_to(folder).as_posix()] = read_text(path)
    return texts


def read_text(path: Path) -> str:
    """Return the text of a file of a sample or a starter."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PluginError(f"{path}, which belongs to a sample, is not UTF-8") from None
