"""Reads YAML configurations and expands them into checked runs.

If a list is given where a single value is expected, there is one run per item::

    task: {name: robustness, src: src.fr, attack: [charswap, homoglyph]}   # two attacks: two runs
    model: {name: openai, base_url: "http://127.0.0.1:8000/v1", model: nmt}
    seed: [1, 2]                                                           # times two seeds: four runs

``${task.attack.name}`` stands for another value of the same run, ``${NAME}`` for an environment variable. All mistakes
are reported at once, each with its key and line.
"""

from __future__ import annotations

import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lmassay.errors import ConfigError, LmassayError, PluginError, did_you_mean
from lmassay.plugins.options import (
    Spec,
    build,
    inner_model,
    nested_kind,
    options_model,
    refuse_written_keys,
    secret_messages,
    split_spec,
    validation_messages,
)
from lmassay.plugins.registry import current_registry
from lmassay.redaction import is_secret_option, shown_value
from lmassay.running.differences import ABSENT, value_text
from lmassay.statistics.intervals import Settings
from lmassay.storage.file_names import paths_spelled_on_disk, spelled_on_disk
from lmassay.storage.yamlfile import YamlFile, read_brackets, read_mapping

MAX_RUNS = 10_000
"""The largest number of runs that one configuration may expand to."""
_TOO_MANY = f"this expands to more than {MAX_RUNS} runs; shorten the lists"
_ANY_REFERENCE = re.compile(r"\$\{[^}]*\}?")
_ENVIRONMENT = re.compile(r"\$\{[A-Z][A-Z0-9_]*\}")
_REFERENCE = re.compile(r"\$\{([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)\}")
# A reference may point to a value that contains a reference. This many levels are resolved; deeper ones are most
# likely a circle, and are refused.
_MAX_REFERENCE_DEPTH = 5
# How many replaced values a warning lists.
_MOST_REPLACED = 6

Locate = Callable[[str], str]
"""Puts file and line in front of a message that begins with a key."""


