"""Options that several commands share: where results are stored, JSON output, and where the work is done."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from lmassay.cli.argparse_style import AddedOption
from lmassay.cli.console import warn
from lmassay.contracts import resolve
from lmassay.errors import ConfigError
from lmassay.storage.commands import DEFAULT_RESULTS, default_results

# Every command imports this module, shell completion included, so the packages that run things are imported late.
if TYPE_CHECKING:
    from lmassay.running.jobs import Executor
    from lmassay.running.planning import Plan
    from lmassay.storage.store import Store
    from lmassay.types import RunRecord

F = TypeVar("F", bound=Callable[..., Any])
_DEFAULT_PROCESSES = 2


# --- the function that a command calls --------------------------------------------------------------------------------


def calls(path: str) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Let a command call the function at ``path``, such as ``lmassay.cli.actions.run:run``, with its options.

    The decorated function has only a name and the help text. The module that does the work is imported when the
    command is called, so that ``--help`` and shell completion do not load it.
    """

    def decorate(declaration: Callable[[], None]) -> Callable[..., Any]:
        @functools.wraps(declaration)
        def call(*args: Any, **options: Any) -> Any:
            return resolve(path)(*args, **options)

        return call

    return decorate


# --- the results folder -----------------------------------------------------------------------------------------------


def results_option(function: F) -> F:
    """Add ``--results FOLDER`` to a command."""
    option = click.option(
        "--results",
        type=click.Path(path_type=Path, file_okay=False),
        default=default_results,
        # Not show_default: click would print [default: ($LMASSAY_RESULTS or …)], with parentheses.
        help=f"Results folder.  [default: $LMASSAY_RESULTS or ./{DEFAULT_RESULTS}]",
    )
    return option(function)


def chosen_runs(store: Store, names: Sequence[str]) -> list[RunRecord]:
    """Return the runs with these names, each once. If no name is given, return all runs of the latest command."""
    if not names:
        latest = store.run("latest")
        return [record for record in store.runs() if record.sweep == latest.sweep]
    records: dict[str, RunRecord] = {}
    for name in names:
        record = store.run(name)
        records[record.id] = record
    return list(records.values())


def only_option(function: F) -> F:
    """Add ``--only KEY=VALUE`` to a command; the command's parameter is ``selections``."""
    option = click.option(
        "--only",
        "selections",
        metavar="KEY=VALUE",
        multiple=True,
        help="Use only the runs of a sweep with this value, such as data=superglue/rte; repeatable.",
    )
    return option(function)


def strict_option(function: F) -> F:
    """Add ``--strict`` to a command."""
    option = click.option(
        "--strict", is_flag=True, help="Refuse a sweep that has impossible combinations, instead of skipping them."
    )
    return option(function)


def json_option(function: F) -> F:
    """Add ``--json`` to a command; the command's parameter is ``as_json``.

    A command of a group also prints JSON if the option precedes its name: ``lmassay models --json ls``.
    """
    option = click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=_here_or_before_the_command,
        help="Print one JSON document and nothing else.",
    )
    return option(function)


def _here_or_before_the_command(context: click.Context, parameter: click.Parameter, as_json: bool) -> bool:
    return as_json or (context.parent is not None and bool(context.parent.params.get("as_json")))


# --- where the work is done -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """The values of ``--executor``, ``--workers`` and ``--scheduler``."""

    executor: str | None = None
    workers: int | None = None
    scheduler: str | None = None

    @contextmanager
    def executor_for(self, plans: Sequence[Plan] | None = None) -> Iterator[Executor]:
        """Yield the executor that the options describe, and close it when the block ends, for whatever reason.

        If plans are given and none of them trains anything or has a local model, no processes are started and no
        cluster is contacted.
        """
        from lmassay.running.executors import InProcessExecutor

        needs_executor = plans is None or any(map(_has_work_for_workers, plans))
        executor = self._create() if needs_executor else InProcessExecutor()
        try:
            yield executor
        finally:
            executor.close()

    def _create(self) -> Executor:
        """Create the executor, or raise a ConfigError if the options contradict each other."""
        from lmassay.running.executors import DaskExecutor, InProcessExecutor, ProcessExecutor

        uses_dask = self.executor == "dask" or (self.executor is None and self.scheduler is not None)
        if uses_dask:
            if self.scheduler is None:
                raise ConfigError("--executor dask needs the scheduler's address: --scheduler tcp://HOST:8786")
            if self.workers is not None:
                raise ConfigError("--workers does not apply to a Dask cluster, which has its own workers; leave it out")
            return DaskExecutor(self.scheduler, warn)
        if self.scheduler is not None:
            raise ConfigError(f"--scheduler requires --executor dask, not --executor {self.executor}")
        wants_several = (self.workers or 1) > 1
        if self.executor == "here" and wants_several:
            raise ConfigError("--executor here uses one process; leave out --executor to use several --workers")
        if self.executor == "processes" or wants_several:
            return ProcessExecutor(self.workers or _DEFAULT_PROCESSES)
        return InProcessExecutor()


def _has_work_for_workers(plan: Plan) -> bool:
    """Return whether a run trains models, or sends requests to a model that worker processes may compute."""
    if plan.task.trains:
        return True
    return plan.model is not None and plan.model.distributable and bool(plan.task.needs)


def executor_options(function: F) -> F:
    """Add ``--executor``, ``--workers`` and ``--scheduler`` to a command.

    The command receives them as one :class:`ExecutorChoice` in its parameter ``execution``.
    """

    # functools.wraps also copies the options that other decorators have attached to the function.
    @functools.wraps(function)
    def wrapped(*args: Any, executor: str | None, workers: int | None, scheduler: str | None, **options: Any) -> Any:
        return function(*args, execution=ExecutorChoice(executor, workers, scheduler), **options)

    # Click lists options in the reverse order of decoration. They are AddedOptions, because compatibility commands use
    # them, too, but the programs that those commands imitate do not have them.
    wrapped = click.option(
        "--scheduler",
        cls=AddedOption,
        metavar="ADDRESS",
        help="Address of a Dask scheduler, such as tcp://HOST:8786.",
    )(wrapped)
    wrapped = click.option(
        "--workers",
        cls=AddedOption,
        type=click.IntRange(min=1, max=512),
        help="Number of processes on this machine for trainings and local models.",
    )(wrapped)
    wrapped = click.option(
        "--executor",
        cls=AddedOption,
        type=click.Choice(["here", "processes", "dask"]),
        help="Where to run trainings and local models.  [default: here, unless --workers or --scheduler is given]",
    )(wrapped)
    return cast(F, wrapped)
