"""Find out what kind of data ``task.data`` names, and read it: KoBBQ's samples, BBQ's files, or described data."""

from __future__ import annotations

import glob
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import BiasDataset

_ALLOWED = (
    "a .tsv of KoBBQ's samples, BBQ's .jsonl (a file, a folder or a pattern), or a .yaml that describes your own data"
)


def read_dataset(data: str, base: Path) -> BiasDataset:
    """Read the questions that a path names, relative to ``base`` or, if nothing is there, to the working folder."""
    if not data.strip():
        raise DataError(f"task.data: the path is empty; give {_ALLOWED}")
    files = _files(data, base)
    endings = {file.suffix.lower() for file in files}
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
        raise DataError(f"task.data: {files[0]} is of a kind that cannot be read; give {_ALLOWED}")
    if not dataset.items:
        raise DataError(f"task.data: {data} has no questions; give a file with at least one row")
    return dataset


def _files(data: str, base: Path) -> list[Path]:
    for root in (base, Path()):
        path = root / Path(data).expanduser()
        if path.is_dir():
            files = sorted(path.glob("*.jsonl"))
            if not files:
                raise DataError(f"task.data: the folder {path} has no .jsonl file; give {_ALLOWED}")
            return files
        if path.is_file():
            return [path]
        matches = sorted(glob.glob(str(path)))  # noqa: PTH207 - Path.glob does not take absolute patterns
        if matches:
            return [Path(match) for match in matches]
    raise DataError(f"task.data: there is no file or folder {base / data}; give {_ALLOWED}")
