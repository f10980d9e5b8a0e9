"""A results folder in Datasette: tables, facets and ready-made queries in the browser, on this machine alone.

Datasette opens the file read-only. What is added here: plug-ins that happen to be installed are not loaded, the file is
not handed out, and requests that were meant for another host are refused, so that no page elsewhere can read along.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from lmassay.errors import MissingExtra, StoreError, UserError
from lmassay.storage.store import STORE_FILE, Store

_METADATA = Path(__file__).with_name("datasette.yaml")
_SETTINGS = {"allow_download": False, "sql_time_limit_ms": 5000, "default_page_size": 50}
_HTTP = 80
_NAMES = ("localhost", "127.0.0.1", "[::1]")

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Viewer:
    """A server that listens on its port; requests wait until it is run."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        _require_loopback(host)
        with Store(folder):
            # It is there, and it is ours.
            pass
        app = _application(folder)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise StoreError(
                f"port {port} of {host} cannot be had ({error.strerror}); give another with --port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{_in_url(host)}:{self.port}/{Path(STORE_FILE).stem}"
        self._app = _only_for_here(app, host, self.port)

    def run(self) -> None:
        """Serve until stopped."""
        import uvicorn

        with self._socket:
            uvicorn.Server(uvicorn.Config(self._app, log_level="error", lifespan="on")).run(sockets=[self._socket])


def _application(folder: Path) -> App:
    # Read when datasette is imported: an empty list loads no installed plug-in.
    os.environ["DATASETTE_LOAD_PLUGINS"] = ""
    try:
        from datasette.app import Datasette
    except ModuleNotFoundError as error:
        raise MissingExtra("lmassay view", "view") from error
    # To be imported after the application, which loads it as one of its own plug-ins.
    from datasette import handle_exception

    # A slip in a user's query is shown on the page; the terminal need not fill with a traceback and all variables.
    handle_exception.rich = None
    file = [str((folder / STORE_FILE).resolve())]
    # Where nothing can be written beside the file, SQLite must be told that nobody else does either.
    kind = "files" if os.access(folder, os.W_OK) else "immutables"
    metadata = yaml.safe_load(_METADATA.read_text(encoding="utf-8"))
    app: App = Datasette(**{"files": [], kind: file}, metadata=metadata, settings=_SETTINGS).app()
    return app


def _only_for_here(app: App, host: str, port: int) -> App:
    """Refuse what is not reading, and requests whose Host is a name that somebody else pointed at this machine."""
    # A browser leaves the port out of what it asks for where it is http's own.
    names = (*_NAMES, _in_url(host))
    known = {f"{name}:{port}".encode() for name in names} | ({n.encode() for n in names} if port == _HTTP else set())

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"host") not in known:
            await _refuse(send, 421, f"this server answers on {_in_url(host)} and localhost only")
        elif scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "this server only shows; nothing can be written")
        else:
            await app(scope, receive, send)

    return guarded


async def _refuse(send: Any, status: int, why: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})


def _require_loopback(host: str) -> None:
    try:
        inside = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise UserError(
            f"--host {host}: results are shown on this machine only (127.0.0.1); to look from another, use a tunnel, "
            "e.g. ssh -L 8001:127.0.0.1:8001"
        )


def _in_url(host: str) -> str:
    # A browser writes an IPv6 address in its shortest form.
    return f"[{ipaddress.ip_address(host)}]" if ":" in host else host
