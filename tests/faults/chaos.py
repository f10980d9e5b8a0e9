"""A server that misbehaves: every fault that providers, gateways and networks are known for.

``FAULTS`` are faults that pass: the same request gets a good answer when it is sent again. ``ODD_ANSWERS`` are answers
that a model gives every time it gets the prompt. Both are chosen by a hash of the seed and the prompt, so that two
servers with the same seed behave in the same way, in whatever order they are asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from lmassay.models.api.client import MAX_BODY
from tests import servers
from tests.servers import JSON, Reply, completion, failure, prompt_of

# More negative statuses, next to those of tests/servers.py: what the server does instead of answering.
RESET: Reply = (-4, {}, b"")
MALFORMED: Reply = (-5, {}, b"")

Outcome = Literal["retried", "error", "answer"]


@dataclass(frozen=True)
class Fault:
    """One way to misbehave, and what a client is expected to make of it."""

    reply: Callable[[str], Reply]
    """The reply to a prompt."""
    outcome: Outcome = "retried"
    """Sent again at once, recorded as an error (sent again by ``resume``), or an answer like any other."""


def always(reply: Reply, outcome: Outcome = "retried") -> Fault:
    """A fault that does not depend on the prompt."""
    return Fault(lambda _: reply, outcome)


def answer_to(prompt: str) -> str:
    """What the model says if nothing goes wrong."""
    return prompt.upper()


def answer_body(prompt: str) -> dict[str, Any]:
    """The body of a good answer, as a document."""
    body: dict[str, Any] = json.loads(completion(answer_to(prompt))[2])
    return body


def with_more_choices(prompt: str) -> Reply:
    """Five choices where one was requested; the first is the answer."""
    body = answer_body(prompt)
    for number in range(4):
        choice = {"index": number + 1, "message": {"content": "another"}, "finish_reason": "stop"}
        body["choices"].append(choice)
    return 200, JSON, json.dumps(body).encode()


def with_wrong_fields(prompt: str) -> Reply:
    """A good answer with the id of another request, another model's name, and absurd counts."""
    usage = {"prompt_tokens": "many", "completion_tokens": -1, "total_tokens": 10**400}
    body = {**answer_body(prompt), "id": 7, "model": ["another"], "created": float("nan"), "usage": usage}
    return 200, JSON, json.dumps(body).encode()


def with_wrong_type(prompt: str) -> Reply:
    return 200, {"Content-Type": "image/png"}, completion(answer_to(prompt))[2]


def with_wrong_charset(prompt: str) -> Reply:
    return 200, {"Content-Type": "application/json; charset=hex"}, completion(answer_to(prompt))[2]


def nested(depth: int) -> bytes:
    """An error whose message is a list of lists of lists."""
    return b'{"error": {"message": ' + b"[" * depth + b"]" * depth + b"}}"


FAULTS: Mapping[str, Fault] = {
    "429 with Retry-After": always(failure(429, "slow down", Retry_After="0.05")),
    "429 with milliseconds": always(failure(429, retry_after_ms="20")),
    "429 with a past date": always(failure(429, Retry_After="Wed, 21 Oct 2020 07:28:00 GMT")),
    "429 without Retry-After": always(failure(429)),
    "500": always(failure(500, "oops")),
    "502": always((502, {"Content-Type": "text/html"}, b"<html><h1>502 Bad Gateway</h1></html>")),
    "503": always(failure(503)),
    "529": always(failure(529, "overloaded_error")),
    "connection reset": always(RESET),
    "connection closed": always(servers.CLOSE_AT_ONCE),
    "cut body": always(servers.CLOSE_MID_BODY),
    "malformed HTTP": always(MALFORMED),
    "slow drip": always(servers.DRIP),
    "hang": always(servers.HANG),
    "HTML page": always(servers.HTML),
    "invalid JSON": always((200, JSON, b'{"choices": [{"message": {"content": "half')),
    "invalid UTF-8": always((200, JSON, b'{"choices": "\xff\xfe"}')),
    "empty body": always(servers.EMPTY),
    "short Content-Length": always(servers.TOO_SHORT),
    "gzip garbage": always((200, {"Content-Encoding": "gzip"}, b"not gzip")),
    "deep JSON": always((200, JSON, nested(100_000)), "error"),
    "JSON of 970 levels": always((200, JSON, nested(970)), "error"),
    "error in an answer": always((200, JSON, b'{"error": {"code": 500, "message": "upstream"}}')),
    "empty choices": always((200, JSON, b'{"choices": []}'), "error"),
    "answer is a list": always((200, JSON, b"[1, 2, 3]"), "error"),
    "bad request": always(failure(400, "no"), "error"),
    "redirect": always(failure(302, Location="http://127.0.0.1:9/elsewhere"), "error"),
    "gzip bomb": always(servers.gzip_bomb(MAX_BODY + 1), "error"),
    "too many choices": Fault(with_more_choices, "answer"),
    "wrong id and counts": Fault(with_wrong_fields, "answer"),
    "wrong content type": Fault(with_wrong_type, "answer"),
    "unknown charset": Fault(with_wrong_charset, "answer"),
}

