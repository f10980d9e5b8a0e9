"""Tasks and models with their options, as they are passed to :func:`lmassay.evaluate`."""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmassay.contracts import Model, Task
from lmassay.errors import ConfigError, DataError
from lmassay.models.functions import FunctionModel
from lmassay.plugins.data_options import DataStorage
from lmassay.plugins.python_objects import PythonObjects
from lmassay.redaction import REDACTED, is_secret_option, shown_value
from lmassay.storage.in_memory import is_frame, rows_of

_MAX_SHOWN_ITEMS = 3


@dataclass(frozen=True, slots=True, repr=False)
class TaskOptions:
    """A task and its options; :func:`lmassay.task` creates it."""

    plugin: str | type[Task]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return _call_text("task", self.plugin, self.options)


@dataclass(frozen=True, slots=True, repr=False)
class ModelOptions:
    """A model and its options; :func:`lmassay.model` creates it."""

    plugin: str | type[Model]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return _call_text("model", self.plugin, self.options)


TaskLike = str | Mapping[str, Any] | TaskOptions | Task | type[Task]
"""A task: its name, a mapping with ``name`` and options, what :func:`lmassay.task` returns, an object or a class."""
ModelLike = str | Mapping[str, Any] | ModelOptions | Model | type[Model] | Callable[[list[str]], Any]
"""A model: its name, a mapping with ``name`` and options, what :func:`lmassay.model` returns, an object, a class, or a
function from prompts to answers."""


def task(plugin: str | type[Task], /, **options: Any) -> TaskOptions:
    """Return a task with options for :func:`lmassay.evaluate`.

    ``plugin`` is a name that ``lmassay tasks`` lists, ``file.py:Name``, or a class. An option for a data file also
    takes the data: a list of texts or rows, a data frame, or a column of one. An option for a plug-in, such as a
    scorer, also takes a function or a class. If an option expects any other single value, a list starts one run per
    item.

    >>> task("robustness", src=["Hello world."], attack="charswap")
    task('robustness', src=['Hello world.'], attack='charswap')
    """
    return TaskOptions(plugin, options)


def model(
    plugin: str | type[Model] | Callable[[list[str]], Any] | None = None, /, **options: Any
) -> ModelOptions | FunctionModel:
    """Return a model with options for :func:`lmassay.evaluate`.

    ``plugin`` is a name that ``lmassay models`` lists, ``file.py:Name``, a class, or a function from a list of prompts
    to a list of answers. Without it, pass functions as options such as ``generate``; see
    :class:`lmassay.FunctionModel`.

    >>> model("hf", model="gpt2")
    model('hf', model='gpt2')
    >>> model(lambda prompts: [prompt.upper() for prompt in prompts], name="upper").name
    'upper'
    """
    if plugin is None:
        return FunctionModel(**options)
    if isinstance(plugin, str | type):
        return ModelOptions(plugin, options)
    return FunctionModel(plugin, **options)


def specs_of(kind: str, value: Any, objects: PythonObjects, storage: DataStorage) -> Any:
    """Describe a task or model (``kind``) as a configuration does, and return the description, or a list of them.

    Objects, classes and functions are added to ``objects`` and described by their names there. Data, such as lists of
    texts, are written to files by ``storage`` and described by their paths.
    """
    if isinstance(value, list | tuple):
        if not value:
            raise ConfigError(f"{kind}: the list is empty; give at least one {kind}")
        items = list(value)
        if kind == "model":
            items = _with_distinct_names(items)
        specs: list[Any] = []
        for item in items:
            spec = specs_of(kind, item, objects, storage)
            # An item may itself be a list, but a configuration has one flat list.
            specs += spec if isinstance(spec, list) else [spec]
        return specs
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        # As in a YAML file, a list in a mapping starts several runs; it is not data.
        in_configuration = DataStorage(storage.results, storage.base, lists_are_data=False)
        return in_configuration.store(kind, _with_names(value, objects))
    if isinstance(value, TaskOptions | ModelOptions):
        _check_kind(kind, value)
        name = value.plugin if isinstance(value.plugin, str) else objects.add_class(kind, value.plugin)
        options = _with_names(value.options, objects)
        with objects.active():
            return storage.store(kind, {"name": name, **options})
    if isinstance(value, type):
        return objects.add_class(kind, value)
    if isinstance(value, FunctionModel):
        _check_kind(kind, value)
        return objects.add_object(kind, value, value.name)
    if isinstance(value, Task | Model):
        _check_kind(kind, value)
        return objects.add_object(kind, value)
    if is_frame(value):
        raise ConfigError(f"{kind}: this is a data frame; give it as an option: lmassay.task(name, data=…)")
    if kind == "model" and callable(value):
        return specs_of(kind, FunctionModel(value), objects, storage)
    raise ConfigError(
        f"{kind}: give a name, a mapping with the key 'name', or a {kind} object; got {shown_value(value)}"
    )


