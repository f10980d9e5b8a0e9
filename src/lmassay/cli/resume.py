"""Options and help of ``lmassay resume``."""

from __future__ import annotations

import click

from lmassay.cli.options import calls, executor_options, json_option, results_option


@click.command(epilog="Example: lmassay resume", short_help="Finish runs that were interrupted or have errors.")
@click.argument("run", metavar="[RUN]", required=False, default="latest")
@click.option(
    "--budget-usd", type=click.FloatRange(min=0, min_open=True), help="New limit in USD; a limit in tokens stays."
)
@click.option("--budget-tokens", type=click.IntRange(min=1), help="New limit in tokens; a limit in USD stays.")
@click.option(
    "--retry-failed", is_flag=True, help="Repeat trainings that failed. Without it, only missing trainings are done."
)
@executor_options
@results_option
@json_option
@calls("lmassay.cli.actions.resume:resume")
def resume() -> None:
    """Finish a run, or all runs of the latest command.

    Scored examples, stored answers and trainings are not repeated.
    """
