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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lmassay.errors import ConfigError, LmassayError, did_you_mean
from lmassay.options import Spec, build, inner_model, options_model, problems, split_spec
from lmassay.registry import current
from lmassay.stats import Settings

MAX_RUNS = 10_000
_MAX_NODES = 100_000
_REFERENCE = re.compile(r"\$\{([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)\}")


class RunConfig(BaseModel):
    """One run, as the store keeps it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    task: str | dict[str, Any]
    model: str | dict[str, Any] | None = None
    seed: int = 0
    limit: int | None = Field(default=None, ge=1)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    resamples: int = Field(default=2000, ge=100, le=1_000_000)
    base_dir: Path = Path()

    @property
    def settings(self) -> Settings:
        return Settings(self.confidence, self.resamples, self.seed)

    def build_task(self) -> Any:
        return build("task", self.task, self.base_dir)

    def build_model(self) -> Any:
        return None if self.model is None else build("model", self.model, self.base_dir)


@dataclass(frozen=True, slots=True)
class _Document:
    """A YAML file with the line of every key."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[str, int]

    def locate(self, message: str) -> str:
        """Put file and line before a message that begins with a key path."""
        key = message.partition(":")[0]
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        line = f", line {self.lines[key]}" if key else ""
        return f"{self.path}{line}: {message}"


def load_runs(path: Path, overrides: Sequence[str] = (), limit: int | None = None) -> list[RunConfig]:
    """Read a configuration, apply ``key=value`` overrides, expand its lists to runs, check each one's keys."""
    document = _read(path)
    for override in overrides:
        _override(document.data, override)
    if limit is not None:
        document.data["limit"] = limit
    return expand(document.data, path.resolve().parent, document.locate, default_name=path.stem)


def expand(
    data: dict[str, Any],
    base: Path,
    locate: typing.Callable[[str], str] = str,
    default_name: str = "",
) -> list[RunConfig]:
    """A checked run for every combination of the listed values."""
    _check_top_level(data, locate)
    mistakes: list[str] = []
    runs: list[RunConfig] = []
    for count, plain in enumerate(_combinations(data, base, locate)):
        if count >= MAX_RUNS:
            raise ConfigError(locate(f"this expands to more than {MAX_RUNS} runs; shorten the lists"))
        try:
            referred = _resolve_references(plain, plain)
            run = RunConfig.model_validate({"name": default_name, **referred, "base_dir": base})
            mistakes += [*_option_mistakes("task", run.task, base), *_option_mistakes("model", run.model, base)]
            runs.append(run)
        except ValidationError as error:
            mistakes += problems(error, RunConfig, "")
        except LmassayError as error:
            mistakes += str(error).split("\n")
    if mistakes:
        raise ConfigError("\n".join(locate(line) for line in dict.fromkeys(mistakes)))
    return runs


def _check_top_level(data: dict[str, Any], locate: typing.Callable[[str], str]) -> None:
    known = set(RunConfig.model_fields) - {"base_dir"}
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
                choices = list(_spec_choices(key, value, base))
            except LmassayError as error:
                raise ConfigError("\n".join(locate(line) for line in str(error).split("\n"))) from error
        else:
            choices = value if isinstance(value, list) else [value]
        if not choices:
            raise ConfigError(locate(f"{key}: the list is empty; give at least one value"))
        axes.append([(key, choice) for choice in choices])
    for combination in itertools.product(*axes):
        yield dict(combination)


def _spec_choices(kind: str, value: Any, base: Path) -> Iterator[Any]:
    """Every task or model that a value stands for: a list of them, and lists among their options."""
    for spec in value if isinstance(value, list) else [value]:
        if spec is None or isinstance(spec, str):
            yield spec
            continue
        if not isinstance(spec, dict) or "name" not in spec:
            raise ConfigError(f"{kind}: give a name, or a mapping with the key 'name'; got {spec!r}")
        for name in spec["name"] if isinstance(spec["name"], list) else [spec["name"]]:
            if not isinstance(name, str):
                raise ConfigError(f"{kind}.name: must be a string; got {name!r}")
            model = options_model(current().get(kind, name, base))
            yield from _dict_choices({**spec, "name": name}, model, skip=("name",))


