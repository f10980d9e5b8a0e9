"""Start runs from Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmassay.api.plugins import ModelLike, TaskLike, specs_of
from lmassay.api.progress import ProgressLine
from lmassay.api.runs import Run, Runs, results_folder
from lmassay.errors import ConfigError
from lmassay.plugins.data_options import DataStorage
from lmassay.plugins.python_objects import PythonObjects, is_python_object
from lmassay.plugins.registry import current_registry
from lmassay.running import runner
from lmassay.running.config import ConfigFile, RunConfig, expand, read_config
from lmassay.running.executors import DaskExecutor, InProcessExecutor, ProcessExecutor
from lmassay.running.jobs import Executor
from lmassay.running.labels import with_distinct_labels, with_sweep_labels
from lmassay.running.planning import Plan
from lmassay.running.sweep import SweepRun, prefetch_trainings, record_runs
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_YAML_ENDINGS = (".yaml", ".yml")
ConfigLike = str | Path | Mapping[str, Any] | RunConfig | ConfigFile


def evaluate(
    task: TaskLike | ConfigLike | Sequence[TaskLike] | Sequence[RunConfig],
    model: ModelLike | Sequence[ModelLike] | Path | None = None,
    results: str | Path | None = None,
    *,
    limit: int | None = None,
    seed: int | None = None,
    samples: int | None = None,
    temperature: float | None = None,
    confidence: float | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    name: str = "",
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Runs:
    """Evaluate one or more models on one or more tasks, and return the runs.

    ``task`` is the name of a task, ``lmassay.task(name, **options)``, a task object or class, or a list of these.
    Instead, it may be a configuration: the path of a YAML file, or a mapping with the same keys, such as ``task`` and
    ``model``. ``model`` is the name of a model, ``lmassay.model(name, **options)``, a model object or class, a function
    from a list of prompts to a list of answers, or a list of these. Several tasks and models give one run per
    combination.

    All answers are stored in the folder ``results``. By default, this is the folder that the commands use: the one that
    the environment variable ``LMASSAY_RESULTS`` names, or ``results`` in the working folder. Answers that are stored
    already are not requested again, so calling ``evaluate`` again with the same arguments continues where an
    interrupted call stopped.

    Most other options are keys of a configuration:

    - ``limit``: how many examples are used, from the first one on
    - ``seed``: the random seed of sampling and intervals
    - ``samples``: how many times each question is asked
    - ``temperature``: the temperature at which answers are sampled
    - ``confidence``: the level of the intervals, such as 0.95
    - ``budget_usd`` and ``budget_tokens``: how much all runs together may spend
    - ``name``: the name of the configuration

    Local models and trainings can run elsewhere: in ``workers`` processes, or on the Dask cluster at the address
    ``scheduler``. If a model is a Python object, everything runs in this process. ``progress`` shows or hides a line
    with the progress; by default, it is shown in terminals and notebooks.

    Problems are raised as :class:`lmassay.LmassayError`; those that you can fix as its subclass
    :class:`lmassay.UserError`. An error in one run ends the call, so later runs are not started.

    >>> import lmassay, tempfile
    >>> task = lmassay.task("robustness", src=["The museum opens at nine.", "We walk home."], attack="charswap")
    >>> runs = lmassay.evaluate(task, lambda prompts: [text.upper() for text in prompts], tempfile.mkdtemp())
    >>> runs[0].results["success"].n
    2
    """
    options = {
        "limit": limit,
        "seed": seed,
        "samples": samples,
        "temperature": temperature,
        "confidence": confidence,
        "budget": _budget(budget_usd, budget_tokens),
        "name": name or None,
    }
    given_options = {key: value for key, value in options.items() if value is not None}
    if results is None and _is_config(task) and _is_results_folder(model):
        # In earlier versions, the folder was the second argument.
        assert isinstance(model, str | Path)
        results, model = model, None
    folder = results_folder(results)
    objects = PythonObjects()
    storage = DataStorage(folder, Path.cwd(), lists_are_data=True)
    configs = _configs(task, model, given_options, objects, storage)
    with objects.active():
        # All runs are checked before the first one starts.
        plans = with_distinct_labels(with_sweep_labels([runner.plan(config) for config in configs]))
        with Store(folder, create=True) as store, _executor(plans, workers, scheduler) as executor:
            records = _carry_out(plans, store, executor, ProgressLine(progress))
    return Runs(Run(folder, record) for record in records)


# --- arguments to configurations --------------------------------------------------------------------------------------


def _is_config(value: Any) -> bool:
    """Return whether the first argument is a configuration, not a task."""
    if isinstance(value, str):
        return value.endswith(_YAML_ENDINGS)
    if isinstance(value, Mapping):
        return "task" in value
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, RunConfig) for item in value)
    return isinstance(value, Path | RunConfig | ConfigFile)


def _is_results_folder(value: Any) -> bool:
    """Return whether the argument after a configuration is a results folder, that is, not the name of a model."""
    if isinstance(value, str):
        return ".py:" not in value and value not in current_registry().names("model")
    return isinstance(value, Path)


def _configs(
    task: Any, model: Any, options: Mapping[str, Any], objects: PythonObjects, storage: DataStorage
) -> list[RunConfig]:
    """Return the configuration of each run.

    ``options`` override the keys of a configuration. ``objects`` and ``storage`` receive the Python objects and the
    data among the arguments, to which a configuration can only refer by name or path.
    """
    if not _is_config(task):
        if task is None:
            raise ConfigError("task: give a task or a configuration; `lmassay tasks` lists the tasks")
        data: dict[str, Any] = {"task": specs_of("task", task, objects, storage), **options}
        if model is not None:
            data["model"] = specs_of("model", model, objects, storage)
        with objects.active():
            return expand(data, storage.base, default_name="python")
    if isinstance(task, list | tuple | RunConfig):
        configs = [task] if isinstance(task, RunConfig) else list(task)
        if model is not None:
            raise ConfigError("model: a RunConfig has its own model; leave the second argument out")
        return [RunConfig.model_validate({**dict(config), **options}) for config in configs]
    if isinstance(task, str | Path):
        task = read_config(Path(task))
    if isinstance(task, ConfigFile):
        file = ConfigFile(task.path, {**task.data, **options}, task.lines)
        if model is not None:
            file.data["model"] = specs_of("model", model, objects, storage)
        with objects.active():
            return file.runs()
    data = {**task, **options}
    data["task"] = specs_of("task", data["task"], objects, storage)
    # The argument takes precedence over the key of the configuration.
    chosen_model = data.get("model") if model is None else model
    if chosen_model is not None:
        data["model"] = specs_of("model", chosen_model, objects, storage)
    with objects.active():
        return expand(data, storage.base, default_name="python")


def _budget(usd: float | None, tokens: int | None) -> dict[str, Any] | None:
    if usd is None and tokens is None:
        return None
    return {"usd": usd, "tokens": tokens}


# --- running ----------------------------------------------------------------------------------------------------------


@contextmanager
def _executor(plans: Sequence[Plan], workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Yield the executor for these runs; models that are Python objects stay in this process."""
    if workers is not None and workers < 1:
        raise ConfigError(f"workers: give at least 1, not {workers}")
    if scheduler is not None and workers is not None:
        raise ConfigError("workers: a Dask cluster has its own workers; give either workers or scheduler")
    wants_workers = scheduler is not None or (workers or 1) > 1
    executor: Executor = InProcessExecutor()
    if wants_workers and any(is_python_object(plan.config.model) for plan in plans):
        warnings.warn(
            "a model that is a Python object cannot be sent to other processes, so everything runs in this one; to use "
            "workers, put its class into a file and name it: file.py:Name",
            # The warning points to the line that calls `evaluate`. Between that line and this one are the frames of
            # `evaluate` and of contextlib, which runs this function as a `with` block.
            stacklevel=4,
        )
    elif wants_workers and any(_has_work_for_workers(plan) for plan in plans):
        if scheduler is not None:
            executor = DaskExecutor(scheduler, lambda text: warnings.warn(text, stacklevel=2))
        else:
            executor = ProcessExecutor(workers or 1)
    try:
        yield executor
    finally:
        executor.close()


