"""JSON texts and digests."""

import json

import pytest

from lmassay.types import canonical, compact, digest


def test_a_lone_surrogate_can_be_stored_and_hashed():
    assert json.loads(canonical({"text": "\ud800"})) == {"text": "\ud800"}
    assert len(digest("\ud800")) == 64


def test_nan_is_refused_rather_than_stored():
    with pytest.raises(ValueError, match="Out of range"):
        canonical(float("nan"))


def test_compact_json_is_not_escaped_unless_it_has_a_lone_surrogate():
    assert compact({"b": "손자", "a": 1}) == '{"a":1,"b":"손자"}'
    assert json.loads(compact(["x\ud800", "손"])) == ["x\ud800", "손"]
    compact(["x\ud800"]).encode("utf-8")
