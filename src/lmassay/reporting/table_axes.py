"""The rows and columns of a configurable table: by model, label, task, a key of the configuration, or a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.errors import UserError, did_you_mean
from lmassay.running.differences import ABSENT, identity, short_texts, varied_keys
from lmassay.types import OVERALL, RunRecord
from lmassay.types.wording import model_name

METRIC = "metric"
"""The key of an axis with one entry per metric."""
MODEL = "model"
"""The key of an axis with one entry per model."""
NOT_SET = "–"
"""Shown for a run whose configuration does not have the key of an axis."""
_FIELDS = (MODEL, "label", "task", "run")
# Top-level keys of a configuration that say nothing about what was measured.
_NOT_KEYS = ("name", "base_dir", "budget", "unresolved")


@dataclass(frozen=True, slots=True)
class Axis:
    """What the rows or the columns of a table are."""

    key: str
    """The key that the user named; several keys are joined by commas."""
    values: Mapping[str, str]
    """Id of a run → its row or column; empty if the axis is about groups or metrics."""
    has_absent: bool = False
    """Whether some run does not have the key; its row or column is then ``NOT_SET``."""
    groups: Sequence[str] = ()
    """The groups of results on this axis, such as ``category=Age``; empty for all other axes."""

    @property
    def is_about_runs(self) -> bool:
        """Whether the entries of this axis are different runs."""
        return self.key != METRIC and not self.groups

    def text(self, run: str, metric: str, group: str) -> str:
        """Return the row or column in which a result belongs."""
        if self.key == METRIC:
            return metric
        if self.groups:
            return group.partition("=")[2] or group
        return self.values[run]


def axis_by(key: str, records: Sequence[RunRecord], option: str) -> Axis:
    """Return the axis that a key describes; ``option`` is ``--rows`` or ``--columns``, for error messages."""
    if key == METRIC:
        return Axis(METRIC, {})
    groups = _groups_named(key, records)
    if groups and key not in _FIELDS:
        return Axis(key, {}, groups=groups)
    texts: dict[str, list[str]] = {record.id: [] for record in records}
    for part in key.split(","):
        for run, text in _texts_by(part.strip(), records, option).items():
            texts[run].append(text)
    has_absent = any(NOT_SET in parts for parts in texts.values())
    return Axis(key, {run: ", ".join(parts) for run, parts in texts.items()}, has_absent)


def varying_keys(records: Sequence[RunRecord]) -> list[str]:
    """Return the keys in which runs differ: the model first, then keys of the configuration."""
    keys: list[str] = []
    if len({record.model for record in records}) > 1:
        keys.append(MODEL)
    for varied in varied_keys([_compared_part(record.config) for record in records]):
        if varied.path[0] != MODEL:
            keys.append(".".join(varied.shown_path))
    return list(dict.fromkeys(keys))


def _groups_named(key: str, records: Sequence[RunRecord]) -> list[str]:
    """Return the groups of results by a label, such as ``category=Age`` by ``category``, after the overall results."""
    groups: dict[str, None] = {}
    for record in records:
        for result in record.results:
            # A group within a group, such as ``construction=a,number=singular``, has several labels.
            if result.group.startswith(f"{key}=") and result.group.count("=") == 1:
                groups[result.group] = None
    return [OVERALL, *groups] if groups else []


def _texts_by(key: str, records: Sequence[RunRecord], option: str) -> dict[str, str]:
    if key == "run":
        return {record.id: record.id.rpartition("-")[2] for record in records}
    if key in _FIELDS:
        texts_of_run: dict[str, str] = {}
        for record in records:
            fields = {"model": model_name(record.model), "label": record.label, "task": record.task}
            texts_of_run[record.id] = fields[key]
        return texts_of_run
    path = _full_path(key, records, option)
    values = [_value_at(path, record.config) for record in records]
    texts_by_run: dict[str, str] = {}
    for record, value, text in zip(records, values, _value_texts(values), strict=True):
        # "default" would be wrong for a missing value, because another plug-in may not even have this option.
        texts_by_run[record.id] = NOT_SET if value is ABSENT else text
    return texts_by_run


def _value_texts(values: Sequence[Any]) -> list[str]:
    """Return texts that tell values apart: plug-ins by their names and only the options that distinguish them.

    >>> _value_texts(["majority", {"name": "pet", "seed": 1, "lr": 0.1}, {"name": "pet", "seed": 1, "lr": 0.2}])
    ['majority', 'pet, lr=0.1', 'pet, lr=0.2']
    """
    if not any(isinstance(value, Mapping) for value in values):
        return short_texts(values, in_list=False)
    texts = []
    for name, options in zip(_name_texts(values), _distinguishing_options(values), strict=True):
        # A mapping without a name consists only of options.
        parts = [name, *options] if name else options
        texts.append(", ".join(parts))
    # Different values must not share a row. If names and options do not distinguish them, the texts show whole values.
    different_values = {identity(value) for value in values}
    if not all(texts) or len(set(texts)) != len(different_values):
        return short_texts(values, in_list=False)
    return texts


def _name_texts(values: Sequence[Any]) -> list[str]:
    """Return the name of each value: ``pet`` of ``pet`` and of ``{name: pet, …}``; empty if a mapping has none."""
    names: list[Any] = []
    for value in values:
        names.append(value.get("name", ABSENT) if isinstance(value, Mapping) else value)
    texts = []
    for name, text in zip(names, short_texts(names, in_list=False), strict=True):
        texts.append("" if name is ABSENT else text)
    return texts


def _distinguishing_options(values: Sequence[Any]) -> list[list[str]]:
    """Return the options of each value that are not the same in all values, such as ``lr=0.1``."""
    options_of_value: list[list[str]] = [[] for _ in values]
    for key in varied_keys([{"value": value} for value in values]):
        option = ".".join(key.path[1:])
        if option in ("", "name"):
            # This is the whole value or its name, and the name is already in the text.
            continue
        # A value that does not set the option needs no text: readers recognise it by the missing option.
        given = {number: value for number, value in key.values.items() if value is not ABSENT}
        for number, text in zip(given, short_texts(list(given.values())), strict=True):
            options_of_value[number].append(f"{option}={text}")
    return options_of_value


def _full_path(key: str, records: Sequence[RunRecord], option: str) -> tuple[str, ...]:
    """Return the full path of a key, such as ``task.data`` for ``data``: users may leave out the beginning."""
    end_of_path = tuple(key.split("."))
    paths: dict[tuple[str, ...], None] = {}
    for record in records:
        paths |= dict.fromkeys(_paths_in(_compared_part(record.config)))
    if end_of_path in paths:
        return end_of_path
    matching = [path for path in paths if path[-len(end_of_path) :] == end_of_path]
    # `data` means `task.data`, even if the data set has a key of this name, too.
    shortest = min(map(len, matching), default=0)
    matching = [path for path in matching if len(path) == shortest]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = " or ".join(".".join(path) for path in matching)
        raise UserError(f"{option} {key}: this may be {names}; write more of the key")
    groups = _group_names(records)
    if key == METRIC or key in groups:
        # A metric or group that is given alone is an axis of its own, so here it is one of several keys.
        raise UserError(
            f"{option}: {key} cannot be combined with other keys; give {key} alone, and the other keys in the other "
            "option (--rows or --columns)"
        )
    available = {METRIC, *_FIELDS, *groups}
    for varying in varying_keys(records):
        available |= {varying, varying.rpartition(".")[2]}
    raise UserError(f"{option} {key}: no run has this key or group{did_you_mean(key, available)}")


def _group_names(records: Sequence[RunRecord]) -> set[str]:
    names: set[str] = set()
    for record in records:
        for result in record.results:
            if result.group.count("=") == 1:
                names.add(result.group.partition("=")[0])
    return names


def _compared_part(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _NOT_KEYS}


def _paths_in(node: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for key, value in node.items():
        path = (*above, str(key))
        paths.append(path)
        if isinstance(value, Mapping):
            paths += _paths_in(value, path)
    return paths


def _value_at(path: Sequence[str], config: Mapping[str, Any]) -> Any:
    node: Any = config
    for key in path:
        if not isinstance(node, Mapping) or key not in node:
            return ABSENT
        node = node[key]
    return node
