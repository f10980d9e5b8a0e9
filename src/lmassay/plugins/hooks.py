"""Calls the hooks of evaluations. What goes wrong in one is a warning, and the command goes on without that part."""

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
"""Checks what a hook returns and gives it the type that the core uses; raises PluginError if it is something else."""


def call_hook(
    evaluation: Evaluation, name: str, hook: Hook, *arguments: Any, reads: Reader[T], otherwise: Callable[[], T]
) -> T:
    """What a hook returns. If it cannot be imported, raises, or returns something else: a warning, and ``otherwise``.

    ``name`` is the member of the evaluation that the hook stands in, such as ``section``.
    """
    try:
        return reads(resolve(hook)(*arguments))
    except BrokenPipeError:
        # Nobody reads the output any more. That ends the command.
        raise
    except (Exception, SystemExit) as error:
        if package_of(evaluation) == OWN_PACKAGE:
            # An error of lmassay's own is meant for the user, or is a bug to be reported with its traceback.
            raise
        part = f"{name} of the evaluation {evaluation.name}"
        warnings.warn(HookWarning(part, f"{hook_failure(evaluation, name, error)}; going on without it"), stacklevel=2)
        return otherwise()


def with_named_errors(evaluation: Evaluation, name: str, function: Callable[..., T] | None) -> Callable[..., T] | None:
    """A function of another package whose failure is an error that names it; our own failures are shown whole."""
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
    """Which hook of which package failed, and why, in one line."""
    package = package_of(evaluation)
    origin = f" (package {package})" if package else ""
    return f"{name} of the evaluation {evaluation.name}{origin} failed: {error_message(error)}"


def instance_of(kind: type[T]) -> Reader[T]:
    """A reader of hooks that return an object of a class."""

    def read(value: Any) -> T:
        if not isinstance(value, kind):
            raise PluginError(f"it returned {describe_value(value)}, not a {kind.__name__}")
        return value

    return read


def optional_instance_of(kind: type[T]) -> Reader[T | None]:
    """A reader of hooks that return an object of a class, or None."""
    read = instance_of(kind)

    def read_optional(value: Any) -> T | None:
        return None if value is None else read(value)

    return read_optional


def list_of(kind: type[Item]) -> Reader[list[Item]]:
    """A reader of hooks that return several objects of a class."""

    def read(value: Any) -> list[Item]:
        items = _items(value)
        for item in items:
            if not isinstance(item, kind):
                raise PluginError(
                    f"it returned a list with {describe_value(item)} in it, not {kind.__name__} objects only"
                )
        return items

    return read


def name_value_pairs(value: Any) -> list[tuple[str, Any]]:
    """A reader of hooks that return (name, value) pairs."""
    items = _items(value)
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
            raise PluginError(f"it returned a list with {describe_value(item)} in it, not (name, text) pairs only")
    return [(name, text) for name, text in items]


def any_value(value: Any) -> Any:
    """A reader of hooks whose return value is not used, or checked elsewhere."""
    return value


def _items(value: Any) -> list[Any]:
    if isinstance(value, str | bytes):
        raise PluginError(f"it returned {describe_value(value)}, not a list")
    try:
        return list(value)
    except TypeError:
        raise PluginError(f"it returned {describe_value(value)}, not a list") from None
