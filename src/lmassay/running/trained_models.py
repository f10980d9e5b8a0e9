"""Finds the trained models that are kept in the results folder (``models/DIGEST/``), and which of them belong to a run.

The folder of a model is named after the digest of its training, so two runs with the same training share it. Each run
has a list, ``models/RUN.json``: the id of an example (in few-shot runs, a split) → the names of its model folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from lmassay.errors import StoreError
from lmassay.storage.database import KEPT_MODELS
from lmassay.storage.files import atomic_write
from lmassay.storage.kept_models import list_file, listed_models

# The first digits of a digest are enough to distinguish trainings, and keep the names of folders short.
_DIGITS_IN_NAME = 16


def model_folder(results: Path, training: str) -> Path:
    """The folder for the model of a training; ``training`` is the digest of the training."""
    return results.absolute() / KEPT_MODELS / training[:_DIGITS_IN_NAME]


def write_list(results: Path, run: str, folders: Mapping[str, Sequence[str]]) -> None:
    """Write the list of a run; ``folders`` has the names of the model folders of each example."""
    with atomic_write(list_file(results, run)) as stream:
        json.dump({example: list(names) for example, names in folders.items()}, stream, indent=1)


def read_list(results: Path, run: str) -> dict[str, list[Path]]:
    """The model folders of each example of a run; empty if the run keeps no models.

    A folder that is listed may have been deleted since. Raises a StoreError if the list cannot be read.
    """
    file = list_file(results, run)
    if not file.is_file():
        return {}
    try:
        names_by_example = listed_models(file)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{file} cannot be read ({error}); delete it and run the configuration again, which lists the models "
            "without training them again"
        ) from error
    parent = results.absolute() / KEPT_MODELS
    folders: dict[str, list[Path]] = {}
    for example, names in names_by_example.items():
        folders[example] = [parent / name for name in names]
    return folders


def missing_folders(results: Path, run: str) -> list[Path]:
    """The model folders that the list of a run names and that do not exist any more."""
    missing = []
    for folders in read_list(results, run).values():
        missing += [folder for folder in folders if not folder.is_dir()]
    return missing
