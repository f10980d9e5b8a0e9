"""``lmassay run``, and the functions that other commands use to plan, carry out and print runs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmassay.cli.console import print_error, print_json, say, warn
from lmassay.cli.exit import INCOMPLETE, USER_ERROR
from lmassay.cli.options import ExecutorChoice
from lmassay.cli.progress import ProgressDisplay, SweepDisplay
from lmassay.cli.run_tables import brief_note, print_run, print_runs
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.contracts import Model, StoredAnswers
from lmassay.errors import ConfigError, LmassayError, UserError
from lmassay.plugins.evaluations import evaluation_of, evaluations
from lmassay.plugins.hooks import any_value, call_hook
from lmassay.reporting.numbers import few_label_notes, missing_metric_notes
from lmassay.running import runner
from lmassay.running.config import read_config
from lmassay.running.cost import (
    ASSUMPTIONS,
    CostEstimate,
    budget_warnings,
    cost_text,
    estimated_cost,
    models_without_budget,
)
from lmassay.running.jobs import Executor
from lmassay.running.labels import swept_keys, with_distinct_labels, with_sweep_labels
from lmassay.running.planning import Plan
from lmassay.running.selection import NotApplicable, combination_texts, select
from lmassay.running.sweep import PrefetchedTrainings, SweepRun, prefetch_trainings, record_runs
from lmassay.storage.commands import command_on_results
from lmassay.storage.database import is_disk_full
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord
from lmassay.types.wording import NO_MODEL, counted

_MAX_UNFINISHED_RUNS = 3
_MAX_NOTES = 12
_MAX_REASONS = 3
_MAX_COMBINATIONS = 6
# Parts of the messages of temporary errors, which may not occur at the next attempt.
_TEMPORARY = re.compile(
    r"\(tried \d+ times\)|did not answer in time|the connection broke|HTTP (408|409|425|429|5\d\d)|is down|try again",
    re.IGNORECASE,
)
_ONE_RUN_EACH = "lists start one run per value"


def run(
    configs: Sequence[Path],
    limit: int | None,
    overrides: Sequence[str],
    budget_usd: float | None,
    budget_tokens: int | None,
    selections: Sequence[str],
    strict: bool,
    dry_run: bool,
    execution: ExecutorChoice,
    results: Path,
    as_json: bool,
) -> int:
    """Run one or more configurations and print the results."""
    for key, amount in (("usd", budget_usd), ("tokens", budget_tokens)):
        if amount is not None:
            overrides = [*overrides, f"budget.{key}={amount}"]
    with plugin_output_to_stderr():
        planned = plan_all(configs, overrides, limit, selections, strict)
    plans = planned.plans
    if dry_run:
        show_plan(plans, as_json, planned.as_json())
        planned.report_not_applicable()
        return 0
    for keys in swept_keys(plans):
        say(f"{_ONE_RUN_EACH}: {keys}")
    planned.report_not_applicable()
    _report_unlimited_models(plans)
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, execution.executor_for(plans) as executor, store.lock_sweep(sweep):
        runs = record_runs(plans, store, sweep)
        exit_code = work_through(runs, store, executor)
        records = [record for record in store.runs() if record.sweep == sweep]
        trained = {run.record.id for run in runs if run.plan.task.trains}
        return max(exit_code, print_records(records, store, as_json, planned.as_json(), trained))


# --- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """The runs of a command, and the combinations of its sweeps that cannot be run."""

    plans: list[Plan]
    not_applicable: list[NotApplicable]

    def as_json(self) -> dict[str, Any]:
        """Return the key of a JSON document that lists the combinations that cannot be run; empty if there are none."""
        if not self.not_applicable:
            return {}
        return {"not_applicable": [asdict(combination) for combination in self.not_applicable]}

    def report_not_applicable(self) -> None:
        """Print the combinations that cannot be run, in one line for each reason."""
        combinations_of_reason: dict[str, list[str]] = {}
        for item in self.not_applicable:
            combinations_of_reason.setdefault(item.reason, []).append(item.combination)
        for reason, combinations in combinations_of_reason.items():
            listed = "; ".join(combinations[:_MAX_COMBINATIONS])
            if len(combinations) > _MAX_COMBINATIONS:
                listed += f"; and {len(combinations) - _MAX_COMBINATIONS} more"
            warn(f"not applicable: {listed}: {reason}")


def plan_all(
    configs: Sequence[Path],
    overrides: Sequence[str],
    limit: int | None = None,
    selections: Sequence[str] = (),
    strict: bool = False,
    require: Callable[[Plan], None] = lambda plan: None,
) -> PlannedRuns:
    """Check and plan every run of every configuration. Errors name the file and line.

    ``overrides`` are the values of ``--set``, and ``limit`` is the number of examples per run (``--limit``).
    ``selections`` choose some of the runs (``--only``). ``require`` is an additional check of each plan, which raises a
    ConfigError if the run is impossible. If some combinations of a sweep are impossible, the others are planned. With
    ``strict``, one impossible combination is an error; without it, it is only an error if all are impossible.
    """
    plans: list[Plan] = []
    not_applicable: list[NotApplicable] = []
    for path in configs:
        file = read_config(path, overrides, limit, warn)
        runs = select(file.runs(), selections)
        plans_of_file = []
        reasons: dict[int, str] = {}
        for number, config in enumerate(runs):
            try:
                plan = runner.plan(config)
                require(plan)
                plans_of_file.append(plan)
            except ConfigError as error:
                reasons[number] = file.locate(str(error))
                if strict:
                    raise UserError(reasons[number]) from error
            except UserError as error:
                # A missing file, plug-in or package is a mistake, not an impossible combination.
                raise UserError(file.locate(str(error))) from error
        if reasons and not plans_of_file:
            raise UserError("\n".join(dict.fromkeys(reasons.values())))
        combinations = combination_texts(runs)
        not_applicable += [NotApplicable(combinations[number], reason) for number, reason in reasons.items()]
        plans += with_sweep_labels(plans_of_file)
    return PlannedRuns(with_distinct_labels(plans), not_applicable)


def show_plan(plans: Sequence[Plan], as_json: bool, further: Mapping[str, Any] | None = None) -> None:
    """Print planned runs with the number of their examples and requests.

    ``further`` has additional keys for the JSON document.
    """
    rows: list[dict[str, Any]] = []
    costs: list[CostEstimate] = []
    for plan in plans:
        # The notes of a user's own task or model are computed by code that may print something.
        with plugin_output_to_stderr():
            notes = plan.notes
            facts = plan.facts
            requests = _max_requests(plan)
            cost = estimated_cost(plan, requests)
        rows.append(
            {
                "task": plan.task.name,
                "label": plan.label,
                "model": plan.model_label,
                "examples": plan.size,
                "requests": requests,
                "notes": notes,
                "facts": facts,
            }
        )
        if cost is not None:
            costs.append(cost)
            rows[-1]["cost"] = {**asdict(cost), "assumptions": ASSUMPTIONS}
        if as_json:
            # For a local model, the signature takes seconds.
            rows[-1]["signature"] = plan.signature
    all_notes: list[str] = []
    for row in rows:
        all_notes += row["notes"]
    _print_notes(all_notes)
    _report_unlimited_models(plans)
    for warning in budget_warnings(plans, costs):
        warn(warning)
    if as_json:
        print_json({"runs": rows, **(further or {})})
        return
    keys = ["task", "label", "model", "examples", "requests"]
    # Most tasks score examples, but few-shot learning scores splits of the data. With both, each cell names its unit.
    units = [plan.design.unit for plan in plans]
    is_one_unit = len(set(units)) == 1
    scored_title = f"{units[0]}s" if is_one_unit else "scores"
    columns = ["task", "label", "model", scored_title, "requests"]
    table = []
    for row, unit in zip(rows, units, strict=True):
        cells = ["unknown" if row[key] is None else row[key] for key in keys]
        if not is_one_unit and row["examples"] is not None:
            cells[keys.index("examples")] = counted(row["examples"], unit)
        if row["model"] == NO_MODEL:
            cells[keys.index("model")] = "–"
        if costs:
            cells.append(_cost_cell(row))
        table.append(cells)
    if costs:
        columns.append("cost")
    title = f"{counted(len(rows), 'run')}; request counts are upper bounds, cached answers are not subtracted"
    print_table(title, columns, table, right=(3, 4, 5))
    _print_costs(costs)
    for swept in swept_keys(plans):
        print_sentence(f"{_ONE_RUN_EACH}: {swept}")
    facts_of_all_runs: list[str] = []
    for row in rows:
        facts_of_all_runs += row["facts"]
    # Runs of a sweep often state the same facts, which are printed once.
    for fact in dict.fromkeys(facts_of_all_runs):
        print_sentence(fact)


def _report_unlimited_models(plans: Sequence[Plan]) -> None:
    warning = models_without_budget(plans)
    if warning:
        warn(warning)


def _cost_cell(row: Mapping[str, Any]) -> str:
    cost = row.get("cost")
    if cost is None:
        return ""
    return "unknown" if cost["usd"] is None else cost_text(cost["usd"])


def _print_costs(costs: Sequence[CostEstimate]) -> None:
    """Print why costs are unknown, an upper bound of the known costs, and what the estimate assumes."""
    for reason in dict.fromkeys(cost.unknown for cost in costs if cost.unknown):
        print_sentence(f"cost unknown: {reason}")
    amounts = [cost.usd for cost in costs if cost.usd is not None]
    if not amounts:
        return
    total = cost_text(sum(amounts))
    if len(amounts) < len(costs):
        print_sentence(f"at most {total} for {len(amounts)} of {counted(len(costs), 'run')}")
    elif len(costs) > 1:
        print_sentence(f"at most {total} for {counted(len(costs), 'run')}")
    print_sentence(ASSUMPTIONS)


def _max_requests(plan: Plan) -> int | None:
    """Return how many requests a run sends at most; None if that is unknown."""
    if not plan.task.needs or isinstance(plan.model, StoredAnswers):
        return 0
    if plan.task.requests_each is None or plan.size is None:
        return None
    return plan.task.requests_each * plan.size * _max_calls(plan)


def _max_calls(plan: Plan) -> int:
    """Return the maximum number of calls to a server per request, estimated from the requests of the first example."""
    if plan.model is None or type(plan.model).max_calls is Model.max_calls:
        return 1
    example = next(iter(plan.task.examples()), None)
    if example is None:
        return 1
    return max((plan.model.max_calls(request) for request in plan.task.requests(example)), default=1)


# --- running ----------------------------------------------------------------------------------------------------------


def work_through(
    runs: Sequence[SweepRun],
    store: Store,
    executor: Executor,
    display: ProgressDisplay | None = None,
    *,
    retry_failed: bool = True,
) -> int:
    """Carry out the runs of a command and return the exit code.

    Trainings are done first, in parallel; then the runs are finished one after the other. If a run fails, the others
    continue. If the budget is used up or the disk is full, the remaining runs are not started. Without
    ``retry_failed``, trainings that failed in an earlier command are not repeated.
    """
    display = display or SweepDisplay({run.record.id: run.plan.size for run in runs})
    prefetched = _train(runs, store, executor, display, retry_failed)
    # These runs were carried out as soon as all their trainings were available.
    for run_id in prefetched.begun:
        display.ended(run_id)
    remaining = [run for run in runs if run.record.id not in prefetched.begun]
    numbers = {run.record.id: number for number, run in enumerate(runs, 1)}
    exit_code = 0
    # The message of an error → the number of runs that it ended. Each message is printed once.
    messages: Counter[str] = Counter()
    printed_notes: set[str] = set()
    for number, run in enumerate(remaining, 1):
        stopped = ""
        try:
            count = f"[{numbers[run.record.id]}/{len(runs)}]"
            _print_new_notes(run.plan.notes, printed_notes)
            stopped = _run_one(run, store, prefetched, executor, count, display)
        except KeyboardInterrupt as stop:
            if len(runs) > 1:
                # The note on the exception names the command that finishes only this run, so it is replaced.
                stop.__notes__ = [
                    f"all answers so far are stored; to finish all runs of this command: {_resume_command(store)}"
                ]
            raise
        except LmassayError as error:
            exit_code = USER_ERROR
            messages[str(error)] += 1
            if is_disk_full(error):
                # The message already names the command that finishes all runs.
                print_error(str(error))
                stopped = "the disk is full"
            elif messages[str(error)] == 1:
                print_error(str(error), _how_to_continue(error, store, is_sweep=len(runs) > 1))
        not_started = len(remaining) - number
        if stopped and not_started:
            warn(f"{stopped}: {counted(not_started, 'further run')} not started")
            break
    repeated = messages.total() - len(messages)
    if repeated:
        warn(f"the same error ended {counted(repeated, 'further run')}")
    return exit_code


def _how_to_continue(error: LmassayError, store: Store, *, is_sweep: bool) -> list[str]:
    """Return the notes that were added to an exception (``__notes__``); they say how to continue.

    In a sweep, they name the command that finishes all runs, instead of the one that finishes only the failed run.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if notes and is_sweep:
        command = _resume_command(store)
        condition = runner.resume_condition(error)
        return [f"all answers so far are stored; {condition}continue with all runs: {command}"]
    return notes


