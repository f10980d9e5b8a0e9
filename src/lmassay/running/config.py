"""YAML to checked runs. All mistakes are reported at once, each with its key and line; lists expand to runs.

A configuration::

    task: {name: robustness, src: src.fr, attack: [charswap, homoglyph]}   # a list where one value is due: two runs
    model: {name: openai, base_url: "http://127.0.0.1:8000/v1", model: nmt}
    seed: [1, 2]                                                           # times two: four runs

``${task.attack.name}`` stands for another value of the same run, ``${NAME}`` for an environment variable.
"""

from __future__ import annotations

import itertools
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
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
    split_spec,
    validation_messages,
)
from lmassay.plugins.registry import current_registry
from lmassay.statistics.intervals import Settings
from lmassay.storage.yamlfile import YamlFile, read_brackets, read_mapping

MAX_RUNS = 10_000
_TOO_MANY = f"this expands to more than {MAX_RUNS} runs; shorten the lists"
_ANY_REFERENCE = re.compile(r"\$\{[^}]*\}?")
_ENVIRONMENT = re.compile(r"\$\{[A-Z][A-Z0-9_]*\}")
_REFERENCE = re.compile(r"\$\{([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)\}")


class BudgetConfig(BaseModel):
    """What all runs of a command together may spend on models behind an API."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=1, strict=True)


class RunConfig(BaseModel):
    """One run, as the store keeps it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    task: str | dict[str, Any]
    model: str | dict[str, Any] | None = None
    seed: int = Field(default=0, ge=0, strict=True)
    limit: int | None = Field(default=None, ge=1, le=10**15, strict=True)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    resamples: int = Field(default=2000, ge=100, le=1_000_000, strict=True)
    budget: BudgetConfig | None = None
    base_dir: Path = Path()
    written: dict[str, Any] = Field(default={}, exclude=True, repr=False)
    """The run as its file has it, before references such as ``${task.attack.name}`` are filled in. Labels compare this,
    because an option that follows another one is not varied by itself. It is not stored."""

    @property
    def settings(self) -> Settings:
        return Settings(self.confidence, self.resamples, self.seed)

    def build_task(self) -> Any:
        return build("task", self.task, self.base_dir)

    def build_model(self) -> Any:
        return None if self.model is None else build("model", self.model, self.base_dir)


class ConfigFile(YamlFile):
    """A configuration as written; :meth:`locate` shows a mistake in its place."""

    __slots__ = ()

    def runs(self) -> list[RunConfig]:
        """A checked run for every combination of its lists."""
        return expand(self.data, self.path.resolve().parent, self.locate, default_name=self.path.stem)


def read_config(path: Path, overrides: Sequence[str] = (), limit: int | None = None) -> ConfigFile:
    """Read a configuration and apply ``key=value`` overrides."""
    file = ConfigFile(path, *read_mapping(path))
    for override in overrides:
        _override(file.data, override)
    if limit is not None:
        file.data["limit"] = limit
    return file


def load_runs(path: Path, overrides: Sequence[str] = (), limit: int | None = None) -> list[RunConfig]:
    """The runs of a configuration file."""
    return read_config(path, overrides, limit).runs()


def expand(
    data: dict[str, Any],
    base: Path,
    locate: typing.Callable[[str], str] = str,
    default_name: str = "",
) -> list[RunConfig]:
    """A checked run for every combination of the listed values; all mistakes are reported together."""
    _check_top_level(data, locate)
    data = dict(data)
    base = _base(data.pop("base_dir", None), base, locate)
    mistakes: list[str] = []
    runs: list[RunConfig] = []
    for count, plain in enumerate(_combinations(data, base, locate)):
        if count >= MAX_RUNS:
            raise ConfigError(locate(_TOO_MANY))
        try:
            referred = _resolve_references(plain, plain)
        except ConfigError as error:
            mistakes.append(str(error))
            continue
        for kind in ("task", "model"):
            mistakes += _option_mistakes(kind, referred.get(kind), base)
        try:
            known = {"name": default_name, **referred, "base_dir": base, "written": plain}
            runs.append(RunConfig.model_validate(known))
        except ValidationError as error:
            mistakes += validation_messages(error, RunConfig, "")
    if mistakes:
        raise ConfigError("\n".join(locate(line) for line in dict.fromkeys(mistakes)))
    return runs


