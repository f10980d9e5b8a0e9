"""What ``lmassay view`` does."""

from __future__ import annotations

import importlib.util
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import click

from lmassay.cli.console import say
from lmassay.errors import MissingExtra
from lmassay.storage.store import STORE_FILE


class _Server(Protocol):
    """A server that already listens on its port."""

    url: str

    def run(self) -> None:
        """Serve until stopped."""


def view(port: int, host: str, open_browser: bool, read_only: bool, datasette: bool, results: Path) -> None:
    """Serve a results folder in the browser until the user stops the command."""
    server = _datasette(results, host, port) if datasette else _live_view(results, host, port, read_only)
    click.echo(server.url)
    if not datasette and not (results / STORE_FILE).is_file():
        say(f"there are no results in {results} yet; the page shows runs as soon as there are any")
    say("stop with Ctrl-C")
    if open_browser:
        webbrowser.open(server.url)
    # Ctrl-C is the usual way to stop the server, so it is not an error.
    with suppress(KeyboardInterrupt):
        server.run()
    say("stopped")


def _live_view(results: Path, host: str, port: int, read_only: bool) -> _Server:
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("lmassay view", "view")
    from lmassay.view.server import ViewServer

    return ViewServer(results, host, port, read_only=read_only)


def _datasette(results: Path, host: str, port: int) -> _Server:
    from lmassay.interchange.viewer import Viewer

    viewer = Viewer(results, host, port)
    for note in viewer.notes:
        say(note)
    return viewer