def _train(
    runs: Sequence[SweepRun], store: Store, executor: Executor, display: ProgressDisplay, retry_failed: bool
) -> PrefetchedTrainings:
    """Carry out the trainings of all runs, in parallel; interrupted runs are marked as cancelled."""
    training_runs = [run for run in runs if run.plan.task.trains]
    if not training_runs:
        return PrefetchedTrainings()
    notes: list[str] = []
    for run in training_runs:
        notes += run.plan.notes
    _print_notes(notes)
    try:
        with display.work("", "trainings") as advance, plugin_output_to_stderr():
            return prefetch_trainings(training_runs, store, executor, advance, retry_failed=retry_failed)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            for run in training_runs:
                if store.run(run.record.id).status in ("waiting", "running"):
                    store.set_status(run.record.id, "cancelled", "stopped by the user")
        condition = "" if isinstance(error, KeyboardInterrupt) else "when this is fixed, "
        error.add_note(f"finished trainings are stored; {condition}continue with: {_resume_command(store)}")
        raise


def _run_one(
    run: SweepRun,
    store: Store,
    prefetched: PrefetchedTrainings,
    executor: Executor,
    count: str,
    display: ProgressDisplay,
) -> str:
    """Carry out one run; return the reason if no further run should be started."""
    # The names come from the record: a run that is resumed is planned without the other runs of its sweep, so its plan
    # does not know the options that the sweep varies.
    record = run.record
    description = f"{count} {record.task}: {record.title}"
    with display.work(record.id, description, record.unit) as advance, plugin_output_to_stderr():
        record = runner.begin(run.plan, record, store, advance, prefetched.failed, executor)
    return "the budget is used up" if record.status == "stopped" else ""


