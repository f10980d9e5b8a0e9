"""The rows of a data file with their line numbers: JSON Lines, TSV (without quoting, as in GLUE), CSV."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lmassay.errors import DataError, did_you_mean
from lmassay.storage.csv_records import next_record
from lmassay.storage.files import format_suffix, open_decoded, open_text

ENDINGS = (".jsonl", ".tsv", ".csv")
_MAX_CELL_LENGTH = 1 << 30
_MISSING = object()


@dataclass(frozen=True, slots=True)
class DataRow:
    """The named fields of one row; ``line`` counts from 1."""

    fields: Mapping[str, Any]
    path: Path
    line: int
    row_number: int = 0
    """The number of the row in its file, from 0; empty lines and the header of a table do not count."""

    @property
    def where(self) -> str:
        """File and line, for error messages."""
        return f"{self.path}, line {self.line}"

    def has(self, name: str) -> bool:
        """Whether a field is there and not empty."""
        return self.fields.get(name, _MISSING) not in (_MISSING, None, "")

    def get(self, name: str) -> Any:
        """The value of a field; a DataError if it is missing."""
        value = self.fields.get(name, _MISSING)
        if value is _MISSING:
            raise DataError(f"{self.where}: the field '{name}' is missing{did_you_mean(name, map(str, self.fields))}")
        return value

    def text(self, name: str) -> str:
        """The text of a field; a DataError if it is empty or something else."""
        value = self.get(name)
        if not isinstance(value, str):
            raise DataError(f"{self.where}: '{name}' is {value!r}; it must be text")
        if not value.strip():
            raise DataError(f"{self.where}: '{name}' is empty")
        return value

    def number(self, name: str) -> int:
        """The whole number in a field; a DataError if it is something else. Numbers in tables are read from text."""
        value = self.get(name)
        with suppress(ValueError):
            if not isinstance(value, bool | float):
                return int(str(value))
        raise DataError(f"{self.where}: '{name}' is {value!r}; it must be a whole number")

    def inner(self, name: str) -> DataRow:
        """The value of a field that is a JSON object, as a row."""
        return self._row(self.get(name), name)

    def inners(self, name: str) -> list[DataRow]:
        """The value of a field that is a list of JSON objects, each as a row."""
        values = self.get(name)
        if not isinstance(values, list):
            raise DataError(f"{self.where}: '{name}' must be a list of objects, not {type(values).__name__}")
        return [self._row(value, name) for value in values]

    def _row(self, value: Any, name: str) -> DataRow:
        if not isinstance(value, dict):
            raise DataError(f"{self.where}: '{name}' must be an object with fields, not {type(value).__name__}")
        return DataRow(value, self.path, self.line)


def read_rows(path: str | Path, columns: Sequence[str] | None = None) -> Iterator[DataRow]:
    """The rows of a file; its ending decides the format. ``columns`` names those of a table without a header."""
    path = Path(path)
    # This reports a file that is missing, empty or not UTF-8.
    open_text(path, "data")
    if format_suffix(path) not in ENDINGS:
        raise DataError(f"{path}: a data file must end in {', '.join(ENDINGS)}")
    if format_suffix(path) == ".jsonl":
        rows = _json_lines(path)
    else:
        rows = _table(path, columns)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} has no examples; it must have at least one")
    for number, row in enumerate(itertools.chain([first], rows)):
        yield replace(row, row_number=number)


def _json_lines(path: Path) -> Iterator[DataRow]:
    with open_decoded(path, encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: this is not JSON ({error})") from None
            if not isinstance(fields, dict):
                raise DataError(f"{path}, line {number}: the line must be an object with named fields")
            yield DataRow(fields, path, number)


def _table(path: Path, columns: Sequence[str] | None) -> Iterator[DataRow]:
    with open_decoded(path, encoding="utf-8-sig", newline="") as stream:
        if format_suffix(path) == ".tsv":
            # GLUE's files have lone quotation marks inside cells.
            reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            reader = csv.reader(stream, strict=True)
        header: list[str] | None = None
        if columns is not None:
            header = list(columns)
        # A quoted cell may have line breaks, so rows cannot be counted: a row starts on the line after the end of the
        # row before it.
        line = 1
        try:
            while (cells := next_record(reader, _MAX_CELL_LENGTH)) is not None:
                if not cells:
                    # An empty line; there may be one before the header, too.
                    pass
                elif header is None:
                    header = [name.strip() for name in cells]
                    _refuse_repeated_columns(header, path, line)
                else:
                    if len(cells) != len(header):
                        raise DataError(f"{path}, line {line}: {len(cells)} cells, but there are {len(header)} columns")
                    fields = dict(zip(header, cells, strict=True))
                    yield DataRow(fields, path, line)
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: {error}") from None


def _refuse_repeated_columns(header: Sequence[str], path: Path, line: int) -> None:
    """Raise a DataError for a column name that appears twice: only the last of these columns could be read."""
    for name in header:
        if name and header.count(name) > 1:
            raise DataError(f"{path}, line {line}: the column '{name}' appears twice; rename one of them")
