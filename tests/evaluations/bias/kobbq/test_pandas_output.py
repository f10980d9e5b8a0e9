"""Files and printed numbers come out as pandas writes them."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import (
    as_pandas_rewrites,
    count_series,
    float_series,
    quoted_cell,
    rewritten,
)
from lmassay.evaluations.bias.kobbq.tsv import read_table


def write(folder, data, name="table.tsv"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def table(folder, data, required=("id",), **options):
    return read_table(write(folder, data), "test", required, **options)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (["1", "2"], ["1", "2"]),
        (["1", "", "2"], ["1.0", "", "2.0"]),
        (["1.0", "2"], ["1.0", "2.0"]),
        (["007", "+1"], ["7", "1"]),
        (["1e3", ".5", "2."], ["1000.0", "0.5", "2.0"]),
        (["1", "２"], ["1", "２"]),
        (["1", "1_000"], ["1", "1_000"]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["TRUE", "false"], ["True", "False"]),
        (["True", "", "x"], ["True", "", "x"]),
        (["", ""], ["", ""]),
        (["a", "1"], ["a", "1"]),
    ],
)
def test_columns_are_typed_as_pandas_types_them(read, written):
    assert list(as_pandas_rewrites(read)) == written


def test_cells_are_quoted_only_where_they_must_be():
    assert [quoted_cell(cell) for cell in ("a b", "'a'", "a\tb", 'a"b', "a\nb", "a\rb", "")] == [
        *("a b", "'a'", '"a\tb"', '"a""b"', '"a\nb"', '"a\rb"', "")
    ]


@pytest.mark.parametrize("extra", ["", "\n", "5\tNA\t\t6\n", '5\t"x\n"\t\t6\n'])
def test_a_column_is_replaced_in_its_place(tmp_path, extra):
    parsed_table = table(tmp_path, "id\tb\tprediction\tc\n1\t2\told\t4\n" + extra)
    column = ["new"] * parsed_table.count
    text = "".join(rewritten(parsed_table, "prediction", column))
    again = table(tmp_path, text)
    assert again.header == parsed_table.header
    assert again.column("prediction") == column
    for name in ("id", "b", "c"):
        assert again.column(name) == list(as_pandas_rewrites(parsed_table.column(name)))


def test_a_new_column_stands_behind_the_others(tmp_path):
    parsed_table = table(tmp_path, "id\traw\n1\t01\n2\t\n")
    assert "".join(rewritten(parsed_table, "new", ["x", 'say "y"'], as_is="raw")) == (
        'id\traw\tnew\n1\t01\tx\n2\t\t"say ""y"""\n'
    )


def test_undecodable_bytes_in_a_column_that_is_taken_over_are_named(tmp_path):
    parsed_table = table(tmp_path, b"id\tb\tprediction\n1\t2\tx\n3\t\xff\ty\n")
    with pytest.raises(DataError, match="line 3: byte 0xff in column b"):
        list(rewritten(parsed_table, "prediction", ["p", "q"]))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"a": 0.5, "bc": float("nan")}, "a     0.5\nbc    NaN"),
        ({"a": float("nan"), "b": float("nan")}, "a   NaN\nb   NaN"),
        ({"a": -0.5, "b": 0.25}, "a   -0.50\nb    0.25"),
        ({"a": 0.0, "b": 1.0}, "a    0.0\nb    1.0"),
        ({"a": 1 / 3, "b": 1.0}, "a    0.333333\nb    1.000000"),
        ({"a": 1e-7, "b": -0.5}, "a    1.000000e-07\nb   -5.000000e-01"),
        ({"a": 1e-7, "b": float("nan")}, "a    1.000000e-07\nb             NaN"),
        ({"a": 0.0000011, "b": 0.0}, "a    0.000001\nb    0.000000"),
        ({"a": -0.0, "b": 0.1}, "a   -0.0\nb    0.1"),
    ],
)
def test_numbers_are_shown_as_pandas_shows_them(values, shown):
    assert float_series(values) == f"{shown}\ndtype: float64"


def test_counts_are_shown_as_pandas_shows_them():
    assert count_series({"sample_id": 0, "bbq_id": 2856}) == "sample_id       0\nbbq_id       2856\ndtype: int64"
