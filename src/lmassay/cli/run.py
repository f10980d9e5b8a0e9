"""Options and help of ``lmassay run``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, executor_options, json_option, only_option, results_option, strict_option


@click.command(
    epilog="Example: lmassay run robustness.yaml --limit 100 --set task.success_threshold=1.2",
    short_help="Run a configuration.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), help="Use only the first N examples.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@click.option(
    "--budget-usd",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop when all runs together have spent this many USD; same as budget.usd in the configuration.",
)
@click.option(
    "--budget-tokens",
    type=click.IntRange(min=1),
    help="Stop when all runs together have used this many tokens; same as budget.tokens.",
)
@only_option
@strict_option
@click.option("--dry-run", is_flag=True, help="Check the configuration and show the plan, but do not run it.")
@executor_options
@results_option
@json_option
@calls("lmassay.cli.actions.run:run")
def run() -> None:
    """Run one or more configurations and print the results.

    If a configuration gives a list where a single value is expected, lmassay runs every combination. Answers that are
    already in the results folder are not requested again.
    """
