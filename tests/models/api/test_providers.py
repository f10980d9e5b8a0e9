"""Azure, CLOVA X and Claude: where they are asked, with which key, and how their answers are read."""

from __future__ import annotations

import json

import pytest

from lmassay.contracts import Model, ask
from lmassay.errors import ConfigError, FatalModelError
from lmassay.models.api.claude import Claude
from lmassay.models.api.openai_models import CLOVA_URL, Azure, Clova, OpenAICompatible
from lmassay.redaction import without_keys
from lmassay.types import Generate, Response
from tests.servers import completion, failure, message, openai_server, prompt_of

KEY = "sentinel-key-0123456789"
VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI", "OPENAI_ORG_ID", "OPENAI_ORG", "CLOVA_API_KEY", "CLOVA", "CLOVA_URL", "CLAUDE"),
    *("AZURE_OPENAI_API_KEY", "API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT", "OPENAI_API_VERSION"),
    *("API_VERSION", "ANTHROPIC_API_KEY", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"),
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def answer_of(model, prompt="hello", **request) -> Response:
    model.check()
    ((_, response),) = ask(model, "generate", [Generate(prompt, max_tokens=9, **request)])
    return response


@pytest.mark.parametrize(
    ("endpoint", "key", "version"),
    [
        ("AZURE_ENDPOINT", "API_KEY", "API_VERSION"),
        ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"),
    ],
)
def test_azure_is_found_by_either_set_of_variables(monkeypatch, endpoint, key, version):
    with openai_server() as server:
        monkeypatch.setenv(endpoint, server.root + "/")
        monkeypatch.setenv(key, KEY)
        monkeypatch.setenv(version, "2026-01-01")
        model = Azure("my-deployment")
        assert answer_of(model).text == "HELLO"
        assert server.paths == ["POST /openai/deployments/my-deployment/chat/completions?api-version=2026-01-01"]
        assert server.headers[0]["Api-Key"] == KEY
        identity = dict(model.identity())
    assert identity == {
        "name": "azure",
        "model": "my-deployment",
        "url": server.root,
        "api": "chat",
        "version": "2026-01-01",
    }


def test_a_prompt_that_azure_filters_is_no_failure():
    body = {"error": {"code": "content_filter", "message": "filtered", "innererror": {}}}
    with openai_server(lambda *_: (400, {}, json.dumps(body).encode())) as server:
        response = answer_of(Azure("d", endpoint=server.root, api_version="v"))
    assert (response.finish, response.answer, response.error) == ("content_filter", None, None)


@pytest.mark.parametrize(
    ("options", "expected_text"),
    [
        ({}, "AZURE_OPENAI_ENDPOINT or AZURE_ENDPOINT"),
        ({"endpoint": "https://x.openai.azure.com"}, "OPENAI_API_VERSION or API_VERSION"),
        ({"endpoint": "https://x.openai.azure.com", "api_version": "v"}, "AZURE_OPENAI_API_KEY, API_KEY"),
        ({"endpoint": "ftp://x", "api_version": "v"}, "endpoint"),
        ({"endpoint": "http://h", "api_version": "v", "model": "../x"}, "deployment"),
    ],
)
def test_what_azure_lacks_is_named(options, expected_text):
    with pytest.raises(ConfigError, match=expected_text):
        Azure(**{"model": "d", **options}).check()


def test_clova_is_asked_at_its_own_address_or_at_that_of_the_variable(monkeypatch):
    assert Clova().base_url == CLOVA_URL
    with pytest.raises(ConfigError, match="CLOVA_API_KEY, CLOVA"):
        Clova().check()
    with openai_server() as server:
        monkeypatch.setenv("CLOVA_URL", server.url)
        monkeypatch.setenv("CLOVA", KEY)
        model = Clova()
        assert answer_of(model).text == "HELLO"
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.bodies[0]["model"] == model.model == "HCX-005"


def test_openai_takes_the_originals_names_of_key_and_organization(monkeypatch):
    monkeypatch.setenv("OPENAI", KEY)
    monkeypatch.setenv("OPENAI_ORG", "org-1")
    with openai_server() as server:
        assert answer_of(OpenAICompatible("m", base_url=server.url)).text == "HELLO"
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["Openai-Organization"] == "org-1"
    assert OpenAICompatible("m").identity()["url"] == "https://api.openai.com/v1"


def test_the_address_is_that_of_the_sdks_variable_unless_an_option_sets_it(monkeypatch):
    with openai_server(lambda body, _: completion("yes") if "messages" in body else failure(404)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = OpenAICompatible("m")
        assert answer_of(model).text == "yes"
        assert model.notes() == [f"requests to m go to {server.url}, the address in OPENAI_BASE_URL"]
        assert OpenAICompatible("m", base_url="http://127.0.0.1:9/v1").base_url == "http://127.0.0.1:9/v1"
        assert OpenAICompatible("m", base_url="http://127.0.0.1:9/v1").notes() == []


def test_claude_is_found_by_anthropics_variable_with_or_without_the_version(monkeypatch):
    with openai_server(lambda body, _: message("yes")) as server:
        for address in (server.root, server.url):
            monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
            assert answer_of(Claude("claude-x")).text == "yes"
    assert server.paths == ["POST /v1/messages"] * 2


def test_the_openai_key_is_not_sent_for_a_claude_model(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("claude-2.0", "anthropic/claude-x"):
        with pytest.raises(ConfigError, match="would get your OpenAI key; write `name: claude`"):
            OpenAICompatible(name, base_url="http://127.0.0.1:9/v1").check()
    OpenAICompatible("claude-2.0", base_url="http://127.0.0.1:9/v1", api_key_env="OPENAI_API_KEY").check()


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "CLAUDE"])
def test_claude_is_asked_for_a_message(monkeypatch, variable):
    monkeypatch.setenv(variable, KEY)
    with openai_server(lambda body, _: message(prompt_of(body).upper())) as server:
        model = Claude("claude-x", base_url=server.root, system="be brief", parameters={"top_k": 1})
        response = answer_of(model, stop=("END", "\n"))
        assert KEY in " ".join(server.headers[0].values())
    assert (response.text, response.finish, response.tokens_in, response.tokens_out) == ("HELLO", "stop", 3, 2)
    assert server.paths == ["POST /v1/messages"]
    assert server.bodies == [
        {
            "model": "claude-x",
            "max_tokens": 9,
            "temperature": 0.0,
            "system": "be brief",
            "stop_sequences": ["END"],
            "top_k": 1,
            "messages": [{"role": "user", "content": "hello"}],
        }
    ]
    assert KEY not in json.dumps(dict(model.identity()))


def test_claude_without_a_key_names_the_variables():
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY, CLAUDE"):
        Claude("claude-x").check()


@pytest.mark.parametrize(
    ("reply", "finish", "text"),
    [
        (message("whole", "end_turn"), "stop", "whole"),
        (message("stopped", "stop_sequence"), "stop", "stopped"),
        (message("cut", "max_tokens"), "length", "cut"),
        (message(None, "max_tokens"), "length", None),
        (message("I will not", "refusal"), "refusal", None),
        (message(None, "refusal"), "refusal", None),
        (message(None, "end_turn"), "empty", ""),
        (message("B", before=({"type": "thinking", "thinking": "hm", "signature": "x"},)), "stop", "B"),
    ],
)
def test_claudes_answers_are_distinguished(reply, finish, text):
    with openai_server(lambda *_: reply) as server:
        response = answer_of(Claude("m", base_url=server.root))
    assert (response.finish, response.answer, response.error) == (finish, text, None)


def test_claude_gets_system_turns_as_system_and_its_text_is_cut_at_white_space():
    with openai_server(lambda *_: message("B\nbecause", "max_tokens")) as server:
        model = Claude("m", base_url=server.root)
        turns = (("system", "S"), ("user", "a"), ("assistant", "b"), ("user", "c"))
        ((_, response),) = ask(model, "generate", [Generate(messages=turns, stop=("\n",))])
    assert server.bodies[0]["system"] == "S"
    assert [turn["role"] for turn in server.bodies[0]["messages"]] == ["user", "assistant", "user"]
    assert (response.text, response.finish) == ("B", "stop")


@pytest.mark.parametrize("body", [b"{}", b'{"content": 7}', b"[1]"])
def test_a_message_without_content_is_an_error_at_once(body):
    with openai_server(lambda *_: (200, {}, body)) as server:
        assert "no text in its `content`" in answer_of(Claude("m", base_url=server.root)).error
        assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "fault",
    [failure(529), failure(429, Retry_After="0.01"), failure(500), (200, {}, b"<html>busy</html>"), (0, {}, b"")],
)
def test_a_passing_fault_is_tried_again_by_our_policy_alone(fault):
    with openai_server(lambda body, before: fault if before < 2 else message("ok")) as server:
        model = Claude("m", base_url=server.root, tries=3, wait=0.01)
        assert answer_of(model).text == "ok"
        assert len(server.bodies) == 3
        assert {h.get("X-Stainless-Retry-Count", "0") for h in server.headers} == {"0"}


