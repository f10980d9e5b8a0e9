"""The installed evaluations, and which of them a run belongs to.

lmassay's own evaluations and those of other packages are found in the same way, through the entry-point group
``lmassay.evaluations``.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.contracts import Evaluation, Task, Variation, View
from lmassay.errors import PluginError, error_message
from lmassay.plugins.declarations import describe_value, evaluation_problems
from lmassay.plugins.entry_points import installed_points
from lmassay.plugins.entry_points import package_of as package_of_point
from lmassay.types import Metric, RunRecord, find_metric

GROUP = "lmassay.evaluations"
OWN_PACKAGE = "lmassay"


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A problem with an evaluation that a package provides."""

    package: str
    what: str
    """The problem, without a subject: "has two entry points …". ``message`` puts the package in front."""
    is_left_out: bool
    """Whether the evaluation cannot be used at all."""

    @property
    def message(self) -> str:
        """The problem as a sentence that begins with the package."""
        return f"the package {self.package} {self.what}"


@dataclass(frozen=True, slots=True, eq=False)
class InstalledEvaluations:
    """The evaluations that could be loaded, and the problems that were found."""

    evaluations: Sequence[Evaluation]
    origins: dict[str, str]
    """Name of an evaluation → the package it comes from."""
    problems: Sequence[PluginProblem]


def evaluations() -> Sequence[Evaluation]:
    """Return all evaluations in the order in which cards and reports show them."""
    return installed_evaluations().evaluations


def installed_evaluations() -> InstalledEvaluations:
    """Load the evaluations of all installed packages; this is done once for each value of ``sys.path``."""
    return _load_evaluations(tuple(sys.path))


# ``_path`` is only the key of the cache: other folders on sys.path may have other packages.
@functools.cache
def _load_evaluations(_path: tuple[str, ...]) -> InstalledEvaluations:
    loaded: dict[str, Evaluation] = {}
    origins: dict[str, str] = {}
    problems: list[PluginProblem] = []
    points = list(installed_points(GROUP))
    points.sort(key=lambda point: (precedence(package_of_point(point)), point.name, point.value))
    for point in points:
        origin = package_of_point(point)
        try:
            evaluation = _loaded(point)
        except PluginError as error:
            problems.append(PluginProblem(origin, f"could not be loaded: {error}", is_left_out=True))
            continue
        first = origins.get(evaluation.name)
        if first is None:
            loaded[evaluation.name] = evaluation
            origins[evaluation.name] = origin
        elif first == origin:
            what = f"has two entry points for the evaluation '{evaluation.name}'; remove one or rename its evaluation"
            problems.append(PluginProblem(origin, what, is_left_out=True))
        else:
            what = f"has the evaluation '{evaluation.name}', but that of {first} is used"
            problems.append(PluginProblem(origin, what, is_left_out=True))
            # If lmassay has the name already, only the other package can rename its evaluation. If two other packages
            # have it, either can, so the problem is reported for both.
            if first != OWN_PACKAGE:
                what = f"has the evaluation '{evaluation.name}', which {origin} also has"
                problems.append(PluginProblem(first, what, is_left_out=False))
    ordered = sorted(loaded.values(), key=lambda evaluation: (evaluation.order, evaluation.name))
    return InstalledEvaluations(ordered, origins, problems)


def precedence(package: str) -> tuple[bool, str]:
    """Return a sort key for packages: lmassay first, then by name, so that ``sys.path`` does not affect the order."""
    return (package != OWN_PACKAGE, package)


def _loaded(point: importlib.metadata.EntryPoint) -> Evaluation:
    """Load the evaluation of an entry point. Anything that the package's code raises becomes a PluginError."""
    try:
        evaluation = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # including SystemExit
        raise PluginError(error_message(error)) from error
    if not isinstance(evaluation, Evaluation):
        raise PluginError(f"{point.value} must be an Evaluation, not {describe_value(evaluation)}")
    problems = evaluation_problems(evaluation)
    if problems:
        raise PluginError(f"{point.value}: {'; '.join(problems)}")
    return evaluation


def package_of(evaluation: Evaluation) -> str:
    """Return the package that an evaluation comes from; empty for one that is not installed."""
    installed = installed_evaluations()
    if any(other is evaluation for other in installed.evaluations):
        return installed.origins[evaluation.name]
    return ""


def unloaded_packages_note() -> str:
    """Return a note for "not found" messages: a package that failed to load may be the one that provides it."""
    messages = [problem.message for problem in installed_evaluations().problems if problem.is_left_out]
    if messages:
        return f" ({'; '.join(messages)}; see lmassay doctor)"
    return ""


def evaluation_of(record: RunRecord) -> Evaluation | None:
    """Return the evaluation that a run belongs to, or None."""
    name = record.provenance.evaluation
    for evaluation in evaluations():
        if name is None:
            # Early versions did not record the evaluation, but all their tasks have unique names.
            if record.task in evaluation.tasks:
                return evaluation
        elif evaluation.name == name:
            return evaluation
    return None


def view_of(record: RunRecord) -> View:
    """Return how the evaluation of a run shows it; an empty view for a run without an evaluation."""
    evaluation = evaluation_of(record)
    if evaluation is None:
        return View()
    return evaluation.view(record.base_task)


def variation_of(record: RunRecord) -> Variation:
    """Return which parts of a run's signature describe how the question is asked, such as the prompt."""
    evaluation = evaluation_of(record)
    if evaluation is None:
        return Variation()
    return evaluation.variation


def metric_of(record: RunRecord, name: str) -> Metric:
    """Return the metric of a run as its task or its evaluation declares it.

    For a metric that is not declared, only the name is known, and higher values are assumed to be better.
    """
    declared = find_metric(name, record.provenance.metrics)
    if declared is not None:
        return declared
    evaluation = evaluation_of(record)
    if evaluation is not None:
        declared = find_metric(name, evaluation.metrics)
    return declared or Metric(name)


def metrics_of(task: Task) -> tuple[Metric, ...]:
    """Return the metrics that a run records: those of the task's evaluation and the task's own.

    They are stored with the run, so that a comparison or an export needs neither the task nor its package.
    """
    declared: dict[str, Metric] = {}
    if task.evaluation is not None:
        declared |= {metric.name: metric for metric in task.evaluation.metrics}
    declared |= {metric.name: metric for metric in task.metrics}
    return tuple(declared.values())


def base_task_of(task: Task) -> str:
    """Return the name of the evaluation's task that this task is an instance of; empty without an evaluation.

    A user's own task may extend the class of an evaluation's task. It then has another name, but the same base task,
    which determines how its runs are shown. Raises a PluginError if the task extends none of the evaluation's tasks.
    """
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
        f"base class is among the evaluation's tasks: {', '.join(task.evaluation.tasks)}; extend one of their classes"
    )
