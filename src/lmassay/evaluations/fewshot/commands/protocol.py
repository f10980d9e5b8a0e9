"""Options and help of ``lmassay protocol``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option, results_option


@click.command(epilog="Example: lmassay protocol -o table.tex", short_help="Evaluate few-shot runs.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "all_runs", is_flag=True, help="Evaluate all few-shot runs in the folder together.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "tex", "csv"]),
    help="Format of the tables.  [default: by the ending of -o, else text]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write: .md, .tex, .csv or .json.  [default: standard output]",
)
@results_option
@json_option
@calls("lmassay.evaluations.fewshot.commands.actions.protocol:protocol")
def protocol() -> None:
    """Evaluate few-shot runs by FewNLU's three criteria; without RUN, the runs of the latest command.

    The criteria are the test score of the selected configuration, the correlation of dev and test scores, and the
    stability over the number of splits K. There is one table per split strategy, then a comparison of strategies.

    Runs that differ only in hyper-parameters are the configurations to select from. Trainings that failed or are
    missing are reported and never counted as scores.
    """
