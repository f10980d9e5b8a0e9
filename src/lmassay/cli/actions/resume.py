"""What ``lmassay resume`` does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmassay.cli.actions.run import can_be_finished, plugin_output_to_stderr, print_records, work_through
from lmassay.cli.console import say
from lmassay.cli.options import ExecutorChoice, chosen_runs
from lmassay.errors import UserError
from lmassay.running import runner, trained_models
from lmassay.running.sweep import SweepRun
from lmassay.storage.commands import command_on_results
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted


def resume(
    run: str,
    budget_usd: float | None,
    budget_tokens: int | None,
    retry_failed: bool,
    execution: ExecutorChoice,
    results: Path,
    as_json: bool,
) -> int:
    """Finish a run, or all runs of the latest command."""
    if budget_usd is not None and not math.isfinite(budget_usd):
        raise UserError(f"--budget-usd {budget_usd}: give an amount in USD, or leave it out")
    new_limits: dict[str, Any] = {}
    if budget_usd is not None:
        new_limits["usd"] = budget_usd
    if budget_tokens is not None:
        new_limits["tokens"] = budget_tokens
    # With create=True, the schema of an older store is updated; a missing store stays an error.
    with Store(results, create=(results / STORE_FILE).is_file()) as store:
        # Without names, all runs of the latest command are chosen.
        names = [] if run == "latest" else [run]
        chosen = chosen_runs(store, names)
        unfinished = []
        for record in chosen:
            missing_models = trained_models.missing_folders(store.folder, record.id)
            for folder in missing_models:
                say(f"note: the trained model {folder} of {record.id} is missing and will be trained again")
            # A run that is done is resumed if its stored rows are damaged, or trained models were deleted.
            if record.status == "done" and store.rows_are_whole(record.id) and not missing_models:
                continue
            unfinished.append(_with_limits(record, new_limits))
        if not unfinished:
            what = chosen[0].id if len(chosen) == 1 else "every run of the latest command"
            say(f"{what} is complete; nothing to do")
            _report_other_unfinished(store, chosen)
            return print_records(chosen, store, as_json)
        with plugin_output_to_stderr():
            runs = [SweepRun(runner.replan(record, store.folder), record) for record in unfinished]
        plans = [sweep_run.plan for sweep_run in runs]
        with execution.executor_for(plans) as executor, store.lock_sweep(unfinished[0].sweep):
            exit_code = work_through(runs, store, executor, retry_failed=retry_failed)
            ids = {record.id for record in chosen}
            records = [_with_limits(record, new_limits) for record in store.runs() if record.id in ids]
            trained = {run.record.id for run in runs if run.plan.task.trains}
            return max(exit_code, print_records(records, store, as_json, trained=trained))


def _report_other_unfinished(store: Store, chosen: Sequence[RunRecord]) -> None:
    """Print how many runs of other commands are not finished, because `lmassay resume` without RUN ignores them."""
    chosen_ids = {record.id for record in chosen}
    others = []
    for record in store.runs():
        if record.id not in chosen_ids and record.status != "running" and can_be_finished(record, store):
            others.append(record)
    if others:
        verb = "is" if len(others) == 1 else "are"
        command = command_on_results(store.folder, "resume", others[-1].id)
        say(f"{counted(len(others), 'run')} of other commands {verb} unfinished; continue with: {command}")


def _with_limits(record: RunRecord, new_limits: Mapping[str, Any]) -> RunRecord:
    """Return a run with the limits that the command line gives; a limit that it does not give stays as it was."""
    if not new_limits:
        return record
    own_limits = record.config.get("budget") or {}
    return replace(record, config={**record.config, "budget": {**own_limits, **new_limits}})
