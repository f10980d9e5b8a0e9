"""The robust parser on any text: it never raises, never guesses and takes linear time."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.answers.parser import parse
from tests.answers.robust_choices import KO

LETTERS = st.sampled_from("ABC")
_WORDS = """
A B C a b c ( ) [ ] { } < > ** __ ' " : . , ; ? ! \\ $ 정답은 정답: 답이 입니다 아니라 아님 없음 손자 할머니
not the answer is or <think> </think> {"answer": \\boxed{ because 따라서 맥락: Ｂ ⓒ 1
"""
PIECES = st.sampled_from([*_WORDS.split(), "알 수 없음", "\n", "\t", "\u200b"])


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=20), st.lists(st.text(max_size=12), max_size=5))
def test_it_never_raises_and_names_only_existing_choices(pieces, choices):
    parsed = parse(" ".join(pieces), choices, "ABCDEFGHIJ")
    assert parsed.letter is None or parsed.letter in "ABCDEFGHIJ"[: len(choices)]
    assert parsed.how


@given(
    LETTERS,
    st.lists(st.sampled_from(["()", "[]", "''", '""', "‘’", "“”", "**", "  ", "\n\n", "<>", "{}"]), max_size=4),
    st.sampled_from(["", ".", " .", ":", "입니다", "입니다.", "\n"]),
    st.sampled_from(
        ["", "정답: ", "정답은 ", "Answer: ", "The answer is ", "답: ", "<think>A? B? C?</think>", "Option "]
    ),
)
def test_whatever_a_letter_is_wrapped_in_it_stays_the_answer(letter, wraps, ending, beginning):
    text = letter
    for wrap in wraps:
        text = f"{wrap[0]}{text}{wrap[-1]}"
    assert parse(f"{beginning}{text}{ending}", KO).letter == letter


_TWO = ["{} 또는 {}", "{}, {}", "{} or {}", "{}\n{}", "정답은 {}. 정답은 {}.", "{}/{}", "**{}** **{}**", "{}. {}."]


@given(LETTERS, LETTERS, st.sampled_from(_TWO))
def test_two_different_answers_are_not_an_answer(first, second, shape):
    assert parse(shape.format(first, second), KO).letter == (first if first == second else None)


_ONE = ["{}", "{}입니다.", "정답은 {}입니다.", "'{}'", "**{}**", "{} 또는 할머니", "{}가 아니라 할머니입니다"]


@given(
    st.permutations([0, 1, 2]),
    st.sampled_from(_ONE),
    st.sampled_from(KO),
)
def test_the_order_of_the_choices_changes_the_letter_alone(order, shape, text):
    raw = shape.format(text)
    first = parse(raw, KO)
    second = parse(raw, [KO[position] for position in order])
    assert first.how == second.how
    expected = None if first.letter is None else "ABC".index(first.letter)
    assert (None if second.letter is None else order["ABC".index(second.letter)]) == expected


@given(st.text(max_size=40))
@settings(max_examples=50)
def test_composed_and_decomposed_letters_read_the_same(noise):
    raw = f"{noise}\n정답은 할머니입니다."
    assert parse(unicodedata.normalize("NFD", raw), KO) == parse(unicodedata.normalize("NFC", raw), KO)


UNITS = [
    *("A", "A ", "B. ", "A\n", "A, ", "(A", "**", "**A**", "{", '{"a":', "[", "<think>", "</think>", "\\boxed{"),
    *("손자", "손자가 아니라 ", "not ", "A not B ", "정답은 A. ", "the answer is ", "알 수 없", "a\u0316\u0300", " "),
    *("\t", "\n", '"', "_", "<|im_end|>", "</s>", "왜냐하면 ", "? ", "A/", "ᄀ", "\u200b", "İ", "ﷺ", "who is not "),
    *(", A", "A: 손자\n", "라고", "\\text{"),
    *(
        "A, 이는 편견입니다. ",
        "A.\n이는 편견입니다.\n",
        "편견",
        "고정관념에 ",
        "많은 사람들이 ",
        "A일 수도 ",
        "A보다 ",
        "A 대신 ",
    ),
    *(
        "that ",
        "not stereotype ",
        "A could be ",
        "A, but that's a stereotype ",
        "people would ",
        "C - A ",
        "B? ",
        "plan B ",
    ),
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_hundred_thousand_hostile_characters_take_linear_time(unit):
    def seconds(size: int) -> float:
        raw = (unit * (size // len(unit) + 1))[:size]
        start = time.process_time()
        parse(raw, KO)
        return time.process_time() - start

    # Quadratic time would be 16-fold, and minutes; what is linear takes less than a second, on a busy machine too.
    assert seconds(100_000) < 3 or min(seconds(100_000) for _ in range(3)) < 12 * min(seconds(25_000) for _ in range(3))
