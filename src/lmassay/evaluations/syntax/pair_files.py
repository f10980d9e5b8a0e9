"""Files of minimal pairs in any common format: JSON lines, CSV, TSV, or rows that alternate as in CLAMS.

A ``PairFormat`` says which columns contain the two sentences and what the pairs are grouped by. Whatever the format,
the resulting rows have the field names of BLiMP, which the tasks read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lmassay.errors import DataError, did_you_mean
from lmassay.evaluations.syntax.pairs import Blank, MinimalPair, pair_of
from lmassay.storage.csv_records import next_record
from lmassay.storage.files import TextFile, format_suffix, open_decoded

Format = Literal["auto", "jsonl", "csv", "tsv", "alternating"]
_BY_SUFFIX: Mapping[str, Format] = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
SUFFIXES = tuple(_BY_SUFFIX)
"""The endings of the files that are read from a folder, unless the format is given."""

_RIGHT, _WRONG = "sentence_good", "sentence_bad"
# Our name of a group → BLiMP's name of the field.
_GROUP_FIELDS = {"field": "field", "phenomenon": "linguistics_term", "paradigm": "UID"}
# The labels of agreement data (refining-tse) as cells of a table; see ``NUMBER_OF_LABEL``.
_LABEL_OF_CELL = {"-1": -1, "-2": -2}
_MARKS = {"true": True, "false": False}
# Sentences are short; a longer field means that a quotation mark was never closed.
_MAX_FIELD_LENGTH = 1 << 20


class PairFormat(BaseModel):
    """How files of minimal pairs are read.

    ``right`` and ``wrong`` are the columns of the grammatical and the ungrammatical sentence. ``group`` is the column
    that says which paradigm a pair belongs to; ``groups`` names the columns of field, phenomenon and paradigm.
    ``blank: first`` is for data in which words after the verb may agree as well; the verb is the first to differ.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = "auto"
    right: str = _RIGHT
    wrong: str = _WRONG
    group: str | None = None
    groups: Mapping[Literal["field", "phenomenon", "paradigm"], str] = {}
    blank: Blank = "only"

    def format_of(self, path: Path) -> Format:
        """The format of a file: the given one, or the one that its ending indicates.

        The ending ``.txt`` stands for alternating rows, an unknown ending for JSON lines.
        """
        if self.format != "auto":
            return self.format
        suffix = format_suffix(path)
        if suffix == ".txt":
            return "alternating"
        return _BY_SUFFIX.get(suffix, "jsonl")

    def columns(self) -> dict[str, str]:
        """The field that tasks read → the column of the file."""
        columns = {_RIGHT: self.right, _WRONG: self.wrong}
        if self.group is not None:
            columns[_GROUP_FIELDS["paradigm"]] = self.group
        for name, column in self.groups.items():
            columns[_GROUP_FIELDS[name]] = column
        return columns


# What `lmassay tasks` says about the option "columns" of a task that reads pairs.
COLUMNS_HELP = {
    "columns": "the columns of your file, such as {right: good, wrong: bad}; by default those of BLiMP",
    "columns.format": "the format of the file; auto: the one that the ending of its name indicates",
    "columns.right": "the column with the grammatical sentence",
    "columns.wrong": "the column with the ungrammatical sentence",
    "columns.group": "a column by which results are grouped",
    "columns.groups": "the columns of field, phenomenon and paradigm, by which results are grouped: {field: topic}",
    "columns.blank": "where the blank is: only (at the only word that differs) or first (at the first of several)",
}
BLIMP_FORMAT = PairFormat()
"""JSON lines with BLiMP's own names."""


def read_pair_file(file: TextFile, pair_format: PairFormat, limit: int | None = None) -> Iterator[MinimalPair]:
    """The pairs of a file, at most ``limit`` of them; an error if there are none."""
    count = 0
    path = str(file.path)
    for line, row in _rows(file, pair_format):
        if limit is not None and count >= limit:
            return
        count += 1
        yield pair_of(row, path, line, pair_format.blank)
    if count == 0:
        needed = f"every pair needs the columns {pair_format.right}, {pair_format.wrong}"
        if pair_format.format_of(file.path) == "alternating":
            needed = "every pair needs a row that begins with True and a tab, and one that begins with False and a tab"
        raise DataError(f"{file.path} has no pairs; {needed}")


