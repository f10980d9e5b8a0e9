"""Classify what went wrong with one attempt at a request, and describe it in one line."""

from __future__ import annotations

import json
import math
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from lmassay import redaction
from lmassay.errors import FatalModelError, ModelError
from lmassay.redaction import redact
from lmassay.types import Finish

MAX_WAIT = 120.0
"""Seconds. If a server asks for a longer wait, the run stops instead of waiting; it can be resumed later."""

TOO_LATE = "the server did not answer in time"

# Statuses after which every further request would fail as well.
_FATAL = {
    401: "the key was refused",
    402: "the account is out of credit",
    403: "access was denied",
    404: "there is no such model or address",
}
# Statuses of the 4xx range that are worth another attempt.
_RETRIED = frozenset({408, 409, 425, 429})
# "Too many requests", "service unavailable" and Anthropic's "overloaded".
_BUSY = frozenset({429, 503, 529})

# What providers write into the body of an error.
_OUT_OF_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit balance is too low")
_FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_MODERATED = ("moderation", "flagged", "content policy", "content_policy", "content_filter")
_BUSY_CODES = ("rate_limit", "overloaded", "too_many_requests")
_TOO_LONG = ("context_length_exceeded", "exceed_context_size_error", "maximum context length", "prompt is too long")
_UNSUPPORTED = ("unsupported", "not support", "deprecated", "not permitted")

# How deeply a response may be nested. No server nests deeper, and it is far below Python's limit for recursion.
_DEEPEST = 100
_TOO_DEEP = f"the server's answer is JSON that is nested more than {_DEEPEST} levels deep"
# How many digits an integer may have. The largest float has 309, so a shorter integer can be converted to float.
_LONGEST_INTEGER = 300

# OpenSSL's reasons if the first bytes of a server are not TLS.
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
)

# What nginx and servers in Go answer to an unencrypted request at a port for TLS.
_NEEDS_TLS = ("plain http request was sent to https port", "http request to an https server")

# How many bytes of a body are searched for the phrases above.
_SEARCHED_BYTES = 20_000
# The maximum length of an excerpt of a body, in characters.
_EXCERPT_LENGTH = 200
# Secrets are redacted before the excerpt is cut, but only in this many words, because redaction takes time.
_REDACTED_WORDS = 2_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, and what follows from it."""

    message: str
    retryable: bool = False
    """Another attempt may succeed."""
    wait: float | None = None
    """Seconds that the server asked to wait."""
    busy: bool = False
    """The server says that it gets too many requests."""
    fatal: bool = False
    """Every further request would fail as well."""
    unreachable: bool = False
    """No connection could be made."""
    refused: bool = False
    """The machine can be reached, but no program listens at the port."""
    finish: Finish | None = None
    """Not a failure of the server: the request ended in this way, e.g. in a content filter."""
    status: int | None = None
    """The HTTP status, if there was a response."""


class NotJsonError(ModelError):
    """A successful response whose body is not JSON: the page of a proxy, or half a response."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(f"the server's answer is not JSON: {excerpt(raw)}")


