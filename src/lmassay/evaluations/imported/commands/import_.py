"""``lmassay import``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.console import say
from lmassay.cli.options import json_option, results_option
from lmassay.cli.run import print_records
from lmassay.running import runner
from lmassay.storage.store import Store


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
@click.option("--model", default="", metavar="NAME", help="The model, if no results_*.json names it.")
@click.option("--filter", "filter_name", default="", metavar="NAME", help="The filter to use, if a log has several.")
@click.option("--task", default="", metavar="NAME", help="The harness's task, if the file name does not contain it.")
@results_option
@json_option
def import_(
    samples: Sequence[Path],
    totals: Path | None,
    model: str,
    filter_name: str,
    task: str,
    results: Path,
    as_json: bool,
) -> int:
    """Import sample logs of lm-evaluation-harness (samples_*.jsonl, written with --log_samples) as runs.

    lmassay's own tasks score minimal pairs (BLiMP) and BBQ again from the answers in the log, so these runs can be
    compared with other runs on the same data; all minimal pairs of one command become one run. Other logs keep their
    metrics and become one run each. Everything is read and checked before anything is written. The exit code is 1 if a
    log that lmassay exported comes from a run that had errors or was interrupted.
    """
    from lmassay.evaluations.imported.reading import configuration, grouped

    # All logs are read and checked here, before the results folder is touched.
    plans = []
    for paths in grouped(samples, filter_name, task):
        config = configuration(paths, model=model, filter_name=filter_name, task=task, results=totals)
        plans.append(runner.plan(config))
    sweep = runner.new_sweep()
    with Store(results, create=True) as store:
        records = [runner.start(plan, store, sweep) for plan in plans]
        notes: dict[str, None] = {}
        for plan in plans:
            notes |= dict.fromkeys(plan.notes)
        for note in notes:
            say(note)
        return print_records(records, store, as_json)
