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
from lmassay.errors import PluginError, error_message
from lmassay.plugins.declarations import describe_value, evaluation_problems
from lmassay.types import Metric, RunRecord, find_metric

GROUP = "lmassay.evaluations"
OWN_PACKAGE = "lmassay"


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """What is wrong with an evaluation that a package offers."""

    package: str
    what: str
    is_left_out: bool
    """True if the evaluation cannot be used at all."""

    @property
    def message(self) -> str:
        return f"the package {self.package} {self.what}"


@dataclass(frozen=True, slots=True, eq=False)
class InstalledEvaluations:
    """The evaluations that could be loaded with the packages they come from, and what is wrong with others."""

    evaluations: Sequence[Evaluation]
    origins: dict[str, str]
    problems: Sequence[PluginProblem]


def evaluations() -> Sequence[Evaluation]:
    """All evaluations, in the order in which cards and reports show them."""
    return installed_evaluations().evaluations


def installed_evaluations() -> InstalledEvaluations:
    """What the entry points of the installed packages offer; loaded once for each search path."""
    return _installed_on(tuple(sys.path))


@functools.cache
def _installed_on(_path: tuple[str, ...]) -> InstalledEvaluations:
    loaded: dict[str, Evaluation] = {}
    origins: dict[str, str] = {}
    problems: list[PluginProblem] = []
    points = list(importlib.metadata.entry_points(group=GROUP))
    points.sort(key=lambda point: (precedence(_origin(point)), point.name, point.value))
    for point in points:
        origin = _origin(point)
        try:
            evaluation = _loaded(point)
        except PluginError as error:
            problems.append(PluginProblem(origin, f"could not be loaded: {error}", is_left_out=True))
            continue
        first = origins.get(evaluation.name)
        if first is None:
            loaded[evaluation.name] = evaluation
            origins[evaluation.name] = origin
        else:
            what = f"offers the evaluation '{evaluation.name}', which {first} offers too and which is used from there"
            problems.append(PluginProblem(origin, what, is_left_out=True))
            if first != OWN_PACKAGE:
                what = f"offers the evaluation '{evaluation.name}', which {origin} offers too"
                problems.append(PluginProblem(first, what, is_left_out=False))
    ordered = sorted(loaded.values(), key=lambda evaluation: (evaluation.order, evaluation.name))
    return InstalledEvaluations(ordered, origins, problems)


def precedence(package: str) -> tuple[bool, str]:
    """Sorts packages: lmassay itself first, then by name, so that the search path decides nothing."""
    return (package != OWN_PACKAGE, package)


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _loaded(point: importlib.metadata.EntryPoint) -> Evaluation:
    """The evaluation behind an entry point. Whatever another package's code raises is a PluginError."""
    try:
        evaluation = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit, too
        raise PluginError(error_message(error)) from error
    if not isinstance(evaluation, Evaluation):
        raise PluginError(f"{point.value} must be an Evaluation, not {describe_value(evaluation)}")
    problems = evaluation_problems(evaluation)
    if problems:
        raise PluginError(f"{point.value}: {'; '.join(problems)}")
    return evaluation


def package_of(evaluation: Evaluation) -> str:
    """The package that an evaluation comes from; empty for one that is not installed."""
    known = installed_evaluations()
    if any(other is evaluation for other in known.evaluations):
        return known.origins[evaluation.name]
    return ""


def unloaded_packages_note() -> str:
    """A remark for messages that something was not found: it may be in a package that could not be loaded."""
    left_out = [problem.message for problem in installed_evaluations().problems if problem.is_left_out]
    return f" ({'; '.join(left_out)}; see lmassay doctor)" if left_out else ""


def evaluation_of(record: RunRecord) -> Evaluation | None:
    """The evaluation that a run belongs to; runs of early versions are recognised by their task."""
    name = record.provenance.evaluation
    for evaluation in evaluations():
        # A run that says that its task belongs to no evaluation has an empty name.
        belongs = record.task in evaluation.tasks if name is None else evaluation.name == name
        if belongs:
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
    declared = find_metric(name, record.provenance.metrics)
    if declared is None:
        evaluation = evaluation_of(record)
        declared = None if evaluation is None else find_metric(name, evaluation.metrics)
    return declared or Metric(name)


def metrics_of(task: Task) -> tuple[Metric, ...]:
    """The metrics that a run of the task remembers: those that its evaluation declares, and its own.

    A run keeps them, so that a comparison or an export needs neither the task nor its package.
    """
    declared: dict[str, Metric] = {}
    if task.evaluation is not None:
        declared |= {metric.name: metric for metric in task.evaluation.metrics}
    declared |= {metric.name: metric for metric in task.metrics}
    return tuple(declared.values())


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
        f"class it extends is among the evaluation's tasks: {', '.join(task.evaluation.tasks)}; extend one of their "
        "classes"
    )
