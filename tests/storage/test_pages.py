"""Records are read from the pages of a SQLite file without SQLite; whole stores are read in tests/faults."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from lmassay.storage.pages import DEFAULT_PAGE_SIZE, Record, read_records

# The start of a record in the file: the types of its two values, and the first value.
TEXT_AND_TWO_BYTES = b"\x13\x02row"
TEXT_AND_EIGHT_BYTES = b"\x13\x06row"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA page_size = {DEFAULT_PAGE_SIZE}")
        database.execute("CREATE TABLE t (text TEXT, number INTEGER)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [("row", 1000), ("other", -5)])
    return path


def records_of_table(file):
    # The table that contains the schema has records of five values.
    return {record for record in read_records(file) if len(record.values) == 2}


def test_records_have_their_row_number_and_values(file):
    assert records_of_table(file) == {Record(1, ("row", 1000)), Record(2, ("other", -5))}


def test_a_record_that_ends_inside_a_number_is_left_out(file):
    content = file.read_bytes()
    assert content.count(TEXT_AND_TWO_BYTES) == 1
    file.write_bytes(content.replace(TEXT_AND_TWO_BYTES, TEXT_AND_EIGHT_BYTES))
    assert records_of_table(file) == {Record(2, ("other", -5))}


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "empty").touch()
    assert list(read_records(tmp_path / "empty")) == []
