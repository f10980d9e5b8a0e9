"""Responses: answers of every kind, and their form as JSON."""

import json

import numpy as np
import pytest

from lmassay.types import (
    Candidate,
    Candidates,
    Continuation,
    Response,
    candidates_from_rows,
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
def test_a_response_is_the_same_after_json(response):
    assert response_from_dict(json.loads(json.dumps(response_as_dict(response)))) == response


def test_a_response_without_text_says_so():
    with pytest.raises(TypeError, match="timed out"):
        _ = Response(error="timed out").text


def test_candidates_store_columns_and_yield_words():
    answer = Candidates(np.array([-1.0, np.nan]), np.array([4.0, np.nan]), np.array([0.5, np.nan]))
    assert list(answer) == [Candidate(-1.0, 4, 0.5), Candidate(None)]
    assert answer == Candidates([-1.0, None], [4, None], [0.5, None])
    assert len(answer) == 2
    assert isinstance(answer[0].rank, int)
