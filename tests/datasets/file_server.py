"""A real server on loopback that serves files and misbehaves on request."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FileServer:
    """What the server has and what it was asked for."""

    files: dict[str, bytes]
    url: str = ""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """The path and the range of every request."""
    behaviour: Callable[[Handler, bytes, int], None] | None = None
    """Answers instead of the normal reply: gets the handler, the content and the number of earlier requests."""
    closing: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Serves a file, or the part of it that a range asks for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_state: FileServer

    def do_GET(self) -> None:
        state = self.server_state
        earlier = len(state.requests)
        state.requests.append((self.path, self.headers.get("Range")))
        content = state.files.get(self.path)
        if content is None:
            self.reply(404, b"")
        elif state.behaviour is not None:
            state.behaviour(self, content, earlier)
        else:
            self.serve(content)

    def serve(self, content: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            self.reply(200, content)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            self.reply(416, b"")
            return
        self.reply(206, content[start:], {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"})

    def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def cut_off(handler: Handler, content: bytes, length: int) -> None:
    """Promise the whole file, send its beginning and close the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[:length])
    handler.close_connection = True


BOMB = gzip.compress(b"\0" * 20_000_000, compresslevel=1)
"""Little that would become much if it were unpacked."""


@contextmanager
def file_server(files: dict[str, bytes]) -> Iterator[FileServer]:
    """Serve these files, by path, until the block ends."""
    state = FileServer({f"/{path}": content for path, content in files.items()})

    class Bound(Handler):
        server_state = state

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    http = Quiet(("127.0.0.1", 0), Bound)
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()
