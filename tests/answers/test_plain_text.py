"""Answers in plain characters."""

from __future__ import annotations

import pytest

from lmassay.answers.plain_text import tidy


@pytest.mark.parametrize("quote", "‘’‚‛´′`「」『』〈〉《》")
def test_every_single_quote_becomes_an_apostrophe(quote):
    assert tidy(f"isn{quote}t") == "isn't"


@pytest.mark.parametrize("quote", "“”„‟″«»")
def test_every_double_quote_becomes_a_plain_one(quote):
    assert tidy(f"{quote}B{quote}") == '"B"'
