"""Rows of tables: headers and long cells. Errors name the file and the line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.rows import read_rows

SEPARATORS = {"a.csv": ",", "a.tsv": "\t"}


def table(folder: Path, name: str, *lines: tuple[str, ...]) -> Path:
    path = folder / name
    path.write_text("".join(SEPARATORS[name].join(cells) + "\n" for cells in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SEPARATORS)
def test_empty_lines_before_the_header_are_skipped(tmp_path, name):
    path = table(tmp_path, name, (), ("text", "label"), (), ("fine", "1"))
    (row,) = read_rows(path)
    assert row.fields == {"text": "fine", "label": "1"}
    assert (row.line, row.row_number) == (4, 0)


@pytest.mark.parametrize("name", SEPARATORS)
def test_a_cell_can_be_longer_than_the_csv_module_allows_by_default(tmp_path, name):
    limit = csv.field_size_limit()
    text = "x" * (limit + 1)
    (row,) = read_rows(table(tmp_path, name, ("text", "label"), (text, "1")))
    assert row.text("text") == text
    assert csv.field_size_limit() == limit


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = table(tmp_path, "a.csv", ("text", "label", "text"), ("one", "1", "two"))
    with pytest.raises(DataError, match=r"a\.csv, line 1: the column 'text' appears twice"):
        list(read_rows(path))
