"""Reads the options of a plug-in from the parameters of its ``__init__``, checks configurations, and builds plug-ins.

Relative paths in options of type ``Path`` start at the folder of the configuration. A path can also name a file of a
published data set: ``data:teapot/MT/src.fr``. A parameter called ``base_dir`` receives the folder of the configuration;
it is not an option.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
from lmassay.redaction import (
    as_variable,
    excerpt,
    is_remembered,
    is_secret_option,
    is_secret_variable,
    is_variable_name,
    may_be_key,
    remember_secret,
    remember_variable,
    shown_value,
    written_keys,
)
from lmassay.storage.files import NO_STANDARD_INPUT, STANDARD_INPUT, record_reads

Spec = str | Mapping[str, Any]
"""How a configuration describes a plug-in: its name, or a mapping with the key ``name`` and its options."""
_ENVIRONMENT = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
# The parameter of ``__init__`` that receives the folder of the configuration.
_FOLDER_PARAMETER = "base_dir"
DATA_PREFIX = "data:"
"""``data:teapot/MT/src.fr`` is a file of a published data set; see :mod:`lmassay.datasets.catalogue`."""
# Names of options that take a mapping of settings, in which a key such as `token` is a secret and not a label.
_MAY_HOLD_SECRETS = re.compile(
    r"(\w*_)?(headers|auth|params|parameters|query|client|server|options|kwargs|config|settings|body)"
)
# Names of secrets that are also everyday words: in a mapping from labels to words, they may be labels.
_PLAIN_WORDS = re.compile(r"secret|password|passphrase|token|credentials?|cookie|authorization", re.IGNORECASE)
# Options whose values every table and the names of exported files show.
_SHOWN_OPTIONS = ("label", "model", "name")
MISTAKE = "mistake"
"""The type of an error with a complete message: :func:`validation_messages` does not add the value to it."""
# How many characters of a wrong value an error message shows.
_MAX_SHOWN_VALUE = 80
# A special token of a model, such as [MASK] or </s>, is not a secret.
_SPECIAL_TOKEN = re.compile(r"[\[<].{0,20}[\]>]")
_QUOTED = re.compile(r"'([^']*)'")
# What pydantic inserts into the path of a value whose type is a union: the name of each type that it tried.
_UNION_MEMBER = re.compile(r"str|int|float|bool|constrained-\w+|\w[\w-]*\[.*\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Nested:
    """Marks an option that is itself a plug-in with options: ``method: Annotated[Spec, Nested("method")]``.

    Its options are checked with the configuration, and lists among them start several runs.
    """

    kind: str


def nested_kind(field: Any) -> str | None:
    """Return the kind of plug-in that an option takes, if it is marked with :class:`Nested`."""
    for mark in field.metadata:
        if isinstance(mark, Nested):
            return mark.kind
    return None


def split_spec(spec: Spec, key: str) -> tuple[str, dict[str, Any]]:
    """Split ``chrf`` or ``{name: chrf, beta: 3}`` into the name and the options.

    Raises a ConfigError for anything else; ``key`` is the key in the configuration, for its message.
    """
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ConfigError(
            f"{key}: give a name, or a mapping with the key 'name' and the options; got {shown_value(spec)}"
        )
    return spec["name"], {option: value for option, value in spec.items() if option != "name"}


def options_model(factory: Callable[..., Any]) -> type[BaseModel]:
    """Return a pydantic model with the options of a class or function."""
    # The __init__ of a class may be inherited, and with it the options.
    function = getattr(factory, "__init__") if isinstance(factory, type) else factory  # noqa: B009 - for mypy
    if isinstance(factory, Hashable):
        return _cached_options_model(factory, function)
    return _options_model(factory, function)


def _options_model(factory: Callable[..., Any], function: Callable[..., Any]) -> type[BaseModel]:
    """Create the model of :func:`options_model`; ``function`` is ``factory`` itself, or the ``__init__`` of a class."""
    try:
        parameters = inspect.signature(factory).parameters.values()
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot read the options of {factory!r}: {error}") from error
    fields: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for parameter in parameters:
        # A class with **options accepts any key, so misspelt keys cannot be detected.
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
        elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != _FOLDER_PARAMETER:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(extra=extra, arbitrary_types_allowed=True, protected_namespaces=())
    return create_model("Options", __config__=config, **fields)


# One command needs the options of the same few plug-ins many times, and creating a model takes milliseconds.
_cached_options_model = functools.lru_cache(maxsize=256)(_options_model)


@dataclass(slots=True)
class PluginInputs:
    """What determines the behaviour of plug-ins in users' files, apart from their options."""

    sources: dict[str, str] = field(default_factory=dict)
    """Kind of plug-in → digest of its Python file and of the modules that the file imports from its folder."""
    files: list[Path] = field(default_factory=list)
    """The files that the plug-ins read through lmassay when they were created."""