def _base(folder: Any, base: Path, locate: typing.Callable[[str], str]) -> Path:
    """Where relative paths start: at the configuration's own folder unless it names another."""
    if folder is None:
        return base
    if not isinstance(folder, str) or not (base / folder).is_dir():
        raise ConfigError(locate(f"base_dir: there is no folder {folder!r}; relative paths start there"))
    return (base / folder).resolve()


def _check_top_level(data: dict[str, Any], locate: typing.Callable[[str], str]) -> None:
    known = set(RunConfig.model_fields) - {"written"}
    unknown = [key for key in data if key not in known]
    if unknown:
        raise ConfigError("\n".join(locate(f"{k}: unknown key{did_you_mean(str(k), known)}") for k in unknown))
    if "task" not in data:
        raise ConfigError(locate("task: this key is required; see `lmassay tasks`"))


def _combinations(data: dict[str, Any], base: Path, locate: typing.Callable[[str], str]) -> Iterator[dict[str, Any]]:
    axes: list[list[tuple[str, Any]]] = []
    for key, value in data.items():
        if key in ("task", "model"):
            try:
                choices = list(itertools.islice(_spec_choices(key, value, base), MAX_RUNS + 1))
            except LmassayError as error:
                raise ConfigError("\n".join(locate(line) for line in str(error).split("\n"))) from error
        else:
            choices = value if isinstance(value, list) else [value]
        if not choices:
            raise ConfigError(locate(f"{key}: the list is empty; give at least one value"))
        if len(choices) > MAX_RUNS:
            raise ConfigError(locate(f"{key}: {_TOO_MANY}"))
        axes.append([(key, choice) for choice in choices])
    for combination in itertools.product(*axes):
        yield dict(combination)


def _spec_choices(kind: str, value: Any, base: Path, key: str = "") -> Iterator[Any]:
    """Every plug-in that a value stands for: a list of them, and lists among their options."""
    key = key or kind
    for spec in value if isinstance(value, list) else [value]:
        if spec is None or isinstance(spec, str):
            yield spec
            continue
        if not isinstance(spec, dict) or "name" not in spec:
            raise ConfigError(f"{key}: give a name, or a mapping with the key 'name'; got {spec!r}")
        for name in spec["name"] if isinstance(spec["name"], list) else [spec["name"]]:
            if not isinstance(name, str):
                raise ConfigError(f"{key}.name: must be a string; got {name!r}")
            model = options_model(_plugin(kind, name, base, key))
            yield from _dict_choices({**spec, "name": name}, model, key, base, skip=("name",))


def _plugin(kind: str, name: str, base: Path, key: str = "") -> Any:
    try:
        return current_registry().get(kind, name, base)
    except PluginError as error:
        raise PluginError(f"{key or kind}.name: {error}") from error


def _dict_choices(
    data: dict[str, Any], model: type[BaseModel], path: str, base: Path, skip: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    axes = []
    for key, value in data.items():
        field = model.model_fields.get(key)
        inside = f"{path}.{key}"
        choices = [value] if key in skip or field is None else list(_choices(value, field, inside, base))
        if not choices:
            raise ConfigError(f"{inside}: the list is empty; give at least one value")
        axes.append([(key, choice) for choice in choices])
    for combination in itertools.product(*axes):
        yield dict(combination)


def _choices(value: Any, field: Any, path: str, base: Path) -> Iterator[Any]:
    plug_in = nested_kind(field)
    if plug_in is not None:
        yield from _spec_choices(plug_in, value, base, path)
        return
    if isinstance(value, list) and not takes_list(field.annotation):
        for item in value:
            yield from _choices(item, field, path, base)
        return
    model = inner_model(field.annotation)
    if isinstance(value, dict) and model is not None:
        yield from _dict_choices(value, model, path, base)
        return
    yield value


def takes_list(annotation: Any) -> bool:
    """Whether a list is one value of such an option, and not a list of values to be tried."""
    if annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(takes_list(part) for part in typing.get_args(annotation))
    if origin is typing.Annotated:
        return takes_list(typing.get_args(annotation)[0])
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, Sequence | set | frozenset) and not issubclass(kind, str | bytes)


