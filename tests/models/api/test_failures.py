"""What an error of a try means."""

from __future__ import annotations

import httpx2
import pytest

from lmassay.models.api.failures import Failure, excerpt, failure_of, failure_of_status, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "99999"}, 99999.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_as_seconds_milliseconds_or_a_date(headers, seconds):
    assert retry_after(headers, now=1000.0) == seconds


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, "", {"fatal": True}),
        (402, "", {"fatal": True}),
        (403, "", {"fatal": True}),
        (404, "", {"fatal": True}),
        (403, '{"error": {"message": "your input was flagged"}}', {"finish": "content_filter"}),
        (403, '{"error": {"message": "Your account was flagged"}}', {"fatal": True}),
        (308, "", {"fatal": True}),
        (429, '{"error": {"code": "insufficient_quota"}}', {"fatal": True}),
        (429, '{"error": {"message": "slow down"}}', {"retryable": True, "busy": True}),
        (503, "", {"retryable": True, "busy": True}),
        (529, '{"error": {"type": "overloaded_error"}}', {"retryable": True, "busy": True}),
        (500, "", {"retryable": True}),
        (408, "", {"retryable": True}),
        (409, "", {"retryable": True}),
        (400, '{"error": {"message": "no"}}', {}),
        (422, "", {}),
        (400, '{"error": {"code": "content_filter"}}', {"finish": "content_filter"}),
        (400, '{"error": {"code": "context_length_exceeded"}}', {"finish": "too_long"}),
        (400, '{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}', {"finish": "too_long"}),
    ],
)
def test_each_status_is_what_it_is(status, body, expected):
    failure = failure_of_status(status, {}, body.encode())
    kinds = {
        name: getattr(failure, name) for name in ("retryable", "busy", "fatal", "finish") if getattr(failure, name)
    }
    assert kinds == expected


@pytest.mark.parametrize(
    ("body", "option"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead.",
            "token_parameter: max_completion_tokens",
        ),
        ("Unsupported value: 'temperature' does not support 0.0 with this model.", "temperature: omit"),
        ("`temperature` is deprecated for this model.", "temperature: omit"),
    ],
)
def test_a_parameter_that_a_newer_model_refuses_ends_the_run_and_names_the_option(body, option):
    failure = failure_of_status(400, {}, body.encode())
    assert failure.fatal
    assert option in failure.message


def test_a_server_that_says_not_to_retry_is_obeyed():
    assert not failure_of_status(500, {"x-should-retry": "false"}, b"").retryable


def test_a_bug_is_no_failure():
    assert failure_of(ValueError("ours")) is None
    assert failure_of(TimeoutError()) == Failure("the server did not answer in time", retryable=True)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (httpx2.ConnectError("refused"), {"unreachable": True}),
        (httpx2.ReadTimeout("x"), {}),
        (httpx2.RemoteProtocolError("x"), {}),
        (httpx2.DecodingError("x"), {}),
    ],
)
def test_a_connection_that_fails_may_work_the_next_time(cause, expected):
    failure = failure_of(cause)
    assert failure.retryable
    assert failure.unreachable == expected.get("unreachable", False)


@pytest.mark.parametrize(
    ("wait", "expected_text"), [("3600", "wait 1 h (HTTP 429: no)"), ("121", "wait 3 min"), ("5400", "wait 1.5 h")]
)
def test_a_server_that_asks_to_come_much_later_ends_the_run(wait, expected_text):
    failure = failure_of_status(429, {"retry-after": wait}, b"no")
    assert failure.fatal
    assert expected_text in failure.message
    assert "continue later with `lmassay resume`" in failure.message
    assert not failure_of_status(429, {"retry-after": "120"}, b"no").fatal


@pytest.mark.parametrize("before", ["x" * 190, "x " * 95, " " * 19_990, " " * 50_000, "\n" * 199])
def test_an_excerpt_never_shows_half_a_key(monkeypatch, before):
    monkeypatch.setenv("SOME_KEY", "0123456789abcdefghij")
    assert "0123" not in excerpt(f"{before} 0123456789abcdefghij and more".encode())
