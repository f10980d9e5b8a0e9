"""Checks the members of a task or model before a run. Each message says what was given and what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from lmassay.budget import Prices
from lmassay.contracts import Evaluation, Model, Task
from lmassay.errors import PluginError, did_you_mean
from lmassay.plugins.declarations import evaluation_problems, expected_message, metrics_problems
from lmassay.plugins.evaluations import base_task_of
from lmassay.types import Combination, Design, Replicates, find_metric

ABILITIES = {
    "generate": "generate text",
    "choices": "restrict its answers to given choices",
    "logprobs": "compute log-probabilities",
    "slot": "rank words at a blank",
    "train": "be trained",
    "gradients": "compute gradients",
}
"""What a model can do (``Model.can``) or a task needs (``Task.needs``) → the words for it in messages."""
# Design takes tuples of groups, but the statistics can cluster and pair by one group only.
_MAX_GROUPS = 1


def task_problems(task: Task) -> list[str]:
    """Return messages for all problems with the members of a task; none if it can be run."""
    problems = [*_name_problems(task), *_ability_problems("needs", task.needs), *_chunk_problems(task, min_chunk=1)]
    if not _is_whole_number(task.version):
        problems.append(expected_message("version", "a whole number", task.version))
    if task.requests_each is not None and not _is_whole_number(task.requests_each):
        problems.append(expected_message("requests_each", "a whole number or None", task.requests_each))
    declared_problems = metrics_problems(task.metrics)
    declared_problems += _evaluation_problems(task)
    declared_problems += _design_problems(task.design)
    problems += declared_problems
    if not declared_problems:
        # Names can only be looked up if metrics, evaluation and design are well-formed.
        problems += _unknown_metrics(task)
    return problems


def model_problems(model: Model) -> list[str]:
    """Return messages for all problems with the members of a model; none if it can be used."""
    problems = [*_name_problems(model), *_ability_problems("can", model.can), *_chunk_problems(model, min_chunk=0)]
    if model.prices is not None and not isinstance(model.prices, Prices):
        remedy = "write lmassay.Prices(input, output) in USD per million tokens"
        problems.append(expected_message("prices", "Prices or None", model.prices, remedy))
    problems += _resource_problems(model)
    for name in ("cached", "distributable", "metered", "sees_right"):
        value = getattr(model, name)
        if not isinstance(value, bool):
            problems.append(expected_message(name, "True or False", value))
    return problems


def checked_mapping(owner: str, method: str, value: Any) -> Mapping[str, Any]:
    """Return what a plug-in's ``signature()`` or ``identity()`` returned, after checking its type."""
    if not isinstance(value, Mapping):
        raise PluginError(f"{owner}: {expected_message(f'{method}()', 'a mapping', value)}")
    return value


def checked_notes(owner: str, value: Any, method: str = "notes") -> Sequence[str]:
    """Return what a plug-in's ``notes()`` or ``facts()`` returned, after checking its type."""
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_sequence or not all(isinstance(note, str) for note in value):
        remedy = "write a list with one text in it" if isinstance(value, str) else ""
        raise PluginError(f"{owner}: {expected_message(f'{method}()', 'a list of texts', value, remedy)}")
    notes: Sequence[str] = value
    return notes


def _name_problems(plugin: Task | Model) -> Iterator[str]:
    if not isinstance(plugin.name, str) or not plugin.name.strip():
        yield expected_message("name", "a text that is not empty", plugin.name)
    if not isinstance(plugin.label, str):
        yield expected_message("label", "a text", plugin.label)


def abilities_text(abilities: Set[str]) -> str:
    """Describe abilities in words that follow "can" or "cannot".

    >>> abilities_text({"slot", "generate"}), abilities_text(set())
    ('generate text and rank words at a blank', 'do nothing that tasks use')
    """
    texts = [text for ability, text in ABILITIES.items() if ability in abilities]
    if not texts:
        return "do nothing that tasks use"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _ability_problems(member: str, abilities: Any) -> Iterator[str]:
    if not isinstance(abilities, Set):
        yield expected_message(member, "a set of abilities, such as frozenset({'generate'})", abilities)
        return
    for ability in abilities:
        if ability not in ABILITIES:
            hint = did_you_mean(ability, ABILITIES) if isinstance(ability, str) else ""
            yield f"{member} names {ability!r}, which is not an ability{hint}"


