"""Options and help of ``lmassay view``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, results_option


@click.command(epilog="Example: lmassay view --open", short_help="Watch and browse a results folder in the browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="Port; 0 chooses a free one."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Loopback address to listen on; other addresses are refused."
)
@click.option(
    "--open/--no-browser", "open_browser", default=False, show_default=True, help="Open the page in a browser."
)
@click.option("--read-only", is_flag=True, help="Allow no changes: no notes, no tags, no deleting.")
@click.option("--datasette", is_flag=True, help="Show the tables in Datasette instead, to query them with SQL.")
@results_option
@calls("lmassay.cli.actions.view:view")
def view() -> None:
    """Show a results folder in the browser until you press Ctrl-C, also while runs are in progress.

    The page lists runs with their progress and results. You can filter, search and group them, open examples, compare
    runs, write notes and tags, delete runs, and open the report of any selection.

    The page can only be reached from this machine, and only with the address that the command prints, which contains a
    token.
    """