def _dict_choices(data: dict[str, Any], model: type[BaseModel], skip: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    axes = []
    for key, value in data.items():
        field = model.model_fields.get(key)
        choices = [value] if key in skip or field is None else list(_choices(value, field.annotation))
        if not choices:
            raise ConfigError(f"{key}: the list is empty; give at least one value")
        axes.append([(key, choice) for choice in choices])
    for combination in itertools.product(*axes):
        yield dict(combination)


def _choices(value: Any, annotation: Any) -> Iterator[Any]:
    if isinstance(value, list) and not _takes_list(annotation):
        for item in value:
            yield from _choices(item, annotation)
        return
    model = inner_model(annotation)
    if isinstance(value, dict) and model is not None:
        yield from _dict_choices(value, model)
        return
    yield value


def _takes_list(annotation: Any) -> bool:
    if annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_takes_list(part) for part in typing.get_args(annotation))
    if origin is typing.Annotated:
        return _takes_list(typing.get_args(annotation)[0])
    kind = origin or annotation
    return isinstance(kind, type) and issubclass(kind, Sequence | set | frozenset) and not issubclass(kind, str | bytes)


def _option_mistakes(kind: str, spec: Spec | None, base: Path) -> list[str]:
    if spec is None:
        return []
    name, options = split_spec(spec, kind)
    model = options_model(current().get(kind, name, base))
    try:
        model.model_validate(options)
    except ValidationError as error:
        return problems(error, model, kind)
    return []


def _resolve_references(value: Any, root: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _referred(match[1], root), value)
    if isinstance(value, dict):
        return {k: _resolve_references(v, root) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve_references(v, root) for v in value]
    return value


def _referred(path: str, root: Mapping[str, Any]) -> str:
    found: Any = root
    for part in path.split("."):
        # `attack: charswap` is short for `attack: {name: charswap}`.
        if isinstance(found, str) and part == "name":
            continue
        if not isinstance(found, Mapping) or part not in found:
            raise ConfigError(f"'${{{path}}}' refers to a key that this configuration does not have")
        found = found[part]
    if isinstance(found, Mapping | list):
        raise ConfigError(f"'${{{path}}}' must refer to a single value")
    return str(found)


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override}: write key=value, e.g. --set task.success_threshold=1.2")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is no YAML: {error}") from None
    _put(data, key.strip().split("."), value, override)


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


def _read(path: Path) -> _Document:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); convert it") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from None
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        lines = dict(_lines(node, path)) if node is not None else {}
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{line}: no valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: a YAML anchor refers to itself") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file must be a mapping with at least the key 'task'")
    return _Document(path, data, lines)


def _lines(node: yaml.Node, path: Path) -> Iterator[tuple[str, int]]:
    """Key paths with their lines; refuses duplicate keys and documents that anchors blow up."""
    count = 0
    stack: list[tuple[str, yaml.Node]] = [("", node)]
    while stack:
        prefix, current_node = stack.pop()
        count += 1
        if count > _MAX_NODES:
            raise ConfigError(f"{path}: the anchors of this file expand to more than {_MAX_NODES} nodes")
        if isinstance(current_node, yaml.SequenceNode):
            stack += [(prefix, item) for item in current_node.value]
        elif isinstance(current_node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in current_node.value:
                line = key.start_mark.line + 1
                name = str(key.value)
                if name in seen and name != "<<":
                    raise ConfigError(f"{path}, line {line}: the key '{name}' was given already in line {seen[name]}")
                seen[name] = line
                full = f"{prefix}.{name}".strip(".")
                yield full, line
                stack.append((full, value))
