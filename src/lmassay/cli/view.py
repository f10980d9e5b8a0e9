"""``lmassay view``"""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from lmassay.cli.console import say
from lmassay.cli.options import results_option


@click.command(epilog="Example: lmassay view --port 8001 --open", short_help="Look at a results folder in Datasette.")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Only this machine's own addresses are allowed.")
@click.option("--open/--no-browser", "open_browser", default=False, help="Open the page in a browser, or do not.")
@results_option
def view(port: int, host: str, open_browser: bool, results: Path) -> None:
    """Show a results folder in Datasette, read-only and on this machine alone, until stopped with Ctrl-C.

    Tables with facets, ready-made queries (results, scores, changed, errors, unscored) and SQL of one's own.
    """
    from lmassay.interchange.viewer import Viewer

    viewer = Viewer(results, host, port)
    click.echo(viewer.url)
    say("stop with Ctrl-C")
    if open_browser:
        webbrowser.open(viewer.url)
    # Ctrl-C is the usual way to end it, and not a failure.
    with suppress(KeyboardInterrupt):
        viewer.run()
    say("stopped")