def _option_mistakes(kind: str, spec: Spec | None, base: Path, key: str = "") -> list[str]:
    if spec is None:
        return []
    key = key or kind
    try:
        name, options = split_spec(spec, key)
        model = options_model(_plugin(kind, name, base, key))
        model.model_validate(options)
    except ValidationError as error:
        return validation_messages(error, model, key)
    except LmassayError as error:
        return [str(error)]
    inner = [(n, nested_kind(field)) for n, field in model.model_fields.items() if n in options]
    return [
        line for n, plug_in in inner if plug_in for line in _option_mistakes(plug_in, options[n], base, f"{key}.{n}")
    ]


def _resolve_references(value: Any, root: Mapping[str, Any], path: str = "") -> Any:
    if isinstance(value, str):
        return _resolved_text(value, root, path)
    if isinstance(value, dict):
        return {k: _resolve_references(v, root, f"{path}.{k}".strip(".")) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_resolve_references(v, root, path) for v in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return _resolve_references(value.item(), root, path)
    if not isinstance(value, bool | int | float | Path | None) or (isinstance(value, float) and not isfinite(value)):
        # YAML reads 2026-01-01 as a date; what is no JSON cannot be kept with the results.
        raise ConfigError(f"{path}: {value} is no text, finite number, list or mapping; if a text, put it in quotes")
    return value


def _resolved_text(text: str, root: Mapping[str, Any], path: str) -> str:
    # What is referred to may itself refer; a circle ends after a few rounds.
    for _ in range(5):
        if not _REFERENCE.search(text):
            break
        text = _REFERENCE.sub(lambda match: _referred(match[1], root, path), text)
    for left in _ANY_REFERENCE.findall(text):
        if not _ENVIRONMENT.fullmatch(left):
            raise ConfigError(f"{path}: '{left}' is neither a key of this configuration nor a variable like ${{NAME}}")
    return text


def _referred(target: str, root: Mapping[str, Any], path: str) -> str:
    found: Any = root
    for part in target.split("."):
        # `attack: charswap` is short for `attack: {name: charswap}`.
        if isinstance(found, str) and part == "name":
            continue
        if not isinstance(found, Mapping) or part not in found:
            raise ConfigError(f"{path}: '${{{target}}}' refers to a key that this configuration does not have")
        found = found[part]
    if isinstance(found, Mapping | list):
        raise ConfigError(f"{path}: '${{{target}}}' must refer to a single value")
    return str(found)


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: write key=value, e.g. --set task.success_threshold=1.2")
    value = set_value(text, override)
    _put(data, key.strip().split("."), value, override)


def set_value(text: str, override: str) -> Any:
    """What stands behind ``key=``: a list or mapping in brackets, a number, true, false or null, else plain text."""
    if text.lstrip()[:1] in ("[", "{"):
        return read_brackets(text, f"--set {override.partition('=')[0]}")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        # A sentence; what looks like a date and is none.
        return text
    # `Translate: {x}` is a sentence, not a mapping.
    return text if isinstance(value, dict | list) else value


def _put(data: Any, path: list[str], value: Any, override: str) -> None:
    if isinstance(data, list):
        for place, item in enumerate(data):
            # `robustness` grows into `{name: robustness, …}` when an option is set.
            data[place] = {"name": item} if isinstance(item, str) else item
            _put(data[place], path, value, override)
        return
    if not isinstance(data, dict):
        raise ConfigError(f"--set {override}: there is no mapping at this place")
    head, *rest = path
    if not rest:
        data[head] = value
        return
    inner = data.get(head)
    if inner is None or isinstance(inner, str):
        inner = {} if inner is None else {"name": inner}
        data[head] = inner
    _put(inner, rest, value, override)
