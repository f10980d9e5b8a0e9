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
    short_help="Take results of another harness in.",
)
@click.argument("samples", metavar="SAMPLES...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--totals",
    type=click.Path(path_type=Path),
    help="The harness's results_*.json; the one beside the samples if not given.",
)
@click.option("--model", default="", metavar="NAME", help="Who was asked, where no results_*.json tells.")
@click.option("--filter", "filter_name", default="", metavar="NAME", help="Which filter, where a log has several.")
@click.option("--task", default="", metavar="NAME", help="The harness's task, where the file name does not tell.")
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
    """Take sample logs of lm-evaluation-harness (samples_*.jsonl, written with --log_samples) in as runs.

    Minimal pairs (BLiMP) and BBQ are judged by our own tasks from the answers in the log and pair with runs of ours on
    the same data; all minimal pairs of a command are one run. Other tasks keep the metrics of the log, a run each.
    Everything is read and checked before anything is written. The exit code is 1 if a log of ours says that its run had
    examples in error or was broken off.
    """
    from lmassay.evaluations.imported.reading import configuration, grouped

    planned = [
        runner.plan(configuration(paths, model=model, filter_name=filter_name, task=task, results=totals))
        for paths in grouped(samples, filter_name, task)
    ]
    sweep = runner.new_sweep()
    with Store(results, create=True) as store:
        records = [runner.start(plan, store, sweep) for plan in planned]
        for note in dict.fromkeys(note for plan in planned for note in plan.notes):
            say(note)
        return print_records(records, store, as_json)
