"""The times on the page about reports are those that were measured."""

from __future__ import annotations

import re

from tests.docs.blocks import page_text
from tests.helpers import ROOT


def test_times_of_a_page_with_many_examples_are_those_that_were_measured():
    measured = (ROOT / "benchmarks" / "measured" / "page.txt").read_text(encoding="utf-8")
    text = " ".join(page_text("docs/report.md").split())
    first, base = re.search(r"first paint: (\d+) ms, of a page with one example (\d+) ms", measured).groups()
    times = dict(re.findall(r"^([a-z ]+): (\d+) ms", measured, flags=re.MULTILINE))
    opening = f"opening the section {times['open the examples']} ms"
    assert f"the first paint took {first} ms ({base} ms with one example), {opening}" in text
    assert f"sorting {times['sort']} ms, filtering {times['filter']} ms and searching {times['search']} ms" in text