# What a model says to one prompt every time. They are recorded like any other answer, or as unscored.
ODD_ANSWERS: Mapping[str, Reply] = {
    "null": completion(None),
    "empty text": completion(""),
    "content filter": completion(None, "content_filter"),
    "refusal": completion(None, refusal="I cannot help with that."),
    "lone surrogate": completion("half \ud83d a pair, \udc00 half"),
    "control characters": completion("\x1b[31mred\x1b[0m \x00 \x07 \u202e gnp.exe"),
    "long": completion("long answer " * 500, "length"),
    "several parts": completion([{"type": "text", "text": "PART 1"}, {"type": "text", "text": " AND 2"}]),
}


@dataclass
class Behaviour:
    """When the server misbehaves."""

    seed: int = 0
    rate: float = 0.05
    """The share of requests that meet a fault."""
    odd_rate: float = 0.002
    """The share of prompts with an odd answer."""
    faults: Mapping[str, Fault] = field(default_factory=lambda: FAULTS)
    latency: float = 0.0
    """Seconds until a good answer."""

    def odd_answer(self, prompt: str) -> str | None:
        """The name of the odd answer to a prompt; most prompts have none."""
        return self._drawn("odd", prompt, self.odd_rate, list(ODD_ANSWERS))

    def fault(self, prompt: str, attempt: int) -> str | None:
        """The name of the fault that this attempt meets, if any."""
        return self._drawn(f"fault {attempt}", prompt, self.rate, list(self.faults))

    def _drawn(self, purpose: str, prompt: str, rate: float, names: list[str]) -> str | None:
        key = f"{self.seed} {purpose} {prompt}".encode("utf-8", "surrogatepass")
        chance, choice = struct.unpack("<QQ", hashlib.blake2b(key, digest_size=16).digest())
        if chance >= rate * 2**64:
            return None
        return names[choice % len(names)]


@dataclass
class ChaosServer:
    """A running server: where it listens and what it has done."""

    behaviour: Behaviour
    url: str = ""
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    answered: Counter[bytes] = field(default_factory=Counter)
    """How often a prompt, given by its digest, was answered: anything but a fault that makes the client ask again."""
    attempts: Counter[bytes] = field(default_factory=Counter)

    @property
    def answered_twice(self) -> int:
        """Answers that the server gave although it had answered the same prompt before."""
        return self.answered.total() - len(self.answered)

    def reply(self, prompt: str) -> Reply:
        """Decide on the next reply to a prompt, and count it."""
        key = hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        attempt = self.attempts[key]
        self.attempts[key] += 1
        self.requests += 1
        name = self.behaviour.fault(prompt, attempt)
        odd = self.behaviour.odd_answer(prompt)
        fault = self.behaviour.faults[name] if name is not None else None
        # An odd answer is what the model says; only its way to the client can be faulty.
        if fault is not None and (odd is None or fault.outcome != "answer"):
            self.faults[str(name)] += 1
            if fault.outcome == "answer":
                self.answered[key] += 1
            return fault.reply(prompt)
        self.answered[key] += 1
        return ODD_ANSWERS[odd] if odd is not None else completion(answer_to(prompt))


class _Connection:
    """Speaks HTTP/1.1 with one client until one of both closes the connection."""

    def __init__(self, server: ChaosServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    async def talk(self) -> None:
        try:
            # Cancelled when the server ends, which asyncio would report as an error.
            ends = (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError, OSError)
            with contextlib.suppress(*ends):
                while await self._answer_one():
                    pass
        finally:
            self._writer.close()

    async def _answer_one(self) -> bool:
        """Answer one request, and return whether the connection can be used again."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0] or 0)
        body = json.loads(await self._reader.readexactly(length))
        if self._server.behaviour.latency:
            await asyncio.sleep(self._server.behaviour.latency)
        return await self._send(self._server.reply(prompt_of(body)))

    async def _send(self, reply: Reply) -> bool:
        """Send a reply, and return whether the connection can be used again."""
        status, headers, content = reply
        if status <= 0:
            await self._misbehave(reply)
            return False
        lines = [f"HTTP/1.1 {status} Status"]
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            lines.append(f"{name}: {value}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await self._writer.drain()
        # A body that is longer than its header says would be read as the next answer.
        return reply != servers.TOO_SHORT

    async def _misbehave(self, reply: Reply) -> None:
        if reply == servers.HANG:
            await self._reader.read()
        elif reply == servers.CLOSE_MID_BODY:
            self._writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        elif reply == MALFORMED:
            self._writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        elif reply == RESET:
            # Closing with a linger time of 0 sends RST instead of FIN.
            connection: socket.socket = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        elif reply == servers.DRIP:
            self._writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not self._writer.is_closing():
                self._writer.write(b" ")
                await self._writer.drain()
                await asyncio.sleep(0.05)


@contextmanager
def chaos_server(behaviour: Behaviour) -> Iterator[ChaosServer]:
    """Serve until the block ends, in a thread of this process."""
    server = ChaosServer(behaviour)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    closing = asyncio.Event()

    async def serve() -> None:
        listener = await asyncio.start_server(
            lambda reader, writer: _Connection(server, reader, writer).talk(), "127.0.0.1", 0, backlog=512
        )
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await closing.wait()
        listener.close()
        conversations = asyncio.all_tasks() - {asyncio.current_task()}
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        # A connection is closed in the next turn of the loop, after what is still to be sent.
        await asyncio.sleep(0.01)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(closing.set)
        thread.join()
