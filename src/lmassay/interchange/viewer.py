"""A results folder in Datasette: tables, facets and ready-made queries in the browser, on this machine alone.

Nothing can be written: the file is opened read-only, no query writes, plug-ins that happen to be installed are not
loaded, and requests that were meant for another host are refused, so that no page elsewhere can read along.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lmassay.errors import MissingExtra, StoreError, UserError
from lmassay.storage.store import FILE, Store

_SETTINGS = {"allow_download": False, "sql_time_limit_ms": 5000, "default_page_size": 50, "allow_csv_stream": True}
_HTTP = 80
_NAMES = ("localhost", "127.0.0.1", "[::1]")

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Viewer:
    """A server that is bound to its port and waits to be run."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        _require_loopback(host)
        with Store(folder):
            # It is there, and it is ours.
            pass
        app = _application(folder)
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{_in_url(host)}:{self.port}/{DATABASE}"
        self._app = _only_for_here(app, host, self.port)

    def run(self, started: Callable[[str], None]) -> None:
        """Serve until stopped; ``started`` is called with the address once it answers."""
        import uvicorn

        class Server(uvicorn.Server):
            async def startup(server, sockets: list[socket.socket] | None = None) -> None:  # noqa: N805
                await super().startup(sockets=sockets)
                started(self.url)

        config = uvicorn.Config(self._app, log_level="error", lifespan="on", workers=1)
        try:
            Server(config).run(sockets=[self._socket])
        finally:
            self._socket.close()


def _application(folder: Path) -> App:
    # Read when datasette is imported: an empty list loads no installed plug-in.
    os.environ["DATASETTE_LOAD_PLUGINS"] = ""
    try:
        from datasette.app import Datasette
        from datasette.database import Database
    except ModuleNotFoundError as error:
        raise MissingExtra("lmassay view", "view") from error

    class ReadOnly(Database):  # type: ignore[misc]  # datasette has no types
        def connect(self, write: bool = False) -> Any:
            if write:
                raise PermissionError("lmassay view does not write")
            return super().connect()

        async def execute(self, *arguments: Any, **options: Any) -> Any:
            return await super().execute(*arguments, **{**options, "log_sql_errors": False})

    _quieten()
    site = Datasette([], memory=False, metadata=METADATA, settings=_SETTINGS)
    # Where nothing can be written beside the file, SQLite must be told that nobody else does either.
    site.add_database(ReadOnly(site, str((folder / FILE).resolve()), is_mutable=os.access(folder, os.W_OK)), DATABASE)
    site.remove_database("_memory")
    app: App = site.app()
    return app


def _quieten() -> None:
    """A slip in a query of one's own is shown on the page; the terminal need not fill with a traceback for it."""
    # To be imported after the application, which loads it as one of its own plug-ins.
    from datasette import handle_exception

    handle_exception.rich = None


def _only_for_here(app: App, host: str, port: int) -> App:
    """Refuse what is no reading, and requests whose Host is a name that somebody else pointed at this machine."""
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


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port that was in use a moment ago may be taken again.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        raise StoreError(f"port {port} of {host} cannot be had ({error.strerror}); give another with --port") from error
    return opened


# --- what Datasette is told of a store: what its tables hold, what to filter by, queries that are worth having --------


DATABASE = "lmassay"

_RESULTS = """
select runs.id as run, runs.task, runs.label, runs.model,
  json_extract(result.value, '$.metric') as metric, json_extract(result.value, '$.group') as "group",
  json_extract(result.value, '$.value') as value,
  json_extract(result.value, '$.low') as low, json_extract(result.value, '$.high') as high,
  json_extract(result.value, '$.n') as n, json_extract(result.value, '$.n_error') as errors,
  json_extract(result.value, '$.n_unscored') as unscored
from runs, json_each(runs.results) as result
where (:metric = '' or metric = :metric) and (:model = '' or runs.model = :model)
order by runs.created desc, runs.id, result.key
"""

_SCORES = """
select rows.run, rows.id, rows.state, score.key as metric, score.value as value, rows.groups, rows.inputs, rows.details
from rows, json_each(rows.scores) as score
where rows.run = :run and (:metric = '' or score.key = :metric)
order by rows.position
"""

