"""Files of minimal pairs: JSON lines, CSV, TSV, and rows that alternate."""

from __future__ import annotations

import csv
import json

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, PairFormat, read_pair_file
from lmassay.evaluations.syntax.pairs import open_pairs
from lmassay.evaluations.syntax.sources import constructions
from tests.helpers import write_lines


def read(file, pair_format=BLIMP_FORMAT, limit=None):
    return list(read_pair_file(file, pair_format, limit))


def written(path, *rows):
    return open_pairs(write_lines(path / "p.jsonl", [r if isinstance(r, str) else json.dumps(r) for r in rows]))


def row(good="the author laughs", bad="the author laugh", label=-1, **more):
    return {"sentence_good": good, "sentence_bad": bad, "label": label, **more}


def test_a_pair_keeps_its_place_its_number_and_its_other_fields(tmp_path):
    (pair,) = read(written(tmp_path, row(UID="x")))
    assert (pair.number, pair.line, pair.fields) == ("singular", 1, {"UID": "x"})
    (pair,) = read(written(tmp_path, row(label=-2)))
    assert pair.number == "plural"


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_are_read_over(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\r\n\r\n" + json.dumps(row(label=-2)).encode())
    assert [p.line for p in read(open_pairs(file))] == [1, 3]


@pytest.mark.fault(5)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"line 2: this is not JSON"),
        ("[1]", "this is a JSON array; write one JSON object per line"),
        ("1", "must be a JSON object"),
        ({"sentence_good": "x"}, r"the text 'sentence_bad' is missing; .* write task\.columns: \{right: …, wrong: …\}"),
        ({"sentence_good": 3, "sentence_bad": "x"}, "'sentence_good' must be a text; got 3"),
        (row(label=1), "label is 1; it must be -1"),
        (row(label="-1"), "label is '-1'"),
        (row(label=True), "label is True"),
        (row(label=[]), r"label is \[\]"),
        (row(label=-1.0), "label is -1.0"),
        ("[" * 100_000, "this is not JSON"),
        ('{"sentence_good": "a \\ud800", "sentence_bad": "b"}', "is half of a surrogate pair"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line(tmp_path, line, words):
    with pytest.raises(DataError, match=words):
        list(read(written(tmp_path, row(), line)))


def test_a_file_without_pairs_is_an_error(tmp_path):
    with pytest.raises(DataError, match="is empty"):
        open_pairs(write_lines(tmp_path / "p.jsonl", []))
    with pytest.raises(DataError, match="has no pairs"):
        list(read(open_pairs(write_lines(tmp_path / "q.jsonl", ["", ""]))))
    with pytest.raises(DataError, match="has no pairs; every pair needs a row that begins with True"):
        list(read(open_pairs(write_lines(tmp_path / "q.txt", ["", ""]))))


COLUMNS = PairFormat(right="good", wrong="bad", group="kind")
TABLE = ["kind,bad,good", 'agreement,"Dogs, barks.","Dogs, bark."', "agreement,Cats sleeps.,Cats sleep."]


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_table_is_read_by_its_columns(tmp_path, suffix, separator):
    lines = [line.replace(",", separator) for line in ("kind,bad,good", "agreement,Cats sleeps.,Cats sleep.")]
    (pair,) = read(open_pairs(write_lines(tmp_path / f"p.{suffix}", lines)), COLUMNS)
    assert (pair.good, pair.bad, pair.line) == ("Cats sleep.", "Cats sleeps.", 2)
    assert pair.fields == {"UID": "agreement"}


def test_quoted_cells_may_hold_separators_and_line_breaks(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text('good,bad,kind\n"Dogs,\nbark.","Dogs, barks.",x\nA b.,A c.,x\n', encoding="utf-8")
    first, second = read(open_pairs(path), COLUMNS)
    assert first.good == "Dogs,\nbark."
    assert second.line == 4


def test_reading_a_table_leaves_the_limit_of_the_csv_module_as_it_was(tmp_path):
    limit = csv.field_size_limit()
    long_sentence = "a " * limit
    lines = ["good,bad,kind", f"{long_sentence},b,c"]
    (pair,) = read(open_pairs(write_lines(tmp_path / "p.csv", lines)), COLUMNS)
    assert len(pair.good) > limit
    assert csv.field_size_limit() == limit


def test_columns_of_json_lines_can_be_named_too(tmp_path):
    file = open_pairs(write_lines(tmp_path / "p.jsonl", [json.dumps({"good": "a b", "bad": "a c", "kind": "k"})]))
    assert read(file, COLUMNS)[0].good == "a b"


def test_the_number_of_pairs_can_be_limited(tmp_path):
    file = open_pairs(write_lines(tmp_path / "p.csv", TABLE))
    assert len(read(file, COLUMNS)) == 2
    assert len(read(file, COLUMNS, limit=1)) == 1


def test_a_column_of_labels_is_a_number_only_if_it_is_one_of_agreement_data(tmp_path):
    lines = ["sentence_good,sentence_bad,label", "a b,a c,-2", "d e,d f,easy"]
    assert [pair.number for pair in read(open_pairs(write_lines(tmp_path / "p.csv", lines)))] == ["plural", None]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["good,bad", "a,b"], "line 1: there is no column 'kind'"),
        (["goood,bad,kind", "a,b,c"], "no column 'good', which task.columns names; did you mean 'goood'"),
        (["good,bad,kind", "a,b"], "line 2: the row has 2 cells, but the header has 3; fill in"),
        (["good,good,kind", "a,b,c"], "two columns have the same name"),
        (["good,bad,kind"], "has no pairs"),
        (["good,bad,kind", '"a,b,c'], "line 2"),
    ],
)
def test_a_bad_table_is_named_with_file_and_line(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read(open_pairs(write_lines(tmp_path / "p.csv", lines)), COLUMNS)


def test_rows_alternate_as_in_clams(tmp_path):
    lines = ["True\tCats sleep .", "False\tCats sleeps .", "", "True\tA dog barks .", "False\tA dog bark ."]
    pairs = read(open_pairs(write_lines(tmp_path / "p.txt", lines)))
    assert [(pair.good, pair.bad, pair.line) for pair in pairs] == [
        ("Cats sleep .", "Cats sleeps .", 1),
        ("A dog barks .", "A dog bark .", 4),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["False\ta"], "line 1: rows must alternate, True first"),
        (["True\ta", "True\tb"], "line 2: rows must alternate"),
        (["True\ta"], "the last sentence has no ungrammatical partner"),
        (["yes\ta"], "a row must be True or False, a tab and a sentence"),
        (["True a"], "a row must be True or False"),
    ],
)
def test_rows_that_do_not_alternate_are_named(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read(open_pairs(write_lines(tmp_path / "p.txt", lines)))


GOOD_BAD = PairFormat(right="good", wrong="bad")


def test_a_csv_file_with_semicolons_is_read(tmp_path):
    file = open_pairs(write_lines(tmp_path / "p.csv", ["good;bad", "Cats, dogs sleep.;Cats, dogs sleeps."]))
    assert [pair.bad for pair in read(file, GOOD_BAD)] == ["Cats, dogs sleeps."]


@pytest.mark.parametrize("separator", [",", ";"])
def test_empty_lines_before_the_header_of_a_table_are_read_over(tmp_path, separator):
    lines = ["", "", f"good{separator}bad", f"Cats sleep.{separator}Cats sleeps."]
    file = open_pairs(write_lines(tmp_path / "p.csv", lines))
    (pair,) = read(file, GOOD_BAD)
    assert (pair.good, pair.bad, pair.line) == ("Cats sleep.", "Cats sleeps.", 4)
    with pytest.raises(DataError, match="line 3: there is no column 'kind'"):
        read(file, COLUMNS)


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("p.csv", ["good,bad", '"Cats sleep.,Cats sleeps.', "x,y"], "line 2: .* close the quotation mark"),
        ("p.csv", ["good,bad", "Cats, too,Cats"], "line 2: the row has 3 cells, .* into quotation marks"),
        ("p.txt", ["True\ta b", "False\ta c", "True\td"], "line 3: the last sentence .* add it or remove the line"),
        ("p.txt", ["Yes\ta b", "No\ta c"], r"line 1: a row must be True or False.*task\.columns\.format"),
        ("p.txt", ["False\ta c", "True\ta b"], "line 1: rows must alternate, True first"),
    ],
)
def test_a_mistake_is_reported_with_line_and_remedy(tmp_path, name, lines, message):
    with pytest.raises(DataError, match=message):
        read(open_pairs(write_lines(tmp_path / name, lines)), GOOD_BAD)


def test_a_folder_of_alternating_files_is_read_if_the_format_is_given(tmp_path):
    write_lines(tmp_path / "one.txt", ["True\ta b", "False\ta c"])
    write_lines(tmp_path / "README.md", ["not pairs"])
    (pair_set,) = constructions(str(tmp_path), tmp_path, PairFormat(format="alternating"))
    assert pair_set.name == "one"
    with pytest.raises(DataError, match=r"has no file of pairs .* columns: {format: alternating}"):
        constructions(str(tmp_path), tmp_path)


def test_the_two_sentences_can_swap_their_columns(tmp_path):
    file = write_lines(tmp_path / "p.csv", ["sentence_good,sentence_bad", "it laugh,it laughs"])
    swapped = PairFormat(right="sentence_bad", wrong="sentence_good")
    (pair,) = read(open_pairs(file), swapped)
    assert (pair.good, pair.bad) == ("it laughs", "it laugh")
