"""JSON texts and digests."""

import json

import pytest

from lmassay.types import canonical, compact, digest
from lmassay.types.json_text import from_json


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


@pytest.mark.parametrize("text", ['{"a":[1,null,"손"]}', ' {"a": 1}\n', b'["\xec\x86\x90"]', "NaN", '"\\ud800"', "7"])
def test_json_is_read_as_the_standard_library_reads_it(text):
    assert repr(from_json(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", "x", '{"a":', '{"a":1} x', "\ufeff{}", "[1,]"])
def test_a_mistake_in_json_has_the_message_of_the_standard_library(text):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as refused:
        from_json(text)
    assert str(refused.value) == str(expected.value)


def test_a_value_that_is_not_text_is_refused():
    with pytest.raises(TypeError):
        from_json(None)
