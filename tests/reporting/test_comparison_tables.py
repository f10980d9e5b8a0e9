"""Tables of differences between runs."""

from __future__ import annotations

import pytest

from lmassay.reporting.blocks import Section, Table
from lmassay.reporting.comparison_tables import differences_table, ranking_table
from lmassay.reporting.formats.content import comparison_blocks
from lmassay.statistics.comparison import Comparison, compare_runs
from lmassay.statistics.ranking import rankings
from lmassay.storage.store import Store
from tests.compare_kit import add, rates, scored, side, two


def difference(metric="accuracy", p=None, value=0.1):
    return Comparison(metric, "a", "b", "a", "b", 0.5, 0.5 + value, value, None, None, p, p, 10, changed=5)


def header(table):
    return [cell.text for cell in table.headers[0]]


def first_row(table):
    return dict(zip(header(table), [cell.text for cell in table.bodies[0].rows[0].cells], strict=True))


def test_a_difference_that_rounds_to_zero_has_no_minus():
    table = differences_table([difference(value=-0.00001)], "paired by example")
    assert first_row(table)["difference"] == "+0.0000"


def test_only_rows_with_a_p_value_count_as_tests():
    rows = [difference("tse"), difference("ew", p=0.01), difference("mw", p=0.02)]
    table = differences_table(rows, "paired by example")
    assert "FDR: adjusted for 2 p-values" in table.caption
    assert "p (FDR)" in header(table)


@pytest.mark.parametrize("rows", [[difference(p=0.01)], [difference("tse"), difference("ew", p=0.01)]])
def test_a_single_p_value_is_not_adjusted(rows):
    table = differences_table(rows, "paired by example")
    assert "FDR" not in table.caption
    assert "p (FDR)" not in header(table)


def test_runs_with_the_same_scores_have_no_interval():
    base, new = two(rates([0, 1] * 20), rates([0, 1] * 20))
    table = differences_table(compare_runs(base, [new]), "paired by example")
    assert first_row(table)["interval"] == "same in all 40"


def test_the_report_says_what_is_paired_and_clustered(tmp_path):
    for run, right in (("one", 8), ("two", 30)):
        rows = [scored(i, {"template": str(i // 4)}, accuracy=float(i < right)) for i in range(40)]
        add(tmp_path, run, rows, clusters=["template"])
    with Store(tmp_path) as store:
        blocks = comparison_blocks(store, [store.run("one"), store.run("two")], Section(()))
        (table,) = [block for block in blocks if isinstance(block, Table)]
    assert table.caption.startswith("Paired by example, clustered by template.")


def test_the_ranking_does_not_give_one_number_of_pairs_for_metrics_of_different_runs():
    runs = []
    for run in ("a", "b", "c"):
        rows = [scored(i, accuracy=float(i % 3 == 0), **({} if run == "c" else {"tse": 0.5})) for i in range(20)]
        runs.append(side(run, rows))
    standings = rankings(runs, compare_runs(runs[0], runs[1:]), 0.05)
    assert {standing.metric: standing.tests for standing in standings} == {"accuracy": 3, "tse": 1}
    (table,) = ranking_table(standings, str, 0.05)
    assert "for all pairs of the runs with this metric" in table.caption
