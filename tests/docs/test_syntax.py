"""Numbers on the page about syntax that no command of the page prints."""

from __future__ import annotations

import re

import pytest

from lmassay.statistics.intervals import rate_interval
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "syntax.md").read_text(encoding="utf-8")


def test_the_interval_over_all_of_blimp_is_as_narrow_as_stated():
    pairs, points = re.search(r"accuracy over ([\d,]+) pairs is ±([\d.]+) points", PAGE).groups()
    accuracy = float(re.search(r"\| `none` \| ([\d.]+) ", PAGE)[1])
    low, high = rate_interval(accuracy, int(pairs.replace(",", "")))
    assert 100 * (high - low) / 2 == pytest.approx(float(points), abs=0.05)


def test_the_interval_of_independent_pairs_is_wilsons():
    value, low, high = map(float, re.search(r"\| `none` \| ([\d.]+) \[([\d.]+), ([\d.]+)\]", PAGE).groups())
    # 20 pairs of each of 67 paradigms.
    assert rate_interval(value, 20 * 67) == pytest.approx((low, high), abs=0.001)
