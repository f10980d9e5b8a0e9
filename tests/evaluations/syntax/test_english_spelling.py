"""The English ending -s, in the spelling of nouns and of verbs."""

from __future__ import annotations

import pytest

from lmassay.evaluations.syntax.english_spelling import NOUN_ENDINGS_WITH_ES, VERB_ENDINGS_WITH_ES, with_s


@pytest.mark.parametrize(
    ("word", "with_ending"),
    [
        ("pilot", "pilots"),
        ("boss", "bosses"),
        ("box", "boxes"),
        ("witch", "witches"),
        ("lady", "ladies"),
        ("boy", "boys"),
    ],
)
def test_nouns_and_verbs_share_the_spelling_after_consonants_sibilants_and_y(word, with_ending):
    assert with_s(word, NOUN_ENDINGS_WITH_ES) == with_ending
    assert with_s(word, VERB_ENDINGS_WITH_ES) == with_ending


@pytest.mark.parametrize(("verb", "with_ending"), [("tattoo", "tattoos"), ("radio", "radios"), ("undo", "undoes")])
def test_a_verb_in_o_takes_s_after_a_vowel(verb, with_ending):
    assert with_s(verb, VERB_ENDINGS_WITH_ES) == with_ending


def test_only_verbs_in_o_take_es():
    assert with_s("photo", NOUN_ENDINGS_WITH_ES) == "photos"
    assert with_s("veto", VERB_ENDINGS_WITH_ES) == "vetoes"
