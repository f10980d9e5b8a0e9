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


def test_the_explanation_of_the_quick_start_has_the_numbers_of_its_table():
    """The rows below are compared with the output of the command by the test of the page's commands."""
    stated = {}
    stated["singular"], stated["plural"] = re.search(
        r"With singular subjects EW is lower \(([\d.]+)\) than with plural ones \(([\d.]+)\)", PAGE
    ).groups()
    for number, ew in stated.items():
        row = re.search(rf"^  {number} +[\d.]+ \[[^]]*\] +([\d.]+) \[", PAGE, re.MULTILINE)
        assert f"{float(row[1]):.2f}" == ew


def test_the_two_verb_pairs_of_the_sentential_complement_give_its_tse():
    rows, first, first_rows, second, second_rows = re.search(
        r"mean over ([\d,]+) rows of two verb pairs: \*is/are\* with ([\d.]+) \((\d+) rows\) and \*smiles/smile\* with "
        r"([\d.]+) \((\d+) rows\)",
        PAGE,
    ).groups()
    total = int(first_rows) + int(second_rows)
    assert total == int(rows.replace(",", ""))
    mean = (float(first) * int(first_rows) + float(second) * int(second_rows)) / total
    shown = re.search(r"^  In a sentential complement +([\d.]+) ", PAGE, re.MULTILINE)
    assert f"{mean:.3f}" == shown[1]
