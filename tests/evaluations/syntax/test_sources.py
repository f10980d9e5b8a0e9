"""What ``task.data`` names, and how runs name it. The pairs themselves are tested in test_pairs.py."""

from __future__ import annotations

import pytest

from lmassay.evaluations.syntax.sources import label_of


@pytest.mark.parametrize(
    ("data", "label"),
    [
        ("pairs/simple.jsonl", "simple"),
        ("clams/de", "clams/de"),
        ({"name": "clams", "language": "de"}, "clams de"),
        ({"name": "clams", "language": ["de", "fr"]}, "clams (2 parts)"),
        ({"simple": "simple.jsonl", "nested": ["a.jsonl", "b.jsonl"]}, "2 constructions"),
    ],
)
def test_data_have_a_short_label(data, label):
    assert label_of(data) == label
