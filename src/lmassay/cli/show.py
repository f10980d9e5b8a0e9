"""Options and help of ``lmassay show``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, json_option, results_option


@click.command(epilog="Example: lmassay show 1a2b3c --signature", short_help="Show the results of a run.")
@click.argument("run", metavar="[RUN]", default="latest")
@click.option("--all", "everything", is_flag=True, help="Print every result, and the signature.")
@click.option("--signature", is_flag=True, help="Also print the signature: everything that the numbers depend on.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print only the configuration, ready for `lmassay run`.")
@click.option("--provenance", is_flag=True, help="Also print the configuration, versions and machine.")
@results_option
@json_option
@calls("lmassay.cli.actions.show:show")
def show() -> None:
    """Show the results of a run with intervals, and how many examples were scored (n), failed or are unscored.

    RUN is an id, the beginning or end of an id, or "latest", which is the default. If a task has hundreds of results,
    only the main ones are shown; --all and --json show all of them.
    """
