"""Options and help of ``lmassay search``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, executor_options, json_option, results_option


@click.command(
    epilog="Example: lmassay search fewshot.yaml --trials 6 --workers 2",
    short_help="Search for good options.",
)
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--trials", type=click.IntRange(min=1), default=20, show_default=True, help="Configurations to try.")
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "grid"]),
    default="tpe",
    show_default=True,
    help="How configurations are chosen: tpe learns from the scores so far, random draws them at random, grid tries "
    "each combination once.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the sampler.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@executor_options
@results_option
@json_option
@calls("lmassay.evaluations.fewshot.commands.actions.search:search")
def search() -> None:
    """Search for the options with the best mean dev score over splits, with Optuna.

    \b
    Lists are choices, unless the option itself takes a list.
    Ranges are written like this:
      learning_rate: {low: 1.0e-6, high: 1.0e-4, log: true}
      max_steps: {low: 100, high: 500, step: 50}

    All trials are runs of one sweep in the results folder. If the search is interrupted, run the same command again:
    finished trials are not repeated.
    """
