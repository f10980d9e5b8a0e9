"""Records of CSV files with long fields."""

import csv

import pytest

from lmassay.storage.csv_records import next_record


def test_a_long_field_is_read_and_the_limit_of_the_process_stays():
    before = csv.field_size_limit()
    text = "x" * (before + 1)
    reader = csv.reader([f"a,{text}\n"])
    assert next_record(reader, len(text)) == ["a", text]
    assert next_record(reader, len(text)) is None
    assert csv.field_size_limit() == before


def test_a_field_beyond_the_limit_is_an_error_and_the_limit_of_the_process_stays():
    before = csv.field_size_limit()
    with pytest.raises(csv.Error, match="field larger than field limit"):
        next_record(csv.reader(["abcdef\n"]), 3)
    assert csv.field_size_limit() == before
