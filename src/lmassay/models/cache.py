"""Where fetched and converted models are kept, and how a folder comes to be there: whole or not at all."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, MissingExtra, UserError
from lmassay.storage.cache import cache_folder as cache_folder

# What is taken of a model on a hub and what is not, by those who fetch it and by those who look it up afterwards.
# Weights in other files (.bin, .pt) can run code when they are read and stay where they are.
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
NOT_HUB_FILES = ["*/*"]
_CARD = "lmassay.json"
# Goes up when the conversion of GGUF files changes what it writes: older folders are then not used any more.
_CONVERSION = 1
_UNFINISHED = ".part-"
_DAY = 24 * 60 * 60


def gguf_folder(sha256: str) -> Path:
    """Where the conversion of the GGUF file with this digest is kept once it is done."""
    return cache_folder() / "gguf" / f"{sha256[:16]}-{_CONVERSION}"


def kept() -> list[Path]:
    """The folders of all models in the cache."""
    return sorted(card.parent for card in (cache_folder() / "gguf").glob(f"[!.]*/{_CARD}"))


def populated(folder: Path, fill: Callable[[Path], None]) -> Path:
    """``folder``; where it does not exist yet, ``fill`` writes a new one, which then takes its name.

    The folder is either absent or complete, whatever happens in between. Of several processes that fill it at the
    same time one wins, and the others use what that one wrote.
    """
    if folder.is_dir():
        return folder
    with workplace(folder.parent) as new:
        fill(new)
        _settle(new)
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


@contextlib.contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """A temporary folder in ``parent``, which is made if need be; gone at the end unless it was renamed."""
    place: Path | None = None
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        place = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))
        yield place
    except OSError as error:
        raise UserError(
            f"the cache folder {parent} cannot be used: {error.strerror or error}; make room or set LMASSAY_CACHE to "
            f"another folder"
        ) from error
    finally:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)


def require_space(folder: Path, needed: int) -> None:
    """Raise unless ``needed`` bytes are free where ``folder`` is."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"{needed / 1e9:.1f} GB are needed in {folder.parent}, {free / 1e9:.1f} GB are free; make room or set "
            f"LMASSAY_CACHE to a folder on a larger disk"
        )


def require_converter(what: str) -> None:
    """Raise unless the libraries that convert GGUF files are installed."""
    if any(importlib.util.find_spec(library) is None for library in ("gguf", "torch", "transformers")):
        raise MissingExtra(what, "hf")


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Note in a folder what it holds and where that came from."""
    (folder / _CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> dict[str, Any]:
    """What ``write_card`` noted; empty where that cannot be read."""
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def _settle(folder: Path) -> None:
    # On the disk before the new name is: a machine that stops now must not leave that name on half a model.
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.iterdir():
        with path.open("r+b") as stream:
            os.fsync(stream.fileno())
        path.chmod(0o666 & ~umask)
    folder.chmod(0o777 & ~umask)


def _sweep(parent: Path) -> None:
    # What a killed process left behind; no conversion takes a day.
    for path in parent.glob(f"{_UNFINISHED}*"):
        # Another process may be tidying up as well.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _DAY:
                shutil.rmtree(path, ignore_errors=True)
