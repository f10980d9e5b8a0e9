"""Options and help of ``lmassay ls``."""

from __future__ import annotations

import click

from lmassay.cli.filters import filter_options
from lmassay.cli.options import calls, json_option, results_option


@click.command(
    epilog="Example: lmassay ls --task robustness --status done --since 7d --sort success",
    short_help="List the runs in a results folder.",
)
@filter_options
@click.option(
    "--sort",
    "order",
    metavar="KEY",
    default="created",
    show_default=True,
    help="Sort by created (oldest first), label, model, task, or a metric (the best run first, runs without the metric "
    "last).",
)
@results_option
@json_option
@calls("lmassay.cli.actions.ls:ls")
def ls() -> None:
    """List the runs in a results folder with their main result, note and tags, and what they cost.

    Options that select runs can be combined: --task robustness --status failed lists the failed runs of this task.
    With --sort METRIC, the list shows this metric.
    """
