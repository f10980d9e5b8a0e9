"""Rows of data files, each with the place it stands in: JSON Lines, JSON, TSV and CSV, read strictly."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, did_you_mean
from lmassay.storage.files import open_text

FILE_ENDINGS = (".jsonl", ".json", ".tsv", ".csv")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class DataRow:
    """A row and where it stands."""

    fields: Mapping[str, Any]
    where: str

    def has(self, path: str) -> bool:
        return self._find(path) is not _MISSING

    def get(self, path: str) -> Any:
        """A field; dots lead into objects, ``answer_info.ans0``, unless a field has the whole name."""
        value = self._find(path)
        if value is _MISSING:
            outer, _, name = path.rpartition(".")
            around = self._find(outer) if outer else self.fields
            hint = did_you_mean(name, map(str, around)) if isinstance(around, Mapping) else ""
            raise DataError(f"{self.where}: the field '{path}' is missing{hint}")
        return value

    def _find(self, path: str) -> Any:
        if path in self.fields:
            return self.fields[path]
        value: Any = self.fields
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return _MISSING
            value = value[name]
        return value

    def text(self, path: str) -> str:
        """A field that must be text; a number counts as its digits."""
        value = self.get(path)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{self.where}: '{path}' is {value!r}; it must be text")
        return str(value)


def read_rows(path: Path, role: str = "data") -> Iterator[DataRow]:
    """The rows of a file, by its ending."""
    open_text(path, role)  # it is there and is UTF-8
    if path.suffix == ".jsonl":
        yield from _json_lines(path)
    elif path.suffix == ".json":
        yield from _json(path)
    elif path.suffix in (".tsv", ".csv"):
        yield from _table(path, "\t" if path.suffix == ".tsv" else ",")
    else:
        raise DataError(f"{path}: a {role} file must end in {', '.join(FILE_ENDINGS)}")


def _json_lines(path: Path) -> Iterator[DataRow]:
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _record(_loads(line, f"{path}, line {number}"), f"{path}, line {number}")


def _json(path: Path) -> Iterator[DataRow]:
    rows = _loads(path.read_text(encoding="utf-8-sig"), str(path))
    if isinstance(rows, dict) and isinstance(rows.get("data"), list):
        rows = rows["data"]
    if not isinstance(rows, list):
        raise DataError(f"{path}: it must hold a list of objects, or an object with the list under 'data'")
    for number, row in enumerate(rows, 1):
        yield _record(row, f"{path}, entry {number}")


def _table(path: Path, delimiter: str) -> Iterator[DataRow]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            twice = next((name for name in header if header.count(name) > 1), None)
            if twice is not None:
                raise DataError(f"{path}, line 1: the column '{twice}' is there twice; rename one of them")
            line = rows.line_num + 1
            for row in rows:
                if row:
                    yield _record(_cells(path, line, header, row), f"{path}, line {line}")
                line = rows.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}, line {rows.line_num}: {error}") from None


def _cells(path: Path, line: int, header: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    if len(row) != len(header):
        raise DataError(f"{path}, line {line}: {len(row)} cells, but the header has {len(header)}")
    return dict(zip(header, row, strict=True))


def _loads(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is no JSON ({error})") from None


def _record(row: Any, where: str) -> DataRow:
    if not isinstance(row, dict):
        raise DataError(f"{where}: it must be an object with named fields, not {type(row).__name__}")
    return DataRow(row, where)
