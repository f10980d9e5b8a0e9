"""Numbers on the page about syntax that no command of the page prints."""

from __future__ import annotations

import importlib.util
import re
from statistics import fmean
from types import ModuleType

import pytest

from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.statistics.intervals import rate_interval
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "syntax.md").read_text(encoding="utf-8")


def test_the_interval_over_all_of_blimp_is_as_narrow_as_stated():
    pairs, points = re.search(r"accuracy over ([\d,]+) pairs is ±([\d.]+) points", PAGE).groups()
    accuracy = float(re.search(r"\| `none` \| ([\d.]+) ", PAGE)[1])
    low, high = rate_interval(accuracy, int(pairs.replace(",", "")))
    assert 100 * (high - low) / 2 == pytest.approx(float(points), abs=0.05)


@pytest.fixture(scope="module")
def blimp_clusters() -> ModuleType:
    spec = importlib.util.spec_from_file_location("blimp_clusters", ROOT / "benchmarks" / "blimp_clusters.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_intervals_with_three_kinds_of_clusters_follow_from_the_measured_counts(blimp_clusters):
    counts = blimp_clusters.read(ROOT / "benchmarks" / "measured" / "blimp_clusters.tsv")
    pairs = int(re.search(r"first (\d+) pairs of each paradigm \(", PAGE)[1])
    assert (len(counts), {total for _, total in counts.values()}) == (67, {pairs})
    for clusters, (value, low, high) in blimp_clusters.intervals(counts).items():
        assert f"| `{clusters}` | {value:.3f} [{low:.3f}, {high:.3f}] |" in PAGE


def test_the_explanation_of_the_quick_start_has_the_numbers_of_its_table():
    """The rows below are compared with the output of the command by the test of the page's commands."""
    stated = {}
    stated["singular"], stated["plural"] = re.search(
        r"With singular subjects\sEW is lower \(([\d.]+)\) than with plural ones \(([\d.]+)\)", PAGE
    ).groups()
    for number, ew in stated.items():
        row = re.search(rf"^  {number} +[\d.]+ \[[^]]*\] +([\d.]+) \[", PAGE, re.MULTILINE)
        assert row[1] == ew


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


def test_people_agree_with_the_authors_of_blimp_as_often_as_stated():
    agreement = fmean(paradigm.human for paradigm in paradigms().values())
    stated = re.search(r"BLiMP's (\d+) paradigms, people agree with the\s+authors on ([\d.]+) % of the pairs", PAGE)
    # The published accuracies are rounded, which moves their mean by less than this.
    assert (len(paradigms()), 100 * agreement) == (int(stated[1]), pytest.approx(float(stated[2]), abs=0.06))
