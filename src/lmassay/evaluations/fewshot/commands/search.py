"""``lmassay search``"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import print_error, print_json, say, warn, without_controls
from lmassay.cli.options import ExecutorOptions, executor_options, json_option, results_option
from lmassay.cli.progress import progress_bar
from lmassay.cli.run import EXIT_WITH_ERRORS, plugin_output_to_stderr, print_records
from lmassay.errors import ConfigError, LmassayError, MissingExtra, UserError
from lmassay.evaluations.fewshot.search_space import Range, Space
from lmassay.reporting.numbers import interval_text, number_text
from lmassay.running import runner
from lmassay.running.config import RunConfig, read_config
from lmassay.running.differences import KeyPath, varied_keys
from lmassay.running.executors import Executor
from lmassay.running.labels import with_values_in_label
from lmassay.running.runner import Plan
from lmassay.running.sweep import prefetch_trainings, record_runs
from lmassay.storage.provenance import command_line
from lmassay.storage.store import Store
from lmassay.types import RunRecord

SCORE = "dev"


@click.command(
    epilog="Example: lmassay search examples/fewshot.yaml --trials 6 --workers 2",
    short_help="Search for good options.",
)
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--trials", type=click.IntRange(min=1), default=20, show_default=True, help="Configurations to try.")
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "grid"]),
    default="tpe",
    show_default=True,
    help="How the next one is chosen.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the sampler.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@executor_options
@results_option
@json_option
def search(
    config: Path,
    trials: int,
    sampler: str,
    seed: int,
    overrides: Sequence[str],
    execution: ExecutorOptions,
    results: Path,
    as_json: bool,
) -> int:
    """Look for the options with the best mean dev score over splits, by Optuna.

    \b
    Lists are choices, and ranges are written like this:
      learning_rate: {low: 1.0e-6, high: 1.0e-4, log: true}
      max_steps: {low: 100, high: 500, step: 50}

    Every trial is a run of one sweep in the results folder. The same search started again goes over what is there at
    no cost, and on from where it was broken off.
    """
    optuna = _optuna()
    with plugin_output_to_stderr():
        space = Space(read_config(config, overrides))
        _check_searchable(space)
        grid = space.grid() if sampler == "grid" else []
    sweep = runner.new_sweep()
    with ExitStack() as stack:
        store = stack.enter_context(Store(results, create=True))
        stack.enter_context(store.lock_sweep(sweep))
        many = min(trials, len(grid)) if grid else trials
        found = _Search(space, store, sweep, stack.enter_context(execution.executor_for()), many)
        _optimise(optuna, found, grid, sampler, seed)
        return _shown(found, as_json)


class _NoScoreError(Exception):
    """A trial that did not come to a score; the search goes on."""


@dataclass
class _Search:
    """The trials of one command."""

    space: Space
    store: Store
    sweep: str
    executor: Executor
    planned: int
    scores: dict[str, float | None] = field(default_factory=dict)
    """By signature: None for a run that failed."""
    runs: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    searched: list[KeyPath] = field(default_factory=list)
    """The keys that the search has chosen values for, which the labels of its runs show."""
    stopped: bool = False

    @property
    def best(self) -> str | None:
        """The signature with the highest score, of equals the first."""
        scored = {signature: score for signature, score in self.scores.items() if score is not None}
        return max(scored, key=scored.__getitem__) if scored else None

    def score(self, config: RunConfig, number: int) -> float:
        """The mean dev score of a configuration; one that came before is not run again."""
        count = f"[{number + 1}/{self.planned}]"
        plan = self._plan(config)
        if plan.signature in self.scores:
            say(f"{count} {plan.label}: tried before")
        else:
            self.scores[plan.signature] = None
            self.scores[plan.signature] = self._run(plan, count)
        found = self.scores[plan.signature]
        if found is None:
            raise _NoScoreError
        return found

    def _plan(self, config: RunConfig) -> Plan:
        try:
            with plugin_output_to_stderr():
                return with_values_in_label(runner.plan(config), self.searched)
        except UserError as error:
            print_error(self.space.file.locate(str(error)))
            raise _NoScoreError from error

    def _run(self, plan: Plan, count: str) -> float | None:
        what = f"{count} {plan.task.name}: {plan.label} on {plan.model_label}"
        say(what)
        for note in plan.notes:
            if note not in self.told:
                self.told.add(note)
                warn(note)
        entries = record_runs([plan], self.store, self.sweep)
        self.runs[plan.signature] = entries[0].record.id
        try:
            with progress_bar(what) as advance, plugin_output_to_stderr():
                if plan.task.trains:
                    prefetch_trainings(entries, self.store, self.executor, advance)
                    record = self.store.run(entries[0].record.id)
                else:
                    record = runner.begin(plan, entries[0].record, self.store, advance)
        except LmassayError as error:
            print_error(str(error), getattr(error, "__notes__", []))
            return None
        except BaseException as error:
            error.add_note(f"what was trained is kept; start the search again with --results {self.store.folder}")
            raise
        self.stopped = record.status == "stopped"
        dev = record.result(SCORE)
        if record.status != "done" or dev is None or dev.value is None:
            say(f"{count} {record.status}: {record.note or 'no dev score'}; this trial does not count")
            return None
        say(f"{count} {SCORE} {number_text(dev.value)} {interval_text(dev)}, n = {dev.n}")
        return float(dev.value)


def _check_searchable(space: Space) -> None:
    """The first run is planned, so that a mistake shows before anything is trained."""
    first = space.checked()
    try:
        plan = runner.plan(first)
    except UserError as error:
        raise UserError(space.file.locate(str(error))) from error
    if SCORE not in plan.task.design.headline:
        raise ConfigError(
            space.file.locate(
                f"task: {plan.task.name} has no dev score to search by, only fewshot has; for others: lmassay run, "
                "then lmassay compare"
            )
        )
    example = next(iter(plan.task.examples()), None)
    if example is not None and not example.inputs.get("dev"):
        why = "task.splits: they leave no dev examples, so that no configuration could be preferred to another"
        raise ConfigError(space.file.locate(why))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("lmassay search", "search") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _optimise(optuna: Any, found: _Search, grid: Sequence[RunConfig], sampler: str, seed: int) -> None:
    numbers = range(len(grid))
    chosen = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "grid": lambda: optuna.samplers.GridSampler({"combination": numbers}, seed=seed),
    }[sampler]()

    def objective(trial: Any) -> float:
        if grid:
            config = grid[trial.suggest_categorical("combination", numbers)]
        else:
            drawn = _OptunaSampler(trial)
            with plugin_output_to_stderr():
                config = found.space.drawn(drawn)
            found.searched = drawn.keys
        try:
            return found.score(config, trial.number)
        finally:
            if found.stopped:
                warn("the budget is used up: no further trials")
                trial.study.stop()

    # In memory: what is worth keeping is in the store.
    study = optuna.create_study(direction="maximize", sampler=chosen)
    found.searched = [key.shown_path for key in varied_keys([config.unresolved for config in grid])]
    study.optimize(objective, n_trials=found.planned, catch=(_NoScoreError,))


@dataclass(frozen=True, slots=True)
class _OptunaSampler:
    """Optuna decides."""

    trial: Any
    keys: list[KeyPath] = field(default_factory=list)
    """The keys that were decided."""

    def choice(self, name: str, many: int) -> int:
        if many > 1:
            self._note(name)
        return int(self.trial.suggest_categorical(name, range(many))) if many > 1 else 0

    def _note(self, name: str) -> None:
        # The name also says which entry of a list it is about: ``task.method[0].learning_rate``.
        self.keys.append(tuple(re.sub(r"\[\d+\]", "", name).split(".")))

    def number(self, name: str, between: Range) -> float:
        self._note(name)
        if between.whole:
            step = 1 if between.step is None else int(between.step)
            return int(self.trial.suggest_int(name, int(between.low), int(between.high), step=step, log=between.log))
        return float(self.trial.suggest_float(name, between.low, between.high, step=between.step, log=between.log))


def _shown(found: _Search, as_json: bool) -> int:
    records = [record for record in found.store.runs() if record.sweep == found.sweep]
    best = None if found.best is None else found.store.run(found.runs[found.best])
    if as_json:
        runs = [record.as_json() for record in records]
        print_json({"best": None if best is None else best.id, "runs": runs})
        code = EXIT_WITH_ERRORS if any(record.status != "done" for record in records) else 0
    else:
        code = print_records(records, found.store, as_json=False)
    if best is None:
        print_error("no trial came to a score; the errors are above")
        return EXIT_WITH_ERRORS
    if not as_json:
        _print_best(best, found, len(records))
    return code


def _print_best(best: RunRecord, found: _Search, many: int) -> None:
    told = []
    for metric in sorted(best.design.headline, key=lambda metric: metric != SCORE):
        result = best.result(metric)
        if result is None:
            continue
        name = metric if metric == SCORE else f"test {metric}"
        told.append(f"{name} {number_text(result.value)} {interval_text(result)}")
    dev = best.result(SCORE)
    n = "unknown" if dev is None else dev.n
    click.echo(
        without_controls(
            f"best of {many}: {best.label} ({best.id.rpartition('-')[2]}), {', '.join(told)}; n = {n} splits"
        )
    )
    say(
        "The best of many dev scores flatters itself; how far dev scores can be trusted: "
        f"{command_line('protocol', '--results', found.store.folder)}"
    )
