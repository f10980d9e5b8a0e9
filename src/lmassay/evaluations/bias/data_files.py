"""Read the rows of JSON Lines, JSON, TSV and CSV files, each with its location; anything unclear is an error."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, did_you_mean
from lmassay.storage.files import format_suffix, open_decoded, open_text

FILE_ENDINGS = (".jsonl", ".json", ".tsv", ".csv")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class BiasDataRow:
    """A row of a data file; ``where`` is its location for error messages, e.g. "data.jsonl, line 3"."""

    fields: Mapping[str, Any]
    where: str

    def has(self, path: str) -> bool:
        """Return True if the row has this field; see :meth:`get` for the path."""
        return self._lookup(path) is not _MISSING

    def get(self, path: str) -> Any:
        """Return a field, or raise a DataError.

        Dots in the path separate the names of nested objects, e.g. ``answer_info.ans0``, unless the row has a field
        whose name is the whole path.
        """
        value = self._lookup(path)
        if value is _MISSING:
            parent_path, _, name = path.rpartition(".")
            parent = self._lookup(parent_path) if parent_path else self.fields
            hint = did_you_mean(name, map(str, parent)) if isinstance(parent, Mapping) else ""
            raise DataError(f"{self.where}: the field '{path}' is missing{hint}")
        return value

    def text(self, path: str) -> str:
        """Return a field as text, or raise a DataError; a number is converted to text."""
        value = self.get(path)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{self.where}: '{path}' is {value!r}; it must be text")
        return str(value)

    def _lookup(self, path: str) -> Any:
        if path in self.fields:
            return self.fields[path]
        value: Any = self.fields
        for name in path.split("."):
            if not isinstance(value, Mapping) or name not in value:
                return _MISSING
            value = value[name]
        return value


def read_rows(path: Path, role: str = "data") -> Iterator[BiasDataRow]:
    """Yield the rows of a file; its ending determines the format. ``role`` names the file in error messages."""
    # Called only for its checks: if the file is missing, empty or not UTF-8, it raises an error with a clear message.
    open_text(path, role)
    suffix = format_suffix(path)
    if suffix == ".jsonl":
        yield from _read_json_lines(path)
    elif suffix == ".json":
        yield from _read_json(path)
    elif suffix == ".tsv":
        yield from _read_table(path, "\t")
    elif suffix == ".csv":
        yield from _read_table(path, ",")
    else:
        raise DataError(f"{path}: a {role} file must end in {', '.join(FILE_ENDINGS)}")


def _read_json_lines(path: Path) -> Iterator[BiasDataRow]:
    with open_decoded(path, encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                where = f"{path}, line {number}"
                yield _data_row(_parse_json(line, where), where)


def _read_json(path: Path) -> Iterator[BiasDataRow]:
    with open_decoded(path, encoding="utf-8-sig") as stream:
        rows = _parse_json(stream.read(), str(path))
    if isinstance(rows, dict) and isinstance(rows.get("data"), list):
        rows = rows["data"]
    if not isinstance(rows, list):
        raise DataError(f"{path}: it must be a list of objects, or an object with such a list under 'data'")
    for number, row in enumerate(rows, 1):
        yield _data_row(row, f"{path}, entry {number}")


def _read_table(path: Path, delimiter: str) -> Iterator[BiasDataRow]:
    with open_decoded(path, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            if len(header) == 1 and ";" in header[0]:
                raise DataError(
                    f"{path}, line 1: the columns are separated by semicolons; separate them by "
                    f"{'commas' if delimiter == ',' else 'tabs'}"
                )
            repeated = [name for name in header if header.count(name) > 1]
            if repeated:
                raise DataError(f"{path}, line 1: the column '{repeated[0]}' appears twice; rename one of them")
            # A quoted cell may contain line ends; error messages name the line on which the row begins.
            line = rows.line_num + 1
            for row in rows:
                if row:
                    cells = _cells_by_column(path, line, header, row)
                    yield _data_row(cells, f"{path}, line {line}")
                line = rows.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}, line {rows.line_num}: {error}") from None


def _cells_by_column(path: Path, line: int, header: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    if len(row) != len(header):
        raise DataError(f"{path}, line {line}: {len(row)} cells, but the header has {len(header)}")
    return dict(zip(header, row, strict=True))


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not JSON ({error})") from None


def _data_row(row: Any, where: str) -> BiasDataRow:
    if not isinstance(row, dict):
        raise DataError(f"{where}: it must be an object with named fields, not {type(row).__name__}")
    return BiasDataRow(row, where)
