"""Select some of the runs of a sweep (``--only``), and describe combinations that cannot be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError, did_you_mean
from lmassay.running.config import RunConfig, set_value
from lmassay.running.differences import ABSENT, KeyPath, identity, value_text, varied_keys

# How many values or keys an error message lists.
_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A combination of a sweep that cannot be run, such as a method that the model does not support."""

    combination: str
    """The swept keys with their values: ``method=icl, model=bert-base-cased``."""
    reason: str


def select(configs: Sequence[RunConfig], conditions: Sequence[str]) -> list[RunConfig]:
    """Return the runs that have one of the wanted values of every key: ``--only data=superglue/rte --only seed=1``.

    The end of a key is enough: ``data`` means ``task.data``. The values of a key that is given several times are
    alternatives. Raises a ConfigError if a key is unknown or ambiguous, or if no run matches.
    """
    values_of_key: dict[KeyPath, list[str]] = {}
    texts: dict[KeyPath, str] = {}
    for condition in conditions:
        key, equals, value = condition.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--only {condition}: write key=value, e.g. --only task.data=superglue/rte")
        path = _full_path(key.strip(), configs)
        values_of_key.setdefault(path, []).append(value)
        texts[path] = condition
    selected = list(configs)
    for path, wanted in values_of_key.items():
        selected = [config for config in selected if _has_one_of(config, path, wanted)]
        if not selected:
            if any(_has_one_of(config, path, wanted) for config in configs):
                raise ConfigError(f"--only {' --only '.join(conditions)}: no run has all of these values")
            available = _listed(_values_at(path, configs))
            raise ConfigError(f"--only {texts[path]}: no run has this value; {'.'.join(path)} is {available}")
    return selected


def combination_texts(configs: Sequence[RunConfig]) -> list[str]:
    """Return for each run the keys that vary in the sweep, with its values."""
    values_of_run: list[list[str]] = [[] for _ in configs]
    for key in varied_keys([config.unresolved for config in configs]):
        # The last part is enough: `method=icl`, not `task.method=icl`.
        name = key.shown_path[-1]
        for number, value in key.values.items():
            if value is not ABSENT:
                values_of_run[number].append(f"{name}={value_text(value)}")
    return [", ".join(values) for values in values_of_run]


def _full_path(key: str, configs: Sequence[RunConfig]) -> KeyPath:
    """Return the full path of a key, of which the user may have written only the end."""
    end_of_path = tuple(key.split("."))
    paths: dict[KeyPath, None] = {}
    for config in configs:
        for path in _paths_in(config.unresolved):
            paths[path] = None
    if end_of_path in paths:
        return end_of_path
    matching = [path for path in paths if path[-len(end_of_path) :] == end_of_path]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = " or ".join(".".join(path) for path in matching[:_MOST_LISTED])
        raise ConfigError(f"--only {key}: this may be {names}; write more of the key")
    # Both ``task.attack.rate`` and ``rate`` may have been meant.
    names_of_keys: set[str] = set()
    for path in paths:
        names_of_keys.add(".".join(path))
        names_of_keys.add(path[-1])
    raise ConfigError(f"--only {key}: no run has this key{did_you_mean(key, names_of_keys)}")


def _paths_in(value: Mapping[str, Any], above: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of all keys in a configuration, or in a part of it whose own path is ``above``."""
    paths: list[KeyPath] = []
    for key, inner in value.items():
        path = (*above, str(key))
        if above or key != "name":
            # The name at the top belongs to the whole configuration; all its runs have the same.
            paths.append(path)
        if isinstance(inner, Mapping):
            paths += _paths_in(inner, path)
    return paths


def _has_one_of(config: RunConfig, path: KeyPath, wanted: Sequence[str]) -> bool:
    """Return whether a run has one of the wanted values at a path."""
    value = _value_at(path, config.unresolved)
    if value is ABSENT:
        return False
    if isinstance(value, Mapping):
        # A plug-in with options is named by its name.
        value = value.get("name")
    for text in wanted:
        # `true` means the truth value, and `rte` the text.
        if str(value) == text or identity(value) == identity(set_value(text, ".".join(path), "--only")):
            return True
        if _is_same_number(value, text):
            return True
    return False


def _is_same_number(value: Any, text: str) -> bool:
    """Return whether a text is another way to write a number, such as `1e-5`, which YAML reads as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return float(value) == float(text)
    except (ValueError, OverflowError):
        return False


def _values_at(path: KeyPath, configs: Sequence[RunConfig]) -> list[str]:
    """Return the different values that runs have at a path, as texts."""
    texts: dict[str, None] = {}
    for config in configs:
        value = _value_at(path, config.unresolved)
        if isinstance(value, Mapping):
            value = value.get("name")
        if value is not ABSENT:
            texts[value_text(value)] = None
    return list(texts)


def _value_at(path: KeyPath, configuration: Mapping[str, Any]) -> Any:
    """Return the value at a path of a configuration; ABSENT if there is none."""
    node: Any = configuration
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return ABSENT
        node = node[key]
    return node


def _listed(texts: Sequence[str]) -> str:
    listed = list(texts[:_MOST_LISTED])
    if len(texts) > _MOST_LISTED:
        listed.append("…")
    return " or ".join(listed)
