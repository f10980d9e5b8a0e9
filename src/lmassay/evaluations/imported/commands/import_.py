"""Options and help of ``lmassay import``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option, results_option


@click.command(
    "import",
    epilog="Example: lmassay import out/gpt2/samples_blimp_*.jsonl --results results",
    short_help="Import results of another harness.",
)
@click.argument("samples", metavar="SAMPLES...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--totals",
    type=click.Path(path_type=Path),
    help="The harness's results_*.json; by default the one next to the samples.",
)
@click.option("--model", default="", metavar="NAME", help="Name of the model; by default the one in results_*.json.")
@click.option(
    "--filter",
    "filter_name",
    default="",
    metavar="NAME",
    help="The filter of the harness, such as strict-match, whose scores are used; needed if a log has several.",
)
@click.option("--task", default="", metavar="NAME", help="The harness's task, if the file name does not contain it.")
@results_option
@json_option
@calls("lmassay.evaluations.imported.commands.actions.import_:import_")
def import_() -> None:
    """Import sample logs of lm-evaluation-harness (samples_*.jsonl, written with --log_samples) as runs.

    lmassay's own tasks score minimal pairs (BLiMP) and BBQ again from the answers in the log, so these runs can be
    compared with other runs on the same data; all minimal pairs of one command become one run. Other logs keep their
    metrics and become one run each. Everything is read and checked before anything is written. The exit code is 1 if a
    log that lmassay exported comes from a run that had errors or was interrupted.
    """
