"""Tab-separated files: read as csv and pandas read them, refused with file and line where they are broken."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import lines
from lmassay.evaluations.bias.kobbq.tsv import MISSING, RegularBody, ScannedBody, first_few, read_table

CELL = st.text(st.sampled_from(list("ab가\t\n\r\"' \b\x01\x02\x05")), max_size=6) | st.sampled_from(sorted(MISSING))


def write(folder, data, name="table.tsv"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def table(folder, data, required=("id",), **options):
    return read_table(write(folder, data), "test", required, **options)


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_cells_survive(module_folder, rows, end, all_quoted):
    stream = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(stream, delimiter="\t", lineterminator=end, quoting=quoting)
    writer.writerow(["id", "b", "c"])
    if not all_quoted:
        # Before Python 3.13 a lone carriage return was left unquoted, and ended the row when read.
        rows = [tuple(cell.replace("\r", "") for cell in row) for row in rows]
    writer.writerows(rows)
    parsed_table = table(module_folder, stream.getvalue().encode())
    read = list(zip(*(parsed_table.column(name) for name in parsed_table.header), strict=True))
    assert read == [tuple("" if cell in MISSING else cell for cell in row) for row in rows]
    assert parsed_table.missing() == [sum(cell in MISSING for cell in column) for column in zip(*rows, strict=True)]


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8))
def test_what_is_written_is_read(module_folder, rows):
    text = "".join(lines(("id", "b"), list(zip(*rows, strict=True))))
    parsed_table = table(module_folder, text)
    kept = [tuple("" if cell in MISSING else cell for cell in row) for row in rows]
    assert list(zip(parsed_table.column("id"), parsed_table.column("b"), strict=True)) == kept


def test_both_ways_of_reading_agree(tmp_path):
    data = 'id\tb\r\n1\t"two\r\nlines"\r\n2\tx"y\r\n3\t"say ""a\t"""z\r\n4\t\r\n5\tNA\r\n6\t""\r\n'
    quick = table(tmp_path, data)
    slow = table(tmp_path, data + "\r\n")  # an empty line is read row by row
    assert isinstance(quick.body, RegularBody)
    assert isinstance(slow.body, ScannedBody)
    for parsed in (quick, slow):
        assert parsed.column("b") == ["two\r\nlines", 'x"y', 'say "a\t"z', "", "", ""]
        assert [parsed.line(row) for row in range(6)] == [2, 4, 5, 6, 7, 8]
        assert parsed.missing() == [0, 3]
        assert parsed.missing_word_count("b") == 1


def test_control_characters_in_cells_are_kept(tmp_path):
    parsed_table = table(tmp_path, 'id\tb\n\x01\x02\t"a\nb\x05"\n\x05\tc\n')
    assert parsed_table.column("id") == ["\x01\x02", "\x05"]
    assert parsed_table.column("b") == ["a\nb\x05", "c"]


def test_a_byte_order_mark_is_dropped(tmp_path):
    assert table(tmp_path, b"\xef\xbb\xbfid\tb\n1\t2\n").header == ("id", "b")


def test_a_lone_carriage_return_ends_a_row(tmp_path):
    assert table(tmp_path, "id\tb\r1\t2\r3\t4\r").column("b") == ["2", "4"]


@pytest.mark.parametrize(("data", "complete"), [("id\tb\n1\t2\n", True), ("id\tb\n1\t2", False)])
def test_a_last_line_without_its_end_is_noted(tmp_path, data, complete):
    assert table(tmp_path, data).complete is complete


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"id\tb\n", "has a header but no rows"),
        (b"name\tb\n1\t2\n", "line 1: the test file has no column 'id'"),
        (b"id,b\n1,2\n", "separated by tabs"),
        (b"id\tb\tid\n1\t2\t3\n", "line 1: column 'id' appears twice"),
        (b"id\tb\n1\t2\n3\n5\t6\n", "line 3: the row has 1 cells, the header 2; fix it"),
        (b"id\tb\n1\t2\n3\t4\t5\n", "line 3: the row has 3 cells, the header 2; correct it"),
        (b"id\tb\n1\t2\n3", "line 3: the row has 1 cells, the header 2: it was cut off; fix it"),
        (b'id\tb\n1\t2\n3\t"4\n5\t6\n', "line 3: a quoted cell begins in this row and has no end; fix it"),
        (b'id\tb\n1\t"2\n2"\n3\t"4', "line 4: a quoted cell begins in this row and has no end; fix it"),
        (b'id\t"b\n1\t2\n', "line 1: a quoted cell begins in this row and has no end; add the quote to the header"),
        (b"id\tb\n1\t2\n3\t\0\n", "line 3: a NUL byte"),
        (b"id\t\xff\n1\t2\n", "line 1: the header is not UTF-8"),
    ],
)
def test_broken_files_are_refused_with_the_line(tmp_path, data, message):
    with pytest.raises(DataError) as error:
        table(tmp_path, data, remedy="fix it")
    assert message in str(error.value)
    assert "table.tsv" in str(error.value)


@pytest.mark.parametrize("data", [b"id\tb\n1\t2\n3\t\xb0\xa1\n", b'id\tb\n"1"\t2\n3\t\xb0\xa1\n\n'])
def test_undecodable_bytes_are_named(tmp_path, data):
    parsed_table = table(tmp_path, data)
    assert parsed_table.column("id") == ["1", "3"]
    with pytest.raises(DataError, match=r"line 3: byte 0xb0 in column b is not UTF-8; .*iconv"):
        parsed_table.column("b")


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / "none.tsv", "test", ())
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path, "test", ())


def test_the_last_column_may_be_lacking(tmp_path):
    data = "id\tprediction\n1\tA\n2\n3\tB\n"
    assert table(tmp_path, data, may_lack="prediction").column("prediction") == ["A", "", "B"]
    with pytest.raises(DataError, match="line 3"):
        table(tmp_path, data)


def test_ids_are_unique_and_present(tmp_path):
    assert table(tmp_path, "id\tb\nx\t1\ny\t2\n").require_unique("id") == {"x": 0, "y": 1}
    with pytest.raises(DataError, match="id x appears twice, on lines 2 and 4"):
        table(tmp_path, "id\tb\nx\t1\ny\t2\nx\t3\n").require_unique("id")
    with pytest.raises(DataError, match="line 3: id is empty"):
        table(tmp_path, "id\tb\nx\t1\n\t2\n").require_unique("id")


def test_long_lists_are_shortened():
    assert first_few(["a", "b"]) == "a, b"
    assert first_few(list("abcde"), 2) == "a, b and 3 more"
