"""Shows a results folder in Datasette: tables, facets and prepared queries in the browser, only on this machine.

Datasette opens the file read-only. This module also prevents Datasette from loading installed plug-ins, disables the
download of the file, and refuses requests with another host name, so that no other web page can read the results.
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
"""The largest number of examples that are shown for a run that is stored in batches."""

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Viewer:
    """A server. It listens on its port as soon as it is created, and answers requests after ``run`` is called."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        require_loopback(host)
        self.notes: list[str] = []
        """Notes for the user about the tables that are shown."""
        # The temporary copy, if there is one, and the socket.
        self._resources = ExitStack()
        try:
            self._open(folder, host, port)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, and remove the temporary copy."""
        self._resources.close()

    def _open(self, folder: Path, host: str, port: int) -> None:
        """Start to listen, and prepare the application: on the folder itself or, if necessary, on a copy."""
        # Raises an error unless the folder is a results folder.
        with Store(folder) as store:
            records = [store.with_damage(record) for record in store.runs()]
            whole_runs = [record.id for record in records if record.status != DAMAGED]
            damaged_runs = [record.id for record in records if record.status == DAMAGED]
            # Datasette shows the stored tables, so they must not contain API keys.
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
        """Copy runs to a temporary folder, with a table row for each example and without API keys; return the folder.

        Datasette shows the stored tables. Without a copy, examples in batches would not be readable, damaged runs would
        look like valid ones, and API keys would be visible.
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
        """Answer requests until the process is interrupted."""
        import uvicorn

        with self._resources:
            uvicorn.Server(uvicorn.Config(self._app, log_level="error", lifespan="on")).run(sockets=[self._socket])


def _may_have_secrets(store: Store) -> bool:
    """Return whether the store contains secrets, which old versions stored, or is too damaged to find out."""
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
    """Return the application of Datasette for the results in a folder."""
    # Datasette reads this variable when it is imported. With an empty list, it does not load installed plug-ins.
    os.environ["DATASETTE_LOAD_PLUGINS"] = ""
    try:
        from datasette.app import Datasette
    except ModuleNotFoundError as error:
        raise MissingExtra("lmassay view --datasette", "datasette") from error
    # This module must be imported after the application, which loads it as one of its own plug-ins.
    from datasette import handle_exception

    # An error in a user's query is shown on the page; without this, the terminal fills with a traceback.
    handle_exception.rich = None
    file = [str((folder / STORE_FILE).resolve())]
    # In a read-only folder, SQLite cannot create its lock files. It does not need them if the file is "immutable".
    kind = "files" if os.access(folder, os.W_OK) else "immutables"
    metadata = yaml.safe_load(_METADATA.read_text(encoding="utf-8"))
    app: App = Datasette(**{"files": [], kind: file}, metadata=metadata, settings=_SETTINGS).app()
    return app


def _for_local_reading(app: App, host: str, port: int) -> App:
    """Wrap an application so that requests with another host name or another method than GET and HEAD are refused."""
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
    """Add a content security policy to every page, so that nothing is loaded from or sent to another server.

    This protects the user even if an answer contains HTML. Inline scripts and styles are allowed, because Datasette's
    own pages use them.
    """

    async def send_with_policy(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), _POLICY]}
        await send(message)

    return send_with_policy


async def _refuse(send: Any, status: int, reason: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