def _print_new_notes(notes: Iterable[str], printed: set[str]) -> None:
    """Print the notes of a run that no earlier run of the sweep had; most runs of a sweep use the same data."""
    for note in notes:
        if note not in printed:
            printed.add(note)
            warn(note)


@contextmanager
def plugin_output_to_stderr() -> Iterator[None]:
    """Redirect what a user's code prints to standard error, because standard output is for results."""
    with redirect_stdout(sys.stderr):
        yield


def _print_notes(notes: Iterable[str]) -> None:
    """Print each note once, and at most a screenful of them."""
    distinct = list(dict.fromkeys(notes))
    for note in distinct[:_MAX_NOTES]:
        warn(note)
    if len(distinct) > _MAX_NOTES:
        warn(f"and {counted(len(distinct) - _MAX_NOTES, 'more note')}; the report lists all of them")


# --- printing ---------------------------------------------------------------------------------------------------------


def print_records(
    records: Sequence[RunRecord],
    store: Store,
    as_json: bool,
    further: Mapping[str, Any] | None = None,
    trained: Collection[str] = (),
) -> int:
    """Print the results of runs and return the exit code, which says whether any run is incomplete.

    ``further`` is added to the JSON document. ``trained`` are the ids of runs that train models.
    """
    if as_json:
        # The document has the same keys for one run and for many.
        print_json({"runs": [_document(record, store) for record in records], **(further or {})})
    else:
        if len(records) == 1:
            print_run(records[0], store)
        else:
            print_runs(records, store)
        _print_summaries(records, store)
    notes: dict[str, None] = {}
    for record in records:
        notes |= dict.fromkeys([*missing_metric_notes(record), *few_label_notes(record)])
    for note in notes:
        warn(note)
    return report_unfinished(records, store, trained)


