"""Checks the members of an ``Evaluation`` before it is used. Each message says what was given and what is expected.

Python does not check the types of a dataclass, so a forgotten comma (``commands=(Command(…))``) would otherwise cause a
confusing error somewhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from lmassay.contracts import (
    Command,
    Component,
    Evaluation,
    PublishedCard,
    Reproduction,
    Sample,
    Starter,
    TaskEntry,
    Variation,
    View,
)
from lmassay.redaction import excerpt
from lmassay.types import Metric

_VIEW_HOOKS = ("section", "texts", "headline", "export")
_EVALUATION_HOOKS = ("card", "checks", "after_run", "log_reader")
_MAX_VALUE_LENGTH = 80


def describe_value(value: object) -> str:
    """Return a value and its type as messages show them."""
    try:
        text = repr(value)
    except Exception:
        # A broken __repr__ in another package must not hide the problem that is reported here.
        return f"an object of the class {type(value).__name__}"
    if len(text) > _MAX_VALUE_LENGTH:
        text = f"{excerpt(text, _MAX_VALUE_LENGTH)}…"
    return f"{text} ({type(value).__name__})"


def expected_message(member: str, what: str, value: object, remedy: str = "") -> str:
    """Return a message in one line: the member, what it must be, what it is, and what to write instead."""
    message = f"{member} must be {what}, not {describe_value(value)}"
    if remedy:
        return f"{message}; {remedy}"
    return message


def evaluation_problems(evaluation: Evaluation) -> list[str]:
    """Return messages for all problems with the declaration of an evaluation; none if it can be used."""
    problems: list[str] = []
    if not isinstance(evaluation.name, str) or not evaluation.name:
        problems.append(expected_message("name", "a text that is not empty", evaluation.name))
    if not isinstance(evaluation.question, str):
        problems.append(expected_message("question", "a text", evaluation.question))
    if not isinstance(evaluation.order, int) or isinstance(evaluation.order, bool):
        problems.append(expected_message("order", "a whole number", evaluation.order))
    if evaluation.datasets is not None and not isinstance(evaluation.datasets, Path):
        problems.append(expected_message("datasets", "the Path of a folder", evaluation.datasets))
    if not isinstance(evaluation.variation, Variation):
        problems.append(expected_message("variation", "a Variation", evaluation.variation))
    problems += _tasks_problems(evaluation.tasks)
    problems += metrics_problems(evaluation.metrics)
    problems += sequence_problems("commands", evaluation.commands, Command)
    problems += sequence_problems("reproductions", evaluation.reproductions, Reproduction)
    problems += sequence_problems("starters", evaluation.starters, Starter)
    problems += _components_problems(evaluation.components)
    problems += _view_problems("", evaluation)
    problems += _published_card_problems(evaluation.published_card)
    for name in _EVALUATION_HOOKS:
        problems += _hook_problems(name, getattr(evaluation, name))
    return problems


def metrics_problems(metrics: object) -> list[str]:
    """Return the problems with the metrics that a task or an evaluation declares."""
    problems = sequence_problems("metrics", metrics, Metric)
    if problems or not isinstance(metrics, Collection):
        return problems
    names = [metric.name for metric in metrics]
    repeated = sorted({name for name in names if names.count(name) > 1})
    return [f"metrics declares '{name}' twice; remove one" for name in repeated]


def sequence_problems(member: str, value: object, kind: type) -> list[str]:
    """Return the problems with a tuple (or list) of objects of a class."""
    what = f"a tuple of {kind.__name__} objects"
    if isinstance(value, kind):
        return [expected_message(member, what, value, f"write {member}=({kind.__name__}(…),) with a comma")]
    if not isinstance(value, tuple | list):
        return [expected_message(member, what, value)]
    problems: list[str] = []
    for index, item in enumerate(value):
        if not isinstance(item, kind):
            problems.append(expected_message(f"{member}[{index}]", f"a {kind.__name__}", item))
    return problems


def _tasks_problems(tasks: object) -> list[str]:
    if not isinstance(tasks, Mapping):
        what = "a mapping from a task's name to its TaskEntry"
        return [expected_message("tasks", what, tasks, "write tasks={'name': TaskEntry(path=…, summary=…)}")]
    problems: list[str] = []
    for name, entry in tasks.items():
        member = f"tasks[{name!r}]"
        if not isinstance(name, str) or not name:
            problems.append(expected_message("a key of tasks", "a text that is not empty", name))
        if not isinstance(entry, TaskEntry):
            problems.append(expected_message(member, "a TaskEntry", entry, "write TaskEntry(path=…, summary=…)"))
            continue
        problems += _path_problems(f"{member}.path", entry.path)
        if not isinstance(entry.summary, str):
            problems.append(expected_message(f"{member}.summary", "a text", entry.summary))
        problems += _view_problems(f"{member}.", entry)
    return problems


def _published_card_problems(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, PublishedCard):
        remedy = "write PublishedCard(languages=(…,), variants='package.module:name')"
        return [expected_message("published_card", "a PublishedCard", value, remedy)]
    return [
        *sequence_problems("published_card.languages", value.languages, str),
        *_hook_problems("published_card.variants", value.variants),
    ]


def _components_problems(components: object) -> list[str]:
    if not isinstance(components, Mapping):
        return [expected_message("components", "a mapping: kind → name → Component", components)]
    problems: list[str] = []
    for kind, by_name in components.items():
        if not isinstance(by_name, Mapping):
            problems.append(expected_message(f"components[{kind!r}]", "a mapping from names to Components", by_name))
            continue
        for name, component in by_name.items():
            member = f"components[{kind!r}][{name!r}]"
            if not isinstance(component, Component):
                problems.append(expected_message(member, "a Component", component))
            else:
                problems += _path_problems(f"{member}.path", component.path)
    return problems


def _view_problems(owner: str, view: View) -> Iterator[str]:
    for name in _VIEW_HOOKS:
        yield from _hook_problems(f"{owner}{name}", getattr(view, name))
    if view.sample is not None and not isinstance(view.sample, Sample):
        yield expected_message(f"{owner}sample", "a Sample", view.sample, "write Sample(folder)")


def _hook_problems(member: str, hook: Any) -> list[str]:
    if hook is None or callable(hook):
        return []
    if isinstance(hook, str):
        return _path_problems(member, hook)
    return [expected_message(member, "a function, or where to import it from: 'package.module:name'", hook)]


def _path_problems(member: str, path: object) -> list[str]:
    if isinstance(path, str) and all(part.strip() for part in path.partition(":")):
        return []
    return [expected_message(member, "an import path: 'package.module:name'", path)]
