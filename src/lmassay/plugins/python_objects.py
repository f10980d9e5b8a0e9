"""Tasks and models that a Python program passes as objects, classes or functions.

While :func:`lmassay.evaluate` runs, each has a name such as ``python:MyTask``, which the configuration of the run
contains like the name of any other plug-in. Only the program has the object itself, so such a run cannot be repeated or
resumed from the command line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from lmassay.errors import PluginError
from lmassay.plugins.fingerprint import fingerprint

PREFIX = "python:"
"""The beginning of the name of every plug-in that was passed as an object."""


@dataclass(frozen=True, slots=True)
class PythonObject:
    """A plug-in that was passed as an object."""

    create: Callable[..., Any]
    """A class, or a function that returns the object."""
    source: str
    """A digest of its code and state; empty for lmassay's own classes, whose ``identity`` or ``signature`` covers what
    they depend on."""


@dataclass(slots=True)
class PythonObjects:
    """The plug-ins of one call of ``evaluate`` that are objects."""

    by_name: dict[str, PythonObject] = field(default_factory=dict)

    def add_object(self, kind: str, plugin: Any, name: str = "") -> str:
        """Give an object a name, by default that of its class, and return the name.

        Every run gets its own copy of the object, because a task remembers things about its model, and a model is
        closed after a run. The exception is the first run with a user's own model: it gets the object itself, so that
        the program can read from it, for example, how often it was called.
        """
        is_own = type(plugin).__module__.startswith("lmassay.")
        source = "" if is_own else f"src:{fingerprint(plugin).digest}"
        unused = copy.copy(plugin)
        originals = [plugin] if kind == "model" and not is_own else []

        def create() -> Any:
            return originals.pop() if originals else copy.copy(unused)

        return self._add(kind, name or type(plugin).__name__, PythonObject(create, source))

    def add_class(self, kind: str, cls: Callable[..., Any]) -> str:
        """Give a class, or a function that creates a plug-in, a name, and return the name."""
        is_own = cls.__module__.startswith("lmassay.")
        source = "" if is_own else f"src:{fingerprint(cls).digest}"
        return self._add(kind, cls.__name__, PythonObject(cls, source))

    def _add(self, kind: str, name: str, plugin: PythonObject) -> str:
        """Register a plug-in under a name that is not in use yet, and return the name."""
        plain_name = re.sub(r"\W+", "_", name).strip("_") or kind
        full_name = f"{PREFIX}{plain_name}"
        number = 2
        while full_name in self.by_name:
            full_name = f"{PREFIX}{plain_name}_{number}"
            number += 1
        self.by_name[full_name] = plugin
        return full_name

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the names of these objects valid in configurations within a ``with`` block."""
        token = _objects.set(self.by_name)
        try:
            yield
        finally:
            _objects.reset(token)


_objects: ContextVar[Mapping[str, PythonObject] | None] = ContextVar("lmassay_objects", default=None)


def is_python_object(spec: Any) -> bool:
    """Whether the description of a plug-in names an object of a Python program."""
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    return isinstance(name, str) and name.startswith(PREFIX)


def find_object(name: str) -> PythonObject:
    """Return the object with a name. Raises PluginError outside the call of ``evaluate`` that it belongs to."""
    plugin = (_objects.get() or {}).get(name)
    if plugin is None:
        raise PluginError(
            f"{name.removeprefix(PREFIX)} was passed to lmassay.evaluate in Python, so only that program can finish or "
            "repeat the run: call lmassay.evaluate again with the same objects; stored answers are reused"
        )
    return plugin
