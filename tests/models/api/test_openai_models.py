"""A live server: answers, faults, bounded retries, and no key anywhere."""

from __future__ import annotations

import json
import threading

import pytest

from lmassay.budget import Prices
from lmassay.contracts import ask
from lmassay.errors import ConfigError, FatalModelError
from lmassay.models.api.client import MAX_BODY
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.plugins.options import build
from lmassay.types import Generate, Response
from tests.servers import completion, failure, gzip_bomb, openai_server, prompt_of


def answers(url, *prompts, **options) -> list[Response]:
    model = OpenAICompatible(base_url=url, model="m", **{"wait": 0.01, "tries": 3, "timeout": 5.0, **options})
    model.check()
    response_of = dict(ask(model, "generate", [Generate(prompt, max_tokens=9) for prompt in prompts]))
    return [response_of[index] for index in range(len(prompts))]


def test_every_prompt_gets_its_own_answer_whatever_the_order_of_arrival():
    prompts = [f"p{i}" for i in range(40)]
    with openai_server() as server:
        assert [a.text for a in answers(server.url, *prompts)] == [p.upper() for p in prompts]
        assert sorted(server.prompts) == sorted(prompts)
        assert server.bodies[0] == {
            "model": "m",
            "messages": [{"role": "user", "content": "p0"}],
            "max_tokens": 9,
            "temperature": 0.0,
        }


def test_requests_run_side_by_side_up_to_the_concurrency():
    together = threading.Barrier(4, timeout=60)

    def wait_for_three_others(body, _):
        if prompt_of(body) != "first":
            together.wait()
        return completion("ok")

    with openai_server(wait_for_three_others) as server:
        assert len(answers(server.url, "first", *"abcd", concurrency=4)) == 5


def test_the_older_completions_api_a_system_prompt_and_parameters_are_sent():
    def reply(body, _):
        return 200, {}, json.dumps({"choices": [{"text": body["prompt"], "finish_reason": "length"}]}).encode()

    with openai_server(reply) as server:
        (answer,) = answers(server.url, "x", api="completions", system="S: ", parameters={"top_k": 1})
        assert answer == Response("S: x", finish="length", seconds=answer.seconds)
        assert server.bodies[0]["top_k"] == 1


@pytest.mark.parametrize(
    ("reply", "finish", "text"),
    [
        (completion("cut", "length"), "length", "cut"),
        (completion("", "stop"), "empty", ""),
        (completion(None), "empty", ""),
        (completion(None, "content_filter"), "content_filter", None),
        (completion("half", "content_filter"), "content_filter", None),
        (completion(None, refusal="I won't"), "refusal", None),
        (completion("", "length"), "length", None),
        (failure(400, "context_length_exceeded"), "too_long", None),
    ],
)
def test_cut_empty_filtered_and_refused_answers_are_distinguished(reply, finish, text):
    with openai_server(lambda *_: reply) as server:
        (answer,) = answers(server.url, "x")
    assert (answer.finish, answer.answer, answer.error) == (finish, text, None)


@pytest.mark.parametrize(
    "fault",
    [
        failure(429, Retry_After="0.01"),
        failure(429, retry_after_ms="5"),
        failure(429, Retry_After="Wed, 21 Oct 2020 07:28:00 GMT"),
        failure(500),
        failure(503),
        (200, {}, b"<html>busy</html>"),
        (0, {}, b""),
    ],
)
def test_a_passing_fault_is_tried_again(fault):
    with openai_server(lambda body, before: fault if before == 0 else completion("ok")) as server:
        assert [a.text for a in answers(server.url, "x", "y")] == ["ok", "ok"]
        assert len(server.bodies) == 4


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (failure(500, "broken"), "HTTP 500"),
        ((200, {}, b"<html>busy</html>"), "not JSON"),
        ((0, {}, b""), "the connection broke"),
        ((200, {"Content-Encoding": "gzip"}, b"not gzip"), "could not be decompressed"),
    ],
)
def test_a_fault_for_ever_ends_after_the_tries_as_an_error_of_that_example(fault, message):
    with openai_server(lambda body, _: fault if prompt_of(body) == "bad" else completion("ok")) as server:
        good, bad, other = answers(server.url, "good", "bad", "other")
        assert (good.text, other.text) == ("ok", "ok")
        assert message in bad.error
        assert "tried 3 times" in bad.error
        assert server.prompts.count("bad") == 3


