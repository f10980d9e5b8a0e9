"""The examples that changed between two runs, of which a page shows as many as it can."""

from __future__ import annotations

from lmassay.reporting import compare_page
from lmassay.reporting.changed_examples import choose_changes
from lmassay.statistics.flips import flips
from tests.compare_kit import add, scored, two
from tests.helpers import lmassay


def pairs(count: int = 40):
    """Every score changes; every tenth example turns from right to wrong."""
    before = [scored(number, right=1.0, graded=0.25) for number in range(count)]
    after = [scored(number, right=float(number % 10 > 0), graded=0.5) for number in range(count)]
    return before, after


def test_flips_are_chosen_before_other_changes_and_always_the_same():
    all_flips = flips(*two(*pairs()), ["graded", "right"])
    chosen = [change.id for change in choose_changes(all_flips, 7)]
    assert chosen[:4] == ["0", "10", "20", "30"]
    assert len(set(chosen)) == 7
    assert chosen == [change.id for change in choose_changes(all_flips, 7)]


def test_all_changes_are_chosen_if_they_fit_and_a_sample_of_too_many_flips():
    all_flips = flips(*two(*pairs()), ["graded", "right"])
    assert len(choose_changes(all_flips, 40)) == 40
    sampled = [change.id for change in choose_changes(all_flips, 2)]
    assert len(set(sampled)) == 2
    assert set(sampled) < {"0", "10", "20", "30"}


def test_the_page_says_how_many_of_the_changed_examples_it_shows_and_that_flips_come_first(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_page, "MAX_ROWS", 6)
    monkeypatch.setattr(compare_page, "_MAX_LISTED_CHANGES", 1)
    before, after = pairs()
    add(tmp_path / "results", "base", before, headline=["right", "graded"])
    add(tmp_path / "results", "new", after, headline=["right", "graded"])
    page = tmp_path / "page.html"
    done = lmassay("compare", "base", "new", "-o", page, "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "This page shows 6 of 40 examples" in text
    assert "examples that are right in one run and wrong in another come first" in text
