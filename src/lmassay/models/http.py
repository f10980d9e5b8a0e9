"""Posting JSON with bounded retries, and answering many requests at once from ordinary code."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
import stamina

from lmassay.errors import FatalModelError, ModelError
from lmassay.provenance import redact
from lmassay.types import Response

Answered = tuple[int, Response]

# A generated text is small; more than this is a broken or hostile server.
MAX_BODY = 16 << 20
_LONGEST_WAIT = 120.0
_TOO_LATE = "the server did not answer in time"
_FATAL = {401: "the key was refused", 403: "access was denied", 404: "there is no such model or address"}
_RETRIED = frozenset({408, 409, 425, 429})
R_contra = TypeVar("R_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """A JSON answer and how long it took."""

    data: Any
    seconds: float


class _PassingError(ModelError):
    """A failure that may pass; ``wait`` is what the server asked for."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _UnreachableError(_PassingError, ConnectionError):
    """No connection could be made."""


class HttpCaller:
    """One server: connections, time-out and the one retry policy."""

    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout: float, tries: int, wait: float, concurrency: int
    ) -> None:
        limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        self._client = httpx2.AsyncClient(
            base_url=base_url,
            headers=dict(headers),
            timeout=timeout,
            limits=limits,
            # A proxy of the environment is for the world outside, not for a server on this machine.
            trust_env=not is_loopback(base_url),
        )
        self._timeout, self._tries, self._wait = timeout, tries, wait

    async def __aenter__(self) -> HttpCaller:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._client.__aexit__(*exc)

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Post JSON, get JSON; failures that may pass are tried again a bounded number of times."""
        # Retries are told in the error that ends them, not logged one by one.
        stamina.instrumentation.set_on_retry_hooks([])
        attempts = stamina.retry_context(
            on=_how_long,
            attempts=self._tries,
            timeout=None,
            wait_initial=self._wait,
            wait_max=_LONGEST_WAIT / 2,
            wait_jitter=self._wait,
        )
        count = 0
        try:
            async for attempt in attempts:
                with attempt:
                    count += 1
                    return await self._post_in_time(path, body, headers)
        except _PassingError as error:
            tries = f" (tried {count} times)" if count > 1 else ""
            kind = ConnectionError if isinstance(error, _UnreachableError) else ModelError
            raise kind(f"{error}{tries}") from None
        raise ModelError("no attempt was made")

    async def _post_in_time(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        # The client's own time-out starts anew with every byte, so a server that drips would never be given up.
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post_once(path, body, headers)
        except TimeoutError:
            raise _PassingError(_TOO_LATE) from None

    async def _post_once(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        started = time.monotonic()
        # Escaped, so that a lone surrogate in a prompt is sent rather than crashing the encoder.
        content = json.dumps(body).encode("ascii")
        try:
            async with self._client.stream(
                "POST", path, content=content, headers={"Content-Type": "application/json", **headers}
            ) as response:
                raw = await _read_bounded(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _UnreachableError(redact(str(error) or "no connection")) from None
        except httpx2.TimeoutException:
            raise _PassingError(_TOO_LATE) from None
        except httpx2.TransportError as error:
            raise _PassingError(f"the connection broke: {redact(str(error) or type(error).__name__)}") from None
        except httpx2.DecodingError:
            raise _PassingError("the server's answer could not be unpacked") from None
        _raise_for(response, raw)
        try:
            return Reply(json.loads(raw), time.monotonic() - started)
        except (ValueError, RecursionError):
            raise _PassingError(f"the server's answer is no JSON: {_excerpt(raw)}") from None


async def _read_bounded(response: httpx2.Response) -> bytes:
    raw = b""
    async for piece in response.aiter_bytes():
        raw += piece
        if len(raw) > MAX_BODY:
            raise ModelError(f"the server's answer is larger than {MAX_BODY >> 20} MiB")
    return raw


def _raise_for(response: httpx2.Response, raw: bytes) -> None:
    status = response.status_code
    if status < 300:
        return
    if status < 400:
        where = redact(response.headers.get("location", "nowhere"))
        raise FatalModelError(f"the server redirects to {where} (HTTP {status}); set base_url to the final address")
    told = f"HTTP {status}: {_excerpt(raw)}"
    if status in _FATAL:
        raise FatalModelError(f"{_FATAL[status]} ({told})")
    if status in _RETRIED or status >= 500:
        raise _PassingError(told, _retry_after(response.headers))
    raise ModelError(told)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if wait >= 0:
            return min(wait, _LONGEST_WAIT)
    return None


def _how_long(error: Exception) -> bool | float:
    if not isinstance(error, _PassingError):
        return False
    return True if error.wait is None else error.wait


def is_loopback(url: str) -> bool:
    """True for a server on this machine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _excerpt(raw: bytes) -> str:
    # Redacted before it is cut: half a key is still a secret.
    text = redact(" ".join(raw[:20_000].decode("utf-8", "replace").split()))
    return text[:200] or "(empty body)"


