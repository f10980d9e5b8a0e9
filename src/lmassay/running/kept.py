"""Trained models that are kept in the results folder: ``models/DIGEST/``, and which of them belong to a run.

The folder of a model is named after the digest of its training, so two runs with the same training share it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay.errors import StoreError
from lmassay.storage.commands import command_on_results
from lmassay.storage.database import KEPT_MODELS
from lmassay.storage.files import atomic_write
from lmassay.storage.kept_models import list_file, listed_models

_DIGITS = 16


def model_folder(results: Path, key: str) -> Path:
    """The folder for the model of the training with this key."""
    return results.absolute() / KEPT_MODELS / key[:_DIGITS]


def write_list(results: Path, run: str, folders: Mapping[str, Sequence[str]]) -> None:
    """Write which model folders belong to the examples of a run."""
    with atomic_write(list_file(results, run)) as stream:
        json.dump({example: list(names) for example, names in folders.items()}, stream, indent=1)


def read_list(results: Path, run: str) -> dict[str, list[Path]]:
    """The model folders of a run by example; empty if the run keeps no models. They may have been deleted since."""
    file = list_file(results, run)
    if not file.is_file():
        return {}
    folder = results.absolute() / KEPT_MODELS
    try:
        return {example: [folder / name for name in names] for example, names in listed_models(file).items()}
    except (OSError, ValueError) as error:
        command = command_on_results(results, "resume", run)
        raise StoreError(f"{file} cannot be read ({error}); delete it, then: {command}") from error


def missing_folders(results: Path, run: str) -> list[Path]:
    """The model folders of a run that were deleted."""
    missing = []
    for folders in read_list(results, run).values():
        missing += [folder for folder in folders if not folder.is_dir()]
    return missing