_inputs: ContextVar[PluginInputs | None] = ContextVar("lmassay_plugin_inputs", default=None)


@contextmanager
def record_inputs() -> Iterator[PluginInputs]:
    """Record the inputs of the plug-ins that are built within a ``with`` block."""
    inputs = PluginInputs()
    token = _inputs.set(inputs)
    try:
        yield inputs
    finally:
        _inputs.reset(token)
    # If the block is within another one, its inputs count there, too: a task depends on the plug-ins that it builds.
    _record(inputs.sources, inputs.files)


def _record(sources: Mapping[str, str], files: Sequence[Path]) -> None:
    """Add to the inputs that the innermost ``with`` block of :func:`record_inputs` records, if there is one."""
    inputs = _inputs.get()
    if inputs is None:
        return
    inputs.sources.update(sources)
    for file in files:
        if file not in inputs.files:
            inputs.files.append(file)


def build(kind: str, spec: Spec, base: Path, key: str = "") -> Any:
    """Create a plug-in after checking its options. ``key`` is its key in the configuration, for error messages."""
    key = key or kind
    name, options = split_spec(spec, key)
    factory = find_factory(kind, name, base, key)
    arguments = checked_options(factory, options, base, key)
    source = current_registry().source_of(name, base)
    try:
        if not source:
            return factory(**arguments)
        # The behaviour of a user's own class depends on its source and on the files it reads.
        with record_reads() as files:
            plugin = factory(**arguments)
        _record({kind: source}, files)
        return plugin
    except LmassayError:
        raise
    except (Exception, SystemExit) as error:
        # A plug-in that calls sys.exit must not end the program without a message.
        raise PluginError(f"{key}: the {kind} '{name}' cannot be created: {error_with_location(error)}") from error


def find_factory(kind: str, name: str, base: Path, key: str) -> Callable[..., Any]:
    """Return the class or function with this name. Raises a PluginError if there is none or it cannot be imported.

    ``key`` is its key in the configuration, for error messages.
    """
    try:
        factory = current_registry().get(kind, name, base)
    except PluginError as error:
        raise PluginError(f"{key}: {error}") from error
    if not callable(factory):
        raise ConfigError(f"{key}: '{name}' is not a {kind}")
    callable_factory: Callable[..., Any] = factory
    return callable_factory


