"""What went wrong with one try, told in one line."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from lmassay.errors import FatalModelError, ModelError
from lmassay.redaction import redact
from lmassay.types import Finish

LONGEST_WAIT = 120.0
"""A server that asks for more seconds is not waited for."""
TOO_LATE = "the server did not answer in time"
_FATAL = {
    401: "the key was refused",
    402: "the account is out of credit",
    403: "access was denied",
    404: "there is no such model or address",
}
_RETRIED = frozenset({408, 409, 425, 429})
# "Too many requests", "service unavailable" and Anthropic's "overloaded".
_BUSY = frozenset({429, 503, 529})
_OUT_OF_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit balance is too low")
_FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_MODERATED = ("moderation", "flagged", "content policy", "content_policy", "content_filter")
_BUSY_WORDS = ("rate_limit", "overloaded", "too_many_requests")
# Of a body: what is shown, and what is looked through for keys before it is cut.
_SHOWN, _GENEROUS, _WORDS = 200, 20_000, 2_000
_TOO_LONG = ("context_length_exceeded", "exceed_context_size_error", "maximum context length", "prompt is too long")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a try came to nothing, and what to do about it."""

    told: str
    passing: bool = False
    """It may pass: ask again."""
    wait: float | None = None
    """Seconds that the server asked for."""
    busy: bool = False
    """The server says that it is asked too much."""
    fatal: bool = False
    """Every further request would fail too."""
    unreached: bool = False
    """Nothing is known to listen there."""
    finish: Finish | None = None
    """No failure of the server: this is how the question ended."""
    status: int | None = None
    """The HTTP status, where there was an answer."""


class NotJsonError(ModelError):
    """A good status with a body that is no JSON: a page of some proxy, or half an answer."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(f"the server's answer is no JSON: {excerpt(raw)}")


class ErrorInAnswerError(ModelError):
    """A good status with an error in the body, as gateways send it when the server behind them failed."""

    def __init__(self, data: Mapping[str, Any], lacking: str) -> None:
        body = json.dumps(data)
        told = f"the server's answer has no {lacking} in it but an error: {excerpt(body.encode())}"
        self.failure = _failure_in_answer(data, body, told)
        super().__init__(self.failure.told)


def _failure_in_answer(data: Mapping[str, Any], body: str, told: str) -> Failure:
    if any(sign in body for sign in _OUT_OF_CREDIT):
        return Failure(f"the account is out of credit ({told})", fatal=True)
    if any(sign in body for sign in _FILTERED):
        return Failure(told, finish="content_filter")
    error = data.get("error")
    codes = [str(error.get(name, "")) for name in ("code", "type", "status")] if isinstance(error, dict) else []
    busy = any(code in map(str, _BUSY) or any(word in code.lower() for word in _BUSY_WORDS) for code in codes)
    return Failure(told, passing=True, busy=busy)


def refuse_error(data: Any, lacking: str) -> None:
    """Raise if what should be an answer is an error; ``lacking`` is what the answer should hold."""
    if isinstance(data, dict) and (data.get("error") or data.get("type") == "error"):
        raise ErrorInAnswerError(data, lacking)


def read_json(raw: bytes) -> Any:
    """The body of an answer; what is no JSON may be so the next time."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise NotJsonError(raw) from None


def failure_of(error: Exception) -> Failure | None:
    """What an error of a try means; None for one that is no matter of the network but a bug."""
    if isinstance(error, TimeoutError):
        return Failure(TOO_LATE, passing=True)
    if isinstance(error, ErrorInAnswerError):
        return error.failure
    if isinstance(error, ModelError):
        return Failure(str(error), passing=isinstance(error, NotJsonError), fatal=isinstance(error, FatalModelError))
    if isinstance(error, httpx2.HTTPStatusError):
        response = error.response
        failure = failure_of_status(response.status_code, response.headers, response.content)
        return replace(failure, status=response.status_code)
    return _failure_of_connection(error)


def _failure_of_connection(error: Exception) -> Failure | None:
    told = redact(str(error) or type(error).__name__)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return Failure(told, passing=True, unreached=True)
    if isinstance(error, httpx2.TimeoutException):
        return Failure(TOO_LATE, passing=True)
    if isinstance(error, httpx2.DecodingError):
        return Failure("the server's answer could not be unpacked", passing=True)
    if isinstance(error, httpx2.TransportError):
        return Failure(f"the connection broke: {told}", passing=True)
    return None


def failure_of_status(status: int, headers: Mapping[str, str], raw: bytes) -> Failure:
    """What a status other than success means."""
    if 300 <= status < 400:
        where = redact(headers.get("location", "nowhere"))
        return Failure(
            f"the server redirects to {where} (HTTP {status}); set base_url to the final address", fatal=True
        )
    body = raw[:20_000].decode("utf-8", "replace")
    told = f"HTTP {status}: {excerpt(raw)}"
    if status == 403 and _is_moderated(body.lower()):
        return Failure(told, finish="content_filter")
    if status in _FATAL:
        return Failure(f"{_FATAL[status]} ({told})", fatal=True)
    if any(sign in body for sign in _OUT_OF_CREDIT):
        return Failure(f"the account is out of credit ({told})", fatal=True)
    if 400 <= status < 500 and status not in _RETRIED:
        return _failure_of_question(body, told)
    passing, busy = headers.get("x-should-retry") != "false", status in _BUSY
    wait = retry_after(headers)
    if passing and wait is not None and wait > LONGEST_WAIT:
        told = f"the server asks to wait {_duration(wait)} ({told}); go on later with resume"
        return Failure(told, busy=busy, fatal=True)
    return Failure(told, passing=passing, wait=wait, busy=busy)


def _is_moderated(body: str) -> bool:
    # An account that was flagged is refused everything.
    return "account" not in body and any(sign in body for sign in _MODERATED)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{math.ceil(seconds / 60)} min"


def _failure_of_question(body: str, told: str) -> Failure:
    """The server did not like what it was asked."""
    if any(sign in body for sign in _FILTERED):
        return Failure(told, finish="content_filter")
    if any(sign in body for sign in _TOO_LONG):
        return Failure(told, finish="too_long")
    remedy = _remedy(body)
    return Failure(f"{told}; {remedy}", fatal=True) if remedy else Failure(told)


def _remedy(body: str) -> str:
    """Newer models refuse parameters that older ones need; which option helps is told."""
    if "max_completion_tokens" in body and "max_tokens" in body.replace("max_completion_tokens", ""):
        return "set `token_parameter: max_completion_tokens` for this model"
    refused = any(word in body.lower() for word in ("unsupported", "not support", "deprecated", "not permitted"))
    return "set `temperature: omit` for this model" if refused and "temperature" in body else ""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The wait in seconds that a server asks for, as seconds, milliseconds or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if wait >= 0 and math.isfinite(wait):
            return wait
    try:
        due = parsedate_to_datetime(headers["retry-after"]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
    return max(0.0, due - (time.time() if now is None else now))


def excerpt(raw: bytes) -> str:
    """The beginning of a body in one line."""
    # Blanks go first, however many: what is cut off here is far behind what is shown.
    text = " ".join(raw.decode("utf-8", "replace").split(maxsplit=_WORDS)[:_WORDS])[:_GENEROUS]
    # Redacted before it is cut: half a key is still a secret.
    return redact(text)[:_SHOWN] or "(empty body)"