class Conversation(Protocol[R_contra]):
    """Something that answers one request at a time, asynchronously."""

    async def answer(self, request: R_contra) -> Response: ...


R = TypeVar("R")


def answers_as_they_arrive(
    conversation: Callable[[], AbstractAsyncContextManager[Conversation[R]]], requests: Sequence[R], concurrency: int
) -> Iterator[Answered]:
    """Ask all requests, ``concurrency`` at a time; yield (position, response) in the order of arrival.

    The event loop lives in a thread of its own, so that this is an ordinary generator: closing it, as Ctrl-C does,
    cancels what is in flight.
    """
    crew = _Crew(conversation, requests, concurrency)
    try:
        yield from crew.answers()
    finally:
        crew.stop()


class _Crew(Generic[R]):
    def __init__(
        self,
        conversation: Callable[[], AbstractAsyncContextManager[Conversation[R]]],
        requests: Sequence[R],
        concurrency: int,
    ) -> None:
        self._conversation, self._requests, self._concurrency = conversation, requests, concurrency
        self._arrived: queue.SimpleQueue[Answered | BaseException | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        # Questions in flight and answers not yet taken: what a sudden end can cost at the most.
        self._room = asyncio.Semaphore(concurrency)
        self._thread = threading.Thread(target=self._run, daemon=True, name="lmassay-requests")
        self._thread.start()

    def answers(self) -> Iterator[Answered]:
        while True:
            try:
                # A bounded wait lets Ctrl-C through on every platform.
                item = self._arrived.get(timeout=0.5)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            # Whoever asked has dealt with this answer; now, and not before, the next question may go out.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._room.release)

    def stop(self) -> None:
        # The loop may close by itself at this very moment; then there is nothing left to cancel.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self._main and self._main.cancel())
        self._thread.join(timeout=10)

    def _run(self) -> None:
        try:
            self._main = self._loop.create_task(self._ask_all())
            self._loop.run_until_complete(self._main)
            self._arrived.put(None)
        except asyncio.CancelledError:
            self._arrived.put(None)
        except BaseException as error:  # handed to the thread that waits for it
            self._arrived.put(error)
        finally:
            self._loop.close()

    async def _ask_all(self) -> None:
        todo = iter(enumerate(self._requests))
        async with self._conversation() as conversation:

            async def ask_next() -> bool:
                await self._room.acquire()
                place, request = next(todo, (-1, None))
                if request is None:
                    self._room.release()
                    return False
                self._arrived.put((place, await conversation.answer(request)))
                return True

            async def work() -> None:
                while await ask_next():
                    pass

            # One question goes first: a wrong key or address then fails at the first call, not at many.
            await ask_next()
            workers = [asyncio.ensure_future(work()) for _ in range(self._concurrency)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
