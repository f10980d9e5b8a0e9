"""What ``lmassay import`` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmassay.cli.actions.run import print_records
from lmassay.cli.console import say
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
