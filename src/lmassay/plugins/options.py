"""A plug-in's options are the parameters of its ``__init__``: read them, check a configuration against them, build it.

Values of type ``Path`` are taken relative to the configuration's folder, or name a file of a published data set:
``data:teapot/MT/src.fr``. A parameter called ``base_dir`` is filled in
with that folder and is no option.
"""

from __future__ import annotations

import inspect
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from lmassay.errors import ConfigError, LmassayError, PluginError, closest, did_you_mean, error_with_location
from lmassay.plugins.registry import current_registry
from lmassay.redaction import as_variable, is_remembered, is_secret_option, remember_secret
from lmassay.storage.files import record_reads

Spec = str | Mapping[str, Any]
_ENVIRONMENT = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_INJECTED = "base_dir"
DATA_PREFIX = "data:"
"""``data:teapot/MT/src.fr`` is a file of a published data set; see :mod:`lmassay.datasets.catalogue`."""
_MAY_HOLD_SECRETS = re.compile(r"(\w*_)?(headers|auth|params|query|client|server|options|kwargs|config|settings)")
# A token that is a mark in a text, such as [MASK] or </s>.
_MARK = re.compile(r"[\[<].{0,20}[\]>]")
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class Nested:
    """Marks an option that is itself a plug-in with options: ``method: Annotated[Spec, Nested("method")]``.

    Its options are checked with the configuration, and lists among them are a sweep.
    """

    kind: str


def nested_kind(field: Any) -> str | None:
    """The kind of plug-in that a field of an options model names, if it is marked so."""
    return next((mark.kind for mark in field.metadata if isinstance(mark, Nested)), None)


def split_spec(spec: Spec, key: str) -> tuple[str, dict[str, Any]]:
    """``chrf`` or ``{name: chrf, beta: 3}`` → name and options."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ConfigError(f"{key}: give a name, or a mapping with the key 'name' and options beside it; got {spec!r}")
    return spec["name"], {k: v for k, v in spec.items() if k != "name"}


def options_model(factory: Callable[..., Any]) -> type[BaseModel]:
    """The options of a class or function as a checkable model."""
    try:
        parameters = inspect.signature(factory).parameters.values()
        # A class that inherits its __init__ has its parent's options.
        maker = getattr(factory, "__init__") if isinstance(factory, type) else factory  # noqa: B009 - mypy objects
        hints = typing.get_type_hints(maker, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot read the options of {factory!r}: {error}") from error
    fields: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
        elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != _INJECTED:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True, protected_namespaces=())
    return create_model("Options", __config__=config, **fields)


@dataclass(slots=True)
class PluginInputs:
    """What plug-ins in users' files are made from, beyond their options."""

    sources: dict[str, str] = field(default_factory=dict)
    """Kind of plug-in → digest of its file and of the modules that it imports from its folder."""
    files: list[Path] = field(default_factory=list)
    """What they read through lmassay when they were made."""


_inputs: ContextVar[PluginInputs | None] = ContextVar("lmassay_plugin_inputs", default=None)


@contextmanager
def record_inputs() -> Iterator[PluginInputs]:
    """What the plug-ins that are built within this block are made from."""
    inputs = PluginInputs()
    token = _inputs.set(inputs)
    try:
        yield inputs
    finally:
        _inputs.reset(token)
    # A task that builds its parts depends on what they are made from.
    for kind, source in inputs.sources.items():
        _note_inputs(kind, source, ())
    _note_inputs("", "", inputs.files)


def _note_inputs(kind: str, source: str, files: Sequence[Path]) -> None:
    inputs = _inputs.get()
    if inputs is None:
        return
    if source:
        inputs.sources[kind] = source
    for file in files:
        if file not in inputs.files:
            inputs.files.append(file)


def build(kind: str, spec: Spec, base: Path, key: str = "") -> Any:
    """Find the plug-in, check its options, make it. ``key`` is where in the configuration it stands."""
    key = key or kind
    name, options = split_spec(spec, key)
    try:
        factory = current_registry().get(kind, name, base)
    except PluginError as error:
        raise PluginError(f"{key}: {error}") from error
    if not callable(factory):
        raise ConfigError(f"{key}: '{name}' is no {kind}")
    arguments = checked_options(factory, options, base, key)
    source = current_registry().source_of(name, base)
    try:
        if not source:
            return factory(**arguments)
        with record_reads() as files:
            made = factory(**arguments)
        _note_inputs(kind, source, files)
        return made
    except LmassayError:
        raise
    except Exception as error:
        raise PluginError(f"{key}: the {kind} '{name}' cannot be made: {error_with_location(error)}") from error


def checked_options(factory: Callable[..., Any], options: Mapping[str, Any], base: Path, key: str) -> dict[str, Any]:
    """Keyword arguments for ``factory``, all problems reported at once."""
    model = options_model(factory)
    unknown = [] if model.model_config["extra"] == "allow" else [n for n in options if n not in model.model_fields]
    if unknown:
        raise ConfigError("\n".join(_unknown(f"{key}.{name}", model.model_fields) for name in unknown))
    filled = expand_environment(dict(options), key)
    try:
        checked = model.model_validate(filled)
    except ValidationError as error:
        raise ConfigError("\n".join(validation_messages(error, model, key))) from None
    _keep_secrets_out({n: v for n, v in options.items() if not isinstance(getattr(checked, n), Path)}, key)
    for _, value in _secrets(filled, key):
        remember_secret(value)
    names = checked.model_fields_set | set(model.model_fields)
    values = {name: _with_paths(getattr(checked, name), base, f"{key}.{name}") for name in names}
    if _INJECTED in inspect.signature(factory).parameters:
        values[_INJECTED] = base
    return values