@pytest.mark.parametrize(
    "reply", [(200, {}, b"{}"), (200, {}, b'{"choices": []}'), (200, {}, b"[1]"), failure(400, "too long")]
)
def test_an_answer_without_a_choice_or_a_bad_request_is_an_error_at_once(reply):
    with openai_server(lambda *_: reply) as server:
        (answer,) = answers(server.url, "x")
        assert answer.error
        assert len(server.bodies) == 1


@pytest.mark.fault(11)
def test_a_time_out_is_an_error_not_a_hang():
    release = threading.Event()

    def hang(body, _):
        release.wait(10)
        return completion("late")

    with openai_server(hang) as server:
        (answer,) = answers(server.url, "x", timeout=0.2, tries=2)
        release.set()
    assert "did not answer in time" in answer.error


def test_a_body_that_unpacks_without_end_is_cut_off():
    with openai_server(lambda *_: gzip_bomb(MAX_BODY + 1)) as server:
        (answer,) = answers(server.url, "x")
    assert "larger than" in answer.error


@pytest.mark.parametrize(("status", "message"), [(401, "the key was refused"), (403, "denied"), (404, "no such model")])
def test_a_wrong_key_or_address_fails_at_the_first_call(status, message):
    with openai_server(lambda *_: failure(status)) as server:
        with pytest.raises(FatalModelError, match=message):
            answers(server.url, *(f"p{i}" for i in range(100)))
        assert len(server.bodies) == 1


def test_no_server_at_all_is_reported_at_once():
    with openai_server() as server:
        url = server.url
    with pytest.raises(FatalModelError, match="is it running"):
        answers(url, *"abcdefgh", tries=2)


def test_the_key_comes_from_the_environment_and_is_not_in_identity_or_errors(monkeypatch):
    monkeypatch.setenv("TEST_KEY_NAME", "sentinel-secret-value")

    def leak(body, _):
        return failure(400, "bad key sentinel-secret-value and sk-abcdefghijklmnop")

    with openai_server(leak) as server:
        (answer,) = answers(server.url, "x", api_key_env="TEST_KEY_NAME")
        assert server.headers[0]["Authorization"] == "Bearer sentinel-secret-value"
    assert "sentinel" not in answer.error
    assert "abcdefgh" not in answer.error
    identity = OpenAICompatible(base_url="http://h/v1", model="m", api_key_env="TEST_KEY_NAME").identity()
    assert "sentinel" not in json.dumps(dict(identity))


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://h:99999/v1"},
        {"base_url": "http://h:abc/v1"},
        {"base_url": "http://[::1/v1"},
        {"base_url": "http://h/v1?api-key=secret"},
        {"base_url": "http://h", "parameters": {"temperature": 1.0}},
        {"base_url": "http://h", "parameters": {"api_key": "x"}},
        {"base_url": "http://h", "parameters": {"a": float("nan")}},
        {"base_url": "http://h", "parameters": {"a": object()}},
        {"base_url": "ftp://x"},
        {"base_url": "http://user:pw@host/v1"},
        {"base_url": "http://h", "concurrency": 0},
        {"base_url": "http://h", "tries": 0},
    ],
)
def test_what_can_be_known_beforehand_is_checked_without_a_connection(options):
    with pytest.raises(ConfigError):
        OpenAICompatible(model="m", **options).check()


def test_openai_itself_needs_a_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI", raising=False)
    with pytest.raises(ConfigError, match="none of the environment variables OPENAI_API_KEY, OPENAI is set"):
        OpenAICompatible(model="m").check()
    with pytest.raises(ConfigError, match="the environment variable MINE is not set"):
        OpenAICompatible(model="m", api_key_env="MINE").check()


@pytest.mark.parametrize("key", ["two words", "curly ’ quote", "line\nbreak"])
def test_a_key_that_cannot_be_sent_is_reported_without_showing_it(monkeypatch, key):
    monkeypatch.setenv("ODD_KEY", key)
    with pytest.raises(ConfigError, match="ODD_KEY") as caught:
        OpenAICompatible(base_url="http://h", model="m", api_key_env="ODD_KEY").check()
    assert key not in str(caught.value)


def test_a_key_is_redacted_whatever_its_variable_is_called_and_wherever_the_text_is_cut(monkeypatch):
    monkeypatch.setenv("MY_AUTH", "plain-words-no-pattern")
    padding = "x" * 170

    with openai_server(lambda *_: failure(400, f"{padding} plain-words-no-pattern")) as server:
        (answer,) = answers(server.url, "x", api_key_env="MY_AUTH")
    assert "plain" not in answer.error


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "ok"}}], "usage": [1]},
        {"choices": [{"message": {"content": [{"text": "ok"}, {"text": None}]}}]},
    ],
)
def test_odd_but_readable_answers_are_read(body):
    with openai_server(lambda *_: (200, {}, json.dumps(body).encode())) as server:
        assert answers(server.url, "x")[0].text == "ok"