def _has_work_for_workers(plan: Plan) -> bool:
    """Return whether a run trains models, or sends requests to a model that worker processes may compute."""
    if plan.task.trains:
        return True
    return plan.model is not None and plan.model.distributable and bool(plan.task.needs)


def _carry_out(plans: Sequence[Plan], store: Store, executor: Executor, line: ProgressLine) -> list[RunRecord]:
    """Carry out the runs one after the other; if any of them trains models, all trainings are done first."""
    sweep = runner.new_sweep()
    try:
        with store.lock_sweep(sweep):
            if any(plan.task.trains for plan in plans):
                _train(record_runs(plans, store, sweep), store, executor, line)
            else:
                _ask(plans, store, sweep, executor, line)
    finally:
        line.close()
    return [record for record in store.runs() if record.sweep == sweep]


def _ask(plans: Sequence[Plan], store: Store, sweep: str, executor: Executor, line: ProgressLine) -> None:
    """Carry out runs that train no models, one after the other."""
    for plan in plans:
        # Each run is recorded when it starts. If an exception ends the program, no later run is left as "waiting".
        (run,) = record_runs([plan], store, sweep)
        line.start(f"{run.record.task}: {run.record.title}", run.record.unit)
        record = runner.begin(plan, run.record, store, line.advance, executor=executor)
        if record.status == "stopped":
            # The budget is shared, so there is nothing left for the other runs.
            return


def _train(runs: Sequence[SweepRun], store: Store, executor: Executor, line: ProgressLine) -> None:
    """Carry out all trainings of the runs, then the runs one after the other."""
    line.start("trainings", "training")
    prefetched = prefetch_trainings([run for run in runs if run.plan.task.trains], store, executor, line.advance)
    for run in runs:
        if run.record.id in prefetched.begun:
            continue
        line.start(f"{run.record.task}: {run.record.title}", run.record.unit)
        runner.begin(run.plan, run.record, store, line.advance, prefetched.failed, executor)