def _with_names(options: Mapping[str, Any], objects: PythonObjects) -> dict[str, Any]:
    """Return options in which functions and classes, such as a scorer, are replaced by their names in ``objects``."""
    named: dict[str, Any] = {}
    for option, value in options.items():
        if _is_function_or_class(value):
            named[option] = objects.add_class(option, value)
        elif isinstance(value, Mapping):
            named[option] = _with_names(value, objects)
        elif isinstance(value, list | tuple) and any(map(_has_function_or_class, value)):
            named[option] = [_with_names({option: item}, objects)[option] for item in value]
        else:
            named[option] = value
    return named


def _is_function_or_class(value: Any) -> bool:
    return isinstance(value, type) or inspect.isfunction(value)


def _has_function_or_class(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_function_or_class, value.values()))
    return _is_function_or_class(value)


def _with_distinct_names(models: Sequence[Any]) -> list[Any]:
    """Return models in which the labels of functions with the same name, such as lambdas, are numbered."""
    wrapped = []
    for item in models:
        is_function = callable(item) and not isinstance(item, type | Model | ModelOptions)
        wrapped.append(FunctionModel(item) if is_function else item)
    names = [item.name for item in wrapped if isinstance(item, FunctionModel)]
    numbers: Counter[str] = Counter()
    distinct: list[Any] = []
    for item in wrapped:
        if isinstance(item, FunctionModel) and names.count(item.name) > 1:
            numbers[item.name] += 1
            # A copy, because the caller may also use the model alone, where it needs no number.
            numbered = copy.copy(item)
            numbered.label = f"{item.name} {numbers[item.name]}"
            distinct.append(numbered)
        else:
            distinct.append(item)
    return distinct


def _check_kind(kind: str, value: Any) -> None:
    """Raise a ConfigError if a model was given in place of a task, or a task in place of a model."""
    is_task = isinstance(value, Task | TaskOptions)
    if is_task != (kind == "task"):
        other = "task" if is_task else "model"
        raise ConfigError(f"{kind}: this is a {other}; write lmassay.evaluate(task, model)")


def _call_text(function: str, plugin: str | type, options: Mapping[str, Any]) -> str:
    """Return the text of a call of ``lmassay.task`` or ``lmassay.model``, for a repr."""
    arguments = [repr(plugin) if isinstance(plugin, str) else plugin.__name__]
    for name, value in options.items():
        # Notebooks are often shared together with their outputs, so secrets must not be in them.
        arguments.append(f"{name}={REDACTED}" if is_secret_option(name) else f"{name}={_short(value)}")
    return f"{function}({', '.join(arguments)})"


def _short(value: Any) -> str:
    """Return the value of an option as short text, without secrets."""
    if is_frame(value):
        return _frame_text(value)
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > _MAX_SHOWN_ITEMS:
        return f"<{len(value)} items>"
    return shown_value(value)


def _frame_text(value: Any) -> str:
    try:
        return repr(rows_of(value, "data")) if len(value) else "<no rows>"
    except (DataError, TypeError):
        # A repr must not raise. Unusable data are reported when the task reads them.
        return f"<{type(value).__name__}>"
