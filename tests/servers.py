"""A real server on loopback that speaks OpenAI's, Azure's and Anthropic's protocols, with faults to order."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

Reply = tuple[int, dict[str, str], bytes]
JSON = {"Content-Type": "application/json"}


def completion(text: str | list[Any] | None, finish: str = "stop", **message: Any) -> Reply:
    """A chat completion as OpenAI's servers send it."""
    body = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    return 200, JSON, json.dumps(body).encode()


def message(text: str | None, stop: str = "end_turn", before: tuple[dict[str, Any], ...] = ()) -> Reply:
    """A message as Anthropic's servers send it."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [*before, *([] if text is None else [{"type": "text", "text": text}])],
        "stop_reason": stop,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    return 200, JSON, json.dumps(body).encode()


def failure(status: int, message: str = "no", **headers: str) -> Reply:
    return status, {k.replace("_", "-"): v for k, v in headers.items()}, json.dumps({"error": message}).encode()


@cache
def gzip_bomb(size: int) -> Reply:
    return 200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * size, compresslevel=1)


# Statuses that are no HTTP: what the server does instead of answering.
CLOSE_MID_BODY: Reply = (0, {}, b"")
HANG: Reply = (-1, {}, b"")
DRIP: Reply = (-2, {}, b"")
CLOSE_AT_ONCE: Reply = (-3, {}, b"")
HTML: Reply = (200, {"Content-Type": "text/html"}, b"<html>busy</html>")
EMPTY: Reply = (200, JSON, b"")
TOO_SHORT: Reply = (200, {**JSON, "Content-Length": "20"}, completion("never whole")[2])
TOO_LONG: Reply = (200, {**JSON, "Content-Length": "5000", "Connection": "close"}, completion("never whole")[2])


def prompt_of(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"] if "messages" in body else body["prompt"]


class Office(Protocol):
    """Something else that the server offers, such as batches."""

    def serve(self, method: str, path: str, raw: bytes, answer: Callable[[dict[str, Any]], Reply]) -> Reply | None:
        """The reply, or None for what it does not know."""


@dataclass
class Server:
    """What the server was asked, and where it listens."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)
    in_flight: int = 0
    stop: Callable[[], None] = lambda: None
    """Ends the server before the block does; connections that are open are answered once more and closed."""

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    @property
    def prompts(self) -> list[str]:
        with self.lock:
            return [prompt_of(body) for body in self.bodies]


@contextmanager
def openai_server(
    answer: Callable[[dict[str, Any], int], Reply] | None = None,
    latency: float = 0.0,
    office: Office | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """Serve until the block ends. ``answer`` gets the request's body and how often this prompt was asked before.

    With ``tls``, the server speaks only TLS; its url begins with http all the same.
    """
    server = Server()
    answer = answer or (lambda body, _: completion(prompt_of(body).upper()))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the body waits until the client has confirmed the headers, 40 ms on Linux.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.serve("GET")

        def do_POST(self) -> None:
            self.serve("POST")

        def serve(self, method: str) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            with server.lock:
                server.paths.append(f"{method} {self.path}")
            reply = office.serve(method, path, raw, lambda body: answer(body, 0)) if office is not None else None
            self.send(reply or self.asked(json.loads(raw)))

        def asked(self, body: dict[str, Any]) -> Reply:
            with server.lock:
                before = sum(prompt_of(b) == prompt_of(body) for b in server.bodies)
                server.bodies.append(body)
                # Clients spell the names of headers in capitals or not.
                server.headers.append({name.title(): value for name, value in self.headers.items()})
                server.in_flight += 1
            try:
                time.sleep(latency)
                return answer(body, before)
            finally:
                with server.lock:
                    server.in_flight -= 1

        def send(self, reply: Reply) -> None:
            status, headers, content = reply
            if status <= 0:
                self.close_connection = True
                self.misbehave(reply)
                return
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            if server.closing.is_set():
                self.close_connection = True
            self.end_headers()
            self.wfile.write(content)

        def misbehave(self, reply: Reply) -> None:
            if reply == HANG:
                server.closing.wait(30)
            elif reply == CLOSE_MID_BODY:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            elif reply == DRIP:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while not server.closing.wait(0.02):
                    self.wfile.write(b" ")

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            pass

    http = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        # The handshake is made by the thread of a connection, so that a bad one does not keep others waiting.
        http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()

    def stop() -> None:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()

    server.stop = stop
    try:
        yield server
    finally:
        stop()