class BudgetConfig(BaseModel):
    """What all runs of a command together may spend on models behind an API."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=1, strict=True)


class RunConfig(BaseModel):
    """The configuration of one run, as it is stored with its results."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    """The name of the configuration; by default that of its file."""
    task: str | dict[str, Any]
    model: str | dict[str, Any] | None = None
    seed: int = Field(default=0, ge=0, strict=True)
    """The seed of bootstrap resamples and sampled answers. It is part of the cache keys, so another seed means new
    answers."""
    limit: int | None = Field(default=None, ge=1, le=10**15, strict=True)
    """Only this many examples are used, the first ones; None for all."""
    samples: int = Field(default=1, ge=1, le=1000, strict=True)
    """How often each example is asked; see :mod:`lmassay.running.sampling`."""
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The temperature of generated answers; None for that of the task."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """The confidence level of intervals."""
    resamples: int = Field(default=2000, ge=100, le=1_000_000, strict=True)
    """The number of bootstrap resamples, for intervals that are computed by bootstrap."""
    budget: BudgetConfig | None = None
    base_dir: Path = Path()
    """The folder that relative paths start from."""
    unresolved: dict[str, Any] = Field(default={}, exclude=True, repr=False)
    """The run as written in its file, before references such as ``${task.attack.name}`` are replaced. Labels compare
    this form, because an option that refers to another one is not varied independently. It is not stored."""

    @property
    def settings(self) -> Settings:
        """How intervals are computed."""
        return Settings(self.confidence, self.resamples, self.seed)

    def build_task(self) -> Any:
        """Create the task."""
        return build("task", self.task, self.base_dir)

    def build_model(self) -> Any:
        """Create the model; None if the configuration names none."""
        if self.model is None:
            return None
        return build("model", self.model, self.base_dir)


_KEYS = frozenset(RunConfig.model_fields) - {"unresolved"}


class ConfigFile(YamlFile):
    """A configuration file. The inherited method ``locate`` adds file and line to a message about a key."""

    __slots__ = ()

    def runs(self) -> list[RunConfig]:
        """Return a checked run for every combination of the lists in the file."""
        return expand(self.data, self.path.resolve().parent, self.locate, default_name=self.path.stem)


def read_config(
    path: Path, overrides: Sequence[str] = (), limit: int | None = None, warn: Callable[[str], None] | None = None
) -> ConfigFile:
    """Read a configuration file and apply overrides of the form ``key=value``.

    ``limit`` replaces the value of the key ``limit``. ``warn`` receives a message if an override replaces different
    values of the entries of a list.
    """
    path = spelled_on_disk(path)
    file = ConfigFile(path, *read_mapping(path))
    for override in overrides:
        replaced = _apply_override(file.data, override)
        if len(replaced) > 1 and warn is not None:
            warn(_several_replaced(override, replaced))
    if limit is not None:
        file.data["limit"] = limit
    return replace(file, overridden=frozenset(override.partition("=")[0].strip() for override in overrides))


def load_runs(path: Path, overrides: Sequence[str] = (), limit: int | None = None) -> list[RunConfig]:
    """Return the checked runs of a configuration file."""
    return read_config(path, overrides, limit).runs()


def expand(data: dict[str, Any], base: Path, locate: Locate = str, default_name: str = "") -> list[RunConfig]:
    """Return a checked run for every combination of the lists in ``data``.

    Relative paths start at ``base``. All mistakes are reported in one ConfigError, one per line; ``locate`` adds file
    and line to each. ``default_name`` is the name of the runs if ``data`` has no name.
    """
    messages = _top_level_messages(data)
    data = {key: value for key, value in data.items() if key in _KEYS}
    try:
        base = base_folder(data.pop("base_dir", None), base)
    except ConfigError as error:
        messages.append(str(error))
    axes, axis_errors = _axes(data, base)
    for axis_error in axis_errors:
        messages += str(axis_error).split("\n")
    runs: list[RunConfig] = []
    for count, unresolved in enumerate(_combinations(axes)):
        if count >= MAX_RUNS:
            raise ConfigError(locate(_TOO_MANY))
        resolved: dict[str, Any] = {}
        for key, value in unresolved.items():
            try:
                resolved[key] = _resolve_references(value, unresolved, key)
            except ConfigError as error:
                messages.append(str(error))
        resolved = paths_spelled_on_disk(resolved, base)
        messages += _run_messages(resolved, base)
        # Keys with mistakes are left out here. The empty task avoids a second message, about a missing task.
        fields = {"name": default_name, "task": "", **resolved, "base_dir": base, "unresolved": unresolved}
        try:
            runs.append(RunConfig.model_validate(fields))
        except ValidationError as error:
            messages += validation_messages(error, RunConfig, "")
    if messages:
        # Runs of a sweep share most of their keys, and so their mistakes. Each is reported once.
        distinct = dict.fromkeys(messages)
        # `lmassay card` leaves out an evaluation whose package is broken. It recognises this by the cause of the error.
        plugin_error = next((error for error in axis_errors if isinstance(error, PluginError)), None)
        raise ConfigError("\n".join(locate(message) for message in distinct)) from plugin_error
    return runs


def _run_messages(resolved: Mapping[str, Any], base: Path) -> list[str]:
    """Return messages for mistakes in the task and the model of a run, and for a secret in its name."""
    messages: list[str] = []
    try:
        refuse_written_keys(str(resolved.get("name", "")), "name")
    except ConfigError as error:
        messages.append(str(error))
    for kind in ("task", "model"):
        messages += _option_messages(kind, resolved.get(kind), base)
    return messages


def base_folder(folder: Any, base: Path) -> Path:
    """Return the folder that relative paths start from: that of the configuration, unless it names another."""
    if folder is None:
        return base
    if not isinstance(folder, str) or not (base / folder).is_dir():
        raise ConfigError(f"base_dir: there is no folder {folder!r}; relative paths start there")
    return (base / folder).resolve()


def _top_level_messages(data: Mapping[str, Any]) -> list[str]:
    messages = []
    for key in data:
        if key not in _KEYS:
            messages.append(f"{key}: unknown key{did_you_mean(str(key), _KEYS)}")
    if "task" not in data:
        messages.append("task: this key is required; see `lmassay tasks`")
    return messages


# --- lists: one run per combination -----------------------------------------------------------------------------------


Axis = list[tuple[str, Any]]
"""The values of one key, each as a pair of key and value."""


def _axes(data: Mapping[str, Any], base: Path) -> tuple[list[Axis], list[LmassayError]]:
    """Return an axis for every key that has no mistakes, and the errors of the others."""
    axes: list[Axis] = []
    errors: list[LmassayError] = []
    for key, value in data.items():
        choices: list[Any] = _as_list(value)
        if key in ("task", "model"):
            try:
                # One more than allowed, to notice that there are too many.
                choices = list(itertools.islice(_spec_choices(key, value, base), MAX_RUNS + 1))
            except LmassayError as error:
                errors.append(error)
                continue
        if not choices:
            errors.append(ConfigError(f"{key}: the list is empty; give at least one value"))
        elif len(choices) > MAX_RUNS:
            errors.append(ConfigError(f"{key}: {_TOO_MANY}"))
        else:
            axes.append([(key, choice) for choice in choices])
    return axes, errors


def _combinations(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the listed values."""
    for combination in itertools.product(*axes):
        yield dict(combination)