@pytest.mark.parametrize(
    ("status", "expected_text"), [(401, "the key was refused"), (403, "denied"), (404, "no such model")]
)
def test_a_wrong_key_fails_at_the_first_call(monkeypatch, status, expected_text):
    monkeypatch.setenv("CLAUDE", KEY)
    with openai_server(lambda *_: failure(status, f"bad {KEY}")) as server:
        with pytest.raises(FatalModelError, match=expected_text) as caught:
            list(ask(Claude("m", base_url=server.root), "generate", [Generate(f"p{i}") for i in range(20)]))
        assert len(server.bodies) == 1
    assert KEY not in str(caught.value)


def test_every_provider_is_a_model_and_says_what_it_can():
    models = [OpenAICompatible("m"), Azure("d"), Clova(), Claude("m")]
    assert all(isinstance(model, Model) for model in models)
    assert {model.can for model in models} == {frozenset({"generate"})}
    assert OpenAICompatible("m", constrain="grammar").can == {"generate", "choices"}
    assert len({json.dumps(dict(model.identity())) for model in models}) == 4


def test_an_answer_to_a_model_that_thinks_aloud_is_not_its_thoughts():
    with openai_server(lambda *_: completion("B", reasoning_content="A or B? B.")) as server:
        assert answer_of(OpenAICompatible("m", base_url=server.url)).text == "B"