_ERRORS = """
select rows.run, runs.model, rows.error, count(*) as examples, min(rows.id) as "for example"
from rows join runs on runs.id = rows.run
where rows.state = 'error'
group by rows.run, rows.error
order by examples desc
"""

_UNSCORED = """
select rows.run, reason.key as metric, reason.value as reason, count(*) as examples, min(rows.id) as "for example"
from rows, json_each(rows.unscored) as reason
group by rows.run, reason.key, reason.value
order by examples desc
"""

_CHANGED = """
select a.id, a.value as before, b.value as after, a.inputs
from (select rows.id, rows.inputs, score.value from rows, json_each(rows.scores) as score
      where rows.run = :base and score.key = :metric) as a
join (select rows.id, score.value from rows, json_each(rows.scores) as score
      where rows.run = :new and score.key = :metric) as b on a.id = b.id
where a.value != b.value
order by b.value - a.value
"""

_TABLES: dict[str, Any] = {
    "runs": {
        "description": "One row a run: what was evaluated, with which results, and where they come from.",
        "columns": {
            "id": "names the run on the command line; a unique part of it will do",
            "sweep": "runs of one command share it",
            "label": "the task's name for what was asked",
            "status": "done, incomplete (examples in error), stopped, cancelled, failed, running, waiting",
            "config": "the configuration, as JSON",
            "signature": "what the numbers depend on",
            "provenance": "versions, machine, command and notes, as JSON",
            "results": "metric, group, value, interval and counts, as JSON; the query `results` spreads them out",
        },
        "facets": ["task", "model", "status"],
        "sort_desc": "created",
        "label_column": "id",
    },
    "rows": {
        "description": "One row an example of a run: what it was and how it was judged.",
        "columns": {
            "run": "the run it belongs to",
            "id": "the same in every run on the same data, so that runs can be paired",
            "state": "scored, unscored or error; errors are never counted as wrong answers",
            "scores": "metric to number, as JSON",
            "unscored": "metric to the reason why it has no number, as JSON",
            "details": "what the verdict rests on, as JSON",
        },
        "facets": ["state", "run"],
        "sort": "position",
    },
    "responses": {
        "description": "Every answer of a model that may be used again, by the digest of who was asked what.",
        "columns": {
            "key": "digest of the model's identity, the request and the seed",
            "request": "what was asked, as JSON",
            "response": "what came back, as JSON",
            "run": "the run that asked first",
        },
        "facets": ["model"],
        "sort_desc": "created",
    },
    "asked": {
        "description": "Under which keys of `responses` the answers about an example are kept.",
        "columns": {"keys": "a list of keys, as JSON"},
        "hidden": True,
    },
    "spending": {
        "description": "What a run asked of models behind an API.",
        "columns": {"usd": "empty where a price is unknown"},
    },
}

METADATA: dict[str, Any] = {
    "title": "lmassay results",
    "description": "Runs of lmassay, read-only.",
    "databases": {
        DATABASE: {
            "description": "Tables as the store keeps them, and queries that spread out what they hold as JSON.",
            "tables": _TABLES,
            "queries": {
                "results": {
                    "title": "Results of all runs",
                    "description": "One row a metric and group, with interval and counts.",
                    "sql": _RESULTS.strip(),
                    "hide_sql": True,
                    "params": ["metric", "model"],
                },
                "scores": {
                    "title": "Examples of a run with their scores",
                    "description": "One row an example and metric; leave metric empty for all.",
                    "sql": _SCORES.strip(),
                    "hide_sql": True,
                    "params": ["run", "metric"],
                },
                "changed": {
                    "title": "Examples that two runs judge differently",
                    "sql": _CHANGED.strip(),
                    "hide_sql": True,
                    "params": ["base", "new", "metric"],
                },
                "errors": {"title": "Errors, by run and message", "sql": _ERRORS.strip(), "hide_sql": True},
                "unscored": {"title": "Why examples have no score", "sql": _UNSCORED.strip(), "hide_sql": True},
            },
        }
    },
}