def checked_options(factory: Callable[..., Any], options: Mapping[str, Any], base: Path, key: str) -> dict[str, Any]:
    """Return the keyword arguments for ``factory``.

    Raises one ConfigError that lists all unknown keys and all secrets. If there are none, raises one ConfigError that
    lists all values of the wrong type.
    """
    model = options_model(factory)
    messages = []
    if model.model_config["extra"] != "allow":
        unknown = [name for name in options if name not in model.model_fields]
        messages += [_unknown_key(f"{key}.{name}", model.model_fields) for name in unknown]
    messages += _messages_of(_refuse_secrets, options, key)
    if messages:
        raise ConfigError("\n".join(messages))
    filled = expand_environment(dict(options), key)
    try:
        checked = model.model_validate(filled)
    except ValidationError as error:
        raise ConfigError("\n".join(validation_messages(error, model, key))) from None
    # A path to a file with a secret is not a secret.
    not_paths = {name: value for name, value in options.items() if not isinstance(getattr(checked, name), Path)}
    messages = _messages_of(refuse_secret_options, not_paths, key)
    if messages:
        raise ConfigError("\n".join(messages))
    for _, value in _secrets(filled, key):
        remember_secret(value)
    arguments: dict[str, Any] = {}
    # If the class accepts any key (``**options``), the first of these sets also has keys that it does not declare.
    for name in checked.model_fields_set | set(model.model_fields):
        arguments[name] = _with_absolute_paths(getattr(checked, name), base, f"{key}.{name}")
    if _FOLDER_PARAMETER in inspect.signature(factory).parameters:
        arguments[_FOLDER_PARAMETER] = base
    return arguments


def validation_messages(error: ValidationError, model: type[BaseModel], key: str) -> list[str]:
    """Return one line per problem: the path of the key, what is wrong, and a suggestion."""
    messages = []
    for item in error.errors(include_url=False, include_input=True):
        path = _path(key, item["loc"])
        parent = _model_at(model, item["loc"][:-1])
        fields = parent.model_fields if parent is not None else {}
        if item["type"] == "extra_forbidden":
            messages.append(_unknown_key(path, fields))
        elif item["type"] == "missing":
            field = fields.get(str(item["loc"][-1]))
            advice = f"; {field.description}" if field is not None and field.description else ""
            messages.append(f"{path}: this key is required{advice}")
        elif item["type"] == MISTAKE:
            messages.append(f"{path}: {item['msg']}")
        else:
            messages.append(f"{path}: {_message(item)} (got {_input_text(item)}){_remedy(item)}")
    return messages


def _input_text(item: ErrorDetails) -> str:
    """Return the value that is wrong, unless it is a secret."""
    if any(is_secret_option(str(part)) for part in item["loc"]):
        return "a secret, which is not shown"
    return shown_value(item["input"])[:_MAX_SHOWN_VALUE]


def _path(key: str, location: Sequence[int | str]) -> str:
    """Return the path of a value as users write it: ``patterns[1].words``."""
    path = key
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]" and not _UNION_MEMBER.fullmatch(part):  # "[key]" marks a wrong name in a mapping
            path += f".{part}"
    return path.strip(".")


def _unknown_key(path: str, keys: Iterable[str]) -> str:
    return f"{path}: unknown key{did_you_mean(path.rpartition('.')[2], keys)}"


