"""Calls the hooks of evaluations. If a plug-in's hook fails, the command warns and continues without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from lmassay.contracts import Evaluation, Hook, resolve
from lmassay.errors import HookWarning, LmassayError, PluginError, error_message
from lmassay.plugins.declarations import describe_value
from lmassay.plugins.evaluations import OWN_PACKAGE, package_of

T = TypeVar("T")
Item = TypeVar("Item")
Reader = Callable[[Any], T]
"""Checks the return value of a hook and converts it to the type that the core uses; raises PluginError if it cannot."""


def call_hook(
    evaluation: Evaluation, name: str, hook: Hook, *arguments: Any, reads: Reader[T], otherwise: Callable[[], T]
) -> T:
    """Call a hook with these arguments and return its value, which ``reads`` checks and converts.

    If a hook of another package cannot be imported, raises an exception or returns the wrong type, a warning is issued
    and the value of ``otherwise()`` is returned. Exceptions in lmassay's own hooks are raised. ``name`` is the member
    of the evaluation that contains the hook, such as ``section``.
    """
    try:
        return reads(resolve(hook)(*arguments))
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed the pipe. That ends the command.
        raise
    except (Exception, SystemExit) as error:
        if package_of(evaluation) == OWN_PACKAGE:
            # Errors in lmassay's own hooks tell the user what to do, or they are bugs, which need a traceback.
            raise
        part = f"{name} of the evaluation {evaluation.name}"
        message = f"{hook_failure(evaluation, name, error)}; continuing without it"
        warnings.warn(HookWarning(part, message), stacklevel=2)
        return otherwise()


def with_named_errors(evaluation: Evaluation, name: str, function: Callable[..., T] | None) -> Callable[..., T] | None:
    """Wrap a function of another package, so that an exception in it becomes a PluginError that names the function.

    ``name`` is the member of the evaluation that contains the function. Exceptions in lmassay's own functions are bugs
    and keep their traceback.
    """
    if function is None or package_of(evaluation) == OWN_PACKAGE:
        return function

    def call(*arguments: Any) -> T:
        try:
            return function(*arguments)
        except LmassayError:
            raise
        except Exception as error:
            raise PluginError(hook_failure(evaluation, name, error)) from error

    return call


def hook_failure(evaluation: Evaluation, name: str, error: BaseException) -> str:
    """Return in one line which hook of which package failed, and why."""
    package = package_of(evaluation)
    origin = f" (package {package})" if package else ""
    return f"{name} of the evaluation {evaluation.name}{origin} failed: {error_message(error)}"


def instance_of(kind: type[T]) -> Reader[T]:
    """Return a reader for hooks that return an object of a class."""

    def read(value: Any) -> T:
        if not isinstance(value, kind):
            raise PluginError(f"it returned {describe_value(value)}, not a {kind.__name__}")
        return value

    return read


def optional_instance_of(kind: type[T]) -> Reader[T | None]:
    """Return a reader for hooks that return an object of a class, or None."""
    read_instance = instance_of(kind)

    def read_optional(value: Any) -> T | None:
        if value is None:
            return None
        return read_instance(value)

    return read_optional


def list_of(kind: type[Item]) -> Reader[list[Item]]:
    """Return a reader for hooks that return several objects of a class."""

    def read(value: Any) -> list[Item]:
        items = _items(value)
        for item in items:
            if not isinstance(item, kind):
                raise PluginError(
                    f"it must return {kind.__name__} objects only, but its list contains {describe_value(item)}"
                )
        return items

    return read


def name_value_pairs(value: Any) -> list[tuple[str, Any]]:
    """Read the value of a hook that returns (name, value) pairs."""
    items = _items(value)
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
            raise PluginError(f"it must return (name, text) pairs only, but its list contains {describe_value(item)}")
    return [(name, item_value) for name, item_value in items]


def any_value(value: Any) -> Any:
    """Read the value of a hook whose return value is not used, or is checked elsewhere."""
    return value


def _items(value: Any) -> list[Any]:
    if isinstance(value, str | bytes):
        raise PluginError(f"it returned {describe_value(value)}, not a list")
    try:
        return list(value)
    except TypeError:
        raise PluginError(f"it returned {describe_value(value)}, not a list") from None