class ErrorInAnswerError(ModelError):
    """A successful response with an error in its body, as gateways send it when the server behind them fails."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        body = json.dumps(data)
        message = f"the server returned an error instead of an answer: {excerpt(body.encode())}"
        self.failure = _failure_in_body(data, body, message)
        super().__init__(self.failure.message)


def _failure_in_body(data: Mapping[str, Any], body: str, message: str) -> Failure:
    """Classify an error that was sent with a successful HTTP status."""
    if _contains_any(body, _OUT_OF_CREDIT):
        return Failure(f"the account is out of credit ({message})", fatal=True)
    if _contains_any(body, _FILTERED):
        return Failure(message, finish="content_filter")
    return Failure(message, retryable=True, busy=_has_busy_code(data.get("error")))


def _has_busy_code(error: Any) -> bool:
    """Whether an error object says, by a status or by a code of the provider, that the server is too busy."""
    if not isinstance(error, dict):
        return False
    busy_statuses = {str(status) for status in _BUSY}
    for name in ("code", "type", "status"):
        code = str(error.get(name, ""))
        if code in busy_statuses or _contains_any(code.lower(), _BUSY_CODES):
            return True
    return False


def _contains_any(text: str, phrases: Iterable[str]) -> bool:
    return any(phrase in text for phrase in phrases)


def refuse_error(data: Any) -> None:
    """Raise an ErrorInAnswerError if a body that should be an answer is an error, as OpenAI or Anthropic write it."""
    if isinstance(data, dict) and (data.get("error") or data.get("type") == "error"):
        raise ErrorInAnswerError(data)


def read_json(raw: bytes) -> Any:
    """Parse the body of a response, or raise a ModelError.

    What this returns can be traversed, printed and written as JSON again: it is not nested deeply, and an integer with
    thousands of digits is an infinite float. A body that is not JSON raises NotJsonError, which is retried.
    """
    try:
        data = _parsed(raw)
    except ValueError:
        raise NotJsonError(raw) from None
    except RecursionError:
        raise ModelError(_TOO_DEEP) from None
    if _is_too_deep(data):
        raise ModelError(_TOO_DEEP)
    return data


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # Python refuses to read integers of more than 4,300 digits.
        return json.loads(raw, parse_int=_int_or_infinity)


def _int_or_infinity(digits: str) -> int | float:
    if len(digits) > _LONGEST_INTEGER:
        return float(digits)
    return int(digits)


def _is_too_deep(data: Any) -> bool:
    """Whether JSON data are nested more than ``_DEEPEST`` levels deep."""
    containers = [data]
    for _ in range(_DEEPEST):
        inner_containers: list[Any] = []
        for container in containers:
            if isinstance(container, dict):
                values: Iterable[Any] = container.values()
            elif isinstance(container, list):
                values = container
            else:
                continue
            inner_containers += [value for value in values if isinstance(value, dict | list)]
        if not inner_containers:
            return False
        containers = inner_containers
    return True


def failure_of(error: Exception) -> Failure | None:
    """Classify an exception that an attempt raised; None if it is a bug and not a failure of the network or server."""
    if isinstance(error, TimeoutError):
        return Failure(TOO_LATE, retryable=True)
    if isinstance(error, ErrorInAnswerError):
        return error.failure
    if isinstance(error, ModelError):
        return Failure(
            str(error),
            retryable=isinstance(error, NotJsonError),
            fatal=isinstance(error, FatalModelError),
        )
    if isinstance(error, httpx2.HTTPStatusError):
        response = error.response
        failure = failure_of_status(response.status_code, response.headers, response.content)
        return replace(failure, status=response.status_code)
    return _failure_of_connection(error)


def _failure_of_connection(error: Exception) -> Failure | None:
    """Classify an exception of the HTTP library; None for any other exception."""
    reason = redact(str(error) or type(error).__name__)
    causes = _causes(error)
    if isinstance(error, httpx2.ConnectError):
        for cause in causes:
            if isinstance(cause, ssl.SSLError):
                return _failure_of_tls(cause)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
        if refused:
            reason = "connection refused"
        return Failure(reason, retryable=True, unreachable=True, refused=refused)
    if isinstance(error, httpx2.TimeoutException):
        return Failure(TOO_LATE, retryable=True)
    if isinstance(error, httpx2.DecodingError):
        return Failure("the server's answer could not be decompressed", retryable=True)
    if isinstance(error, httpx2.TransportError):
        return Failure(f"the connection broke: {reason}", retryable=True)
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """The exceptions that led to this one, including those in groups. A host may have several addresses."""
    causes: list[BaseException] = []
    open_errors: list[BaseException | None] = [error]
    while open_errors:
        current = open_errors.pop()
        if current is None or current in causes:
            continue
        causes.append(current)
        open_errors += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            open_errors += current.exceptions
    return causes


def _failure_of_tls(error: ssl.SSLError) -> Failure:
    """Classify why no encrypted connection to an existing server could be made.

    A wrong certificate, or a server without TLS, stays wrong; a handshake that broke off may succeed the next time.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if "not valid for" in reason:
            return Failure(f"TLS: the certificate is for another host: {reason}", fatal=True)
        return Failure(
            f"TLS: the certificate was refused: {reason}; if you trust the server, set SSL_CERT_FILE to a file with "
            "its certificate or that of its authority",
            fatal=True,
        )
    if error.reason in _NOT_TLS:
        return Failure("TLS: the server does not speak TLS; write http:// instead of https://", fatal=True)
    return Failure(f"TLS: {error.reason or error}", retryable=True, unreachable=True)


