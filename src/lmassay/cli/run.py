"""``lmassay run``"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import print_error, print_json, print_sentence, print_table, say, warn
from lmassay.cli.options import ExecutorOptions, executor_options, json_option, results_option
from lmassay.cli.progress import LineDisplay, ProgressDisplay
from lmassay.cli.run_tables import print_run, print_runs
from lmassay.errors import LmassayError, UserError
from lmassay.plugins.evaluations import evaluation_of, evaluations
from lmassay.plugins.hooks import any_value, call_hook
from lmassay.reporting.numbers import few_label_notes
from lmassay.running import runner
from lmassay.running.config import read_config
from lmassay.running.executors import Executor
from lmassay.running.labels import swept_keys, with_distinct_labels, with_sweep_labels
from lmassay.running.runner import Plan
from lmassay.running.sweep import PrefetchedTrainings, SweepRun, prefetch_trainings, record_runs, trains
from lmassay.storage.provenance import command_line
from lmassay.storage.store import Store
from lmassay.types import RunRecord

EXIT_WITH_ERRORS = 1
EXIT_FAILED = 2
_MOST_TOLD = 3
_MOST_NOTES = 12
_ONE_RUN_EACH = "lists start one run per value"


@click.command(
    epilog="Example: lmassay run examples/robustness.yaml --limit 100 --set task.success_threshold=1.2",
    short_help="Run a configuration.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), help="Use the first N examples only.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check and show the plan; ask nothing, write nothing.")
@executor_options
@results_option
@json_option
def run(
    configs: Sequence[Path],
    limit: int | None,
    overrides: Sequence[str],
    dry_run: bool,
    execution: ExecutorOptions,
    results: Path,
    as_json: bool,
) -> int:
    """Run every combination of a configuration's lists; answers already in the results folder are not asked again."""
    with plugin_output_to_stderr():
        planned = plan_all(configs, overrides, limit)
    if dry_run:
        show_plan(planned, as_json)
        return 0
    for lists in swept_keys(planned):
        say(f"{_ONE_RUN_EACH}: {lists}")
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, execution.executor_for(planned) as executor, store.lock_sweep(sweep):
        entries = record_runs(planned, store, sweep)
        worst = work_through(entries, store, executor)
        return max(worst, print_records([r for r in store.runs() if r.sweep == sweep], store, as_json))


def work_through(
    entries: Sequence[SweepRun], store: Store, executor: Executor, display: ProgressDisplay | None = None
) -> int:
    """Do the runs of a sweep, or what is left of them: trainings first, side by side, then run after run."""
    display = display or LineDisplay()
    ahead = _train(entries, store, executor, display)
    for run in ahead.begun:
        display.ended(run)
    left = [entry for entry in entries if entry.record.id not in ahead.begun]
    worst = 0
    for number, entry in enumerate(left, 1):
        code, stopped = _run_one(entry, store, ahead, f"[{number}/{len(left)}]", display)
        worst = max(worst, code)
        if stopped and number < len(left):
            warn(f"the budget is used up: {len(left) - number} further runs were not begun")
            break
    return worst


def _train(
    entries: Sequence[SweepRun], store: Store, executor: Executor, display: ProgressDisplay
) -> PrefetchedTrainings:
    training = [entry for entry in entries if trains(entry.plan)]
    if not training:
        return PrefetchedTrainings()
    _warn_of(note for entry in training for note in entry.plan.notes)
    try:
        with display.work("", "trainings") as advance, plugin_output_to_stderr():
            return prefetch_trainings(training, store, executor, advance)
    except BaseException as error:
        for entry in training if isinstance(error, KeyboardInterrupt) else []:
            if store.run(entry.record.id).status in ("waiting", "running"):
                store.set_status(entry.record.id, "cancelled", "stopped by the user")
        error.add_note(f"trainings that were finished are kept; go on with: {_resume(store)}")
        raise


def _warn_of(notes: Iterable[str]) -> None:
    """Show each note once, and not more than a screen of them."""
    different = list(dict.fromkeys(notes))
    for note in different[:_MOST_NOTES]:
        warn(note)
    if len(different) > _MOST_NOTES:
        warn(f"and {len(different) - _MOST_NOTES} more of this kind; the report lists them all")


def plan_all(configs: Sequence[Path], overrides: Sequence[str], limit: int | None = None) -> list[Plan]:
    """Check every run of every configuration; a mistake is shown with file and line."""
    planned: list[Plan] = []
    for path in configs:
        file = read_config(path, overrides, limit)
        of_file = []
        for config in file.runs():
            try:
                of_file.append(runner.plan(config))
            except UserError as error:
                raise UserError(file.locate(str(error))) from error
        planned += with_sweep_labels(of_file)
    return with_distinct_labels(planned)


