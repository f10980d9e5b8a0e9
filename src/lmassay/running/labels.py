"""The labels of the runs of a sweep: the label of the task or model, and the options that the sweep varies.

A sweep over ``s_src: [chrf, bleu]`` gives ``charswap, s_src=chrf`` and ``charswap, s_src=bleu``. A label contains
neither options that all runs share nor options that the label of the task already shows, such as the attack.
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


def with_sweep_labels(plans: Sequence[Plan]) -> list[Plan]:
    """Return the runs of one configuration with labels that distinguish them from each other."""
    labelled = list(plans)
    for members in _grouped(plans, lambda plan: plan.task.name):
        group = [plans[number] for number in members]
        labels = _labels(group, [plan.label for plan in group])
        for number, label in zip(members, labels, strict=True):
            labelled[number] = replace(labelled[number], sweep_label=label)
    for members in _grouped(plans, lambda plan: (plan.task.name, plan.model_label)):
        group = [plans[number] for number in members]
        labels = _labels(group, [plan.model_label for plan in group], of_model=True)
        for number, label in zip(members, labels, strict=True):
            labelled[number] = replace(labelled[number], sweep_model=label)
    return with_distinct_labels(labelled)


def with_values_in_label(plan: Plan, paths: Sequence[KeyPath]) -> Plan:
    """Return a run with the values of these keys in its label.

    It is for runs that are planned one after the other, so that they cannot be compared with each other.
    """
    configuration = plan.config.unresolved
    texts: dict[KeyPath, str] = {}
    for path in paths:
        value = _value_at(configuration, path)
        if value is None:
            continue
        name = value.get("name") if isinstance(value, Mapping) else value
        if not any(_mentions(plan.label, text) for text in file_names(name)):
            texts[path] = short_texts([name])[0]
    names = _key_names(list(texts), configuration, plan.label)
    parts = [plan.label]
    for path, text in texts.items():
        parts.append(f"{names[path]}={text}")
    return replace(plan, sweep_label=", ".join(parts))


def swept_keys(plans: Sequence[Plan]) -> list[str]:
    """Return for each configuration which keys have several values: ``task.attack (2 values), seed (3 values)``."""
    summaries = []
    for members in _grouped(plans, lambda plan: (plan.config.name, plan.config.base_dir)):
        values: dict[KeyPath, set[str]] = {}
        for key in varied_keys([plans[number].config.unresolved for number in members]):
            for position, value in key.values.items():
                if value is ABSENT:
                    value = _default(plans[members[position]], key.path)
                values.setdefault(key.shown_path, set()).add(identity(value))
        if values:
            counts = [f"{'.'.join(path)} ({len(distinct)} values)" for path, distinct in values.items()]
            summaries.append(", ".join(counts))
    return summaries


def with_distinct_labels(plans: Sequence[Plan]) -> list[Plan]:
    """Return the runs of one command. Runs with the same label get what else distinguishes them, such as a folder."""
    labelled = list(plans)
    for members in _grouped(plans, lambda plan: (plan.task.name, plan.label, plan.model_label)):
        if len(members) == 1:
            continue
        configurations = []
        for number in members:
            stored = plans[number].config.model_dump(mode="json")
            # Two configurations in different folders may differ in nothing but the folder.
            configurations.append([{**stored, "folder": stored["base_dir"]}])
        differences = distinguishing_values(configurations)
        for number, difference in zip(members, differences, strict=True):
            if difference:
                labelled[number] = replace(labelled[number], sweep_label=f"{plans[number].label}, {difference}")
    return labelled


def _grouped(plans: Sequence[Plan], key: Callable[[Plan], Hashable]) -> list[list[int]]:
    """Return the numbers of the runs that have the same key."""
    groups: dict[Hashable, list[int]] = {}
    for number, plan in enumerate(plans):
        groups.setdefault(key(plan), []).append(number)
    return list(groups.values())


def _labels(plans: Sequence[Plan], base_labels: Sequence[str], *, of_model: bool = False) -> list[str]:
    """Return the base labels, each followed by ``key=value`` for every key that varies and that it does not show."""
    texts: list[dict[KeyPath, str]] = [{} for _ in plans]
    for key in varied_keys([plan.config.unresolved for plan in plans]):
        is_model_key = key.path[0] == "model"
        if is_model_key != of_model or _is_shown(key, base_labels):
            continue
        values: dict[int, Any] = {}
        for number, value in key.values.items():
            values[number] = _default(plans[number], key.path) if value is ABSENT else value
        if len({identity(value) for value in values.values()}) == 1:
            # One run states the default, the others leave it out.
            continue
        for number, text in zip(values, short_texts(list(values.values())), strict=True):
            texts[number][key.shown_path] = text
    labels = []
    for plan, label, texts_of_run in zip(plans, base_labels, texts, strict=True):
        names = _key_names(list(texts_of_run), plan.config.unresolved, label)
        options = ", ".join(f"{names[path]}={text}" for path, text in texts_of_run.items())
        if not options:
            labels.append(label)
        elif of_model:
            # Models are often listed one after the other, where a comma would be ambiguous.
            labels.append(f"{label} ({options})")
        else:
            labels.append(f"{label}, {options}")
    return labels


def _is_shown(key: VariedKey, base_labels: Sequence[str]) -> bool:
    """Return whether the base labels already show a key's values.

    Each label must mention its value, and no label may stand for two values. A label need not mention the default: a
    key that is left out counts as shown if the other values are.
    """
    value_of_label: dict[str, str] = {}
    for number, value in key.values.items():
        label = base_labels[number]
        text = value_text(value)
        if value_of_label.setdefault(label, text) != text:
            return False
        if value is not ABSENT and not any(_mentions(label, name) for name in file_names(value)):
            return False
    return True


def _mentions(label: str, text: str) -> bool:
    """Return whether a label contains a text as a separate word: 1 is in ``prompt 1``, but not in ``prompt 12``."""
    return bool(text) and re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.])", label) is not None


# --- the names of keys ------------------------------------------------------------------------------------------------


def _key_names(paths: Sequence[KeyPath], configuration: Mapping[str, Any], label: str) -> dict[KeyPath, str]:
    """Return short names where they are clear: ``rate`` next to the attack it belongs to, but ``s_src.beta``."""
    short_names = [_short_name(path, configuration, label) for path in paths]
    names: dict[KeyPath, str] = {}
    for path, name in zip(paths, short_names, strict=True):
        names[path] = name if short_names.count(name) == 1 else ".".join(path)
    return names


def _short_name(path: KeyPath, configuration: Mapping[str, Any], label: str) -> str:
    # An option of a plug-in that the label names needs no prefix.
    for depth in range(len(path) - 1, 1, -1):
        name = _plugin_name(_value_at(configuration, path[:depth]))
        if name is not None and _mentions(label, name):
            return ".".join(path[depth:])
    is_option = path[0] in ("task", "model") and len(path) > 1
    return ".".join(path[1:] if is_option else path)


def _plugin_name(node: Any) -> str | None:
    """Return the name of a plug-in that is described by a name or by a mapping with the key ``name``."""
    name = node.get("name") if isinstance(node, Mapping) else node
    return name if isinstance(name, str) else None


def _value_at(configuration: Mapping[str, Any], path: KeyPath) -> Any:
    node: Any = configuration
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key)
    return node


# --- defaults ---------------------------------------------------------------------------------------------------------


def _default(plan: Plan, path: KeyPath) -> Any:
    """Return the value of an option that a configuration leaves out; ABSENT if it is unknown or not a plain value."""
    try:
        field = _declared_option(plan.config.unresolved, path, plan.config.base_dir)
    except LmassayError:
        return ABSENT
    if field is None:
        return ABSENT
    default = field.get_default(call_default_factory=True)
    if default == "" or not isinstance(default, bool | int | float | str | Path | None):
        return ABSENT
    return default


def _declared_option(configuration: Mapping[str, Any], path: KeyPath, base: Path) -> FieldInfo | None:
    """Find the declaration of an option.

    The options of a plug-in are known from its name, those of a group of options from its type.
    """
    kind: str | None = path[0] if path[0] in ("task", "model") else None
    options: type[BaseModel] | None = None
    for depth, key in enumerate(path[1:], 1):
        if kind is not None:
            name = _plugin_name(_value_at(configuration, path[:depth]))
            options = None if name is None else options_model(current_registry().get(kind, name, base))
        field = None if options is None else options.model_fields.get(key)
        if field is None or depth == len(path) - 1:
            return field
        kind = nested_kind(field)
        options = inner_model(field.annotation)
    return None
