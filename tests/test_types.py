"""The nouns survive JSON, and requests are equal by what they ask."""

import json
import math

import pytest

from lmassay.types import (
    Candidate,
    Candidates,
    Continuation,
    Generate,
    Metric,
    Provenance,
    Response,
    Slot,
    SourceLocation,
    candidates_from_rows,
    canonical,
    digest,
    provenance_from_dict,
    request_as_dict,
    request_key,
    response_as_dict,
    response_from_dict,
)


@pytest.mark.parametrize(
    "response",
    [
        Response("text", finish="length", tokens_in=1, tokens_out=2, seconds=0.5),
        Response(error="no"),
        Response(""),
        Response(Continuation(-1.5, (-1.0, -0.5))),
        Response(candidates_from_rows([Candidate(-1.0, 3, 0.2, 0.1), Candidate(None)])),
        Response(Candidates([-1.0, None])),
    ],
)
def test_a_response_survives_json(response):
    assert response_from_dict(json.loads(json.dumps(response_as_dict(response)))) == response


def test_the_place_of_a_request_is_no_part_of_what_it_asks():
    here, there = Generate("x", location=SourceLocation("out", 1)), Generate("x", location=SourceLocation("out", 2))
    assert here == there
    assert request_as_dict(here) == request_as_dict(there)


def test_every_parameter_of_a_request_is_part_of_what_it_asks():
    asked = [
        Generate("x"),
        Generate("y"),
        Generate("x", max_tokens=1),
        Generate("x", temperature=1.0),
        Generate("x", stop=(".",)),
        Generate(messages=(("user", "x"),)),
    ]
    assert len({digest(request_as_dict(request)) for request in asked}) == len(asked)


def test_a_lone_surrogate_can_be_stored_and_hashed():
    assert json.loads(canonical({"text": "\ud800"})) == {"text": "\ud800"}
    assert len(digest("\ud800")) == 64


def test_nan_is_refused_rather_than_stored():
    with pytest.raises(ValueError, match="Out of range"):
        canonical(float("nan"))


def test_a_response_without_text_says_so():
    with pytest.raises(TypeError, match="timed out"):
        _ = Response(error="timed out").text


def test_candidates_are_columns_that_read_as_words():
    import numpy as np

    answer = Candidates(np.array([-1.0, np.nan]), np.array([4.0, np.nan]), np.array([0.5, np.nan]))
    assert list(answer) == [Candidate(-1.0, 4, 0.5), Candidate(None)]
    assert answer == Candidates([-1.0, None], [4, None], [0.5, None])
    assert len(answer) == 2
    assert isinstance(answer[0].rank, int)


def test_slots_differ_by_text_words_and_manner():
    words = ("a", "b")
    asked = [
        Slot("x ", ".", words),
        Slot("y ", ".", words),
        Slot("x ", "!", words),
        Slot("x ", ".", ("a", "c")),
        Slot("x ", ".", words, ranked=False),
        Slot("x ", ".", words, multi_token=True),
    ]
    assert len({digest(request_key(request)) for request in asked}) == len(asked)
    assert digest(request_key(asked[0])) == digest(request_key(Slot("x ", ".", ("a", "b"))))
    assert len(digest(request_key(Slot("x ", ".", ("word",) * 2000)))) < 100


def test_what_is_kept_is_readable_and_survives_a_lone_surrogate():
    from lmassay.types import compact

    assert compact({"b": "손자", "a": 1}) == '{"a":1,"b":"손자"}'
    assert json.loads(compact(["x\ud800", "손"])) == ["x\ud800", "손"]
    compact(["x\ud800"]).encode("utf-8")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": ""}, "name must be a text that is not empty"),
        ({"name": 3}, "name must be a text that is not empty"),
        ({"better": "loewr"}, "better must be 'higher', 'lower' or 'zero'"),
        ({"bounds": (1, 0)}, "bounds must be two numbers, the smaller first"),
        ({"bounds": (1, 1)}, "bounds must be two numbers"),
        ({"bounds": (1,)}, "bounds must be two numbers"),
        ({"bounds": "ab"}, "bounds must be two numbers"),
        ({"bounds": (0, math.nan)}, "bounds must be two numbers"),
        ({"bounds": (math.inf, 0)}, "bounds must be two numbers"),
        ({"chance": "half"}, "chance must be a number"),
        ({"chance": math.nan}, "chance must be a number"),
        ({"bounds": (0, 1), "chance": 7}, "chance must be within the bounds"),
    ],
)
def test_a_metric_is_checked_when_it_is_declared(members, message):
    with pytest.raises(ValueError, match=message):
        Metric(**{"name": "m", **members})


@pytest.mark.parametrize(
    ("bounds", "stored", "both"),
    [
        ((0, math.inf), (0.0, None), None),
        ((-math.inf, 1), (None, 1.0), None),
        ((-math.inf, math.inf), None, None),
        ([0, 1], (0.0, 1.0), (0.0, 1.0)),
    ],
)
def test_an_infinite_end_is_no_bound_and_survives_json(bounds, stored, both):
    metric = Metric("m", bounds=bounds)
    assert (metric.bounds, metric.range) == (stored, both)
    written = json.loads(json.dumps(Provenance(metrics=(metric,)).as_dict(), allow_nan=False))
    assert provenance_from_dict(written).metrics == (metric,)


def test_a_stored_metric_that_would_be_refused_today_is_read_without_what_is_wrong():
    read = provenance_from_dict({"metrics": [{"name": "m", "better": "lower", "bounds": [1, 0], "chance": 7}]})
    assert read.metrics == (Metric("m", better="lower"),)


@pytest.mark.parametrize("evaluation", [None, "", "some"])
def test_no_evaluation_and_not_stored_are_told_apart(evaluation):
    assert provenance_from_dict(Provenance(evaluation=evaluation).as_dict()).evaluation == evaluation