def _document(record: RunRecord, store: Store) -> dict[str, Any]:
    """Return a run as JSON, with what it spent if it spent anything."""
    document = record.as_json()
    spending = None if record.status == DAMAGED else store.spending(run=record.id)
    if spending is not None:
        document["spending"] = asdict(spending)
    return document


def _print_summaries(records: Sequence[RunRecord], store: Store) -> None:
    """Let each evaluation print a summary of its runs, such as the results of a protocol, or a warning."""
    for evaluation in evaluations():
        if evaluation.after_run is None:
            continue
        # The records of this evaluation.
        own_records = [record for record in records if evaluation_of(record) is evaluation and record.results]
        if own_records:
            call_hook(
                evaluation,
                "after_run",
                evaluation.after_run,
                store,
                own_records,
                reads=any_value,
                otherwise=lambda: None,
            )


def report_unfinished(records: Sequence[RunRecord], store: Store, trained: Collection[str] = ()) -> int:
    """Print which runs have examples with errors or were stopped, and how to finish them; return the exit code.

    ``trained`` are the ids of runs that train models.
    """
    unfinished = [record for record in records if record.status in ("incomplete", "stopped")]
    if not unfinished:
        return 0
    # Runs that were not started, or failed for another reason, also need `lmassay resume`.
    waiting = [record for record in records if record.status in ("waiting", "failed", "interrupted")]
    is_single = len(unfinished) + len(waiting) == 1
    for record in unfinished[:_MAX_UNFINISHED_RUNS]:
        reasons = store.errors(record.id) or store.unscored_reasons(record)[:_MAX_REASONS]
        # Without an id, `lmassay resume` continues all runs of the command, which is right if the budget stopped them.
        names_run = is_single or len(records) == 1 or record.status == "incomplete"
        resume_arguments = [record.id] if names_run else []
        remedy = _remedy(record, store, reasons, resume_arguments, trains=record.id in trained)
        print_error(f"{record.id}: {brief_note(record)}; {remedy}")
        for text, number in reasons:
            say(f"  {number} × {text}")
    _report_not_listed(unfinished[_MAX_UNFINISHED_RUNS:], store)
    return INCOMPLETE