def _rows(file: TextFile, pair_format: PairFormat) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line number, row with BLiMP's names of fields) for every pair."""
    kind = pair_format.format_of(file.path)
    if kind == "alternating":
        yield from _alternating_rows(file)
        return
    is_table = kind != "jsonl"
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    if is_table:
        rows = _table_rows(file, kind)
    else:
        rows = _json_rows(file)
    renamed_columns = {field: column for field, column in pair_format.columns().items() if field != column}
    if not is_table and not renamed_columns:
        # BLiMP's own format, which is read as it is.
        yield from rows
        return
    for line, row in rows:
        # Renamed columns are added after all others, because a column may have the name of another field: with
        # right: sentence_bad and wrong: sentence_good, each has that of the other.
        fields: dict[str, Any] = {name: value for name, value in row.items() if name not in renamed_columns.values()}
        for field, column in renamed_columns.items():
            if column not in row:
                # In a table it is the header that lacks the column.
                where = _header(file)[0] if is_table else line
                raise DataError(
                    f"{file.path}, line {where}: there is no column '{column}', which task.columns names"
                    f"{did_you_mean(column, row)}"
                )
            fields[field] = row[column]
        if is_table and "label" in fields:
            # In a table, all cells are texts. Labels other than those of agreement data are ignored.
            fields["label"] = _LABEL_OF_CELL.get(str(fields["label"]).strip())
        yield line, fields


def _json_rows(file: TextFile) -> Iterator[tuple[int, Mapping[str, Any]]]:
    decode = json.JSONDecoder().decode
    for number, text in enumerate(file.read(), 1):
        if not text.strip():
            continue
        try:
            row = decode(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file.path}, line {number}: this is not JSON ({error})") from None
        if isinstance(row, list):
            raise DataError(f"{file.path}, line {number}: this is a JSON array; write one JSON object per line")
        if not isinstance(row, dict):
            raise DataError(f"{file.path}, line {number}: a pair must be a JSON object with both sentences")
        yield number, row


def _table_rows(file: TextFile, kind: Format) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows of a CSV or TSV file with a header. A quoted field may contain line breaks; empty lines are skipped."""
    with open_decoded(file.path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=_delimiter(file, kind))
        try:
            header = next_record(reader, _MAX_FIELD_LENGTH)
            while header == []:
                header = next_record(reader, _MAX_FIELD_LENGTH)
            if header is None:
                return
            header_line = reader.line_num
            if len(set(header)) < len(header):
                raise DataError(f"{file.path}, line {header_line}: two columns have the same name; rename one")
            while True:
                first_line = reader.line_num + 1
                cells = next_record(reader, _MAX_FIELD_LENGTH)
                if cells is None:
                    return
                if not cells:
                    continue
                if len(cells) != len(header):
                    remedy = "fill in the missing ones"
                    if reader.line_num > first_line:
                        remedy = "close the quotation mark"
                    elif len(cells) > len(header):
                        remedy = "put cells that contain the separator into quotation marks"
                    raise DataError(
                        f"{file.path}, line {first_line}: the row has {len(cells)} cells, but the header has "
                        f"{len(header)}; {remedy}"
                    )
                yield reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise DataError(f"{file.path}, line {reader.line_num}: {error}") from None


def _delimiter(file: TextFile, kind: Format) -> str:
    """What separates the cells. In many countries, spreadsheets write CSV files with semicolons."""
    if kind == "tsv":
        return "\t"
    _, header = _header(file)
    return ";" if ";" in header and "," not in header else ","


def _header(file: TextFile) -> tuple[int, str]:
    """The line number and the text of the header: the first line that is not empty."""
    for number, text in enumerate(file.read(), 1):
        if text:
            return number, text
    return 1, ""


def _alternating_rows(file: TextFile) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """``True<TAB>sentence`` and ``False<TAB>sentence`` in turn, the grammatical sentence first."""
    right: str | None = None
    right_line = 0
    for number, text in enumerate(file.read(), 1):
        if not text.strip():
            continue
        mark, tab, sentence = text.partition("\t")
        is_right = _MARKS.get(mark.strip().lower())
        if is_right is None or not tab:
            raise DataError(
                f"{file.path}, line {number}: a row must be True or False, a tab and a sentence; for other columns, "
                "set task.columns.format to csv or tsv"
            )
        expected = right is None
        if is_right is not expected:
            raise DataError(
                f"{file.path}, line {number}: rows must alternate, True first; this one is {mark.strip()}, so "
                "add its partner or remove it"
            )
        if right is None:
            right = sentence.strip()
            right_line = number
        else:
            yield right_line, {_RIGHT: right, _WRONG: sentence.strip()}
            right = None
    if right is not None:
        raise DataError(
            f"{file.path}, line {right_line}: the last sentence has no ungrammatical partner; add it or remove the line"
        )
