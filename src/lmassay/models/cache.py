"""The cache of downloaded and converted models. A folder in it is complete or absent, never half written."""

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

from lmassay.errors import MissingExtra, UserError
from lmassay.storage.cache import cache_folder

# The files of a hub model that are downloaded, and looked up afterwards. Weights in other formats (.bin, .pt) can run
# code when they are read, and are not downloaded. The tokenizers of Marian (translation models) are in .spm files.
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model", "*.spm", "*.jinja"]
# Subfolders usually contain the same weights in other formats. Only those of sentence encoders, such as 1_Pooling, are
# needed; their names begin with a digit.
NOT_HUB_FILES = ["[!0-9]*/*"]
_CARD = "lmassay.json"
# The version of the conversion of GGUF files, part of the folder's name: folders of older versions are no longer used.
_CONVERSION = 1
# The names of temporary folders begin with this. One that is older than a day was left behind by a killed process.
_UNFINISHED = ".part-"
_DAY = 24 * 60 * 60


def gguf_folder(sha256: str) -> Path:
    """The folder of the converted GGUF file with this digest; it exists once the conversion is done."""
    return cache_folder() / "gguf" / f"{sha256[:16]}-{_CONVERSION}"


def cached_models() -> list[Path]:
    """The folders of all models in the cache."""
    return sorted(card.parent for card in (cache_folder() / "gguf").glob(f"[!.]*/{_CARD}"))


def populated(folder: Path, fill: Callable[[Path], None], *, cache: bool = True) -> Path:
    """Return ``folder``. If it does not exist, ``fill`` writes a temporary folder, which is then renamed.

    The folder is absent or complete, whatever happens in between. If several processes fill it at the same time, one of
    them wins and the others use its folder. ``cache``: whether the folder is in lmassay's cache, for error messages.
    """
    if folder.is_dir():
        return folder
    with temporary_folder(folder.parent, cache=cache) as new:
        fill(new)
        _flush_and_set_permissions(new)
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


@contextlib.contextmanager
def temporary_folder(parent: Path, *, cache: bool = True) -> Iterator[Path]:
    """A new temporary folder in ``parent``, which is created if needed.

    The temporary folder is deleted at the end of the ``with`` block, unless it was renamed. An OSError in the block,
    such as a full disk, becomes a UserError that says what to do. ``cache``: whether ``parent`` is in lmassay's cache,
    for error messages.
    """
    folder: Path | None = None
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _delete_leftovers(parent)
        folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))
        yield folder
    except OSError as error:
        if not cache:
            raise UserError(
                f"{parent} cannot be written: {error.strerror or error}; free disk space or choose another folder"
            ) from error
        raise UserError(
            f"the cache folder {parent} cannot be used: {error.strerror or error}; make room or set LMASSAY_CACHE to "
            f"another folder"
        ) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def require_converter(purpose: str, then: str = "") -> None:
    """Raise unless the libraries that convert GGUF files are installed.

    ``purpose`` is what needs them, ``then`` the command to run when they are installed.
    """
    for library in ("gguf", "torch", "transformers"):
        if importlib.util.find_spec(library) is None:
            raise MissingExtra(purpose, "hf", then)


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Record in a file of a model folder what the folder contains and where its content came from.

    "Card" does not mean a model card here.
    """
    (folder / _CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> dict[str, Any]:
    """What :func:`write_card` wrote; empty if it cannot be read."""
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return card if isinstance(card, dict) else {}


def _flush_and_set_permissions(folder: Path) -> None:
    """Write all files to the disk, and give them the permissions of ordinary files.

    The content is on the disk before the folder gets its name: after a power failure, no folder with its final
    name may contain half a model. Temporary folders are private, but a cache may be shared.
    """
    # The umask can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    # A tokenizer with several chat templates is saved with a subfolder.
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o777 & ~umask)
            continue
        with path.open("r+b") as stream:
            os.fsync(stream.fileno())
        path.chmod(0o666 & ~umask)
    folder.chmod(0o777 & ~umask)


def _delete_leftovers(parent: Path) -> None:
    """Delete temporary folders that killed processes left behind."""
    for path in parent.glob(f"{_UNFINISHED}*"):
        # Another process may delete it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _DAY:
                shutil.rmtree(path, ignore_errors=True)
