"""The gate fails on what is both large and significant, and says so when it cannot tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import UserError
from lmassay.statistics.comparison import compare_runs
from lmassay.statistics.conditions import Condition, parse_condition
from lmassay.statistics.gate import judge
from tests.compare_kit import failed, rates, scored, side, two, unscored


def verdict(sides, *conditions, **options):
    base, *others = sides
    wanted = [parse_condition(text) for text in conditions]
    rows = compare_runs(base, others, list(dict.fromkeys(condition.metric for condition in wanted)))
    return judge(wanted, [(base, other) for other in others], rows, **options)


def fallen(n: int, fell: int, *, risen: int = 0, **more):
    """Of n examples that are right, or wrong where they rise, some change."""
    before = [1] * (n - risen) + [0] * risen
    after = [0] * fell + [1] * (n - fell)
    return two(rates(before), rates(after), **more)


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accuracy<-0.02", Condition("accuracy", "<", -0.02)),
        ("  accuracy  <=  -.5 ", Condition("accuracy", "<=", -0.5)),
        ("loss>0", Condition("loss", ">", 0.0)),
        ("loss >= +1e-3", Condition("loss", ">=", 0.001)),
        ("accuracy < -2 %", Condition("accuracy", "<", -0.02, relative=True)),
        ("ew@top0.95<-0.1", Condition("ew@top0.95", "<", -0.1)),
        ("acc.std>0.1", Condition("acc.std", ">", 0.1)),
        ("exact match<-0.1", Condition("exact match", "<", -0.1)),
        ("정확도<−0.02", Condition("정확도", "<", -0.02)),
        ("p<0.5<-0.1", Condition("p<0.5", "<", -0.1)),
        ("<script>>=0.1", Condition("<script>", ">=", 0.1)),
        ("f1=macro<-0.1", Condition("f1=macro", "<", -0.1)),
        ("a−b<-0.1", Condition("a−b", "<", -0.1)),
    ],
)
def test_a_condition_is_read(text, expected):
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "accuracy", "<-0.02", "accuracy<", "accuracy=-0.02", "accuracy==0", "accuracy<nan",
     "accuracy<-inf", "accuracy<-0,02", "accuracy<-0.02x", "accuracy<-1e999"],
)  # fmt: skip
def test_a_condition_that_cannot_be_read_is_one_line(text):
    with pytest.raises(UserError, match="--fail-if") as told:
        parse_condition(text)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "meant"), [("accuracy<0.02", "accuracy<-0.02"), ("loss>-2%", "loss>2%"), ("a<=+1", "a<=-1")]
)
def test_a_threshold_on_the_wrong_side_of_zero_is_a_slip(text, meant):
    with pytest.raises(UserError, match="new less base") as told:
        parse_condition(text)
    assert f"did you mean '{meant}'?" in str(told.value)


names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)
spaces = st.sampled_from(["", " ", "  ", "\t"])


@given(names, st.sampled_from(["<", "<=", ">", ">="]), st.data())
def test_every_condition_that_is_written_is_read_as_it_was_meant(name, sign, data):
    size = data.draw(st.floats(0, 1e6, allow_nan=False))
    relative = data.draw(st.booleans())
    threshold = -size if sign.startswith("<") else size
    gaps = [data.draw(spaces) for _ in range(5)]
    text = f"{gaps[0]}{name}{gaps[1]}{sign}{gaps[2]}{threshold!r}{gaps[3]}{'%' * relative}{gaps[4]}"
    found = parse_condition(text)
    assert (found.metric, found.sign, found.relative) == (name, sign, relative)
    assert found.threshold == threshold / (100 if relative else 1)


# What conditions are made of, put together in any order: about every third text can be read.
pieces = st.sampled_from(
    ["accuracy", "<", ">", "<=", ">=", "-", "−", "+", "0.02", "2", ".5", "1e-3", "1e999", "%", " "]
)
nearly = st.tuples(
    names, st.sampled_from(["<", "<=", ">", ">="]), st.lists(pieces, min_size=1, max_size=3).map("".join)
)
whole = st.tuples(names, st.sampled_from(["<-", "<=-", ">", ">= +"]), st.sampled_from(["0.02", "2%", ".5", "1e-3 %"]))


@given(st.one_of(nearly.map("".join), whole.map("".join), st.lists(pieces, max_size=6).map("".join)))
def test_any_text_is_a_condition_or_one_line(text):
    try:
        found = parse_condition(text)
    except UserError as told:
        assert len(str(told).splitlines()) <= max(1, len(text.splitlines()))
        return
    percent = "%" if found.relative else ""
    again = f"{found.metric}{found.sign}{found.threshold * (100 if found.relative else 1)!r}{percent}"
    assert parse_condition(again).metric == found.metric
    assert parse_condition(again).threshold == pytest.approx(found.threshold, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "met"),
    [("a<-0.5", False), ("a<=-0.5", True), ("a<-0.4", True), ("a<-0.6", False), ("a>0", False), ("a>=0", False)],
)
def test_a_threshold_is_met_or_not(text, met):
    assert parse_condition(text).is_met_by(-0.5) is met


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_drop_that_is_large_and_significant_fails():
    found = verdict(fallen(100, 12), "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("fail", 1)
    assert "the difference is -0.1200, below -0.02, and significant (1.0000 → 0.8800" in found.checks[0].why
    assert "n 100)" in found.checks[0].why


def test_a_drop_that_is_large_but_not_significant_passes_and_says_what_could_have_been_found():
    found = verdict(fallen(100, 6, risen=3), "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("pass", 0)
    (check,) = found.checks
    assert "the difference is -0.0300, below -0.02, but not significant" in check.why
    assert check.detectable == pytest.approx(0.084, abs=0.02)
    assert f"a difference of about {check.detectable:.4f} would be found in 4 of 5 such comparisons" in check.why


def test_a_drop_that_is_significant_but_small_passes():
    found = verdict(fallen(1000, 12), "accuracy<-0.02")
    assert found.checks[0].p < 0.05
    assert found.state == "pass"
    assert "the difference is -0.0120, not below -0.02" in found.checks[0].why


def test_a_gain_passes():
    assert verdict(two(rates([0] * 20), rates([1] * 20)), "accuracy<-0.02").state == "pass"


def test_a_rise_fails_where_a_rise_is_bad():
    assert verdict(two(rates([0] * 20), rates([1] * 20)), "accuracy>0.02").state == "fail"


def test_alpha_decides_what_is_significant():
    sides = fallen(100, 6)
    assert verdict(sides, "accuracy<0").state == "fail"
    assert verdict(sides, "accuracy<0", alpha=0.01).state == "pass"


def test_a_share_of_the_base_is_a_share():
    sides = two(rates([1, 1] * 10 + [0, 0] * 10), rates([1, 0] * 10 + [0, 0] * 10))
    assert verdict(sides, "accuracy<-49%").state == "fail"
    assert verdict(sides, "accuracy<-51%").state == "pass"


def test_a_share_of_nothing_cannot_be_judged():
    found = verdict(two(rates([0] * 20), rates([1] * 20)), "accuracy<-2%")
    assert (found.state, found.exit_code) == ("cannot judge", 2)
    assert "the base mean of accuracy is 0" in found.why_not


def test_a_single_example_cannot_be_judged():
    found = verdict(fallen(1, 1), "accuracy<-0.02")
    assert found.exit_code == 2
    assert "no p can be computed from 1 pair" in found.why_not


def test_a_drop_on_so_few_examples_that_nothing_is_significant_cannot_be_judged():
    found = verdict(fallen(5, 5), "accuracy<-0.02")
    assert found.exit_code == 2
    assert "5 pairs can never be significant" in found.why_not
    assert verdict(fallen(6, 6), "accuracy<-0.02").exit_code == 1


def test_no_drop_on_so_few_examples_cannot_be_judged_either():
    found = verdict(fallen(5, 0), "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("cannot judge", 2)
    assert "5 pairs can never be significant" in found.why_not
    assert "at least 6 are needed" in found.why_not


@pytest.mark.parametrize("after", [0, 5])
def test_a_base_so_low_that_no_drop_can_be_significant_cannot_be_judged(after):
    found = verdict(two(rates([1] * 5 + [0] * 95), rates([1] * after + [0] * (100 - after))), "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("cannot judge", 2)
    assert "only 5 of 100 pairs can fall from where the base run has them" in found.why_not
    assert "at least 6 are needed" in found.why_not
    assert verdict(two(rates([1] * 6 + [0] * 94), rates([0] * 100)), "accuracy<-0.02").exit_code == 1


def test_a_base_so_high_that_no_rise_can_be_significant_cannot_be_judged():
    found = verdict(two(rates([1, 0] * 3), rates([1] * 6)), "accuracy>0.02")
    assert found.exit_code == 2
    assert "only 3 of 6 pairs can rise" in found.why_not


def test_a_significant_gain_passes_though_few_could_have_fallen():
    found = verdict(two(rates([1] * 4 + [0] * 96), rates([1] * 90 + [0] * 10)), "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("pass", 0)


def test_few_clusters_that_can_fall_cannot_be_judged():
    groups = [{"template": str(i // 10)} for i in range(100)]
    sides = two(rates([1] * 50 + [0] * 50, groups=groups), rates([0] * 100, groups=groups), cluster="template")
    assert "only 5 of 10 clusters can fall" in verdict(sides, "accuracy<-0.02").why_not


def test_graded_scores_at_their_end_cannot_move_but_others_can():
    before, after = [scored(i, a=0.3 * (i < 5)) for i in range(40)], [scored(i, a=0.0) for i in range(40)]
    assert "only 5 of 40 pairs can fall" in verdict(two(before, after), "a<-0.02").why_not
    before, after = [scored(i, bleu=30.0 * (i < 5)) for i in range(40)], [scored(i, bleu=0.0) for i in range(40)]
    assert verdict(two(before, after), "bleu<-0.02").exit_code == 0


@pytest.mark.parametrize(("right", "condition"), [(0, "accuracy<-0.02"), (0, "accuracy<0"), (1, "accuracy<-0.02")])
def test_a_base_that_cannot_fall_beyond_the_threshold_passes_and_says_so(right, condition):
    found = verdict(two(rates([1] * right + [0] * (100 - right)), rates([0] * 100)), condition)
    assert found.exit_code == 0
    assert f"from {right / 100:.4f} it cannot fall that far" in found.checks[0].why


def test_a_share_of_a_base_that_is_too_low_cannot_be_judged():
    found = verdict(two(rates([1] * 5 + [0] * 95), rates([0] * 100)), "accuracy<-2%")
    assert "only 5 of 100 pairs can fall" in found.why_not


def test_clusters_in_error_are_not_counted():
    combinations = {"right": {"terms": {"right": 1.0}, "constant": 0.0, "each": None, "bounds": [0.0, 1.0]}}
    rows = [scored(i, {"template": str(i)}, right=1.0) for i in range(8)]
    base = [*rows[:5], *(failed(i) for i in range(5, 8))]
    found = verdict(two(base, rows, combinations=combinations, cluster="template"), "right<-0.02")
    assert found.exit_code == 2
    assert (found.checks[0].row.units, found.checks[0].row.changed) == (5, 0)
    assert "5 pairs can never be significant" in found.why_not


def test_several_tests_need_more_examples_than_one():
    both = ([scored(i, a=1.0, b=1.0) for i in range(6)], [scored(i, a=0.0, b=1.0) for i in range(6)])
    assert verdict(two(*both), "a<0").exit_code == 1
    found = verdict(two(*both), "a<0", "b<0")
    assert found.exit_code == 2
    assert "at least 7 are needed in each of 2 tests" in found.why_not
    all_fell = [scored(i, a=0.0, b=0.0) for i in range(6)]
    assert verdict(two(both[0], all_fell), "a<0", "b<0").exit_code == 1


def test_what_could_be_found_is_less_where_several_tests_are_made():
    before = [scored(i, a=1.0, b=float(i % 2)) for i in range(100)]
    after = [scored(i, a=float(i >= 12), b=float(i % 2)) for i in range(100)]
    alone, both = (verdict(two(before, after), *more).checks[0] for more in (["a<0"], ["a<0", "b<0"]))
    assert both.detectable > alone.detectable
    assert "at least 7 must for a difference" in verdict(two(before, after), "a<0", "b<0").checks[1].why


@pytest.mark.parametrize("kept", [49, 50])
def test_a_run_that_lost_more_than_half_of_its_scores_cannot_be_judged(kept):
    base, _ = fallen(100, 0)
    lost = side("new", [*rates([1] * kept), *(unscored(i) for i in range(kept, 100))])
    gone = side("new", rates([1] * kept))
    for new in (lost, gone):
        found = verdict([base, new], "accuracy<-0.02")
        assert found.checks[0].missing == 100 - kept
        assert found.exit_code == (2 if kept < 50 else 0)
        assert verdict([base, new], "accuracy<-0.02", allow_incomplete=True).exit_code == 0
    if kept < 50:
        found = verdict([base, gone], "accuracy<-0.02")
        assert "51 of the 100 examples with a score in the base run are not in the new one" in found.why_not


def test_what_fell_significantly_fails_even_if_most_is_missing():
    base, _ = fallen(100, 0)
    assert verdict([base, side("new", rates([0] * 20))], "accuracy<-0.02").exit_code == 1


def test_graded_scores_can_be_significant_at_any_alpha():
    before = [scored(i, a=(i * 7 % 20) / 20) for i in range(60)]
    after = [scored(i, a=(i * 7 % 20) / 20 - 0.3 - i / 1000) for i in range(60)]
    sides = two(before, after)
    rows = compare_runs(sides[0], sides[1:], ["a"], smallest_p=1e-9)
    found = judge([parse_condition("a<-0.1")], [tuple(sides)], rows, alpha=1e-9)
    assert found.exit_code == 1
    assert verdict(fallen(40, 40), "accuracy<0", alpha=1e-300).exit_code == 2


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("accuracy<-2", "accuracy lies between 0 and 1, so no difference is that large; did you mean 'accuracy<-2%'?"),
        ("accuracy>1", "did you mean 'accuracy>1%'?"),
        ("accuracy<-200%", "accuracy cannot fall by more than all of it"),
    ],
)
def test_a_threshold_that_no_difference_can_be_beyond_is_a_slip(condition, told):
    with pytest.raises(UserError, match="can never be met") as refused:
        verdict(fallen(40, 40), condition)
    assert told in str(refused.value)


def test_a_threshold_at_the_very_end_can_be_met_and_scores_beyond_1_may_fall_further():
    assert verdict(fallen(40, 40), "accuracy<=-1").exit_code == 1
    assert verdict(fallen(40, 40), "accuracy<=-100%").exit_code == 1
    before, after = [scored(i, bleu=30.0) for i in range(40)], [scored(i, bleu=20.0) for i in range(40)]
    assert verdict(two(before, after), "bleu<-2").exit_code == 1


def test_rounding_is_no_regression():
    before, after = [scored(i, a=0.1 + 0.2) for i in range(40)], [scored(i, a=0.3) for i in range(40)]
    found = verdict(two(before, after), "a<0")
    assert (found.exit_code, found.checks[0].row.difference, found.checks[0].row.changed) == (0, 0.0, 0)
    assert not parse_condition("a<-0.3").is_met_by(-(0.1 + 0.2))
    assert parse_condition("a<=-0.3").is_met_by(-0.3 + 1e-17)


def test_runs_that_are_the_same_pass_and_say_how_many_must_change():
    found = verdict(fallen(40, 0), "accuracy<-0.02")
    assert found.exit_code == 0
    assert "0 of 40 pairs changed, and at least 6 must for a difference to be significant" in found.checks[0].why


def test_few_clusters_are_few_whatever_the_number_of_examples():
    groups = [{"template": str(i % 4)} for i in range(400)]
    sides = two(rates([1] * 400, groups=groups), rates([0] * 400, groups=groups), cluster="template")
    found = verdict(sides, "accuracy<-0.02")
    assert found.exit_code == 2
    assert "4 clusters can never be significant" in found.why_not


def test_several_tests_are_adjusted_for_their_number_and_the_gate_says_so():
    before = [scored(i, a=1.0, b=1.0) for i in range(40)]
    after = [scored(i, a=float(i >= 6), b=1.0) for i in range(40)]
    alone = verdict(two(before, after), "a<0")
    assert (alone.state, alone.tests) == ("fail", 1)
    both = verdict(two(before, after), "a<0", "b<0")
    assert (both.state, both.tests) == ("pass", 2)
    assert both.checks[0].p == pytest.approx(2 * alone.checks[0].p)
    assert "adjusted for 2 tests" in both.checks[0].why
    assert "adjustment for 2 tests" in both.how()


def test_two_conditions_on_one_metric_are_one_test():
    found = verdict(fallen(40, 10), "accuracy<-0.02", "accuracy>0.5")
    assert found.tests == 1
    assert [check.state for check in found.checks] == ["fail", "pass"]


def test_every_new_run_is_judged():
    base, good = fallen(40, 0)
    bad = side("bad", rates([0] * 20 + [1] * 20))
    found = verdict([base, good, bad], "accuracy<-0.02")
    assert [check.state for check in found.checks] == ["pass", "fail"]
    assert found.exit_code == 1


def test_a_failure_counts_even_if_another_condition_cannot_be_judged():
    base = [scored(i, a=1.0, b=0.0) for i in range(20)]
    new = [scored(i, a=0.0, b=0.0) for i in range(20)]
    assert verdict(two(base, new), "a<0", "b<-2%").exit_code == 1


def test_a_metric_that_the_runs_share_no_example_of_is_told():
    sides = two([scored(0, a=1.0, b=1.0), scored(1, a=1.0)], [scored(0, a=1.0), scored(1, a=1.0, b=1.0)])
    with pytest.raises(UserError, match="share no example with a score of b"):
        verdict(sides, "a<0", "b<0")


@pytest.mark.parametrize("status", ["running", "interrupted", "incomplete", "waiting"])
def test_an_unfinished_run_is_refused(status):
    base, _ = fallen(40, 0)
    new = side("new", rates([0] * 40), status=status)
    found = verdict([base, new], "accuracy<-0.02")
    assert (found.state, found.exit_code) == ("cannot judge", 2)
    assert f"new is {status}" in found.why_not
    assert "--allow-incomplete" in found.why_not
    assert {check["verdict"] for check in found.as_json()["checks"]} == {"cannot judge"}
    assert verdict([base, new], "accuracy<-0.02", allow_incomplete=True).exit_code == 1


def test_examples_in_error_in_the_new_run_are_refused():
    base, _ = fallen(40, 0)
    new = side("new", [*rates([1] * 39), failed(39)])
    found = verdict([base, new], "accuracy<-0.02")
    assert found.exit_code == 2
    assert "new has 1 example in error" in found.why_not


def test_examples_that_lost_their_score_are_told_for_no_test_sees_them():
    base, _ = fallen(40, 0)
    new = side("new", [*rates([1] * 30), *(unscored(i) for i in range(30, 40))])
    found = verdict([base, new], "accuracy<-0.02")
    assert (found.state, found.checks[0].lost) == ("pass", 10)
    assert "10 examples with a score in the base run have none in the new one" in found.checks[0].why


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 6), (0.01, 8), (0.5, 3), (0.9, 2)])
def test_how_many_must_change_is_what_the_sign_test_says(alpha, least):
    assert fewest_units(alpha) == least
    assert verdict(fallen(20, least), "accuracy<0", alpha=alpha).state == "fail"
    assert verdict(fallen(20, least - 1), "accuracy<0", alpha=alpha).state == "pass"


def test_the_verdict_survives_a_trip_through_json():
    import json

    document = json.loads(json.dumps(verdict(fallen(40, 10), "accuracy<-0.02").as_json()))
    assert document["verdict"] == "fail"
    assert document["checks"][0]["condition"] == "accuracy<-0.02"
    assert {"difference", "low", "high", "p", "n", "units", "changed", "detectable", "why"} <= set(
        document["checks"][0]
    )
