"""``lmassay resume``"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lmassay.cli.common import chosen_runs, json_option, results_option
from lmassay.cli.console import say
from lmassay.cli.crew import Hands, crew_options
from lmassay.cli.run import plug_in_output_aside, show_records, work_through
from lmassay.errors import UserError
from lmassay.running import runner
from lmassay.running.sweep import Entry
from lmassay.storage.store import FILE, Store
from lmassay.types import RunRecord


@click.command(epilog="Example: lmassay resume", short_help="Finish what was broken off.")
@click.argument("run", metavar="[RUN]", required=False, default="latest")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), help="A new limit instead of the run's own.")
@click.option("--budget-tokens", type=click.IntRange(min=1), help="The same in tokens.")
@crew_options
@results_option
@json_option
def resume(
    run: str, budget_usd: float | None, budget_tokens: int | None, hands: Hands, results: Path, as_json: bool
) -> int:
    """Finish a run, or every run of the latest command: judged examples, answers and trainings in the store stay."""
    if budget_usd is not None and not math.isfinite(budget_usd):
        raise UserError(f"--budget-usd {budget_usd}: give an amount in USD, or leave it out")
    budget = {"usd": budget_usd, "tokens": budget_tokens} if budget_usd or budget_tokens else None
    with Store(results, create=(results / FILE).is_file()) as store:
        chosen = chosen_runs(store, [] if run == "latest" else [run])
        open_runs = [record for record in chosen if record.status != "done" or not store.rows_are_whole(record.id)]
        left = [_with_budget(record, budget) for record in open_runs]
        if not left:
            say(f"{chosen[0].id if len(chosen) == 1 else 'every run of the latest command'} is complete; nothing to do")
            return show_records(chosen, store, as_json)
        with plug_in_output_aside():
            entries = [Entry(runner.replan(record), record) for record in left]
        with hands.crew([entry.plan for entry in entries]) as crew, store.lock_sweep(left[0].sweep):
            worst = work_through(entries, store, crew)
            ids = {record.id for record in chosen}
            return max(worst, show_records([r for r in store.runs() if r.id in ids], store, as_json))


def _with_budget(record: RunRecord, budget: Mapping[str, Any] | None) -> RunRecord:
    return record if budget is None else replace(record, config={**record.config, "budget": budget})
