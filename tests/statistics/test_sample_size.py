"""How many examples a gate needs, before there are any."""

from __future__ import annotations

import pytest

from lmassay.errors import UserError
from lmassay.statistics.conditions import parse_condition
from lmassay.statistics.sample_size import checked_metric, expected, needs
from lmassay.types import Metric
from tests.compare_kit import rates, scored, side

ACCURACY = Metric("accuracy")


def planned(text, *like, reading="fail if", has=400):
    condition = parse_condition(text, reading)
    return needs(condition, ACCURACY, expected(condition.metric, like), has, 0.05)


def test_more_changes_need_more_examples_and_find_less_with_those_there_are():
    table_rows = planned("accuracy<-0.02")
    assert [need.changed for need in table_rows] == ["2%", "5%", "10%"]
    assert {need.drop for need in table_rows} == {0.04}
    assert table_rows[0].needed < table_rows[1].needed < table_rows[2].needed
    assert 0.02 < table_rows[0].detectable < table_rows[1].detectable < table_rows[2].detectable


def test_the_textbook_number_for_no_change_is_close():
    # (1.645 + 0.842)² · 0.05 / 0.02² = 773.
    assert planned("accuracy>-0.02", reading="pass only if")[1].needed == pytest.approx(773, rel=0.05)


def test_any_drop_is_planned_for_as_two_points():
    assert {need.drop for need in planned("accuracy<0")} == {0.02}


def test_the_clusters_of_an_earlier_run_count():
    groups = [{"template": str(i // 10)} for i in range(200)]
    values = [int(i // 10 % 2 == 0) for i in range(200)]
    clustered = side("c", rates(values, groups=groups), cluster="template")
    independent = side("i", rates(values))
    assert planned("accuracy<-0.02", clustered)[1].needed > 5 * planned("accuracy<-0.02", independent)[1].needed


def test_a_share_of_the_base_needs_a_base():
    with pytest.raises(UserError, match="--like RUN"):
        planned("accuracy<-10%")
    half = side("half", rates([1, 0] * 100))
    assert planned("accuracy<-10%", half)[0].drop == pytest.approx(0.1)


def test_two_earlier_runs_tell_how_much_changes():
    base, new = side("a", rates([1] * 190 + [0] * 10)), side("b", rates([0] * 10 + [1] * 190))
    (need,) = planned("accuracy<-0.02", base, new)
    assert need.changed == "10.0%, as between the two runs"
    assert need.needed == planned("accuracy<-0.02", base)[2].needed


def test_graded_scores_of_an_earlier_run_count_with_their_spread():
    wide = side("w", [scored(i, accuracy=i / 99) for i in range(100)])
    narrow = side("n", [scored(i, accuracy=0.5 + i / 9900) for i in range(100)])
    assert planned("accuracy<-0.02", wide)[1].needed > planned("accuracy<-0.02", narrow)[1].needed


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([scored(0, accuracy=1.0)], None),
        ([scored(0, accuracy=0.5)], "one value only"),
        ([scored(i, accuracy=0.5) for i in range(9)], "all 9 values are the same"),
        ([scored(0, other=0.5)], "has no metric 'accuracy'"),
    ],
)
def test_a_run_that_tells_nothing_is_refused(rows, message):
    if message is None:
        assert planned("accuracy<-0.02", side("one", rows))
        return
    with pytest.raises(UserError, match=message):
        planned("accuracy<-0.02", side("one", rows))


def test_a_gain_cannot_be_planned_for():
    with pytest.raises(UserError, match="asks for an improvement"):
        planned("accuracy>0.02", reading="pass only if")


def test_a_misspelt_metric_is_reported_if_the_task_declares_its_metrics():
    with pytest.raises(UserError, match="did you mean 'accuracy'"):
        checked_metric("acuracy", [ACCURACY], [])
    assert checked_metric("anything", [], []).name == "anything"
    assert checked_metric("accuracy@top0.5", [ACCURACY], []).name == "accuracy@top0.5"
