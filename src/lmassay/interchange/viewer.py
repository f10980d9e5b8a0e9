"""A results folder in Datasette: tables, facets and prepared queries in the browser, on this machine only.

Datasette opens the file read-only. This module also keeps installed plug-ins from being loaded, does not offer the file
for download, and refuses requests for another host name, so that no web page elsewhere can read the results.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from lmassay.errors import DamageError, MissingExtra
from lmassay.interchange.loopback import allowed_hosts, host_in_url, listen, require_loopback
from lmassay.redaction import remember_environment
from lmassay.storage.old_secrets import blank_secrets, count_secrets
from lmassay.storage.store import DAMAGED, STORE_FILE, Store

_METADATA = Path(__file__).with_name("datasette.yaml")
_SETTINGS = {"allow_download": False, "sql_time_limit_ms": 5000, "default_page_size": 50}
MAX_COPIED_ROWS = 50_000
"""How many examples of a run that is stored in batches are shown."""

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Viewer:
    """A server that listens on its port from the start; it answers requests once ``run`` is called."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        require_loopback(host)
        self.notes: list[str] = []
        """What the user should know about the tables that are shown."""
        # The temporary copy, if there is one, and the socket.
        self._resources = ExitStack()
        try:
            self._open(folder, host, port)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, and remove what was copied."""
        self._resources.close()

    def _open(self, folder: Path, host: str, port: int) -> None:
        # Raises an error unless the folder is a results folder.
        with Store(folder) as store:
            records = [store.with_damage(record) for record in store.runs()]
            whole_runs = [record.id for record in records if record.status != DAMAGED]
            damaged_runs = [record.id for record in records if record.status == DAMAGED]
            # Datasette shows the tables themselves, so keys must not be in them.
            remember_environment()
            if store.runs_in_batches() or damaged_runs or _may_have_secrets(store):
                folder = self._copy(store, whole_runs)
            for run in damaged_runs:
                self.notes.append(f"the run {run} is damaged, so it is not shown; see lmassay doctor --results FOLDER")
        app = _application(folder)
        self._socket = self._resources.enter_context(listen(host, port))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{host_in_url(host)}:{self.port}/{Path(STORE_FILE).stem}"
        self._app = _for_local_reading(app, host, self.port)

    def _copy(self, store: Store, runs: Sequence[str]) -> Path:
        """Copy runs to a temporary folder, with a table row for each example and without keys; return the folder.

        Datasette shows tables as they are stored: examples in batches are not readable, damaged runs look like valid
        ones, and keys are visible.
        """
        folder = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="lmassay-view-")))
        store.copy_with_single_rows(folder, runs, MAX_COPIED_ROWS)
        with Store(folder, create=True) as copy:
            if count_secrets(copy):
                blank_secrets(copy)
        self.notes.append("this is a copy of the results as they are now; start the command again to see later ones")
        if any(sum(map(len, store.finished_positions(run))) > MAX_COPIED_ROWS for run in runs):
            self.notes.append(
                f"the table `rows` contains only the first {MAX_COPIED_ROWS:,} examples of each large run; "
                "`lmassay export RUN --format csv -o rows.csv` writes all of them"
            )
        return folder

    def run(self) -> None:
        """Serve until stopped."""
        import uvicorn

        with self._resources:
            uvicorn.Server(uvicorn.Config(self._app, log_level="error", lifespan="on")).run(sockets=[self._socket])


def _may_have_secrets(store: Store) -> bool:
    """Return whether the store has secrets, which old versions stored, or is too damaged to tell."""
    try:
        return count_secrets(store) > 0
    except DamageError:
        return True


_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
)


def _application(folder: Path) -> App:
    # Datasette reads this when it is imported; an empty list loads no installed plug-in.
    os.environ["DATASETTE_LOAD_PLUGINS"] = ""
    try:
        from datasette.app import Datasette
    except ModuleNotFoundError as error:
        raise MissingExtra("lmassay view --datasette", "datasette") from error
    # Imported after the application, which loads it as one of its own plug-ins.
    from datasette import handle_exception

    # An error in a user's query is shown on the page; without this, the terminal fills with a traceback.
    handle_exception.rich = None
    file = [str((folder / STORE_FILE).resolve())]
    # In a read-only folder, SQLite cannot create its lock files. It can do without them if the file is "immutable".
    kind = "files" if os.access(folder, os.W_OK) else "immutables"
    metadata = yaml.safe_load(_METADATA.read_text(encoding="utf-8"))
    app: App = Datasette(**{"files": [], kind: file}, metadata=metadata, settings=_SETTINGS).app()
    return app


def _for_local_reading(app: App, host: str, port: int) -> App:
    """Refuse requests that are not for reading, and those for another host name."""
    hosts = {name.encode() for name in allowed_hosts(host, port)}

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        is_http = scope["type"] == "http"
        if is_http and dict(scope["headers"]).get(b"host") not in hosts:
            await _refuse(send, 421, f"this server answers only on {host_in_url(host)} and localhost")
        elif is_http and scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "this server is read-only")
        else:
            await app(scope, receive, _with_policy(send))

    return guarded


def _with_policy(send: Any) -> Any:
    """Add a policy to every page: whatever an answer contains, nothing is loaded from or sent to another server.

    Inline scripts and styles are allowed, because Datasette's own pages use them.
    """

    async def send_with_policy(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), _POLICY]}
        await send(message)

    return send_with_policy


async def _refuse(send: Any, status: int, reason: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
