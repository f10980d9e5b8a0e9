"""The connection to one server: an HTTP client that reads no body without end, and the key for it.

Keys and addresses come from environment variables. A key is read when it is needed and kept nowhere.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

import lmassay
from lmassay.errors import ConfigError, ModelError
from lmassay.models.api.concurrency import RequestPolicy
from lmassay.redaction import redact, remember_secret
from lmassay.types import Response

# A generated text is small; more than this is a broken or hostile server.
MAX_BODY = 16 << 20
# The results of a batch are one file.
MAX_BATCH_BODY = 512 << 20
# Shorter ones are the place-holders of local servers, and words of answers.
_SHORTEST_KEY = 8


# --- keys -------------------------------------------------------------------------------------------------------------


def header_value(names: Sequence[str]) -> str:
    """The value of the first variable that is set, which is to be sent in a header; empty if none is."""
    name, value = first_set(names)
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"the value of {name} has characters that cannot be sent; copy it again")
    return value


def first_set(names: Sequence[str]) -> tuple[str, str]:
    """The first variable that holds something, and what it holds; two empty strings if none does."""
    for name in names:
        if value := os.environ.get(name, "").strip():
            return name, value
    return "", ""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Where a key is looked for: the first of these variables that is set."""

    variables: tuple[str, ...]

    def value(self) -> str:
        """The key, or an empty string."""
        name, value = first_set(self.variables)
        if value:
            remember_secret(value)
            if not (value.isascii() and value.isprintable() and " " not in value):
                raise ConfigError(f"the key in {name} has blanks or odd characters in it; copy it again")
        return value

    def blanked(self, response: Response) -> Response:
        """The response without the key, which a server may repeat in its answer."""
        _, value = first_set(self.variables)
        if len(value) < _SHORTEST_KEY or not isinstance(response.answer, str) or value not in response.answer:
            return response
        return replace(response, answer=response.answer.replace(value, "[redacted]"))

    def require(self) -> None:
        if not self.value():
            names = ", ".join(self.variables)
            told = f"the environment variable {names} is not set; export your API key in it"
            if len(self.variables) > 1:
                told = f"none of the environment variables {names} is set; export your API key in one of them"
            raise ConfigError(told)


# --- the connection ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests are sent, and what is sent with each of them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> httpx2.URL:
        return httpx2.URL(self.url + path).copy_merge_params(self.query)


class Client:
    """Bytes out, bytes in; an HTTP status that is no success is raised as ``httpx2.HTTPStatusError``."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    async def post(self, path: str, content: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        sent = {"Content-Type": "application/json", **(headers or {})}
        return _content_of(await self._http.post(self._endpoint.at(path), content=content, headers=sent))

    async def get(self, path: str) -> bytes:
        return _content_of(await self._http.get(self._endpoint.at(path)))

    async def upload(self, path: str, fields: Mapping[str, str], name: str, content: bytes) -> bytes:
        """Leave a file with the provider."""
        file = {"file": (name, content)}
        return _content_of(await self._http.post(self._endpoint.at(path), data=dict(fields), files=file))


def _content_of(response: httpx2.Response) -> bytes:
    # Redirects are not followed, and count as errors here: a key must not travel to another host.
    response.raise_for_status()
    return response.content


@asynccontextmanager
async def open_client(endpoint: Endpoint, policy: RequestPolicy, *, most: int = MAX_BODY) -> AsyncIterator[Client]:
    """Connections for as long as the block lasts."""
    limits = httpx2.Limits(max_connections=policy.concurrency, max_keepalive_connections=policy.concurrency)
    # A proxy of the environment is for the world outside, not for a server on this machine.
    trust_env = not is_loopback(endpoint.url)
    headers = {"User-Agent": f"lmassay/{lmassay.__version__}", "Accept": "application/json", **endpoint.headers}
    async with _BoundedClient(
        most, timeout=policy.timeout, limits=limits, trust_env=trust_env, headers=headers
    ) as http:
        yield Client(http, endpoint)


class _BoundedClient(httpx2.AsyncClient):
    """Reads whole bodies, but not more than ``most`` bytes of one, however well it was packed."""

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **options)
        try:
            if self._is_short(response.headers):
                await response.aread()
                response.encoding = "utf-8"
                return response
            raw = bytearray()
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > self._most:
                    raise ModelError(f"the server's answer is larger than {self._most >> 20} MiB")
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        whole = httpx2.Response(response.status_code, headers=headers, content=bytes(raw), request=request)
        whole.encoding = "utf-8"
        return whole

    def _is_short(self, headers: httpx2.Headers) -> bool:
        """A body that is not packed is as long as it says, or the connection breaks."""
        length = headers.get("content-length", "")
        packed = "content-encoding" in headers or "transfer-encoding" in headers
        return not packed and length.isdecimal() and int(length) <= self._most


def is_loopback(url: str) -> bool:
    """True for a server on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def checked_host(base_url: str, option: str = "base_url") -> str:
    """The host of an address that can be used; ``option`` is where it came from."""
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"model.{option}: '{redact(base_url)}' is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"model.{option}: '{redact(base_url)}' is no http(s) address, e.g. http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"model.{option}: no user, password, query or fragment here; the key goes into an environment variable"
        )
    if any(character.isspace() or not character.isprintable() for character in base_url):
        raise ConfigError(f"model.{option}: '{redact(base_url)!r}' has blanks or line breaks in it")
    return host
