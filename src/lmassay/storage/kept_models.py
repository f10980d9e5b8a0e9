"""Trained models in a results folder: ``models/DIGEST/``, and for each run a file that lists its models.

A results folder may come from somebody else. Then its lists may have any content, and its folders may contain links to
files elsewhere on this machine. So the functions here never follow a link, or a path in a list, out of the folder.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

from lmassay.redaction import excerpt
from lmassay.storage.database import KEPT_MODELS
from lmassay.storage.file_names import run_file, safe_name
from lmassay.storage.single_rows import UNREADABLE

# The allowed depth of nested folders. A trained model is a folder with files only, so this is more than enough.
_MAX_DEPTH = 20
_MAX_SHOWN = 100


def list_file(results: Path, run: str) -> Path:
    """Return the path of the file that lists the models of a run."""
    return run_file(results / KEPT_MODELS, run, ".json")


def listed_models(listing: Path) -> dict[str, list[str]]:
    """Read a list of models: a dict from example (a training) to the names of its model folders.

    Raises ValueError if lmassay did not write the list.
    """
    # Reading from a pipe would wait forever.
    if not listing.is_file():
        raise ValueError("it is not a file")
    try:
        folders = json.loads(listing.read_text(encoding="utf-8"))
        names_by_example: dict[str, list[str]] = {}
        for example, names in folders.items():
            if not isinstance(names, list):
                raise TypeError("the models of an example are not a list")
            names_by_example[example] = [_checked_name(name) for name in names]
    except UNREADABLE as error:
        raise ValueError(str(error)) from error
    return names_by_example


def _checked_name(name: object) -> str:
    """Return the name of a model folder. Raises ValueError for ``..`` and other paths."""
    if not isinstance(name, str) or safe_name(name) != name or name.startswith("."):
        raise ValueError(f"{excerpt(str(name), _MAX_SHOWN)!r} is not the name of a trained model")
    return name


def is_own(path: Path) -> bool:
    """Return whether a path is an ordinary file or a folder of ordinary files, without links, pipes and devices."""
    remaining = [(path, 0)]
    while remaining:
        entry, depth = remaining.pop()
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode) and depth < _MAX_DEPTH:
            remaining += [(inner, depth + 1) for inner in entry.iterdir()]
        elif not stat.S_ISREG(mode):
            return False
    return True
