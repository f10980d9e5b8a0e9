"""Conditions of a gate, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import UserError
from lmassay.statistics.conditions import Condition, likely_mistake, parse_condition
from lmassay.types import Metric


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
    with pytest.raises(UserError, match="--fail-if") as caught:
        parse_condition(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *(("accuracy<0.02", "accuracy<-0.02"), ("loss>-2%", "loss>2%"), ("a<=+1", "a<=-1")),
        *(("acc<<3", "acc<-3"), ("acc < <3", "acc<-3"), ("loss>>-2%", "loss>2%")),
    ],
)
def test_a_threshold_on_the_wrong_side_of_zero_is_a_slip(text, meant):
    with pytest.raises(UserError, match="new minus base") as caught:
        parse_condition(text)
    assert f"did you mean '{meant}'?" in str(caught.value)


names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)
spaces = st.sampled_from(["", " ", "  ", "\t"])


@given(names, st.sampled_from(["<", "<=", ">", ">="]), st.data())
def test_every_condition_that_is_written_is_read_as_it_was_meant(name, sign, data):
    size = data.draw(st.floats(0, 1e6, allow_nan=False))
    relative = data.draw(st.booleans())
    threshold = -size if sign.startswith("<") else size
    gaps = [data.draw(spaces) for _ in range(5)]
    text = f"{gaps[0]}{name}{gaps[1]}{sign}{gaps[2]}{threshold!r}{gaps[3]}{'%' * relative}{gaps[4]}"
    condition = parse_condition(text)
    assert (condition.metric, condition.operator, condition.relative) == (name, sign, relative)
    assert condition.threshold == threshold / (100 if relative else 1)


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
        condition = parse_condition(text)
    except UserError as error:
        assert len(str(error).splitlines()) <= max(1, len(text.splitlines()))
        return
    percent = "%" if condition.relative else ""
    number = condition.threshold * (100 if condition.relative else 1)
    again = f"{condition.metric}{condition.operator}{number!r}{percent}"
    assert parse_condition(again).metric == condition.metric
    assert parse_condition(again).threshold == pytest.approx(condition.threshold, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "met"),
    [("a<-0.5", False), ("a<=-0.5", False), ("a<-0.4", True), ("a<-0.6", False), ("a>0", False), ("a>=0", False)],
)
def test_a_difference_is_beyond_a_threshold_or_not(text, met):
    assert parse_condition(text).is_met_by(-0.5) is met


def test_rounding_is_not_beyond_a_threshold():
    assert not parse_condition("a<-0.3").is_met_by(-(0.1 + 0.2))


# --- pass only if -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sign", "threshold"),
    [
        ("accuracy>-0.02", ">", -0.02),
        ("accuracy > -2 %", ">", -0.02),
        ("loss<0.1", "<", 0.1),
        ("accuracy>0.01", ">", 0.01),
        ("accuracy not worse by 0.02", "not worse", 0.02),
        ("accuracy  not  worse by 2%", "not worse", 0.02),
    ],
)
def test_a_requirement_may_have_a_threshold_on_either_side_of_zero(text, sign, threshold):
    condition = parse_condition(text, "pass only if")
    assert (condition.operator, condition.threshold, condition.reading) == (sign, threshold, "pass only if")


@pytest.mark.parametrize(
    ("text", "reading", "meant"),
    [
        ("accuracy worse by 0.02", "pass only if", "did you mean 'accuracy not worse by 0.02'?"),
        ("accuracy not worse by 2%", "fail if", "did you mean 'accuracy worse by 2%'?"),
        ("accuracy not worse", "pass only if", "say by how much"),
        ("accuracy worse", "pass only if", "did you mean 'accuracy not worse by 0.02'?"),
        ("accuracy", "pass only if", "--pass-only-if 'accuracy' cannot be read; write METRIC>NUMBER"),
    ],
)
def test_a_condition_in_the_wrong_option_is_a_slip(text, reading, meant):
    with pytest.raises(UserError) as refused:
        parse_condition(text, reading)
    assert meant in str(refused.value)


@pytest.mark.parametrize(("better", "sign", "threshold"), [("higher", ">", -0.02), ("lower", "<", 0.02)])
def test_not_worse_depends_on_which_direction_is_better(better, sign, threshold):
    directed = parse_condition("m not worse by 0.02", "pass only if").directed(Metric("m", better=better))
    assert (directed.operator, directed.threshold) == (sign, threshold)


@pytest.mark.parametrize(("text", "reading"), [("m worse by 0.02", "fail if"), ("m not worse by 1", "pass only if")])
def test_worse_has_no_direction_where_zero_is_best(text, reading):
    with pytest.raises(UserError, match="both directions can be worse"):
        parse_condition(text, reading).directed(Metric("m", better="zero"))


@pytest.mark.parametrize(
    ("text", "reading", "better", "is_slip"),
    [
        ("m<-0.02", "fail if", "higher", False),
        ("m>0.02", "fail if", "higher", True),
        ("m>0.02", "fail if", "lower", False),
        ("m>-0.02", "pass only if", "higher", False),
        ("m<0.02", "pass only if", "higher", True),
        ("m<0.02", "pass only if", "lower", False),
        ("m>0.02", "pass only if", "zero", False),
    ],
)
def test_a_condition_that_blocks_an_improvement_is_pointed_out(text, reading, better, is_slip):
    assert bool(likely_mistake(parse_condition(text, reading), Metric("m", better=better))) is is_slip


@pytest.mark.parametrize("text", ["m<0.03", "m<0", "m<-5%"])
def test_the_condition_that_is_suggested_can_be_used(text):
    warning = likely_mistake(parse_condition(text, "pass only if"), Metric("m"))
    suggested = warning.partition("did you mean '")[2].removesuffix("'?")
    assert likely_mistake(parse_condition(suggested, "pass only if"), Metric("m")) == ""
