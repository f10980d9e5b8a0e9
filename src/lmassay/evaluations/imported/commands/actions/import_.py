"""What ``lmassay import`` does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from lmassay.cli.actions.run import print_records
from lmassay.cli.console import say
from lmassay.errors import UserError
from lmassay.running import runner
from lmassay.storage.store import Store


def import_(
    samples: Sequence[Path],
    totals: Path | None,
    model: str,
    filter_name: str,
    task: str,
    results: Path,
    as_json: bool,
) -> int:
    """Import sample logs of lm-evaluation-harness (samples_*.jsonl, written with --log_samples) as runs."""
    from lmassay.evaluations.imported.reading import configuration, grouped

    _require_files(samples)
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


def _require_files(samples: Sequence[Path]) -> None:
    """Raise a UserError if a folder is given instead of files; the message says how to name the logs in it."""
    for path in samples:
        if not path.is_dir():
            continue
        logs = sorted(path.rglob("samples_*.jsonl"))
        if not logs:
            raise UserError(
                f"{path} is a folder without sample logs; lm_eval writes samples_*.jsonl with --log_samples"
            )
        command = f"lmassay import {shlex.quote(str(logs[0].parent))}/samples_*.jsonl"
        raise UserError(f"{path} is a folder; give its sample logs: {command}")