def no_connection_message(server: str, failure: Failure) -> str:
    """Why the first request failed, if no connection could be made."""
    if failure.message.startswith("TLS: "):
        return f"no encrypted connection to {server}: {failure.message}"
    return f"no server answers at {server}: {failure.message}; is it running?"


def failure_of_status(status: int, headers: Mapping[str, str], raw: bytes) -> Failure:
    """Classify a response whose HTTP status is not a success."""
    if 300 <= status < 400:
        location = redact(headers.get("location", "nowhere"))
        return Failure(
            f"the server redirects to {location} (HTTP {status}); set base_url to the final address", fatal=True
        )
    body = raw[:_SEARCHED_BYTES].decode("utf-8", "replace")
    message = f"HTTP {status}: {excerpt(raw)}"
    if status == 403 and _is_moderated(body.lower()):
        return Failure(message, finish="content_filter")
    if status in _FATAL:
        advice = "; check the environment variable with the key" if status == 401 else ""
        return Failure(f"{_FATAL[status]} ({message}){advice}", fatal=True)
    if _contains_any(body, _OUT_OF_CREDIT):
        return Failure(f"the account is out of credit ({message})", fatal=True)
    if 400 <= status < 500 and status not in _RETRIED:
        return _failure_of_request(body, message)
    busy = status in _BUSY
    retryable = headers.get("x-should-retry") != "false"
    wait = retry_after(headers)
    if retryable and wait is not None and wait > MAX_WAIT:
        message = f"the server asks to wait {_duration(wait)} ({message}); continue later with `lmassay resume`"
        return Failure(message, busy=busy, fatal=True)
    return Failure(message, retryable=retryable, wait=wait, busy=busy)


def _is_moderated(body: str) -> bool:
    # If the account was flagged, all its requests are refused: that is fatal and does not concern this prompt alone.
    return "account" not in body and _contains_any(body, _MODERATED)


def _duration(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.3g} h"
    return f"{math.ceil(seconds / 60)} min"


def _failure_of_request(body: str, message: str) -> Failure:
    """Classify a response by which the server rejected the request itself, e.g. because it is too long."""
    if _contains_any(body, _FILTERED):
        return Failure(message, finish="content_filter")
    if _contains_any(body, _TOO_LONG):
        return Failure(message, finish="too_long")
    remedy = _remedy(body)
    if remedy:
        return Failure(f"{message}; {remedy}", fatal=True)
    return Failure(message)


def _remedy(body: str) -> str:
    """What the user can change so that the server accepts the request; empty if the body does not show it.

    Newer models reject parameters that older ones need, and options of the model say what is sent.
    """
    without_new_name = body.replace("max_completion_tokens", "")
    if "max_completion_tokens" in body and "max_tokens" in without_new_name:
        return "set `token_parameter: max_completion_tokens` for this model"
    if _contains_any(body.lower(), _NEEDS_TLS):
        return "the server speaks TLS; write https:// instead of http://"
    if "temperature" in body and _contains_any(body.lower(), _UNSUPPORTED):
        return "set `temperature: omit` for this model"
    return ""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The wait in seconds that a server asks for in its headers; None if it asks for none.

    A header may give it in seconds, in milliseconds or as a date. ``now`` is the time to which a date is compared, in
    seconds since 1970; by default the current time.
    """
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
    if now is None:
        now = time.time()
    return max(0.0, due - now)


def excerpt(raw: bytes) -> str:
    """The beginning of a body in one line, without secrets."""
    # White space is collapsed first, so that the limits count text and not, say, indentation.
    words = raw.decode("utf-8", "replace").split(maxsplit=_REDACTED_WORDS)
    return redaction.excerpt(" ".join(words[:_REDACTED_WORDS]), _EXCERPT_LENGTH) or "(empty body)"
