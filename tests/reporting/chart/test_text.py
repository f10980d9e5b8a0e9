"""Text widths are estimated, and texts cut and wrapped to fit."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.reporting.chart.text import ELLIPSIS, FONT_SIZE, Room, clean_text, fit, fit_distinct, text_width, truncate

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


def test_digits_have_one_width_and_an_m_is_wider_than_an_i():
    assert len({text_width(digit) for digit in "0123456789"}) == 1
    assert text_width("i") < text_width("n") < text_width("m") < text_width("W")


def test_an_east_asian_character_is_as_wide_as_it_is_high():
    assert text_width("한국어") == 3 * FONT_SIZE
    assert text_width("日本") == 2 * FONT_SIZE


def test_accents_take_no_room_composed_or_not():
    assert text_width("é") == text_width("e\u0301") == text_width("e")
    assert text_width(unicodedata.normalize("NFD", "한국어")) == text_width("한국어")


def test_bold_letters_are_wider_but_not_those_of_east_asia():
    assert text_width("accuracy", bold=True) > text_width("accuracy")
    assert text_width("정확도", bold=True) == text_width("정확도")


def test_a_name_loses_its_middle_so_that_both_ends_can_be_read():
    assert truncate("organisation/model-7b-instruct", 120) == "organisat…-instruct"
    assert truncate("short", 120) == "short"


def test_words_are_kept_whole_where_they_fit_into_a_line():
    assert fit("across an object relative clause", 110, lines=None).lines == ("across an object", "relative clause")


def test_a_long_name_is_broken_after_a_hyphen_or_slash():
    lines = fit("the-organisation/a-model-with-a-long-name", 150, lines=None).lines
    assert lines == ("the-organisation/a-", "model-with-a-long-name")


def test_the_whole_text_is_kept_only_where_something_was_cut():
    assert fit("one two three", 200).full == ""
    assert fit("one two three four five", 60, lines=2).full == "one two three four five"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("a\x00b\x1b[31m", "a\ufffdb\ufffd[31m"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("\u202eturned\u202c", "\ufffdturned\ufffd"),
    ],
)
def test_what_cannot_be_drawn_is_replaced(text, drawn):
    assert clean_text(text) == drawn


@given(TEXTS, st.floats(20, 400), st.sampled_from([1, 2, 5]), st.booleans())
def test_a_text_fits_its_width_and_lines_whatever_it_is(text, width, lines, bold):
    block = fit(text, width, lines=lines, bold=bold)
    assert len(block.lines) <= lines
    for line in block.lines:
        assert text_width(line, bold=bold) <= width + 0.01 or len(line.strip(ELLIPSIS)) <= 1


@given(TEXTS, st.floats(20, 400))
def test_a_text_in_as_many_lines_as_it_takes_is_whole(text, width):
    block = fit(text, width, lines=None)
    assert "".join(block.lines).replace(" ", "") == clean_text(text).replace(" ", "")
    assert block.full == ""


@given(TEXTS, TEXTS)
def test_a_longer_text_is_never_narrower(first, second):
    composed = unicodedata.normalize("NFC", first)
    if unicodedata.normalize("NFC", first + second).startswith(composed):
        assert text_width(first + second) >= text_width(first)


def test_different_texts_that_would_be_cut_to_the_same_get_more_lines():
    texts = [f"charswap, success_threshold={value}, s_src=chrf [a] · echo (transform=none)" for value in (0.9, 1.2)]
    cut = [fit(text, 150, lines=2).lines for text in texts]
    assert cut[0] == cut[1]
    blocks = fit_distinct([Room(text, 150) for text in texts])
    assert blocks[0].lines != blocks[1].lines
    assert all(not block.full for block in blocks)
    # Others stay as short as they were.
    (_, _, short) = fit_distinct([*(Room(text, 150) for text in texts), Room(f"{'x' * 90} end", 150)])
    assert len(short.lines) == 2


def test_a_text_that_occurs_twice_is_cut_as_any_other():
    first, second = fit_distinct([Room("a long name that does not fit into one line", 60)] * 2)
    assert first == second
    assert len(first.lines) == 2
