"""Checks that a plug-in follows its contract, and adapts plug-ins that were written for earlier versions.

Before version 0.1, a task or model was any class with the right members, and a task declared its design in separate
attributes. Such classes keep working with a DeprecationWarning: they get the base class and the ``Design`` that they
would declare today.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from lmassay.contracts import Model, StoredAnswers, Task
from lmassay.errors import OldPluginWarning, PluginError
from lmassay.plugins.members import model_problems, task_problems
from lmassay.types import Design

P = TypeVar("P", Task, Model)

_REQUIRED: dict[type, tuple[str, ...]] = {
    Task: ("name", "examples", "requests", "score"),
    Model: ("name", "can", "identity"),
}
_PAGES: dict[type, str] = {Task: "docs/extending/task.md", Model: "docs/extending/model.md"}
# The attributes that Design has replaced.
_OLD_MEMBERS = ("cluster", "headline", "weights", "combinations", "pair_by")
# Methods of a model that were renamed: old name → new name.
_OLD_METHODS = {"heed": "use_budget", "keep_in": "use_folder"}
# How similar a name must be to that of a member to be treated as a typo: "desing" and "design" have 0.83, "metrix" and
# "metrics" 0.77.
_TYPO_SIMILARITY = 0.76


def as_task(plugin: Any, described_as: object) -> Task:
    """Return a plug-in as a Task, after checking it against the contract.

    Raises a PluginError that lists all problems. ``described_as`` is how the configuration describes the plug-in, for
    error messages.
    """
    task = _completed(plugin, Task, described_as)
    _adopt_old_design(task)
    _refuse_typos(task, Task)
    _refuse(task_problems(task), task, "task", described_as)
    return task


def as_model(plugin: Any, described_as: object) -> Model:
    """Return a plug-in as a Model, after checking it against the contract."""
    model = _completed(plugin, Model, described_as)
    # Before version 0.1, there was no member ``metered``: a model that defined prices was metered.
    if not model.metered and _defining_class(model, "prices") is not None:
        model.metered = True
    _adopt_old_methods(model)
    _refuse_typos(model, Model)
    _refuse(model_problems(model), model, "model", described_as)
    return model


def _refuse(problems: Sequence[str], plugin: Task | Model, kind: str, described_as: object) -> None:
    """Raise a PluginError with all problems of a plug-in, one per line."""
    if not problems:
        return
    name = plugin.name if isinstance(plugin.name, str) and plugin.name else repr(described_as)
    raise PluginError("\n".join(f"the {kind} {name}: {problem}" for problem in problems))


def _completed(plugin: Any, base: type[P], described_as: object) -> P:
    """Return the plug-in with the defaults of the class ``base``, which an old plug-in does not inherit from."""
    kind = base.__name__.lower()
    page = _PAGES[base]
    missing = [name for name in _REQUIRED[base] if _defining_class(plugin, name) is None]
    if missing:
        raise PluginError(f"the {kind} {described_as!r} does not define {', '.join(missing)}; see {page}")
    if isinstance(plugin, base):
        return plugin
    # The object gets a class that extends both its own class and the base class.
    cls = type(plugin)
    warnings.warn(
        f"{cls.__name__} should inherit from lmassay.{base.__name__}; a class without it will be refused in 1.0",
        OldPluginWarning,
        stacklevel=2,
    )
    if base is Model and hasattr(plugin, "check_ids"):
        base = StoredAnswers  # type: ignore[assignment]
    members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    try:
        plugin.__class__ = type(cls.__name__, (cls, base), members)
    except TypeError as error:
        # For example a class with __slots__, whose objects cannot change their class.
        raise PluginError(f"the {kind} {described_as!r} cannot be used as it is ({error}); see {page}") from None
    completed: P = plugin
    return completed


def _adopt_old_design(task: Task) -> None:
    """Add the separate attributes of an old plug-in to the task's design."""
    old = [name for name in _OLD_MEMBERS if _defining_class(task, name) is not None]
    if not old:
        return
    warnings.warn(
        f"{type(task).__name__}.{old[0]} is deprecated; declare design = Design(clusters=…, headline=…) instead",
        OldPluginWarning,
        stacklevel=2,
    )
    if not isinstance(task.design, Design):
        return
    declared = {name: getattr(task, name) for name in old}
    changes: dict[str, Any] = {}
    # Old plug-ins name one group, or None; a design has a tuple of groups.
    if "cluster" in declared:
        changes["clusters"] = (declared["cluster"],) if declared["cluster"] else ()
    if "pair_by" in declared:
        changes["pair_by"] = (declared["pair_by"],) if declared["pair_by"] else ()
    if "headline" in declared:
        headline = declared["headline"]
        changes["headline"] = tuple(headline) if isinstance(headline, list) else headline
    for name in ("weights", "combinations"):
        if name in declared:
            changes[name] = declared[name]
    design = replace(task.design, **changes)
    # The class may compute its design in a property, which an instance cannot replace.
    cls = type(task)
    task.__class__ = type(cls.__name__, (cls,), {"design": design, "__module__": cls.__module__})


