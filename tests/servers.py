"""A real OpenAI-compatible server on loopback, with faults to order."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes]


def completion(text: str | None, finish: str = "stop", **message: Any) -> Reply:
    """A chat completion as OpenAI's servers send it."""
    body = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def failure(status: int, message: str = "no", **headers: str) -> Reply:
    return status, {k.replace("_", "-"): v for k, v in headers.items()}, json.dumps({"error": message}).encode()


def prompt_of(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"] if "messages" in body else body["prompt"]


@dataclass
class Server:
    """What the server was asked, and where it listens."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[str]:
        with self.lock:
            return [prompt_of(body) for body in self.bodies]


@contextmanager
def openai_server(
    answer: Callable[[dict[str, Any], int], Reply] | None = None, latency: float = 0.0
) -> Iterator[Server]:
    """Serve until the block ends. ``answer`` gets the request's body and how often this prompt was asked before."""
    server = Server()
    answer = answer or (lambda body, _: completion(prompt_of(body).upper()))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                before = sum(prompt_of(b) == prompt_of(body) for b in server.bodies)
                server.bodies.append(body)
                server.headers.append(dict(self.headers))
            time.sleep(latency)
            status, headers, content = answer(body, before)
            if status == 0:
                # Hang up in the middle of the body.
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            pass

    http = Quiet(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def gzip_bomb(size: int) -> Reply:
    return 200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * size)
