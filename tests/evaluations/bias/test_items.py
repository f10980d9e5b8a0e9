"""A part of the questions: balanced, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

from lmassay.evaluations.bias.items import BiasItem, select_items

ITEMS = [
    BiasItem(
        f"{category}-{template}-{context}-{polarity}-{number}",
        category,
        f"{category}-{template}",
        context,
        "Text.",
        "Who?",
        ("Ann", "Bob", "Unknown"),
        0,
        2,
        0,
        groups={"polarity": polarity},
    )
    for category in ("age", "name")
    for template in range(5)
    for context in ("amb", "dis")
    for polarity in ("neg", "nonneg")
    for number in range(3)
]


def test_without_limits_all_are_asked():
    assert select_items(ITEMS, None, None, None) == ITEMS
    assert select_items(ITEMS, None, None, 7) == ITEMS


def test_without_a_seed_the_first_templates_and_questions_are_taken():
    selected = select_items(ITEMS, 1, 1, None)
    assert {item.template for item in selected} == {"age-0", "name-0"}
    assert all(item.id.endswith("-0") for item in selected)


def test_a_sample_has_each_kind_of_question_of_each_template():
    selected = select_items(ITEMS, 2, 1, 0)
    kinds = Counter((item.template, item.context_type, item.groups["polarity"]) for item in selected)
    assert len(kinds) == 2 * 2 * 4
    assert set(kinds.values()) == {1}
    assert Counter(item.category for item in selected) == {"age": 8, "name": 8}


def test_the_seed_decides_about_the_sample():
    assert select_items(ITEMS, 2, 1, 0) == select_items(ITEMS, 2, 1, 0)
    assert select_items(ITEMS, 2, 1, 0) != select_items(ITEMS, 2, 1, 1)