def _chunk_problems(plugin: Task | Model, min_chunk: int) -> Iterator[str]:
    if not _is_whole_number(plugin.chunk) or plugin.chunk < min_chunk:
        yield expected_message("chunk", f"a whole number of at least {min_chunk}", plugin.chunk)


def _resource_problems(model: Model) -> Iterator[str]:
    expected = "a mapping from names to numbers above 0, such as {'GPU': 1}"
    resources: Any = model.resources
    if not isinstance(resources, Mapping):
        yield expected_message("resources", expected, resources)
        return
    for name, amount in resources.items():
        is_amount = isinstance(amount, int | float) and not isinstance(amount, bool) and amount > 0
        if not isinstance(name, str) or not is_amount:
            yield expected_message("resources", expected, resources)
            return


def _is_whole_number(value: object) -> bool:
    # In Python, True and False are integers.
    return isinstance(value, int) and not isinstance(value, bool)


def _evaluation_problems(task: Task) -> list[str]:
    evaluation: Any = task.evaluation
    if evaluation is None:
        return []
    if not isinstance(evaluation, Evaluation):
        remedy = "write the object, not its name" if isinstance(evaluation, str) else ""
        return [expected_message("evaluation", "an Evaluation or None", evaluation, remedy)]
    problems = [f"evaluation: {problem}" for problem in evaluation_problems(evaluation)]
    if not problems:
        try:
            base_task_of(task)
        except PluginError as error:
            problems.append(str(error).removeprefix(f"the task {task.name} "))
    return problems


# What the values of mappings in a Design must be.
_EXPECTED_IN_DESIGN = {
    "weights": "the name of a score",
    "combinations": "a Combination",
    "crossed": "a text that names the labels of its outcomes, such as 'verb_pair'",
}


def _design_problems(design: Any) -> Iterator[str]:
    if not isinstance(design, Design):
        yield expected_message("design", "a Design", design, "write design = Design(headline=…)")
        return
    for member, names in (("clusters", design.clusters), ("pair_by", design.pair_by), ("headline", design.headline)):
        yield from _names_problems(f"design.{member}", names, "metrics" if member == "headline" else "groups")
    if design.replicates is not None and not isinstance(design.replicates, Replicates):
        yield expected_message("design.replicates", "a Replicates", design.replicates)
    mappings: list[tuple[str, Any, type]] = [
        ("weights", design.weights, str),
        ("combinations", design.combinations, Combination),
        ("crossed", design.crossed, str),
    ]
    for member, values, kind in mappings:
        if not isinstance(values, Mapping):
            yield expected_message(f"design.{member}", "a mapping", values)
            continue
        for metric, value in values.items():
            if not isinstance(value, kind):
                yield expected_message(f"design.{member}[{metric!r}]", _EXPECTED_IN_DESIGN[member], value)


def _names_problems(member: str, names: Any, what: str) -> Iterator[str]:
    """Yield the problems with a member of the design that is a tuple of names; ``what`` is what they name."""
    if isinstance(names, str):
        yield f"{member} is a tuple of {what}: write ({names!r},)"
    elif not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        yield expected_message(member, f"a tuple of {what}", names)
    elif what == "groups" and len(names) > _MAX_GROUPS:
        yield f"{member} may name only one group, not {', '.join(names)}"


def _unknown_metrics(task: Task) -> Iterator[str]:
    """Yield a problem for each name in the design that is not a metric; nothing if the task declares no metrics."""
    if not task.metrics:
        return
    declared = list(task.metrics)
    if task.evaluation is not None:
        declared += task.evaluation.metrics
    design = task.design
    metric_names = [metric.name for metric in declared]
    metric_names += design.combinations
    members = {"headline": design.headline, "weights": list(design.weights), "crossed": list(design.crossed)}
    for member, names in members.items():
        for name in names:
            if name not in metric_names and find_metric(name, declared) is None:
                hint = did_you_mean(name, metric_names)
                yield f"design.{member} names '{name}', which is not among the metrics{hint}"
