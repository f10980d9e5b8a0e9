"""Describes the options of a plug-in for help texts: name, type, default and meaning.

They are read from the pydantic model that also checks them.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import annotated_types
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lmassay.contracts import Model, Task
from lmassay.plugins.options import inner_model, nested_kind, options_model

REQUIRED = "required"
# Stands for a value in an example.
_PLACEHOLDER = "…"
_NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    type(None): "none",
    Any: "any value",
}


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """One option of a plug-in."""

    name: str
    """The key; for an option in a group, with the name of the group in front: ``splits.k``."""
    type: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ComponentHelp:
    """What a command such as ``lmassay models NAME`` prints about a component."""

    options: Sequence[OptionHelp]
    example: str
    """A section of a configuration that uses the component."""


def component_help(kind: str, name: str, factory: Callable[..., Any]) -> ComponentHelp:
    """Explain a task, a model, or another component whose options are the parameters of its class."""
    return ComponentHelp(options_of(factory), example_of(kind, name, factory))


def options_of(factory: Callable[..., Any]) -> list[OptionHelp]:
    """Return all options of a class or function in their order. Each group is followed by the options in it."""
    meanings = _meanings(factory)
    options: list[OptionHelp] = []
    for name, field in options_model(factory).model_fields.items():
        options.append(_option(name, field, field.description or meanings.get(name, "")))
        group = inner_model(field.annotation)
        if group is not None:
            for inner_name, inner_field in group.model_fields.items():
                key = f"{name}.{inner_name}"
                options.append(_option(key, inner_field, inner_field.description or meanings.get(key, "")))
    return options


def with_meanings(options: Sequence[OptionHelp], meanings: Mapping[str, str]) -> list[OptionHelp]:
    """Return the options with meanings for those that have none yet."""
    explained = []
    for option in options:
        explained.append(replace(option, meaning=option.meaning or meanings.get(option.name, "")))
    return explained


def example_of(kind: str, name: str, factory: Callable[..., Any]) -> str:
    """Return an example for a configuration: the plug-in's own, or one with the required options only."""
    if isinstance(factory, type) and issubclass(factory, Task | Model) and factory.config_example:
        return factory.config_example
    return section_text(kind, {"name": name, **required_values(factory)})


def required_values(factory: Callable[..., Any]) -> dict[str, str]:
    """Return the required options of a class or function, with an ellipsis for each value."""
    fields = options_model(factory).model_fields
    return {name: _PLACEHOLDER for name, field in fields.items() if field.is_required()}


def example_values(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return all options that an example can show: with their defaults, and an ellipsis for required ones."""
    values: dict[str, Any] = {}
    for name, field in options_model(factory).model_fields.items():
        if field.is_required():
            values[name] = _PLACEHOLDER
        elif isinstance(field.default, str | bool | int | float):
            values[name] = field.default
    return values


def section_text(key: str, section: Mapping[str, Any]) -> str:
    """Return a section of a configuration in one line of YAML.

    >>> section_text("model", {"name": "hf", "model": "…"})
    'model: {name: hf, model: …}'
    """
    # A width without limit keeps it in one line.
    text = yaml.safe_dump(
        dict(section), default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return f"{key}: {text.strip()}"


def _meanings(factory: Callable[..., Any]) -> Mapping[str, str]:
    """Return the meanings of options that a class and its base classes state in ``option_help``."""
    meanings: dict[str, str] = {}
    if isinstance(factory, type):
        for base in reversed(inspect.getmro(factory)):
            if issubclass(base, Task | Model):
                meanings |= base.option_help
    return meanings


def _option(name: str, field: FieldInfo, meaning: str) -> OptionHelp:
    return OptionHelp(name, _type_text(field), _default_text(field), meaning)


def _type_text(field: FieldInfo) -> str:
    kind = nested_kind(field)
    if kind is not None:
        return f"{kind}: a name, or a mapping"
    bounds = [_bound_text(mark) for mark in field.metadata]
    return ", ".join([_annotation_text(field.annotation), *filter(None, bounds)])


def _bound_text(mark: Any) -> str:
    if isinstance(mark, annotated_types.Ge):
        return f"at least {mark.ge}"
    if isinstance(mark, annotated_types.Gt):
        return f"above {mark.gt}"
    if isinstance(mark, annotated_types.Le):
        return f"at most {mark.le}"
    if isinstance(mark, annotated_types.Lt):
        return f"below {mark.lt}"
    return ""


def _annotation_text(annotation: Any) -> str:
    """Return a type in the words of a configuration file.

    >>> _annotation_text(list[str] | None), _annotation_text(typing.Literal["a", "b"])
    ('list of text', 'a | b')
    """
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        bounds = [_bound_text(mark) for mark in _marks(arguments[1:])]
        return ", ".join([_annotation_text(arguments[0]), *filter(None, bounds)])
    if origin is typing.Literal:
        return " | ".join(str(value) for value in arguments)
    if origin in (typing.Union, types.UnionType):
        # None is not listed, because users leave an optional key out instead of writing null.
        texts = [_annotation_text(argument) for argument in arguments if argument is not type(None)]
        return " | ".join(dict.fromkeys(texts))
    if origin in (list, tuple) or annotation in (list, tuple):
        return f"list of {_annotation_text(arguments[0])}" if arguments else "list"
    if origin is dict or annotation is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "mapping"
    if annotation in _NAMES:
        return _NAMES[annotation]
    if isinstance(annotation, type):
        # A class with its own keys, usually a pydantic model.
        return "mapping"
    return "value"


def _marks(metadata: tuple[Any, ...]) -> list[Any]:
    marks: list[Any] = []
    for mark in metadata:
        # A Field inside a type has its bounds as a list.
        marks += mark.metadata if isinstance(mark, FieldInfo) else [mark]
    return marks


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    default = field.get_default(call_default_factory=True)
    if default is None or default == "" or isinstance(default, BaseModel):
        return ""
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, list | tuple):
        return f"[{', '.join(map(str, default))}]"
    return str(default)
