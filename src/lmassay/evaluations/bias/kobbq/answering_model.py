"""Find out which model gave the answers, if KoBBQ's file name has only an alias: ``clova-x`` stands for HCX-005.

Step 2 writes a file with notes next to the answers, which names the model. Step 4 records the model in a file next to
its output, for step 5. Output of the original programs has neither of these files; tables then show the alias from the
file name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.samples import file_name_of
from lmassay.storage.files import atomic_write


def notes_path(predictions: Path) -> Path:
    """Return the path of the notes next to the answers: how each answer ended, and which model gave it."""
    return predictions.with_name(f"{predictions.name.removesuffix('.tsv')}.notes.jsonl")


def models_behind(predictions: Path) -> list[str]:
    """Return the models that gave these answers, from the notes of step 2; without a model that the file name names."""
    try:
        lines = notes_path(predictions).read_bytes().splitlines()
    except OSError:
        return []
    models: list[str] = []
    for line in lines:
        try:
            note = json.loads(line)
        except (ValueError, RecursionError):
            # A crash may cut off a note.
            continue
        model = note.get("model") if isinstance(note, dict) else None
        if not isinstance(model, str) or model in models:
            continue
        if file_name_of(model) not in predictions.name:
            models.append(model)
    return models


def record_models(collected: Path, models: Sequence[str]) -> None:
    """Record the models that gave the answers in a file of step 4. Without models, an existing record is removed."""
    path = _record_path(collected)
    if not models:
        path.unlink(missing_ok=True)
        return
    with atomic_write(path) as stream:
        stream.write(json.dumps({"models": list(models)}, ensure_ascii=False) + "\n")


def recorded_models(collected: Path) -> list[str]:
    """Return the models that step 4 recorded; none for a file of the original program."""
    path = _record_path(collected)
    if not path.is_file():
        return []
    try:
        models = json.loads(path.read_bytes())["models"]
    except (ValueError, LookupError, TypeError, RecursionError):
        models = None
    if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
        raise DataError(f"{path} does not name a model; delete it, or run `lmassay kobbq collect` again")
    return models


def shown_name(name: str, models: Sequence[str]) -> str:
    """Return the name of a model for tables: the name in its file, with the models it stands for in parentheses.

    >>> shown_name("clova-x", ["HCX-005"])
    'clova-x (HCX-005)'
    >>> shown_name("gpt-4", [])
    'gpt-4'
    """
    return f"{name} ({', '.join(models)})" if models else name


def is_shown_as(name: str, displayed_name: str) -> bool:
    """Return whether a name in a table is this name, alone or followed by the model that it stands for.

    >>> is_shown_as("clova-x", "clova-x (HCX-005)"), is_shown_as("clova", "clova-x (HCX-005)")
    (True, False)
    """
    return displayed_name == name or displayed_name.startswith(f"{name} (")


def _record_path(collected: Path) -> Path:
    return collected.with_name(f"{collected.name.removesuffix('.tsv')}.model.json")