def _adopt_old_methods(model: Model) -> None:
    """Make methods of a user's class that still have the name of an earlier version available under the new name."""
    for old, new in _OLD_METHODS.items():
        if _defining_class(model, old) is None or _defining_class(model, new) is not None:
            continue
        warnings.warn(
            f"{type(model).__name__}.{old} is deprecated; rename the method to {new}",
            OldPluginWarning,
            stacklevel=2,
        )
        setattr(model, new, getattr(model, old))


def _refuse_typos(plugin: Task | Model, base: type) -> None:
    """Refuse a member whose name is almost that of a member of the contract, because it would be silently ignored."""
    member_names = {name for name in dir(base) if not name.startswith("_")}
    # These have no default, so the base class does not have them.
    member_names.add("name")
    if base is Model:
        member_names.add("can")
    # Name of a member → the field of Design that it belongs to.
    design_fields: dict[str, str] = {}
    if base is Task:
        design_fields = {field.name: field.name for field in fields(Design)}
        design_fields["cluster"] = "clusters"
    for name, cls in _users_members(plugin):
        if name in member_names or name in _OLD_MEMBERS:
            continue
        problem = f"{cls.__name__}.{name} is not a member of lmassay.{base.__name__}"
        if name in design_fields:
            raise PluginError(f"{problem}; did you mean design = Design({design_fields[name]}=…)?")
        similar = difflib.get_close_matches(name, [*design_fields, *member_names], n=1, cutoff=_TYPO_SIMILARITY)
        # If the class also defines the member itself, the similar name is not a typo.
        if not similar or similar[0] in cls.__dict__:
            continue
        meant = f"'{similar[0]}'"
        if similar[0] in design_fields:
            meant = f"design = Design({design_fields[similar[0]]}=…)"
        raise PluginError(f"{problem}; did you mean {meant}? If it is your own, begin its name with an underscore")
    _refuse_typos_in_init(plugin, base, {*member_names, *design_fields})


def _refuse_typos_in_init(plugin: Task | Model, base: type, member_names: set[str]) -> None:
    """Refuse a misspelt member that ``__init__`` sets.

    An instance also stores its own data in attributes, so names of options (``self.metric = metric``) and plurals or
    singulars (``self.labels``) are not treated as typos.
    """
    cls = type(plugin)
    if cls.__module__.startswith("lmassay."):
        return
    attributes = {name for name in vars(plugin) if not name.startswith("_")}
    attributes -= member_names
    attributes -= {name for name, _ in _users_members(plugin)}
    attributes -= set(inspect.signature(cls.__init__).parameters)
    # A class of lmassay's own that the user's class extends may read attributes that are not in the contract.
    attributes -= _names_in_own_methods(cls)
    for name in sorted(attributes):
        similar = difflib.get_close_matches(name, sorted(member_names), n=1, cutoff=_TYPO_SIMILARITY)
        if not similar or similar[0] in vars(plugin) or similar[0].rstrip("s") == name.rstrip("s"):
            continue
        raise PluginError(
            f"{cls.__name__} sets self.{name}, which is not a member of lmassay.{base.__name__}; did you mean "
            f"'{similar[0]}'? If it is your own, begin its name with an underscore"
        )


def _names_in_own_methods(cls: type) -> set[str]:
    """Return the names that occur in methods of lmassay's own classes, which a user's class may extend."""
    names: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("lmassay."):
            continue
        for member in vars(base).values():
            code = getattr(member, "__code__", None)
            if code is not None:
                names.update(code.co_names)
    return names


def _users_members(plugin: object) -> Iterator[tuple[str, type]]:
    """Yield the public members that classes outside lmassay define, with the class."""
    for cls in type(plugin).__mro__:
        if cls.__module__.startswith("lmassay.") or cls.__module__ in ("builtins", "abc", "typing"):
            continue
        for name in cls.__dict__:
            if not name.startswith("_"):
                yield name, cls


def _defining_class(plugin: object, name: str) -> type | None:
    """Return the class that defines a member of a plug-in; None if it is only a default of the base class."""
    if name in getattr(plugin, "__dict__", {}):
        return type(plugin)
    for cls in type(plugin).__mro__:
        if name in cls.__dict__:
            if cls in (Task, Model, StoredAnswers):
                return None
            return cls
    return None