def validation_messages(error: ValidationError, model: type[BaseModel], key: str) -> list[str]:
    """One line a problem: the key's path, what is wrong, what is known there."""
    lines = []
    for item in error.errors(include_url=False, include_input=True):
        path = _path(key, item["loc"])
        around = _model_at(model, item["loc"][:-1])
        known = around.model_fields if around is not None else {}
        if item["type"] == "extra_forbidden":
            lines.append(_unknown(path, known))
        elif item["type"] == "missing":
            field = known.get(str(item["loc"][-1]))
            advice = f"; {field.description}" if field is not None and field.description else ""
            lines.append(f"{path}: this key is required{advice}")
        elif item["type"] == MISTAKE:
            lines.append(f"{path}: {item['msg']}")
        else:
            got = repr(item["input"])
            lines.append(f"{path}: {_message(item)} (got {got[:80]}){_remedy(item)}")
    return lines


MISTAKE = "mistake"
"""The type of an error whose message says all: what was given is not repeated after it."""


def _path(key: str, location: Sequence[int | str]) -> str:
    """A place as a reader writes it, ``patterns[1].words``."""
    path = key
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # which is how pydantic marks a wrong name in a mapping
            path += f".{part}"
    return path.strip(".")


def _unknown(path: str, known: Iterable[str]) -> str:
    return f"{path}: unknown key{did_you_mean(path.rpartition('.')[2], known)}"


def _message(item: ErrorDetails) -> str:
    # Pydantic's own words for these speak of Python.
    if item["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return "must be a mapping, name: value"
    return item["msg"].removeprefix("Value error, ")


def _remedy(item: ErrorDetails) -> str:
    """Which of the allowed values was probably meant; that a text which YAML reads as something else goes in quotes."""
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        meant = closest(item["input"], _QUOTED.findall(str(item["ctx"]["expected"])))
        return f"; did you mean '{meant}'?" if meant else ""
    if item["type"] == "string_type" and isinstance(item["input"], bool | int | float | date):
        return "; put it in quotes"
    return ""


def expand_environment(value: Any, key: str) -> Any:
    """Replace ``${NAME}`` in strings by the environment variable; one that is not set is an error."""
    if isinstance(value, str):
        return _ENVIRONMENT.sub(lambda match: _variable(match[1], key), value)
    if isinstance(value, Mapping):
        return {k: expand_environment(v, f"{key}.{k}") for k, v in value.items()}
    if isinstance(value, list):
        return [expand_environment(v, f"{key}[{i}]") for i, v in enumerate(value)]
    return value


def _variable(name: str, key: str) -> str:
    if name not in os.environ:
        raise ConfigError(f"{key}: the environment variable {name} is not set; export it")
    return os.environ[name]


def _keep_secrets_out(options: Mapping[str, Any], key: str) -> None:
    """What a configuration says is kept with the results and shown on pages; a variable is not filled in there."""
    for path, value in _secrets(options, key):
        # What was filled in from a variable further out is known already.
        if value and not is_remembered(value) and not _ENVIRONMENT.search(value):
            name = as_variable(path.rpartition(".")[2])
            raise ConfigError(f"{path}: a secret would be kept with the results; write '${{{name}}}' and export {name}")


def _secrets(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """The texts that stand under a name like ``api_key``, each with its place.

    In a mapping of one's own, as of labels to words, a name may mean anything; those of plug-ins are looked at when
    they are built.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(inner, Mapping) or _MAY_HOLD_SECRETS.fullmatch(str(name)):
                yield from _secrets(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, key)
    elif isinstance(value, str) and is_secret_option(key.rpartition(".")[2]) and not _MARK.fullmatch(value):
        yield key, value


def _with_paths(value: Any, base: Path, key: str) -> Any:
    try:
        return _resolved(value, base)
    except UnicodeEncodeError:
        # A name that this environment cannot spell, which is told with the remedy.
        raise
    except (ValueError, OSError, RuntimeError) as error:
        # A NUL inside, a name longer than the system allows, the home of a user that there is not.
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{key}: this is no path: {why} (got {str(value)[:80]!r})") from None


def _resolved(value: Any, base: Path) -> Any:
    if isinstance(value, Path):
        text = value.as_posix()
        if text.startswith(DATA_PREFIX):
            # Imported here, because the catalogue itself needs this package.
            from lmassay.datasets.catalogue import file_called

            return file_called(text.removeprefix(DATA_PREFIX))
        value = value.expanduser()
        # Beside the configuration first; a path typed on the command line may also start where the user stands.
        return value.resolve() if not (base / value).exists() and value.exists() else (base / value).resolve()
    if isinstance(value, BaseModel):
        return value.model_copy(update={n: _resolved(getattr(value, n), base) for n in type(value).model_fields})
    if isinstance(value, Mapping):
        return {k: _resolved(v, base) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, base) for v in value]
    return value


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    """The model that describes what stands at a place; places in lists and names in mappings lead no deeper."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        inner = inner_model(field.annotation)
        if inner is None:
            return None
        model = inner
    return model


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model inside ``Model`` or ``Model | None``."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
