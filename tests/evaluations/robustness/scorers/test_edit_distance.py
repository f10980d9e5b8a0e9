"""Edit distance as a similarity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.scorers.edit_distance import EditDistance, edit_distance, plain_edit_distance

TEXTS = st.text(alphabet="abc ", max_size=12)


@given(TEXTS, TEXTS)
def test_both_implementations_agree(one, two):
    assert plain_edit_distance(one, two) == edit_distance(one, two)
    assert plain_edit_distance(one.split(), two.split()) == edit_distance(one.split(), two.split())


@given(TEXTS, TEXTS, TEXTS)
def test_it_is_a_distance(one, two, three):
    assert edit_distance(one, two) == edit_distance(two, one)
    assert (edit_distance(one, two) == 0) == (one == two)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(two, three)


def test_characters_and_words_by_hand():
    assert EditDistance().score(["kitten", "", "a"], ["sitting", "", ""]) == pytest.approx([1 - 3 / 7, 1, 0])
    assert EditDistance(unit="word").score(["the old cat", "  "], ["the cat", ""]) == pytest.approx([2 / 3, 1])


def test_an_unknown_unit_is_refused():
    with pytest.raises(ConfigError, match="unit must be character or word"):
        EditDistance(unit="line")
