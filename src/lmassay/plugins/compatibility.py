"""Checks that a plug-in keeps to its contract, and completes plug-ins written for earlier versions.

Until version 0.1, a task or model was any class with the right members, and what statistics need to know about a task
were single attributes. Such classes keep working with a DeprecationWarning: they are given the base class and the
``Design`` that they would declare today.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.errors import PluginError
from lmassay.types import Design

P = TypeVar("P", Task, Model)

_REQUIRED: dict[type, tuple[str, ...]] = {
    Task: ("name", "examples", "requests", "score"),
    Model: ("name", "can", "identity"),
}
_PAGES: dict[type, str] = {Task: "docs/extending/task.md", Model: "docs/extending/model.md"}
# The single attributes that a Design replaces.
_OLD_MEMBERS = ("cluster", "headline", "weights", "combinations", "pair_by")
# How alike a name must be to a member's to be taken for a slip; "desing" and "design" are 0.83.
_ALIKE = 0.8


def as_task(plugin: Any, described_as: object) -> Task:
    """A task as the core uses it, checked against the contract."""
    task = _completed(plugin, Task, described_as)
    _adopt_old_design(task)
    _report_slips(task, Task, (*_OLD_MEMBERS, *(field.name for field in fields(Design))))
    _check_design(task)
    return task


def as_model(plugin: Any, described_as: object) -> Model:
    """A model as the core uses it, checked against the contract."""
    model = _completed(plugin, Model, described_as)
    if isinstance(model.can, str):
        raise PluginError(
            f"the model {described_as!r}: can must be a set of abilities, such as frozenset({{'generate'}})"
        )
    # Until version 0.1, a model with prices was a metered one.
    if not model.metered and _defining_class(model, "prices") is not None:
        model.metered = True
    _report_slips(model, Model, ())
    return model


def _completed(plugin: Any, base: type[P], described_as: object) -> P:
    """The plug-in with the defaults of its base class."""
    kind = base.__name__.lower()
    missing = [name for name in _REQUIRED[base] if _defining_class(plugin, name) is None]
    if missing:
        raise PluginError(f"the {kind} {described_as!r} lacks {', '.join(missing)}; see {_PAGES[base]}")
    if isinstance(plugin, base):
        return plugin
    cls = type(plugin)
    warnings.warn(
        f"{cls.__name__} should inherit from lmassay.{base.__name__}; a class without it will be refused in 1.0",
        DeprecationWarning,
        stacklevel=2,
    )
    if base is Model and hasattr(plugin, "check_places"):
        base = StoredAnswers  # type: ignore[assignment]
    members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    try:
        plugin.__class__ = type(cls.__name__, (cls, base), members)
    except TypeError as error:
        raise PluginError(
            f"the {kind} {described_as!r} cannot be used as it is ({error}); see {_PAGES[base]}"
        ) from None
    completed: P = plugin
    return completed


def _adopt_old_design(task: Task) -> None:
    """Take single attributes that a user's class declares into the task's design."""
    old = [name for name in _OLD_MEMBERS if _defining_class(task, name) is not None]
    if not old:
        return
    instead = "Design(clusters=…, headline=…)"
    warnings.warn(
        f"{type(task).__name__}.{old[0]} is deprecated; declare design = {instead} instead",
        DeprecationWarning,
        stacklevel=2,
    )
    declared = {name: getattr(task, name) for name in old}
    changes: dict[str, Any] = {}
    if "cluster" in declared:
        changes["clusters"] = (declared["cluster"],) if declared["cluster"] else ()
    if "pair_by" in declared:
        changes["pair_by"] = (declared["pair_by"],) if declared["pair_by"] else ()
    if "headline" in declared:
        changes["headline"] = tuple(declared["headline"])
    for name in ("weights", "combinations"):
        if name in declared:
            changes[name] = dict(declared[name])
    design = replace(task.design, **changes)
    # The class may compute its design in a property, which an instance cannot replace.
    task.__class__ = type(type(task).__name__, (type(task),), {"design": design, "__module__": type(task).__module__})


def _check_design(task: Task) -> None:
    design = task.design
    if not isinstance(design, Design):
        raise PluginError(f"the task {task.name}: design must be a Design, not {design!r}; see {_PAGES[Task]}")
    for name, groups in (("clusters", design.clusters), ("pair_by", design.pair_by)):
        if isinstance(groups, str):
            raise PluginError(f"the task {task.name}: design.{name} is a tuple of groups: write ({groups!r},)")
        if len(groups) > 1:
            raise PluginError(f"the task {task.name}: design.{name} may name one group only, not {', '.join(groups)}")


def _report_slips(plugin: Task | Model, base: type, belong_to_design: tuple[str, ...]) -> None:
    """Refuse a member whose name is almost that of the contract's: it would be ignored without a word."""
    known = {name for name in dir(base) if not name.startswith("_")} | {"name", "can"}
    known -= {"can"} if base is Task else set()
    for name, cls in _own_members(plugin):
        if name in known or name in _OLD_MEMBERS:
            continue
        slip = f"{cls.__name__}.{name} is not a member of lmassay.{base.__name__}"
        if name in belong_to_design:
            raise PluginError(f"{slip}; did you mean design = Design({name}=…)?")
        near = difflib.get_close_matches(name, [*known, *belong_to_design], n=1, cutoff=_ALIKE)
        # A class that defines both knows what it is doing.
        if near and near[0] not in cls.__dict__:
            raise PluginError(f"{slip}; did you mean '{near[0]}'? If it is your own, begin its name with an underscore")


def _own_members(plugin: object) -> Iterator[tuple[str, type]]:
    """Public members that the classes of a plug-in outside lmassay define, with the class."""
    for cls in type(plugin).__mro__:
        if cls.__module__.startswith("lmassay.") or cls.__module__ in ("builtins", "abc", "typing"):
            continue
        for name in cls.__dict__:
            if not name.startswith("_"):
                yield name, cls


def _defining_class(plugin: object, name: str) -> type | None:
    """The class that defines a member of a plug-in; the base classes' own defaults do not count."""
    if name in getattr(plugin, "__dict__", {}):
        return type(plugin)
    for cls in type(plugin).__mro__:
        if name in cls.__dict__:
            return None if cls in (Task, Model, StoredAnswers) else cls
    return None