def _spec_choices(kind: str, value: Any, base: Path, key: str = "") -> Iterator[Any]:
    """Yield every plug-in that a value describes: each item of a list, and each combination of listed options."""
    key = key or kind
    for spec in _as_list(value):
        if spec is None or isinstance(spec, str):
            yield spec
            continue
        if not isinstance(spec, dict) or "name" not in spec:
            raise ConfigError(f"{key}: give a name, or a mapping with the key 'name'; got {shown_value(spec)}")
        for name in _as_list(spec["name"]):
            if not isinstance(name, str):
                raise ConfigError(f"{key}.name: must be a string; got {name!r}")
            model = options_model(_plugin(kind, name, base, key))
            yield from _dict_choices({**spec, "name": name}, model, key, base, skip=("name",))


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value]


def _plugin(kind: str, name: str, base: Path, key: str = "") -> Any:
    try:
        return current_registry().get(kind, name, base)
    except PluginError as error:
        raise PluginError(f"{key or kind}.name: {error}") from error


def _dict_choices(
    data: dict[str, Any], model: type[BaseModel], path: str, base: Path, skip: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of a mapping whose keys are described by a pydantic model.

    The values of the keys in ``skip`` are taken as they are.
    """
    axes = []
    for key, value in data.items():
        field = model.model_fields.get(key)
        if key in skip or field is None:
            # Unknown keys are reported later, together with other mistakes.
            axes.append([(key, value)])
            continue
        inner_path = f"{path}.{key}"
        choices = list(_value_choices(value, field, inner_path, base))
        if not choices:
            raise ConfigError(f"{inner_path}: the list is empty; give at least one value")
        axes.append([(key, choice) for choice in choices])
    for combination in itertools.product(*axes):
        yield dict(combination)


def _value_choices(value: Any, field: Any, path: str, base: Path) -> Iterator[Any]:
    """Yield the values that an option takes in the runs of a sweep, one after the other."""
    plugin_kind = nested_kind(field)
    if plugin_kind is not None:
        yield from _spec_choices(plugin_kind, value, base, path)
        return
    if isinstance(value, list) and not takes_list(field.annotation):
        for item in value:
            yield from _value_choices(item, field, path, base)
        return
    model = inner_model(field.annotation)
    if isinstance(value, dict) and model is not None:
        yield from _dict_choices(value, model, path, base)
        return
    yield value


def takes_list(annotation: Any) -> bool:
    """Return whether a list is a single value of an option with this type, rather than several values to try."""
    if annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(takes_list(part) for part in typing.get_args(annotation))
    if origin is typing.Annotated:
        return takes_list(typing.get_args(annotation)[0])
    kind = origin or annotation
    if not isinstance(kind, type) or issubclass(kind, str | bytes):
        return False
    return issubclass(kind, Sequence | set | frozenset)


def _option_messages(kind: str, spec: Spec | None, base: Path, key: str = "") -> list[str]:
    """Return messages for mistakes in the options of a plug-in, and in the options of plug-ins nested in it."""
    if spec is None:
        return []
    key = key or kind
    try:
        name, options = split_spec(spec, key)
        model = options_model(_plugin(kind, name, base, key))
    except LmassayError as error:
        return [str(error)]
    messages: list[str] = []
    try:
        model.model_validate(options)
    except ValidationError as error:
        messages += validation_messages(error, model, key)
    messages += secret_messages(options, model, key)
    for option, field in model.model_fields.items():
        inner_kind = nested_kind(field)
        if option in options and inner_kind:
            messages += _option_messages(inner_kind, options[option], base, f"{key}.{option}")
    return messages


# --- references -------------------------------------------------------------------------------------------------------


def _resolve_references(value: Any, root: Mapping[str, Any], path: str = "") -> Any:
    """Replace references in all texts of a run; refuse values that cannot be stored as JSON."""
    if isinstance(value, str):
        return _resolved_text(value, root, path)
    if isinstance(value, dict):
        resolved = {}
        for key, inner in value.items():
            resolved[key] = _resolve_references(inner, root, f"{path}.{key}".strip("."))
        return resolved
    if isinstance(value, list | tuple):
        return [_resolve_references(item, root, path) for item in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        # A configuration from Python may contain numpy scalars.
        return _resolve_references(value.item(), root, path)
    is_finite = not isinstance(value, float) or isfinite(value)
    if not isinstance(value, bool | int | float | Path | None) or not is_finite:
        # For example, YAML reads 2026-01-01 as a date.
        raise ConfigError(
            f"{path}: {value} is not a text, finite number, list or mapping; if it is a text, put it in quotes"
        )
    return value


def _resolved_text(text: str, root: Mapping[str, Any], path: str) -> str:
    """Replace the references in a text. Raises a ConfigError for those that cannot be replaced."""
    for _ in range(_MAX_REFERENCE_DEPTH):
        if not _REFERENCE.search(text):
            break
        text = _REFERENCE.sub(lambda match: _referenced_value(match[1], root, path), text)
    for unresolved in _ANY_REFERENCE.findall(text):
        if _REFERENCE.fullmatch(unresolved):
            raise ConfigError(
                f"{path}: '{unresolved}' refers to itself through other keys, or through more than "
                f"{_MAX_REFERENCE_DEPTH} of them; write the value itself"
            )
        # Environment variables are filled in when the plug-in is built, so that secrets are not stored.
        if not _ENVIRONMENT.fullmatch(unresolved):
            raise ConfigError(
                f"{path}: '{unresolved}' is neither a key of this configuration nor a variable like ${{NAME}}"
            )
    return text


def _referenced_value(target: str, root: Mapping[str, Any], path: str) -> str:
    """Return the value that a reference such as ``task.attack.name`` stands for, as text."""
    value: Any = root
    for part in target.split("."):
        # `attack: charswap` is short for `attack: {name: charswap}`.
        if isinstance(value, str) and part == "name":
            continue
        if not isinstance(value, Mapping) or part not in value:
            raise ConfigError(f"{path}: '${{{target}}}' refers to a key that this configuration does not have")
        value = value[part]
    if isinstance(value, Mapping | list):
        raise ConfigError(f"{path}: '${{{target}}}' must refer to a single value")
    return str(value)


# --- overrides --------------------------------------------------------------------------------------------------------


def _apply_override(data: dict[str, Any], override: str) -> list[Any]:
    """Set a key, and return the different values that it had before."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: write key=value, e.g. --set task.success_threshold=1.2")
    replaced: list[Any] = []
    _set_key(data, key.strip().split("."), set_value(text, override), override, replaced)
    distinct: list[Any] = []
    for value in replaced:
        if value not in distinct:
            distinct.append(value)
    return distinct


