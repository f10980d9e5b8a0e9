"""The connection to one server: an HTTP client that bounds the size of responses, and the key for the server.

Keys and addresses come from environment variables. A key is read when it is needed and is not stored anywhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

import lmassay
from lmassay.addresses import is_loopback
from lmassay.errors import ConfigError, FatalModelError, ModelError
from lmassay.models.api.concurrency import RequestPolicy
from lmassay.plugins.options import check_variable_name, refuse_written_keys
from lmassay.redaction import redact, remember_secret

MAX_BODY = 16 << 20
"""Bytes. A generated text is small; a larger response comes from a broken or hostile server."""

MAX_BATCH_BODY = 512 << 20
"""Bytes. The results of a batch are one file."""

MAX_SCORES_BODY = 128 << 20
"""Bytes. The probabilities of a whole vocabulary take about 100 bytes per token."""

# Maximum number of seconds for a handshake that only tests whether a server speaks TLS.
_TLS_TIMEOUT = 3.0
# Maximum number of digits of a Content-Length. A longer number is not a length, and Python refuses to convert thousands
# of digits.
_MAX_LENGTH_DIGITS = 19


# --- keys -------------------------------------------------------------------------------------------------------------


def first_set(names: Sequence[str]) -> tuple[str, str]:
    """The first of these environment variables that has a value, and the value; two empty strings if none has."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return name, value
    return "", ""


def header_value(names: Sequence[str]) -> str:
    """The value of the first variable that is set, checked so that it can be sent in a header; empty if none is set."""
    name, value = first_set(names)
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(f"the value of {name} has characters that cannot be sent; copy it again")
    return value


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Where the key of a provider is looked up: in the first of these environment variables that is set."""

    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.variables:
            check_variable_name(name, "model.api_key_env")

    def value(self) -> str:
        """The key, or an empty string if no variable is set.

        From now on, the key is redacted in everything that lmassay stores or shows. Raises a ConfigError if it contains
        characters that no key has.
        """
        name, value = first_set(self.variables)
        if not value:
            return ""
        remember_secret(value)
        if not (value.isascii() and value.isprintable() and " " not in value):
            raise ConfigError(f"the key in {name} contains spaces or unusual characters; copy it again")
        return value

    def require(self) -> None:
        """Raise a ConfigError if there is no key."""
        if self.value():
            return
        names = ", ".join(self.variables)
        if len(self.variables) == 1:
            raise ConfigError(f"the environment variable {names} is not set; export your API key in it")
        raise ConfigError(f"none of the environment variables {names} is set; export your API key in one of them")


# --- the connection ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests are sent, and the headers and query parameters that go with each of them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> httpx2.URL:
        """The full address of a path of this endpoint."""
        return httpx2.URL(self.url + path).copy_merge_params(self.query)


class Client:
    """Sends and receives bytes. An HTTP status that is not a success is raised as ``httpx2.HTTPStatusError``."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint
        self._addresses: dict[str, httpx2.URL] = {}

    def native(self) -> Client:
        """A client for the server's own API. Unlike the OpenAI-compatible one, its paths are not below ``/v1``."""
        endpoint = replace(self._endpoint, url=self._endpoint.url.removesuffix("/v1"))
        return Client(self._http, endpoint)

    async def post(self, path: str, content: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """Post a JSON document, with further ``headers``, and return the body of the response."""
        all_headers = {"Content-Type": "application/json"}
        all_headers.update(headers or {})
        response = await self._http.post(self._address(path), content=content, headers=all_headers)
        return _body_of(response)

    async def get(self, path: str) -> bytes:
        """Request a path and return the body of the response."""
        response = await self._http.get(self._address(path))
        return _body_of(response)

    async def upload(self, path: str, fields: Mapping[str, str], name: str, content: bytes) -> bytes:
        """Upload a file in a form with these fields, and return the body of the response."""
        files = {"file": (name, content)}
        response = await self._http.post(self._address(path), data=dict(fields), files=files)
        return _body_of(response)

    def _address(self, path: str) -> httpx2.URL:
        # Thousands of requests go to the same few paths, and parsing an address takes a tenth of a request's CPU time.
        if path not in self._addresses:
            self._addresses[path] = self._endpoint.at(path)
        return self._addresses[path]


def _body_of(response: httpx2.Response) -> bytes:
    # Redirects are not followed and count as errors here: a key must not be sent to another host.
    response.raise_for_status()
    return response.content


@asynccontextmanager
async def open_client(endpoint: Endpoint, policy: RequestPolicy, *, max_body: int = MAX_BODY) -> AsyncIterator[Client]:
    """A client whose connections stay open for as long as the ``with`` block lasts.

    ``max_body`` is the largest response that it accepts, in bytes.
    """
    limits = httpx2.Limits(max_connections=policy.concurrency, max_keepalive_connections=policy.concurrency)
    # A proxy named in the environment is for the outside world, not for a server on this machine.
    trust_env = not is_loopback(endpoint.url)
    headers = {"User-Agent": f"lmassay/{lmassay.__version__}", "Accept": "application/json"}
    headers |= {"Accept-Encoding": "gzip", **endpoint.headers}
    async with _BoundedClient(
        max_body,
        timeout=policy.timeout,
        limits=limits,
        trust_env=trust_env,
        headers=headers,
        verify=_trusted_certificates(trust_env),
    ) as http:
        yield Client(http, endpoint)


def _trusted_certificates(trust_env: bool) -> ssl.SSLContext:
    """The certificates that a client trusts: those in SSL_CERT_FILE or SSL_CERT_DIR, or else those of this machine.

    Reading all certificates of a machine takes longer than a hundred requests, and every run opens a client, so the
    functions below keep what they have read.
    """
    file = os.environ.get("SSL_CERT_FILE", "")
    if not file:
        return _default_context(trust_env, os.environ.get("SSL_CERT_DIR", ""))
    # Without trust_env, httpx2 ignores this variable as well as those that name proxies.
    try:
        status = Path(file).stat()
        return _context_of(file, status.st_mtime_ns, status.st_size)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"SSL_CERT_FILE: {file} has no certificates that can be read: {error}") from error