@pytest.mark.parametrize("body", [{"error": {"message": "overloaded"}}, {"choices": [{"message": {"content": 7}}]}])
def test_an_answer_that_is_none_is_quoted_in_the_error(body):
    with openai_server(lambda *_: (200, {}, json.dumps(body).encode())) as server:
        (answer,) = answers(server.url, "x")
    assert "an error instead of an answer" in answer.error or "no text in its `choices`" in answer.error
    assert "7" in answer.error or "overloaded" in answer.error


def test_a_redirect_ends_the_run_and_names_the_address():
    with openai_server(lambda *_: failure(308, Location="http://elsewhere/v1")) as server:
        with pytest.raises(FatalModelError, match="http://elsewhere/v1"):
            answers(server.url, "x", "y")
        assert len(server.bodies) == 1


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with openai_server() as server:
        assert answers(server.url, "x")[0].text == "X"


def test_sampled_requests_carry_no_key_that_would_repeat_an_answer():
    with openai_server() as server:
        model = OpenAICompatible(base_url=server.url, model="m")
        list(ask(model, "generate", [Generate("a"), Generate("b", temperature=0.7)]))
        sent = {prompt_of(b): h.get("Idempotency-Key", "") for b, h in zip(server.bodies, server.headers, strict=True)}
    assert sent["a"].startswith("lmassay-")
    assert sent["b"] == ""


def test_no_question_goes_out_before_an_earlier_answer_was_taken():
    with openai_server() as server:
        model = OpenAICompatible(base_url=server.url, model="m", concurrency=3)
        stream = ask(model, "generate", [Generate(f"p{i}") for i in range(60)])
        for taken in range(1, 20):
            next(stream)
            # Whatever the server's speed, at most `concurrency` questions are ahead of what was taken.
            assert len(server.bodies) <= taken + 3
        stream.close()


def test_closing_early_stops_the_work_in_flight():
    with openai_server(latency=0.02) as server:
        model = OpenAICompatible(base_url=server.url, model="m", concurrency=2)
        stream = ask(model, "generate", [Generate(f"p{i}") for i in range(500)])
        next(stream)
        stream.close()
        seen = len(server.bodies)
        assert seen < 50


def test_a_prompt_with_half_a_surrogate_pair_is_not_sent():
    with openai_server(lambda *_: completion("ok")) as server:
        half, whole = answers(server.url, "\ud800", "x")
        assert server.prompts == ["x"]
    assert (half.finish, half.answer, half.error) == ("not_text", None, None)
    assert whole.text == "ok"


def test_a_newer_model_gets_the_parameters_that_it_knows():
    with openai_server() as server:
        answers(server.url, "x", token_parameter="max_completion_tokens", temperature="omit")
    assert server.bodies[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "max_completion_tokens": 9,
    }
    plain, omitted = (OpenAICompatible("m", temperature=t).identity() for t in ("send", "omit"))
    assert plain != omitted, "answers at the server's own temperature are other answers"


def test_a_model_that_refuses_a_parameter_ends_the_run_at_the_first_call():
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    with openai_server(lambda *_: failure(400, message)) as server:
        with pytest.raises(FatalModelError, match="set `token_parameter: max_completion_tokens`"):
            answers(server.url, *"abcdefgh")
        assert len(server.bodies) == 1


def test_options_are_read_from_a_configuration(tmp_path):
    spec = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1", "prices": {"input": 1, "output": 2.5}}
    assert build("model", spec, tmp_path).prices == Prices(1.0, 2.5)
    for prices in ({"input": 1}, {"input": 1, "output": 2, "cached": 3}, {"input": "x", "output": 1}):
        with pytest.raises(ConfigError, match=r"model\.prices"):
            build("model", {**spec, "prices": prices}, tmp_path)


def test_a_temperature_that_is_not_sent_is_refused():
    model = OpenAICompatible("m", temperature="omit")
    model.check_requests([Generate("x", temperature=1.0), Generate("x", temperature=0.0)])
    with pytest.raises(ConfigError, match=r"temperature: 0\.7 would have no effect.*write temperature: 1"):
        model.check_requests([Generate("x", temperature=0.7)])
    OpenAICompatible("m").check_requests([Generate("x", temperature=0.7)])
