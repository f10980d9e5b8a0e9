"""Answers that must be one of some texts, in the words of each kind of server."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.contracts import ask
from lmassay.errors import ConfigError
from lmassay.models.api.claude import Claude
from lmassay.models.api.dialects import gbnf
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate
from tests.servers import completion, openai_server

CHOICES = ("A", "알 수 없음")


def asked(constrain, text="A", **options):
    with openai_server(lambda *_: completion(text)) as server:
        model = OpenAICompatible("m", base_url=server.url, constrain=constrain, **options)
        model.check()
        ((_, response),) = ask(model, "generate", [Generate("q", choices=CHOICES)])
    return server.bodies[0], response


@pytest.mark.parametrize(
    ("constrain", "name", "value"),
    [
        ("grammar", "grammar", 'root ::= "A" | "알 수 없음"'),
        ("guided_choice", "guided_choice", list(CHOICES)),
        ("structured_outputs", "structured_outputs", {"choice": list(CHOICES)}),
    ],
)
def test_choices_are_sent_as_the_server_knows_them(constrain, name, value):
    body, response = asked(constrain)
    assert body[name] == value
    assert response.text == "A"


def test_an_object_around_the_choice_is_taken_off():
    body, response = asked("json_schema", json.dumps({"answer": "알 수 없음"}))
    assert body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"] == list(CHOICES)
    assert response.text == "알 수 없음"
    assert body["max_tokens"] > 256, "there is room for the object"


@pytest.mark.parametrize("text", ["A", "{", "[]", '{"answer": 7}', '{"other": "A"}'])
def test_an_answer_without_that_object_stays_as_it_is(text):
    assert asked("json_schema", text)[1].text == text


def test_a_question_without_choices_is_not_constrained():
    with openai_server(lambda *_: completion('{"answer": "A"}')) as server:
        model = OpenAICompatible("m", base_url=server.url, constrain="json_schema")
        ((_, response),) = ask(model, "generate", [Generate("q")])
    assert "response_format" not in server.bodies[0]
    assert response.text == '{"answer": "A"}'


def test_a_model_that_has_no_setting_for_them_refuses_choices():
    for model in (OpenAICompatible("m", base_url="http://127.0.0.1:1/v1"), Claude("m", base_url="http://127.0.0.1:1")):
        with pytest.raises(ConfigError, match="choices"):
            list(ask(model, "generate", [Generate("q", choices=CHOICES)]))


def test_the_identity_tells_constrained_from_free():
    free, held = (OpenAICompatible("m", constrain=constrain).identity() for constrain in ("none", "grammar"))
    assert free != held


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4))
def test_any_text_can_stand_in_a_grammar(choices):
    grammar = gbnf(choices)
    assert "\n" not in grammar
    assert _texts(grammar) == choices


def _texts(grammar: str) -> list[str]:
    """What the quoted texts of a grammar stand for, read character by character as llama.cpp does."""
    plain = {"n": "\n", "r": "\r", "t": "\t"}
    texts, inside, chars = [], None, iter(grammar.removeprefix("root ::= "))
    for char in chars:
        if inside is None:
            inside = "" if char == '"' else None
        elif char == '"':
            texts.append(inside)
            inside = None
        elif char == "\\":
            escaped = next(chars)
            inside += (
                chr(int("".join(next(chars) for _ in range(8)), 16)) if escaped == "U" else plain.get(escaped, escaped)
            )
        else:
            inside += char
    return texts
