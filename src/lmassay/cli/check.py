"""Options and help of ``lmassay check``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option, only_option, results_option, strict_option


@click.command(
    epilog='Example: lmassay check robustness.yaml --fail-if "success>0.05"',
    short_help="Check a configuration without running it.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@only_option
@strict_option
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help='Condition such as "accuracy<-0.02": compute how many examples lmassay compare --fail-if needs to judge it.',
)
@click.option(
    "--pass-only-if",
    "requirements",
    metavar="CONDITION",
    multiple=True,
    help='Condition such as "accuracy>-0.02": compute how many examples lmassay compare --pass-only-if needs to pass.',
)
@click.option(
    "--like",
    metavar="RUN",
    multiple=True,
    help="Compute the number of examples for --fail-if and --pass-only-if from the clusters and scores of an earlier "
    "run. Give it twice to use the changes between two runs.",
)
@click.option(
    "--online",
    is_flag=True,
    help="Also send a few short requests to each server, to test whether it returns what the task needs.",
)
@results_option
@json_option
@calls("lmassay.cli.actions.check:check")
def check() -> None:
    """Check a configuration and show its runs, without sending requests or writing anything.

    This checks keys, files, scorers and what the model can do, and counts the requests. With --fail-if or
    --pass-only-if, it also computes how many examples `lmassay compare` needs to judge this condition. Only --online
    contacts a server.
    """