@lru_cache(maxsize=8)
def _context_of(certificates: str, changed: int, size: int) -> ssl.SSLContext:
    """Read the certificates in a file.

    ``changed`` (the file's modification time) and ``size`` are only part of the cache key: a file that has changed is
    read again.
    """
    return ssl.create_default_context(cafile=certificates)


@lru_cache(maxsize=8)
def _default_context(trust_env: bool, folder: str) -> ssl.SSLContext:
    """The certificates that httpx2 would read for every client.

    ``folder`` is the value of SSL_CERT_DIR. It is only part of the cache key: httpx2 reads the variable itself, if
    ``trust_env`` is set.
    """
    return httpx2.create_ssl_context(trust_env=trust_env)


class _BoundedClient(httpx2.AsyncClient):
    """Reads whole bodies, but never more than ``max_body`` bytes after decompression.

    Raises a ModelError for a larger body, and a FatalModelError if an http:// address belongs to a port for TLS.
    """

    def __init__(self, max_body: int, **options: Any) -> None:
        super().__init__(**options)
        self._max_body = max_body
        self._has_answered = False

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, stream=True, **options)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if not self._has_answered and await asyncio.to_thread(_speaks_tls, request.url):
                raise FatalModelError(
                    f"the server at {redact(str(request.url))} speaks TLS; write https:// instead of http://"
                ) from None
            raise
        self._has_answered = True
        try:
            if self._is_known_to_be_small(response.headers):
                await response.aread()
                response.encoding = "utf-8"
                return response
            decompress = _decompressor(response.headers.get("content-encoding", ""))
            body = bytearray()
            async for piece in response.aiter_raw():
                # One byte more than allowed shows that there are too many.
                room = self._max_body + 1 - len(body)
                body += decompress(piece, room)
                if len(body) > self._max_body:
                    raise ModelError(f"the server's answer is larger than {self._max_body >> 20} MiB")
        finally:
            await response.aclose()
        # The body is decompressed by now, so the header that announces compression is dropped.
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        complete = httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)
        complete.encoding = "utf-8"
        return complete

    def _is_known_to_be_small(self, headers: httpx2.Headers) -> bool:
        """Whether the headers alone show that the body is within the limit.

        An uncompressed body is as long as its header says, or the HTTP library raises an error.
        """
        if "content-encoding" in headers or "transfer-encoding" in headers:
            return False
        length = headers.get("content-length", "")
        return length.isdecimal() and len(length) <= _MAX_LENGTH_DIGITS and int(length) <= self._max_body


def _speaks_tls(url: httpx2.URL) -> bool:
    """Whether the server speaks TLS at the port of an http:// address.

    Many servers just close the connection if an unencrypted request arrives at such a port.
    """
    if url.scheme != "http":
        return False
    # Nothing is sent over this connection, so the server's certificate need not be checked.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((url.host, url.port or 80), timeout=_TLS_TIMEOUT) as connection:
            context.wrap_socket(connection).close()
    except (OSError, ValueError):
        return False
    return True


def _decompressor(encoding: str) -> Callable[[bytes, int], bytes]:
    """A function that decompresses the next piece of a body, to at most the given number of bytes.

    httpx2 must not decompress bodies itself, because it has no such limit: a few bytes can unpack to gigabytes, and to
    even more if they are compressed twice.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return _unchanged
    if encoding not in ("gzip", "x-gzip"):
        raise ModelError(f"the server's answer is compressed as '{encoding:.40}', which was not requested")
    # In zlib, 16 stands for the gzip format.
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def decompress(piece: bytes, room: int) -> bytes:
        try:
            return unpacker.decompress(unpacker.unconsumed_tail + piece, room)
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from error

    return decompress


def _unchanged(piece: bytes, room: int) -> bytes:
    # A piece as it was received is small, so it need not be cut; the caller checks the total.
    return piece


def checked_host(base_url: str, option: str = "base_url") -> str:
    """The host of an address. Raises a ConfigError if the address cannot be used.

    ``option`` is the model's option that sets the address; the message names it.
    """
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        # urlsplit checks the port only when it is read.
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"model.{option}: '{redact(base_url)}' is not a valid address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            f"model.{option}: '{redact(base_url)}' is not an http(s) address; write e.g. http://127.0.0.1:8000/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(
            f"model.{option}: leave out user, password, query and fragment; put the key into an environment variable"
        )
    if any(character.isspace() or not character.isprintable() for character in base_url):
        raise ConfigError(f"model.{option}: {redact(base_url)!r} contains spaces, line breaks or invisible characters")
    refuse_written_keys(base_url, f"model.{option}")
    return host