def _several_replaced(override: str, replaced: Sequence[Any]) -> str:
    """Return the warning about an override that replaced different values."""
    key = override.partition("=")[0]
    if is_secret_option(key.rpartition(".")[2]):
        return f"--set {key} replaces {len(replaced)} different values in the entries of a list"
    texts = [value_text(value) for value in replaced[:_MOST_REPLACED]]
    if len(replaced) > _MOST_REPLACED:
        texts.append("…")
    return (
        f"--set {override} replaces {len(replaced)} different values in the entries of a list ({', '.join(texts)}); "
        f"to run only some of the entries, use --only {key}=VALUE"
    )


def set_value(text: str, override: str, option: str = "--set") -> Any:
    """Return the value in ``--set key=value``.

    It can be a list or mapping in brackets, a number, true, false or null. Everything else is plain text. Error
    messages begin with ``option`` and the key of ``override``.
    """
    if text.lstrip()[:1] in ("[", "{"):
        return read_brackets(text, f"{option} {override.partition('=')[0]}")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        # A sentence, or something that looks like a date but is not one.
        return text
    if isinstance(value, dict | list):
        # `Translate: {x}` is a sentence, although YAML reads it as a mapping.
        return text
    return value


def _set_key(data: Any, path: list[str], value: Any, override: str, replaced: list[Any]) -> None:
    """Set a key in a configuration; in a list of plug-ins, set it in each of them.

    The values that the key had before are added to ``replaced``.
    """
    if isinstance(data, list):
        for index, item in enumerate(data):
            if isinstance(item, str):
                # `robustness` is short for `{name: robustness}`, to which options can be added.
                data[index] = {"name": item}
            _set_key(data[index], path, value, override, replaced)
        return
    if not isinstance(data, dict):
        # The override may come from another option, such as --budget-usd.
        key = override.partition("=")[0].strip()
        outer = key.removesuffix("." + ".".join(path))
        raise ConfigError(f"{outer}: must be a mapping, name: value, so that {key} can be set")
    key, *remaining = path
    if not remaining:
        replaced.append(data.get(key, ABSENT))
        data[key] = value
        return
    inner = data.get(key)
    if inner is None:
        inner = {}
    elif isinstance(inner, str):
        inner = {"name": inner}
    data[key] = inner
    _set_key(inner, remaining, value, override, replaced)