def _run_one(
    entry: SweepRun, store: Store, ahead: PrefetchedTrainings, count: str, display: ProgressDisplay
) -> tuple[int, bool]:
    """One run of a sweep: its exit code, and whether the budget stopped it. If it fails, the others go on."""
    # A run that is resumed is planned by itself; only its record knows what it is called among those of its sweep.
    planned, record = entry.plan, entry.record
    what = f"{count} {record.task}: {record.label} on {record.model}"
    for note in planned.notes:
        warn(note)
    try:
        with display.work(entry.record.id, what) as advance, plugin_output_to_stderr():
            record = runner.begin(planned, record, store, advance, ahead.failed)
    except LmassayError as error:
        print_error(str(error), getattr(error, "__notes__", []))
        return EXIT_FAILED, False
    return 0, record.status == "stopped"


@contextmanager
def plugin_output_to_stderr() -> Iterator[None]:
    """What a user's own code prints goes to standard error: standard output is for results."""
    with redirect_stdout(sys.stderr):
        yield


def print_records(records: Sequence[RunRecord], store: Store, as_json: bool) -> int:
    """Print runs; the exit code tells whether examples were left in error."""
    if as_json:
        # One run or many: programs read the same keys.
        print_json({"runs": [record.as_json() for record in records]})
    elif len(records) == 1:
        print_run(records[0], store)
    else:
        print_runs(records, store)
        _print_summaries(records, store)
    for note in dict.fromkeys(note for record in records for note in few_label_notes(record)):
        warn(note)
    return report_unfinished(records, store)


def _print_summaries(records: Sequence[RunRecord], store: Store) -> None:
    """What the runs of an evaluation show together, where the evaluation has something to add."""
    for evaluation in evaluations():
        own = [record for record in records if evaluation_of(record) is evaluation and record.results]
        if evaluation.after_run is not None and own:
            call_hook(
                evaluation, "after_run", evaluation.after_run, store, own, reads=any_value, otherwise=lambda: None
            )


def report_unfinished(records: Sequence[RunRecord], store: Store) -> int:
    """Tell which runs left examples in error or were stopped; the exit code says whether any did."""
    left = [record for record in records if record.status in ("incomplete", "stopped")]
    for record in left[:_MOST_TOLD]:
        print_error(f"{record.id}: {record.note}; {_remedy(record, store)}")
        for text, number in store.errors(record.id):
            say(f"  {number} × {text}")
    more = left[_MOST_TOLD:]
    if more:
        again = "" if all(map(_is_imported, more)) else f"; try all again with: {_resume(store)}"
        print_error(f"{len(more)} more runs are not complete{again}")
    return EXIT_WITH_ERRORS if left else 0


def _remedy(record: RunRecord, store: Store) -> str:
    if _is_imported(record):
        # Nothing can be asked here: the same log would be read again.
        return (
            "the log does not hold the whole run: finish that with lmassay resume where it was made, "
            "export it and import it again"
        )
    return f"try again with: {_resume(store, record.id)}"


def _is_imported(record: RunRecord) -> bool:
    return "imported" in record.depends_on


def _resume(store: Store, *runs: str) -> str:
    return command_line("resume", *runs, "--results", store.folder)


def show_plan(planned: Sequence[Plan], as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Print the runs of a plan; ``more`` goes into the JSON document."""
    with plugin_output_to_stderr():
        notes = [plan.notes for plan in planned]
    _warn_of(chain.from_iterable(notes))
    rows = [
        {
            "task": plan.task.name,
            "label": plan.label,
            "model": plan.model_label,
            "examples": plan.size,
            "requests": _requests(plan),
            "notes": own_notes,
            "signature": plan.signature,
        }
        for plan, own_notes in zip(planned, notes, strict=True)
    ]
    if as_json:
        print_json({"runs": rows, **(more or {})})
        return
    columns = ("task", "label", "model", "examples", "requests")
    print_table(
        f"{len(rows)} run{'' if len(rows) == 1 else 's'}; requests are the most that would be asked, before answers in "
        "the cache are taken off",
        columns,
        [[row[column] if row[column] is not None else "unknown" for column in columns] for row in rows],
        right=(3, 4),
    )
    for lists in swept_keys(planned):
        print_sentence(f"{_ONE_RUN_EACH}: {lists}")


def _requests(plan: Plan) -> int | None:
    if not plan.task.needs or (plan.model is not None and not plan.model.cached):
        return 0
    each, size = plan.task.requests_each, plan.size
    return None if each is None or size is None else each * size
