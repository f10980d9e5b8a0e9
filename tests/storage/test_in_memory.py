"""Texts, rows and data frames in memory become files with the same contents."""

from __future__ import annotations

import json

import pytest

import lmassay
from lmassay.errors import DataError
from lmassay.storage.in_memory import rows_of


def test_texts_are_written_one_per_line_under_their_digest(tmp_path):
    path = lmassay.rows(["eins", "", "zwei "]).write(tmp_path)
    assert path.read_text(encoding="utf-8") == "eins\n\nzwei \n"
    assert path.parent.name == lmassay.rows(["eins", "", "zwei "]).digest[:12]
    assert path.parent.parent == tmp_path / "inputs"


def test_rows_are_written_as_json_lines(tmp_path):
    rows = [{"text": "a\nb", "label": 1}, {"text": "한국어", "label": None}]
    path = lmassay.rows(rows, name="my data").write(tmp_path)
    assert path.name == "my-data.jsonl"
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == rows


def test_a_file_that_was_changed_is_written_again(tmp_path):
    path = lmassay.rows(["a"]).write(tmp_path)
    path.write_text("b\n", encoding="utf-8")
    assert lmassay.rows(["a"]).write(tmp_path).read_text(encoding="utf-8") == "a\n"


def test_a_damaged_file_that_is_not_utf8_is_written_again(tmp_path):
    path = lmassay.rows(["a"]).write(tmp_path)
    path.write_bytes(b"\xff\n")
    assert lmassay.rows(["a"]).write(tmp_path).read_text(encoding="utf-8") == "a\n"


def test_the_repr_is_short():
    assert repr(lmassay.rows(["a"])) == "<1 text in memory>"
    assert repr(lmassay.rows([{"a": 1, "b": 2}] * 1200)) == "<1,200 rows in memory: a, b>"


def test_a_pandas_table_leaves_out_missing_cells_and_keeps_integers():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["a", None, "c"], "label": [1, float("nan"), 0], "x": [0.5, 1.0, 2.0]})
    assert list(lmassay.rows(table).rows) == [
        {"text": "a", "label": 1, "x": 0.5},
        {"x": 1.0},
        {"text": "c", "label": 0, "x": 2.0},
    ]
    assert json.dumps(lmassay.rows(table).rows[0]["label"]) == "1"


def test_a_polars_table_and_its_columns_are_data():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"text": ["a", None], "label": [1, 2]})
    assert list(lmassay.rows(table).rows) == [{"text": "a", "label": 1}, {"label": 2}]
    assert lmassay.rows(table["text"].drop_nulls()).texts == ("a",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "rows: the data are empty"),
        ("a text", "not a value of type str"),
        (7, "not a value of type int"),
        ([{"a": object()}], r"rows\[0\], column 'a': it is a value of type object"),
        ([{"a": float("inf")}], "give a finite number"),
        ([{1: "a"}], "the column 1 is not a text"),
        ([{"a": 1}, "b"], r"rows\[1\]: it is a value of type str"),
        (["a", {"b": 1}], r"rows\[1\]: it is a value of type dict"),
        ([{"a": "\udc80"}], "surrogate"),
    ],
)
def test_data_that_cannot_be_stored_are_reported(data, message):
    with pytest.raises(DataError, match=message):
        lmassay.rows(data)


def test_a_table_with_two_columns_of_one_name_is_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="two columns of the data frame have the same name"):
        lmassay.rows(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_tuples_are_rows_if_the_columns_are_known():
    assert rows_of([("a", "b")], "data", columns=("right", "wrong")).rows == ({"right": "a", "wrong": "b"},)
    with pytest.raises(DataError, match="it has 1 values; give 2: right, wrong"):
        rows_of([("a",)], "data", columns=("right", "wrong"))
