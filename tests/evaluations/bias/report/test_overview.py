"""What the terminal shows of a bias run: groups by headline, in as many tables as its width needs."""

from __future__ import annotations

import pytest

from lmassay.reporting.overview import in_parts, overview_of
from lmassay.storage.store import Store
from tests.evaluations.bias.report.small_bias import run

HEADLINE = ["accuracy_amb", "diff_bias_amb", "accuracy_dis", "diff_bias_dis", "ooc"]


@pytest.fixture(scope="module")
def overview(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview")
    (done,) = run(folder, {"lean": 0.7, "knows": 0.3, "unread_on": "age-001a-001-amb-bsd-0"})
    with Store(folder / "results") as store:
        return overview_of(store.run(done.id))


def test_groups_are_overall_labels_and_categories_by_the_headline(overview):
    assert overview.metrics == HEADLINE
    labels = [(depth, label) for depth, label, _ in overview.rows]
    assert labels == [
        (0, "overall"),
        (0, "label"),
        (1, "ST"),
        (1, "TM"),
        (0, "category"),
        (1, "age"),
        (1, "religion"),
    ]


def test_what_is_not_in_the_headline_stands_below(overview):
    names = [name for name, _ in overview.lines]
    assert {"consistency", "ooc_reference", "ooc_robust", "parsers_agree", "letter_A"} <= set(names)


def test_one_table_where_it_fits(overview):
    assert in_parts(overview, lambda part: True) == [overview]


def test_several_tables_where_one_is_too_wide_each_with_its_own_counts(overview):
    parts = in_parts(overview, lambda part: len(part.metrics) + len(part.counted) <= 3)
    assert [part.metrics for part in parts] == [HEADLINE[:2], HEADLINE[2:4], HEADLINE[4:]]
    assert [part.counted for part in parts] == [["accuracy_amb"], ["accuracy_dis"], ["ooc"]]
    assert all(part.rows == overview.rows for part in parts)


def test_where_nothing_fits_each_metric_has_its_table(overview):
    assert [part.metrics for part in in_parts(overview, lambda part: False)] == [[metric] for metric in HEADLINE]