def _report_not_listed(records: Sequence[RunRecord], store: Store) -> None:
    """Print how many further runs are not complete, and how to finish those that can be finished."""
    nothing_scored = [record for record in records if _is_nothing_scored(record, store)]
    if nothing_scored:
        print_error(f"no example of {counted(len(nothing_scored), 'more run')} could be scored either")
    others = [record for record in records if record not in nothing_scored]
    if others:
        remedy = "" if all(map(_is_imported, others)) else f"; to finish all: {_resume_command(store)}"
        print_error(f"{counted(len(others), 'more run')} not complete{remedy}")


def can_be_finished(record: RunRecord, store: Store) -> bool:
    """Return whether ``lmassay resume`` has something left to do for a run."""
    if record.status in ("done", DAMAGED) or _is_imported(record):
        return False
    return not _is_nothing_scored(record, store)


def _is_nothing_scored(record: RunRecord, store: Store) -> bool:
    """Return whether all requests of a run were answered, but no example could be scored.

    Nothing would be requested again, so ``lmassay resume`` cannot change anything.
    """
    return record.status == "incomplete" and not _is_imported(record) and not store.count(record.id)["error"]


def _remedy(
    record: RunRecord,
    store: Store,
    reasons: Sequence[tuple[str, int]],
    resume_arguments: Sequence[str],
    *,
    trains: bool,
) -> str:
    """Return how to finish a run, in most cases with a ``lmassay resume`` command that has these arguments."""
    if _is_imported(record):
        # Resuming would only read the same log again.
        return (
            "the log does not contain the whole run: finish it with lmassay resume where it was made, "
            "then export and import it again"
        )
    if record.status == "stopped":
        command = _resume_command(store, *resume_arguments, *_larger_budget(record))
        return f"to continue with a larger budget: {command}"
    if _is_nothing_scored(record, store):
        return "the reasons are below; change the data, the task or the model, then start a new run"
    if trains:
        command = _resume_command(store, *resume_arguments, "--retry-failed")
        return f"when the cause is fixed, repeat the trainings: {command}"
    command = _resume_command(store, *resume_arguments)
    if all(_TEMPORARY.search(text) for text, _ in reasons):
        return f"try again with: {command}"
    return f"when the cause is fixed, continue with: {command}"


def _larger_budget(record: RunRecord) -> list[str]:
    """Return the options that double the budget of a run."""
    budget = record.config.get("budget") or {}
    options: list[str] = []
    if budget.get("usd"):
        options += ["--budget-usd", f"{2 * budget['usd']:g}"]
    if budget.get("tokens"):
        options += ["--budget-tokens", str(2 * budget["tokens"])]
    return options


def _is_imported(record: RunRecord) -> bool:
    """Return whether a run was imported from a log of another tool."""
    return "imported" in record.depends_on


def _resume_command(store: Store, *arguments: str) -> str:
    return command_on_results(store.folder, "resume", *arguments)
