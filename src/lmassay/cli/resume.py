"""``lmassay resume``"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import say
from lmassay.cli.options import ExecutorOptions, chosen_runs, executor_options, json_option, results_option
from lmassay.cli.run import plugin_output_to_stderr, print_records, work_through
from lmassay.errors import UserError
from lmassay.running import runner
from lmassay.running.sweep import SweepRun
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import RunRecord


@click.command(epilog="Example: lmassay resume", short_help="Finish what was broken off.")
@click.argument("run", metavar="[RUN]", required=False, default="latest")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), help="A new limit instead of the run's own.")
@click.option("--budget-tokens", type=click.IntRange(min=1), help="The same in tokens.")
@executor_options
@results_option
@json_option
def resume(
    run: str,
    budget_usd: float | None,
    budget_tokens: int | None,
    execution: ExecutorOptions,
    results: Path,
    as_json: bool,
) -> int:
    """Finish a run, or every run of the latest command: judged examples, answers and trainings in the store stay."""
    if budget_usd is not None and not math.isfinite(budget_usd):
        raise UserError(f"--budget-usd {budget_usd}: give an amount in USD, or leave it out")
    budget = {"usd": budget_usd, "tokens": budget_tokens} if budget_usd or budget_tokens else None
    with Store(results, create=(results / STORE_FILE).is_file()) as store:
        chosen = chosen_runs(store, [] if run == "latest" else [run])
        open_runs = [record for record in chosen if record.status != "done" or not store.rows_are_whole(record.id)]
        left = [_with_budget(record, budget) for record in open_runs]
        if not left:
            say(f"{chosen[0].id if len(chosen) == 1 else 'every run of the latest command'} is complete; nothing to do")
            return print_records(chosen, store, as_json)
        with plugin_output_to_stderr():
            entries = [SweepRun(runner.replan(record), record) for record in left]
        with execution.executor_for([entry.plan for entry in entries]) as executor, store.lock_sweep(left[0].sweep):
            worst = work_through(entries, store, executor)
            ids = {record.id for record in chosen}
            return max(worst, print_records([r for r in store.runs() if r.id in ids], store, as_json))


def _with_budget(record: RunRecord, budget: Mapping[str, Any] | None) -> RunRecord:
    return record if budget is None else replace(record, config={**record.config, "budget": budget})
