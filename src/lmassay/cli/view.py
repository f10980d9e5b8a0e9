"""``lmassay view``"""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from lmassay.cli.console import say
from lmassay.cli.options import results_option


@click.command(epilog="Example: lmassay view --port 8001 --open", short_help="Browse a results folder in Datasette.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="Port; 0 chooses a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of this machine to listen on.")
@click.option("--open/--no-browser", "open_browser", default=False, help="Open the page in a browser.")
@results_option
def view(port: int, host: str, open_browser: bool, results: Path) -> None:
    """Browse a results folder in Datasette until you press Ctrl-C.

    The folder is read-only and can only be reached from this machine. There are tables with facets, saved queries
    (results, scores, changed, errors, unscored), and you can write your own SQL.
    """
    from lmassay.interchange.viewer import Viewer

    viewer = Viewer(results, host, port)
    click.echo(viewer.url)
    for note in viewer.notes:
        say(note)
    say("stop with Ctrl-C")
    if open_browser:
        webbrowser.open(viewer.url)
    # Ctrl-C is the usual way to stop it, so it is not an error.
    with suppress(KeyboardInterrupt):
        viewer.run()
    say("stopped")
