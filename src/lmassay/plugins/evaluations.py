"""The evaluations that are installed, and which of them a run belongs to.

lmassay's own evaluations and those of other packages are found in the same way: through the entry-point group
``lmassay.evaluations``.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.contracts import Evaluation, Task, Variation, View
from lmassay.errors import PluginError
from lmassay.types import Metric, RunRecord, metric_called

GROUP = "lmassay.evaluations"


@dataclass(frozen=True, slots=True, eq=False)
class Installed:
    """The evaluations that could be loaded with the packages they come from, and why others could not be."""

    evaluations: Sequence[Evaluation]
    origins: dict[str, str]
    problems: dict[str, str]
    """Name of the entry point → what is wrong with it."""


def evaluations() -> Sequence[Evaluation]:
    """All evaluations, in the order in which cards and reports show them."""
    return installed().evaluations


def installed() -> Installed:
    """What the entry points of the installed packages offer; loaded once for each search path."""
    return _installed_on(tuple(sys.path))


@functools.cache
def _installed_on(_path: tuple[str, ...]) -> Installed:
    loaded: dict[str, Evaluation] = {}
    origins: dict[str, str] = {}
    problems: dict[str, str] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        origin = point.dist.name if point.dist is not None else point.value
        try:
            evaluation = point.load()
        except Exception as error:  # whatever another package's code raises must not break lmassay
            problems[point.name] = f"{origin}: cannot be loaded: {error!r}"
            continue
        if not isinstance(evaluation, Evaluation):
            problems[point.name] = f"{origin}: {point.value} is not an Evaluation"
        elif evaluation.name in loaded:
            taken = origins[evaluation.name]
            problems[point.name] = f"{origin}: the name '{evaluation.name}' is already used by {taken}; rename one"
        else:
            loaded[evaluation.name] = evaluation
            origins[evaluation.name] = origin
    ordered = sorted(loaded.values(), key=lambda evaluation: (evaluation.order, evaluation.name))
    return Installed(ordered, origins, problems)


def evaluation_of(record: RunRecord) -> Evaluation | None:
    """The evaluation that a run belongs to; runs of early versions are recognised by their task."""
    name = record.provenance.evaluation
    for evaluation in evaluations():
        if evaluation.name == name or (not name and record.task in evaluation.tasks):
            return evaluation
    return None


def view_of(record: RunRecord) -> View:
    """How a run is shown; empty for a task that belongs to no evaluation."""
    evaluation = evaluation_of(record)
    return View() if evaluation is None else evaluation.view(record.base_task)


def variation_of(record: RunRecord) -> Variation:
    """Which parts of a run's signature say how the question is asked."""
    evaluation = evaluation_of(record)
    return Variation() if evaluation is None else evaluation.variation


def metric_of(record: RunRecord, name: str) -> Metric:
    """What is known about a metric of a run: as declared by its task, else by its evaluation.

    Of a metric that nobody declares, nothing is known but its name; higher is taken to be better, as for most.
    """
    declared = metric_called(name, record.provenance.metrics)
    if declared is None:
        evaluation = evaluation_of(record)
        declared = None if evaluation is None else metric_called(name, evaluation.metrics)
    return declared or Metric(name)


def metrics_of(task: Task) -> tuple[Metric, ...]:
    """The metrics that a run of the task remembers: those of the headline, and what the task itself declares.

    A run keeps them, so that a comparison or an export needs neither the task nor its package.
    """
    remembered: dict[str, Metric] = {}
    if task.evaluation is not None:
        headline = set(task.design.headline)
        remembered |= {metric.name: metric for metric in task.evaluation.metrics if metric.name in headline}
    remembered |= {metric.name: metric for metric in task.metrics}
    return tuple(remembered.values())


def base_task_of(task: Task) -> str:
    """The evaluation's own task that a task is or extends, by name; empty for a task without an evaluation."""
    if task.evaluation is None:
        return ""
    for cls in type(task).__mro__:
        name = cls.__dict__.get("name")
        if isinstance(name, str) and name in task.evaluation.tasks:
            return name
    if len(task.evaluation.tasks) == 1:
        return next(iter(task.evaluation.tasks))
    raise PluginError(
        f"the task {task.name} belongs to the evaluation {task.evaluation.name}, but neither its name nor that of a "
        f"class it extends is among the evaluation's tasks: {', '.join(task.evaluation.tasks)}"
    )
