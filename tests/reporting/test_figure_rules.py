"""Figures that would say less than their numbers are sentences."""

from __future__ import annotations

from markupsafe import Markup

from lmassay.evaluations.robustness.report import success_figure
from lmassay.reporting.blocks import Figure, Figures, Note
from lmassay.reporting.figure_rules import MIN_POINTS, are_equal, distinct_points, figures_and_notes
from lmassay.storage.store import Store
from tests.compare_kit import add, rates


def test_points_that_cannot_be_told_apart_count_once():
    points = [(0.1, 0.2), (0.1 + 1e-9, 0.2), (0.3, 0.2)]
    assert len(distinct_points(points)) == 2 < MIN_POINTS


def test_values_are_equal_up_to_what_can_be_seen():
    assert are_equal([0.5, 0.5 + 1e-9])
    assert are_equal([0.5])
    assert not are_equal([0.5, 0.501])
    assert not are_equal([0.5, None])


def test_sentences_come_below_the_figures_that_remain():
    figure = Figure(Markup("<svg></svg>"), "drawn")
    assert figures_and_notes([Note("said"), figure], "small") == [Figures([figure], "small"), Note("said")]
    assert figures_and_notes([Note("said")], "small") == [Note("said")]


def test_success_rates_are_drawn_only_if_they_differ(tmp_path):
    for run, value in (("a", 0.25), ("b", 0.25), ("c", 0.5)):
        results = [{"metric": "success", "group": "overall", "value": value, "low": 0.1, "high": 0.9, "n": 4}]
        add(tmp_path, run, rates([0, 1, 1, 0], "success"), label=run, results=results)
    with Store(tmp_path) as store:
        first, second, third = sorted(store.runs(), key=lambda record: record.id)
    assert success_figure([first]) is None, "the table has the number"
    assert success_figure([first, second]) == Note("All 2 runs have the same success rate: 0.250.")
    assert isinstance(success_figure([first, third]), Figure)
