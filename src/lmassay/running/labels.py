"""What the runs of a sweep are called: the label of the task or model, and the options that the sweep varies.

A sweep over ``s_src: [chrf, bleu]`` gives ``charswap, s_src=chrf`` and ``charswap, s_src=bleu``. Options that all runs
share are not in a label, and neither is an option that the label of the task shows by itself, such as the attack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lmassay.errors import LmassayError
from lmassay.plugins.options import inner_model, nested_kind, options_model
from lmassay.plugins.registry import current_registry
from lmassay.running.differences import (
    ABSENT,
    KeyPath,
    VariedKey,
    distinguishing_values,
    file_names,
    identity,
    short_texts,
    value_text,
    varied_keys,
)
from lmassay.running.planning import Plan


def with_sweep_labels(planned: Sequence[Plan]) -> list[Plan]:
    """The runs of one configuration with their labels among each other."""
    found = list(planned)
    for members in _grouped(planned, lambda plan: plan.task.name):
        labels = _labels([planned[number] for number in members], [planned[number].label for number in members])
        for number, label in zip(members, labels, strict=True):
            found[number] = replace(found[number], sweep_label=label)
    for members in _grouped(planned, lambda plan: (plan.task.name, plan.model_label)):
        models = _labels(
            [planned[number] for number in members], [planned[number].model_label for number in members], of_model=True
        )
        for number, model in zip(members, models, strict=True):
            found[number] = replace(found[number], sweep_model=model)
    return with_distinct_labels(found)


def with_values_in_label(plan: Plan, paths: Sequence[KeyPath]) -> Plan:
    """A run with the values of these keys in its label, for runs that are planned one after the other."""
    label, written = plan.label, plan.config.written
    values: dict[KeyPath, str] = {}
    for path in paths:
        value = _at(written, path)
        name = value.get("name") if isinstance(value, Mapping) else value
        if value is not None and not any(_mentions(label, text) for text in file_names(name)):
            values[path] = short_texts([name])[0]
    names = _key_names(list(values), written, label)
    return replace(plan, sweep_label=", ".join([label, *(f"{names[path]}={text}" for path, text in values.items())]))


def swept_keys(planned: Sequence[Plan]) -> list[str]:
    """What makes several runs of one configuration, for each file: ``task.attack (2 values), seed (3 values)``."""
    told = []
    for members in _grouped(planned, lambda plan: (plan.config.name, plan.config.base_dir)):
        values: dict[KeyPath, set[str]] = {}
        for key in varied_keys([planned[number].config.written for number in members]):
            for position, value in key.values.items():
                known = _default(planned[members[position]], key.path) if value is ABSENT else value
                values.setdefault(key.shown_path, set()).add(identity(known))
        if values:
            told.append(", ".join(f"{'.'.join(path)} ({len(found)} values)" for path, found in values.items()))
    return told


def with_distinct_labels(planned: Sequence[Plan]) -> list[Plan]:
    """Runs of one command whose labels are the same get what else they differ in, such as the folder of a file."""
    found = list(planned)
    for members in _grouped(planned, lambda plan: (plan.task.name, plan.label, plan.model_label)):
        if len(members) == 1:
            continue
        # Of two files in different folders, only the folder of their configuration may differ.
        stored = [planned[number].config.model_dump(mode="json") for number in members]
        with_folders = [{**config, "folder": config["base_dir"]} for config in stored]
        differences = distinguishing_values([[config] for config in with_folders])
        for number, difference in zip(members, differences, strict=True):
            if difference:
                found[number] = replace(found[number], sweep_label=f"{planned[number].label}, {difference}")
    return found


def _grouped(planned: Sequence[Plan], key: Callable[[Plan], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for number, plan in enumerate(planned):
        groups.setdefault(key(plan), []).append(number)
    return list(groups.values())


def _labels(planned: Sequence[Plan], base: Sequence[str], *, of_model: bool = False) -> list[str]:
    """The base labels, each followed by ``key=value`` for every key that varies and that it does not show."""
    parts: list[dict[KeyPath, str]] = [{} for _ in planned]
    for key in varied_keys([plan.config.written for plan in planned]):
        if (key.path[0] == "model") != of_model or _is_shown(key, base):
            continue
        values = {}
        for number, value in key.values.items():
            values[number] = _default(planned[number], key.path) if value is ABSENT else value
        if len({identity(value) for value in values.values()}) == 1:
            # One run has the default written down, the others leave it out.
            continue
        for number, text in zip(values, short_texts(list(values.values())), strict=True):
            parts[number][key.shown_path] = text
    labels = []
    for plan, label, found in zip(planned, base, parts, strict=True):
        names = _key_names(list(found), plan.config.written, label)
        told = ", ".join(f"{names[path]}={text}" for path, text in found.items())
        # Models are often listed one after the other, where a comma would be ambiguous.
        with_options = f"{label} ({told})" if of_model else f"{label}, {told}"
        labels.append(with_options if told else label)
    return labels


def _is_shown(key: VariedKey, base: Sequence[str]) -> bool:
    """Whether the base labels show a key's values: each has its own in it, and no label stands for two values.

    A key that is left out has its default, which a label need not name: it is shown if the other values are.
    """
    by_label: dict[str, str] = {}
    for number, value in key.values.items():
        label = base[number]
        if by_label.setdefault(label, value_text(value)) != value_text(value):
            return False
        if value is not ABSENT and not any(_mentions(label, name) for name in file_names(value)):
            return False
    return True


def _mentions(label: str, text: str) -> bool:
    """Whether a text stands in a label as a word of its own: 1 is in ``prompt 1``, but not in ``prompt 12``."""
    return bool(text) and re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.])", label) is not None


# --- the names of keys ------------------------------------------------------------------------------------------------


def _key_names(paths: Sequence[KeyPath], written: Mapping[str, Any], label: str) -> dict[KeyPath, str]:
    """Short names where they are clear: ``rate`` beside the attack that it belongs to, but ``s_src.beta``."""
    short = {path: _short_name(path, written, label) for path in paths}
    names = list(short.values())
    return {path: name if names.count(name) == 1 else ".".join(path) for path, name in short.items()}


def _short_name(path: KeyPath, written: Mapping[str, Any], label: str) -> str:
    # An option of the plug-in that the label names needs no further name in front.
    for depth in range(len(path) - 1, 1, -1):
        node = _at(written, path[:depth])
        name = node.get("name") if isinstance(node, Mapping) else node
        if isinstance(name, str) and _mentions(label, name):
            return ".".join(path[depth:])
    is_option = path[0] in ("task", "model") and len(path) > 1
    return ".".join(path[1:] if is_option else path)


def _at(configuration: Mapping[str, Any], path: KeyPath) -> Any:
    node: Any = configuration
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key)
    return node


# --- defaults ---------------------------------------------------------------------------------------------------------


def _default(plan: Plan, path: KeyPath) -> Any:
    """What an option is that the configuration leaves out; ABSENT where that is not known."""
    try:
        field = _declared(plan.config.written, path, plan.config.base_dir)
    except LmassayError:
        return ABSENT
    default = None if field is None else field.get_default(call_default_factory=True)
    is_plain = isinstance(default, bool | int | float | str | Path) or (field is not None and default is None)
    return default if is_plain and default != "" else ABSENT


def _declared(written: Mapping[str, Any], path: KeyPath, base: Path) -> FieldInfo | None:
    """Walk down the declared options: those of a plug-in are known by its name, those of a group by its type."""
    kind: str | None = path[0] if path[0] in ("task", "model") else None
    options: type[BaseModel] | None = None
    for depth, key in enumerate(path[1:], 1):
        if kind is not None:
            node = _at(written, path[:depth])
            name = node.get("name") if isinstance(node, Mapping) else node
            options = options_model(current_registry().get(kind, name, base)) if isinstance(name, str) else None
        field = None if options is None else options.model_fields.get(key)
        if field is None or depth == len(path) - 1:
            return field
        kind = nested_kind(field)
        options = inner_model(field.annotation)
    return None