def test_organization_and_project_are_sent_to_openai_only(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    with openai_server() as server:
        answer_of(OpenAICompatible("m", base_url=server.url))
        answer_of(Clova(base_url=server.url))
        answer_of(Azure("d", endpoint=server.root, api_version="v"))
    expected_text = [(h.get("Openai-Organization"), h.get("Openai-Project")) for h in server.headers]
    assert expected_text == [("org-1", "proj-1"), (None, None), (None, None)]


@pytest.mark.parametrize("kind", [OpenAICompatible, Claude])
@pytest.mark.parametrize(
    "error",
    [
        {"error": {"code": 502, "message": "the server behind failed"}},
        {"error": {"code": 429, "message": "no"}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ],
)
def test_an_error_under_a_good_status_is_tried_again_and_then_named(kind, error):
    whole = completion if kind is OpenAICompatible else message
    for good_after, expected in ((2, None), (99, "an error instead of an answer")):
        with openai_server(
            lambda _, before, n=good_after: whole("ok") if before >= n else (200, {}, json.dumps(error).encode())
        ) as server:
            url = server.url if kind is OpenAICompatible else server.root
            response = answer_of(kind("m", base_url=url, tries=3, wait=0.01))
            assert len(server.bodies) == 3
        assert response.text == "ok" if expected is None else expected in response.error


def test_a_key_in_an_answer_is_blanked_out_where_it_is_written_and_a_short_one_is_a_word(monkeypatch):
    monkeypatch.setenv("OPENAI", KEY)
    with openai_server(lambda *_: completion(f"your key is {KEY}.")) as server:
        text = answer_of(OpenAICompatible("m", base_url=server.url)).text
    # Tasks score what the model said.
    assert text == f"your key is {KEY}."
    assert without_keys(text) == "your key is [redacted]."
    monkeypatch.setenv("OPENAI", "none")
    with openai_server(lambda *_: completion("none")) as server:
        text = answer_of(OpenAICompatible("m", base_url=server.url)).text
    assert without_keys(text) == "none"


@pytest.mark.parametrize("count", [-1, 1 << 40, True, 1.5])
def test_a_count_of_tokens_that_cannot_be_is_not_taken(count):
    body = json.loads(completion("ok")[2])
    body["usage"]["prompt_tokens"] = count
    with openai_server(lambda *_: (200, {}, json.dumps(body).encode())) as server:
        response = answer_of(OpenAICompatible("m", base_url=server.url))
    assert (response.text, response.tokens_in, response.tokens_out) == ("ok", None, 2)
