"""The notation of patterns."""

from __future__ import annotations

import pytest

from lmassay.evaluations.fewshot.tasks.patterns import notation, pattern, slotted
from lmassay.evaluations.fewshot.tasks.superglue.patterns import SUPERGLUE_PVPS


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('Does "{a}" mean "{b}"? [mask].', 'Does "|{a}|" mean "|{b}|"?|[M]|.'),
        ("{a} It was [MASK]", "{a}|It was|[M]"),
        ("A: {a}? B: [mask], {b}", "{a}|?||[M]|,|{b}"),
        ("{a}| . |[M]", "{a}| . |[M]"),
        ("{a!} <2> [mask] <1> {b}", "{a!}|<2>|[M]|<1>|{b}"),
        ("Plan B: {a} [mask]", "Plan B:|{a}|[M]"),
    ],
)
def test_a_pattern_as_people_write_it_is_taken_apart(written, read):
    assert notation(written) == read


def test_notation_is_its_own_notation():
    for pvp in SUPERGLUE_PVPS.values():
        for patterns in pvp.PATTERNS.values():
            assert all(notation(text) == text for text in patterns.values() if "|" in text.replace("||", ""))


def test_fields_are_shortenable_unless_they_say_no():
    filled = pattern('{a}|{b!}|"{b!}"?|<3>|[M]||{a}').fill({"a": "first", "b": "second"}, [7])
    assert filled == ([("first", True), "second", '"second"?', 3, [7]], [("first", True)])


def test_text_of_a_field_is_not_read_as_notation():
    filled = pattern("{a}|{b!}|[M]").fill({"a": "[M]|<2>{b}", "b": "{a}|"}, [7])
    assert filled == ([("[M]|<2>{b}", True), "{a}|", [7]], [])


def test_slots_and_masks_and_fields_are_counted():
    read = pattern("{a}|<2>|[M]|<1>||{b!}")
    assert (read.slots, read.masks, read.fields) == (3, 1, {"a", "b"})


def test_ptunings_series_has_as_many_slots_as_its_number():
    for number, text in slotted("{a}|<a>|x|<b>|[M]", {1: (0, 1), 5: (2, 3)}).items():
        assert pattern(text).slots == number
