"""Reading minimal pairs and splitting them at the word that differs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import DataError
from lmassay.evaluations.syntax.pairs import (
    BlankedPair,
    NoSingleDifference,
    joined,
    open_pairs,
    read_pairs,
    split_at_difference,
    text_around,
)
from tests.helpers import write_lines


def written(path, *rows):
    return open_pairs(write_lines(path / "p.jsonl", [r if isinstance(r, str) else json.dumps(r) for r in rows]))


def row(good="the author laughs", bad="the author laugh", label=-1, **more):
    return {"sentence_good": good, "sentence_bad": bad, "label": label, **more}


def test_a_pair_keeps_its_place_its_number_and_its_other_fields(tmp_path):
    (pair,) = read_pairs(written(tmp_path, row(UID="x")))
    assert (pair.number, pair.line, pair.fields) == ("singular", 1, {"UID": "x"})
    (pair,) = read_pairs(written(tmp_path, row(label=-2)))
    assert pair.number == "plural"


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_are_read_over(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\r\n\r\n" + json.dumps(row(label=-2)).encode())
    assert [p.line for p in read_pairs(open_pairs(file))] == [1, 3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"line 2: this is no JSON"),
        ("[1]", "must be a JSON object"),
        ({"sentence_good": "x"}, "the text 'sentence_bad' is missing"),
        ({"sentence_good": 3, "sentence_bad": "x"}, "the text 'sentence_good' is missing"),
        (row(label=1), "label is 1; it must be -1"),
        (row(label="-1"), "label is '-1'"),
        (row(label=True), "label is True"),
        (row(label=[]), r"label is \[\]"),
        (row(label=-1.0), "label is -1.0"),
        ("[" * 100_000, "this is no JSON"),
        ('{"sentence_good": "a \\ud800", "sentence_bad": "b"}', "is half of one"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line(tmp_path, line, words):
    with pytest.raises(DataError, match=words):
        list(read_pairs(written(tmp_path, row(), line)))


def test_a_file_without_pairs_is_told(tmp_path):
    with pytest.raises(DataError, match="is empty"):
        open_pairs(write_lines(tmp_path / "p.jsonl", []))
    with pytest.raises(DataError, match="holds no pairs"):
        list(read_pairs(open_pairs(write_lines(tmp_path / "q.jsonl", ["", ""]))))


def test_the_word_that_differs_splits_a_pair():
    assert split_at_difference("The author laughs loudly.", "The author laugh loudly.") == BlankedPair(
        ("The", "author"), "laughs", "laugh", ("loudly",)
    )


def test_spaces_at_the_ends_do_not_count():
    assert split_at_difference("It laughs. ", " It laugh.").good == "laughs"


def test_punctuation_at_both_ends_does_not_count():
    assert split_at_difference('"Who laughs?"', "Who laugh") == BlankedPair(("Who",), "laughs", "laugh", ())


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("a b", "a b", "identical"),
        ("a b.", "a b", "identical but for punctuation"),
        ("a b c", "a x y", "differ in 2 words"),
        ("a b c", "a x", "3 and 2 words"),
        ("a b", "a b c", "2 and 3 words"),
        ("", "a", "0 and 1 words"),
    ],
)
def test_pairs_without_a_single_difference_have_no_blank(good, bad, words):
    with pytest.raises(NoSingleDifference, match=words):
        split_at_difference(good, bad)


def test_the_text_around_a_blank_has_its_spaces():
    blank = BlankedPair(("the", "author", ",", "sadly"), "is", "are", ("tall",))
    assert text_around(blank, capitalize=True, period=True) == ("The author, sadly ", " tall.")
    assert text_around(blank, capitalize=False, period=False) == ("the author, sadly ", " tall")


def test_a_verb_at_the_beginning_or_end_has_an_empty_side():
    assert text_around(BlankedPair((), "is", "are", ("it",)), True, True) == ("", " it.")
    assert text_around(BlankedPair(("it",), "is", "are", ()), True, True) == ("It ", ".")
    assert text_around(BlankedPair(("it",), "is", "are", ()), True, False) == ("It ", "")


def test_capitals_inside_the_first_word_are_lost_as_in_the_original():
    assert text_around(BlankedPair(("NASA",), "is", "are", ()), True, False)[0] == "Nasa "


@given(st.lists(st.sampled_from(["the", "a", "dog", "runs", ",", "!", "?!"]), min_size=1))
def test_joining_words_loses_nothing_but_spaces(words):
    assert joined(words).replace(" ", "") == "".join(words)
