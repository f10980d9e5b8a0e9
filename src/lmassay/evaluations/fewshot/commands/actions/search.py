"""What ``lmassay search`` does: let Optuna choose configurations, and run them one after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from lmassay.cli.actions.run import plugin_output_to_stderr, print_records
from lmassay.cli.console import print_error, print_json, say, warn, without_controls
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.options import ExecutorChoice
from lmassay.cli.progress import progress_bar
from lmassay.errors import ConfigError, LmassayError, MissingExtra, UserError
from lmassay.evaluations.fewshot.search_space import Range, Space
from lmassay.reporting.numbers import interval_text, number_text
from lmassay.running import runner
from lmassay.running.config import RunConfig, read_config
from lmassay.running.differences import KeyPath, varied_keys
from lmassay.running.jobs import Executor
from lmassay.running.labels import with_values_in_label
from lmassay.running.runner import Plan
from lmassay.running.sweep import prefetch_trainings, record_runs
from lmassay.storage.commands import command_line
from lmassay.storage.store import Store
from lmassay.types import RunRecord

SCORE = "dev"
"""The metric that the search maximizes."""


def search(
    config: Path,
    trials: int,
    sampler: str,
    seed: int,
    overrides: Sequence[str],
    execution: ExecutorChoice,
    results: Path,
    as_json: bool,
) -> int:
    """Search for the options with the best mean dev score over splits, with Optuna; returns the exit code."""
    optuna = _optuna()
    with plugin_output_to_stderr():
        space = Space(read_config(config, overrides))
        _check_searchable(space)
        grid = space.grid() if sampler == "grid" else []
    sweep = runner.new_sweep()
    with ExitStack() as stack:
        store = stack.enter_context(Store(results, create=True))
        stack.enter_context(store.lock_sweep(sweep))
        executor = stack.enter_context(execution.executor_for())
        n_trials = min(trials, len(grid)) if grid else trials
        searched = _Search(space, store, sweep, executor, n_trials)
        _optimise(optuna, searched, grid, sampler, seed)
        return _print_results(searched, as_json)


class _NoScoreError(Exception):
    """A trial without a score; the search continues."""


@dataclass
class _Search:
    """The trials of one command."""

    space: Space
    store: Store
    sweep: str
    executor: Executor
    planned: int
    scores: dict[str, float | None] = field(default_factory=dict)
    """The signature of a run → its score; None if it failed."""
    runs: dict[str, str] = field(default_factory=dict)
    """The signature of a run → its id."""
    printed_notes: set[str] = field(default_factory=set)
    searched_keys: list[KeyPath] = field(default_factory=list)
    """The keys that the search has chosen values for; the labels of its runs show them."""
    is_stopped: bool = False
    """True when the budget is used up."""

    @property
    def best(self) -> str | None:
        """The signature of the run with the highest score; None if no run has a score."""
        best_signature = None
        best_score = -math.inf
        for signature, score in self.scores.items():
            if score is not None and score > best_score:
                best_signature = signature
                best_score = score
        return best_signature

    def score(self, config: RunConfig, number: int) -> float:
        """The mean dev score of a configuration; one that was tried before is not run again."""
        count = f"[{number + 1}/{self.planned}]"
        plan = self._plan(config)
        if plan.signature in self.scores:
            say(f"{count} {plan.label}: tried before")
        else:
            # This is recorded before the run, so that a run that raises an error has no score.
            self.scores[plan.signature] = None
            self.scores[plan.signature] = self._run(plan, count)
        score = self.scores[plan.signature]
        if score is None:
            raise _NoScoreError
        return score

    def _plan(self, config: RunConfig) -> Plan:
        """Plan a run; a mistake in its configuration is printed, and the trial has no score."""
        try:
            with plugin_output_to_stderr():
                return with_values_in_label(runner.plan(config), self.searched_keys)
        except UserError as error:
            print_error(self.space.file.locate(str(error)))
            raise _NoScoreError from error

    def _run(self, plan: Plan, count: str) -> float | None:
        """Run a configuration; returns its score, or None if it has none. ``count`` is printed before messages."""
        title = f"{count} {plan.task.name}: {plan.title}"
        say(title)
        for note in plan.notes:
            if note not in self.printed_notes:
                self.printed_notes.add(note)
                warn(note)
        entries = record_runs([plan], self.store, self.sweep)
        run_id = entries[0].record.id
        self.runs[plan.signature] = run_id
        try:
            with progress_bar(title) as advance, plugin_output_to_stderr():
                if plan.task.trains:
                    prefetch_trainings(entries, self.store, self.executor, advance)
                    record = self.store.run(run_id)
                else:
                    record = runner.begin(plan, entries[0].record, self.store, advance)
        except LmassayError as error:
            print_error(str(error), getattr(error, "__notes__", []))
            return None
        except BaseException as error:
            error.add_note(
                f"finished trainings are saved; run the search again with --results {self.store.folder} to continue"
            )
            raise
        self.is_stopped = record.status == "stopped"
        dev = record.result(SCORE)
        if record.status != "done" or dev is None or dev.value is None:
            say(f"{count} {record.status}: {record.note or 'no dev score'}; this trial does not count")
            return None
        say(f"{count} {SCORE} {number_text(dev.value)} {interval_text(dev)}, n = {dev.n}")
        return float(dev.value)


def _check_searchable(space: Space) -> None:
    """Raise a UserError for mistakes in the configuration, before anything is trained. The first run is planned."""
    first = space.checked()
    try:
        plan = runner.plan(first)
    except UserError as error:
        raise UserError(space.file.locate(str(error))) from error
    if SCORE not in plan.task.design.headline:
        reason = f"task: {plan.task.name} has no dev score to search for; use lmassay run, then lmassay compare"
        raise ConfigError(space.file.locate(reason))
    example = next(iter(plan.task.examples()), None)
    if example is not None and not example.inputs.get("dev"):
        reason = "task.splits: there are no dev examples, so configurations cannot be compared; choose another strategy"
        raise ConfigError(space.file.locate(reason))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("lmassay search", "search") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _optimise(optuna: Any, searched: _Search, grid: Sequence[RunConfig], sampler: str, seed: int) -> None:
    """Let Optuna choose the configurations, and run them."""
    grid_numbers = range(len(grid))
    if sampler == "grid":
        optuna_sampler = optuna.samplers.GridSampler({"combination": grid_numbers}, seed=seed)
    elif sampler == "random":
        optuna_sampler = optuna.samplers.RandomSampler(seed=seed)
    else:
        optuna_sampler = optuna.samplers.TPESampler(seed=seed)

    def objective(trial: Any) -> float:
        if grid:
            config = grid[trial.suggest_categorical("combination", grid_numbers)]
        else:
            option_sampler = _OptunaSampler(trial)
            with plugin_output_to_stderr():
                config = searched.space.drawn(option_sampler)
            searched.searched_keys = option_sampler.keys
        try:
            return searched.score(config, trial.number)
        finally:
            if searched.is_stopped:
                warn("the budget is used up: no further trials")
                trial.study.stop()

    # Optuna's study is kept in memory only, because everything worth keeping is in the store.
    study = optuna.create_study(direction="maximize", sampler=optuna_sampler)
    unresolved = [config.unresolved for config in grid]
    searched.searched_keys = [key.shown_path for key in varied_keys(unresolved)]
    study.optimize(objective, n_trials=searched.planned, catch=(_NoScoreError,))


@dataclass(frozen=True, slots=True)
class _OptunaSampler:
    """An ``OptionSampler`` that lets Optuna choose each value."""

    trial: Any
    keys: list[KeyPath] = field(default_factory=list)
    """The keys whose values were chosen."""

    def choice(self, name: str, count: int) -> int:
        if count == 1:
            return 0
        self._record(name)
        return int(self.trial.suggest_categorical(name, range(count)))

    def number(self, name: str, number_range: Range) -> float:
        self._record(name)
        low = number_range.low
        high = number_range.high
        log = number_range.log
        if not number_range.whole:
            return float(self.trial.suggest_float(name, low, high, step=number_range.step, log=log))
        step = 1
        if number_range.step is not None:
            step = int(number_range.step)
        return int(self.trial.suggest_int(name, int(low), int(high), step=step, log=log))

    def _record(self, name: str) -> None:
        # The name also says to which entry of a list it belongs: ``task.method[0].learning_rate``.
        key = re.sub(r"\[\d+\]", "", name)
        self.keys.append(tuple(key.split(".")))


def _print_results(searched: _Search, as_json: bool) -> int:
    """Print all runs and the best one; return the exit code."""
    records = [record for record in searched.store.runs() if record.sweep == searched.sweep]
    best_run: RunRecord | None = None
    if searched.best is not None:
        best_run = searched.store.run(searched.runs[searched.best])
    if as_json:
        exit_code = _print_json_results(records, best_run)
    else:
        exit_code = print_records(records, searched.store, as_json=False)
    if best_run is None:
        print_error("no trial has a score; the errors are above")
        return INCOMPLETE
    if not as_json:
        _print_best(best_run, searched, len(records))
    return exit_code


def _print_json_results(records: Sequence[RunRecord], best_run: RunRecord | None) -> int:
    """Print one document with all runs and the id of the best one; return the exit code."""
    best_id = None
    if best_run is not None:
        best_id = best_run.id
    print_json({"best": best_id, "runs": [record.as_json() for record in records]})
    all_done = all(record.status == "done" for record in records)
    return 0 if all_done else INCOMPLETE


def _print_best(best: RunRecord, searched: _Search, n_runs: int) -> None:
    """Print the best run with its scores, and how to find out whether dev scores can be trusted."""
    scores = []
    # The score that was searched for comes first; False sorts before True.
    for metric in sorted(best.design.headline, key=lambda metric: metric != SCORE):
        result = best.result(metric)
        if result is not None:
            name = metric if metric == SCORE else f"test {metric}"
            scores.append(f"{name} {number_text(result.value)} {interval_text(result)}")
    dev = best.result(SCORE)
    n = "unknown" if dev is None else dev.n
    run = f"{best.label} ({best.id.rpartition('-')[2]})"
    click.echo(without_controls(f"best of {n_runs}: {run}, {', '.join(scores)}; n = {n} splits"))
    say(
        "The best of many dev scores is too optimistic. How far dev scores can be trusted: "
        f"{command_line('protocol', '--results', searched.store.folder)}"
    )
