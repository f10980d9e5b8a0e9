"""Where the lines of a page may break."""

from __future__ import annotations

import pytest
from markupsafe import escape

from lmassay.reporting.line_breaks import breakable, unbroken


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("determiner_noun_agreement", "determiner_|noun_|agreement"),
        ("my_method.py:SharedWords, power=2", "my_|method.|py:|SharedWords, power=|2"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/|Qwen2.5-0.5B"),
        ("모델/한국어_소형", "모델/|한국어_|소형"),
        ("rate 0.05", "rate 0.05"),
        ("_private_ and / alone", "_private_ and / alone"),
    ],
)
def test_a_name_may_break_after_its_joints_but_not_inside_a_number(name, expected):
    assert breakable(name) == expected.replace("|", "<wbr>")


def test_names_and_texts_are_escaped():
    assert breakable("<b>_x") == "&lt;b&gt;_x"
    assert breakable("a_<b") == "a_&lt;b"
    assert unbroken("<i> [0.1, 0.2] & 'x'") == '&lt;i&gt; <span class="whole">[0.1, 0.2]</span> &amp; &#39;x&#39;'


@pytest.mark.parametrize("whole", ["[0.16, 0.49]", "[−0.299, 0.166]", "2026-11-18", "p = 0.1850", "p < 0.0001"])
def test_an_interval_a_date_and_a_p_value_stay_on_one_line(whole):
    assert unbroken(f"before {whole}; after") == f'before <span class="whole">{escape(whole)}</span>; after'


def test_brackets_with_words_may_break():
    assert unbroken("a list [of many, and many more words] here") == "a list [of many, and many more words] here"