def _message(item: ErrorDetails) -> str:
    # Pydantic's own messages for these are about Python, not YAML.
    if item["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return "must be a mapping, name: value"
    return item["msg"].removeprefix("Value error, ")


def _remedy(item: ErrorDetails) -> str:
    """Return a suggestion: the allowed value that was probably meant, or quotes for a text that YAML misreads."""
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        meant = closest(item["input"], _QUOTED.findall(str(item["ctx"]["expected"])))
        if meant:
            return f"; did you mean '{meant}'?"
        return ""
    if item["type"] == "string_type" and isinstance(item["input"], bool | int | float | date):
        return "; put it in quotes"
    return ""


def expand_environment(value: Any, key: str) -> Any:
    """Replace ``${NAME}`` in all texts with the environment variable. Raises ConfigError if the variable is not set.

    If the variable's value may be a secret, it is from now on redacted in all text that lmassay stores or shows.
    """
    if isinstance(value, str):
        return _ENVIRONMENT.sub(lambda match: _variable(match[1], key), value)
    if isinstance(value, Mapping):
        return {name: expand_environment(inner, f"{key}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [expand_environment(item, f"{key}[{index}]") for index, item in enumerate(value)]
    return value


def _variable(name: str, key: str) -> str:
    if name not in os.environ:
        raise ConfigError(f"{key}: the environment variable {name} is not set; export it")
    value = os.environ[name]
    remember_variable(_option_name(key), name, value)
    return value


def _option_name(key: str) -> str:
    """Return the last part of a path such as ``model.headers.Authorization`` or ``model.keys[1]``."""
    return key.rpartition(".")[2].partition("[")[0]


def secret_messages(options: Mapping[str, Any], model: type[BaseModel], key: str) -> list[str]:
    """Return a message for each option that contains a secret.

    Unlike :func:`checked_options`, this does not require the options to be valid, so all mistakes can be reported at
    once.
    """
    # As in `checked_options`: a path to a file with a secret is not a secret.
    not_paths = {}
    for name, value in options.items():
        field = model.model_fields.get(name)
        if field is None or not _takes_path(field.annotation):
            not_paths[name] = value
    messages = _messages_of(_refuse_secrets, options, key)
    messages += _messages_of(refuse_secret_options, not_paths, key)
    return messages


def _takes_path(annotation: Any) -> bool:
    """Return whether the values of a type such as ``Path`` or ``Path | None`` are paths."""
    return annotation is Path or set(typing.get_args(annotation)) - {type(None)} == {Path}


def _messages_of(refuse: Callable[[Mapping[str, Any], str], None], options: Mapping[str, Any], key: str) -> list[str]:
    """Call a check for each option separately, because it raises at the first mistake, and return all messages."""
    messages = []
    for name, value in options.items():
        try:
            refuse({name: value}, key)
        except ConfigError as error:
            messages.append(str(error))
    return messages


def _refuse_secrets(options: Mapping[str, Any], key: str) -> None:
    """Refuse secrets that no option of a configuration may contain, whatever the option is called.

    These are keys that were pasted where the name of a variable belongs, keys in addresses, keys with a known shape,
    values of variables with a name like ``…_API_KEY``, and such variables in options that every table shows.
    """
    for name, value in options.items():
        path = f"{key}.{name}"
        if not isinstance(value, str):
            for inner_path, text in _texts(value, path):
                refuse_written_keys(text, inner_path)
            continue
        if str(name).endswith("_env") and is_secret_option(str(name).removesuffix("_env")):
            check_variable_name(value, path)
        refuse_written_keys(value, path)
        if name in _SHOWN_OPTIONS:
            _refuse_secret_variables(value, path)


def check_variable_name(name: str, key: str) -> None:
    """Refuse a key where the name of an environment variable is expected, without repeating it."""
    if name and not _ENVIRONMENT.search(name) and not is_variable_name(name):
        raise ConfigError(
            f"{key}: this is not the name of an environment variable (capital letters, digits and underscores); if it "
            "is the key itself, export it in a variable, e.g. MY_API_KEY, and write the variable's name here"
        )


def refuse_written_keys(text: str, key: str) -> None:
    """Refuse a text of a configuration that contains a key, because the configuration is stored with the results."""
    for secret in written_keys(text):
        # A value that was filled in from a variable in an outer plug-in is remembered already.
        if not is_remembered(secret) and not is_remembered(text):
            raise ConfigError(
                f"{key}: a secret would be stored with the results; in place of the key in this text, write "
                "'${MY_API_KEY}' and export MY_API_KEY"
            )


def _refuse_secret_variables(text: str, key: str) -> None:
    """Refuse a text that every table shows if it refers to a variable with a secret."""
    for variable in _ENVIRONMENT.findall(text):
        if is_secret_variable(variable) and may_be_key(os.environ.get(variable, "")):
            raise ConfigError(
                f"{key}: {variable} contains a secret, and this text is shown in all tables and pages; write a plain "
                "text, or a variable without a secret"
            )


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield all texts in a value, each with its path."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{key}[{index}]")


def remember_written_secrets(config: Mapping[str, Any]) -> None:
    """Remember the secrets in a stored configuration, so that they are never shown.

    Earlier versions of lmassay accepted and stored secrets that are refused today.
    """
    for _, value in _secrets(config, ""):
        if not _ENVIRONMENT.search(value):
            remember_secret(value)
    for path, text in _texts(config, ""):
        name = _option_name(path)
        names_variable = name.endswith("_env") and is_secret_option(name.removesuffix("_env"))
        if names_variable and text and not is_variable_name(text):
            remember_secret(text)


def refuse_secret_options(options: Mapping[str, Any], key: str) -> None:
    """Refuse values of options with a name like ``api_key``, unless they name an environment variable (``${NAME}``).

    A configuration is stored with the results and shown on pages. Of an environment variable, only the name is stored.
    """
    for path, value in _secrets(options, key):
        # A value that was filled in from a variable in an outer plug-in is remembered already.
        if value and not is_remembered(value) and not _ENVIRONMENT.search(value):
            name = as_variable(path.rpartition(".")[2])
            raise ConfigError(
                f"{path}: a secret would be stored with the results; write '${{{name}}}' and export {name}"
            )


def _secrets(value: Any, key: str, *, may_be_labels: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the values of options with a name like ``api_key``, each with its path.

    With ``may_be_labels``, the value is in a mapping whose keys may be any words, for example labels. There, ``secret:
    word`` is not a secret, but ``api_key: word`` is.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            inner_may_be_labels = may_be_labels
            if isinstance(inner, Mapping):
                inner_may_be_labels = _MAY_HOLD_SECRETS.fullmatch(str(name)) is None
            yield from _secrets(inner, f"{key}.{name}", may_be_labels=inner_may_be_labels)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, key, may_be_labels=may_be_labels)
    elif isinstance(value, str):
        name = _option_name(key)
        if not is_secret_option(name) or _SPECIAL_TOKEN.fullmatch(value):
            return
        is_label = may_be_labels and _PLAIN_WORDS.fullmatch(name) and not may_be_key(value)
        if not is_label:
            yield key, value


def _with_absolute_paths(value: Any, base: Path, key: str) -> Any:
    """Return a value with all paths in it absolute. Raises a ConfigError for a text that cannot be a path."""
    try:
        return _resolved(value, base, key)
    except UnicodeEncodeError:
        # A name that this environment's encoding cannot represent; the command line reports it with a remedy.
        raise
    except (ValueError, OSError, RuntimeError) as error:
        # A null byte, a name that is too long, or the home folder of an unknown user (`~name`).
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{key}: this is not a path: {reason} (got {excerpt(str(value), _MAX_SHOWN_VALUE)!r})"
        ) from None


def _resolved(value: Any, base: Path, key: str) -> Any:
    """Return a value with all paths in it absolute."""
    if isinstance(value, Path):
        text = value.as_posix()
        if text.startswith(DATA_PREFIX):
            # Imported here, because the catalogue itself needs this package.
            from lmassay.datasets.catalogue import file_called

            return file_called(text.removeprefix(DATA_PREFIX))
        path = value.expanduser()
        if path == STANDARD_INPUT and not (base / path).exists():
            raise ConfigError(f"{key}: {NO_STANDARD_INPUT}")
        # A path that was typed on the command line may be relative to the working folder.
        if not (base / path).exists() and path.exists():
            return path.resolve()
        return (base / path).resolve()
    if isinstance(value, BaseModel):
        fields = {name: _resolved(getattr(value, name), base, f"{key}.{name}") for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, Mapping):
        return {name: _resolved(inner, base, f"{key}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(item, base, key) for item in value]
    if type(value) is tuple:
        return tuple(_resolved(item, base, key) for item in value)
    return value


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    """Return the pydantic model of the value at a location, or None."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            # The position in a list or the key of a mapping; the model stays the same.
            continue
        inner = inner_model(field.annotation)
        if inner is None:
            return None
        model = inner
    return model


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Return the pydantic model in a type such as ``Model`` or ``Model | None``."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
