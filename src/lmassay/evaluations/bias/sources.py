"""Find out what kind of data ``task.data`` names, and read it: KoBBQ's samples, BBQ's files, or described data."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from lmassay.datasets import catalogue
from lmassay.datasets.entry import EXAMPLES
from lmassay.errors import DataError
from lmassay.evaluations.bias.items import BiasDataset
from lmassay.storage.files import NO_STANDARD_INPUT, STANDARD_INPUT, format_suffix

_ALLOWED = (
    "a data set that lmassay data lists, a .tsv of KoBBQ's samples, BBQ's .jsonl (a file, a folder or a pattern), or a "
    ".yaml that describes your own data"
)

CONTROL = "control"
"""The role of the files with control questions in the catalogue."""

DataSpec = str | Mapping[str, str | list[str]]
"""A path, the name of a published data set, or a part of one: ``{name: bbq, category: [Age, Religion]}``."""


def read_dataset(data: DataSpec, base: Path, role: str = EXAMPLES) -> BiasDataset:
    """Read the questions that a path or a name stands for.

    A path is relative to ``base`` or, if nothing is there, to the current working directory. A file or folder takes
    precedence over a published data set with the same name. ``role`` selects which files of a published data set are
    read: its questions or, for example, its control questions.
    """
    if isinstance(data, str) and not data.strip():
        raise DataError(f"task.data: the path is empty; give {_ALLOWED}")
    if isinstance(data, str) and catalogue.is_local(data, base):
        return _read_files(_files(data, base), data)
    selection = catalogue.select(data, role)
    if selection is None:
        # For a mapping, `select` returns a selection or raises an error.
        assert isinstance(data, str)
        return _read_files(_files(data, base), data)
    languages = {file.labels.get("language", selection.entry.languages[0]) for _, file in selection.files}
    if len(languages) > 1:
        name = selection.entry.name
        raise DataError(
            f"task.data: {name} has questions in {', '.join(sorted(languages))}, and prompts have one language; "
            f"choose one, such as {name}/{min(languages)}"
        )
    dataset = _read_files(selection.paths, catalogue.label_of(data))
    return replace(dataset, name=selection.entry.name, language=languages.pop())


def has_control_questions(data: DataSpec, base: Path) -> bool:
    """Return True if the data are a published data set that includes control questions."""
    if isinstance(data, str) and catalogue.is_local(data, base):
        return False
    name = data.partition("/")[0] if isinstance(data, str) else str(data.get("name", ""))
    entry = catalogue.catalogue().entries.get(name)
    return entry is not None and any(file.role == CONTROL for _, _, file in entry.files())


def read_control_questions(control: DataSpec | Literal[True], data: DataSpec, base: Path) -> BiasDataset:
    """Read control questions: they are like the questions of the data, but involve no stereotype (MBBQ).

    ``control`` names them in the same way as ``data``; True stands for those that the published data set includes.
    """
    if control is True:
        if not has_control_questions(data, base):
            raise DataError(
                "task.control: only published data sets such as mbbq include control questions; name your own file"
            )
        dataset = read_dataset(data, base, CONTROL)
    else:
        dataset = read_dataset(control, base)
    items = []
    for item in dataset.items:
        # The prefix keeps ids unique, because both sets number their questions from the beginning.
        items.append(replace(item, id=f"control-{item.id}", biased=None, is_control=True))
    return replace(dataset, items=items)


def _read_files(files: Sequence[Path], data: str) -> BiasDataset:
    endings = {format_suffix(file) for file in files}
    # Each reader is imported only when it is needed: BBQ needs no TSV parser, KoBBQ no YAML models.
    if endings == {".jsonl"}:
        from lmassay.evaluations.bias.bbq import bbq_items

        dataset = bbq_items(files)
    elif len(files) > 1:
        raise DataError(f"task.data: {data} matches {len(files)} files; only BBQ's .jsonl files are read together")
    elif endings == {".tsv"}:
        from lmassay.evaluations.bias.kobbq.samples import kobbq_items

        dataset = kobbq_items(files[0])
    elif endings <= {".yaml", ".yml"}:
        from lmassay.evaluations.bias.data_description import read_described

        dataset = read_described(files[0])
    else:
        raise DataError(f"task.data: {files[0]} has a format that cannot be read; give {_ALLOWED}")
    if not dataset.items:
        raise DataError(f"task.data: {data} has no questions; give a file with at least one row")
    return dataset


def _files(data: str, base: Path) -> list[Path]:
    for root in (base, Path()):
        path = root / Path(data).expanduser()
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if format_suffix(file) == ".jsonl")
            if not files:
                raise DataError(f"task.data: the folder {path} has no .jsonl file; give {_ALLOWED}")
            return files
        if path.is_file():
            return [path]
        matches = sorted(glob.glob(str(path)))  # noqa: PTH207 - Path.glob does not take absolute patterns
        if matches:
            return [Path(match) for match in matches]
    if Path(data) == STANDARD_INPUT:
        raise DataError(f"task.data: {NO_STANDARD_INPUT}")
    raise DataError(f"task.data: there is no file or folder {base / data}; give {_ALLOWED}")
