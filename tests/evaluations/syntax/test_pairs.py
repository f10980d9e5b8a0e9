"""Reading minimal pairs and splitting them at the word that differs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.evaluations.syntax.pairs import (
    BlankedPair,
    NoSingleDifference,
    joined,
    split_at_difference,
    text_around,
)


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
        ("a b.", "a b", "identical except for punctuation"),
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["L'", "auteur", "qu'", "il", "voit"], "L'auteur qu'il voit"),
        (["the", "parents'", "house"], "the parents' house"),
        (["ה", "מלצר", "ש", "ה", "שומר", "אוהב"], "המלצר שהשומר אוהב"),
    ],
)
def test_what_is_one_word_in_writing_is_joined(words, text):
    assert joined(words) == text


def test_punctuation_of_other_scripts_is_not_part_of_a_word():
    pair = split_at_difference("¿El niño ríe?", "¿El niño ríen?")
    assert (pair.left, pair.good, pair.bad) == (("El", "niño"), "ríe", "ríen")
    assert split_at_difference("लड़का जाता।", "लड़का जाते।").good == "जाता"


def test_a_comma_behind_the_verb_belongs_to_the_text_behind_it():
    pair = split_at_difference("Der Mann, der lacht, schläft.", "Der Mann, der lachen, schläft.")
    assert (pair.good, pair.bad) == ("lacht", "lachen")
    assert text_around(pair, True, True) == ("Der Mann, der ", ", schläft.")


def test_the_blank_can_be_the_first_of_several_words_that_agree():
    good, bad = "les auteurs sont petits", "les auteurs est petit"
    with pytest.raises(NoSingleDifference, match="differ in 2 words"):
        split_at_difference(good, bad)
    pair = split_at_difference(good, bad, first=True)
    assert (pair.good, pair.bad, pair.right, pair.differs_after) == ("sont", "est", ("petits",), True)
