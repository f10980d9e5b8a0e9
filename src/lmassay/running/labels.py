"""Creates the labels of the runs of a sweep: the label of the task or model, and the options that the sweep varies.

A sweep over ``s_src: [chrf, bleu]`` gives ``charswap, s_src=chrf`` and ``charswap, s_src=bleu``. A label contains
neither options that all runs share nor options whose value the label of the task already shows, such as the attack.
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
    for numbers in _grouped(plans, _task_name):
        members = [plans[number] for number in numbers]
        base_labels = [plan.label for plan in members]
        labels = _labels(members, base_labels)
        for number, label in zip(numbers, labels, strict=True):
            labelled[number] = replace(labelled[number], sweep_label=label)
    for numbers in _grouped(plans, _task_and_model):
        members = [plans[number] for number in numbers]
        base_labels = [plan.model_label for plan in members]
        labels = _labels(members, base_labels, of_model=True)
        for number, label in zip(numbers, labels, strict=True):
            labelled[number] = replace(labelled[number], sweep_model=label)
    return with_distinct_labels(labelled)


def with_values_in_label(plan: Plan, paths: Sequence[KeyPath]) -> Plan:
    """Return a run with the values of these keys in its label.

    It is for the runs of a search (such as a search for hyperparameters): each is planned before the next one exists,
    so lmassay cannot find out by comparison which keys vary.
    """
    configuration = plan.config.unresolved
    texts: dict[KeyPath, str] = {}
    for path in paths:
        value = _value_at(configuration, path)
        if value is None:
            continue
        # A plug-in with options is a mapping; its name stands for it.
        shown_value = value.get("name") if isinstance(value, Mapping) else value
        if not _mentions_value(plan.label, shown_value):
            texts[path] = short_texts([shown_value])[0]
    options = _option_texts(texts, configuration, plan.label)
    return replace(plan, sweep_label=", ".join([plan.label, *options]))


def swept_keys(plans: Sequence[Plan]) -> list[str]:
    """Return, for each configuration, which keys have several values: ``task.attack (2 values), seed (3 values)``.

    If several keys always change together, they belong to the items of one list, so the key of the list is named
    instead: ``model`` for a list of models that differ in ``model.name`` and ``model.prefix``.
    """
    summaries = []
    for numbers in _grouped(plans, _configuration_file):
        members = [plans[number] for number in numbers]
        # Each key divides the runs into groups with the same value. Keys that divide them in the same way always change
        # together: they belong to the items of one list. For example, ``model.name`` and ``model.prefix`` divide the
        # runs in the same way if each model of a list has its own prefix.
        # The dict is from the first key of the path and the division, to the path of the list and its number of values.
        list_of_division: dict[Hashable, tuple[KeyPath, int]] = {}
        for path, values_of_run in _values_by_path(members).items():
            distinct_values: set[str] = set()
            for values in values_of_run.values():
                distinct_values.update(values)
            if len(distinct_values) == 1:
                # One run states the default and another leaves it out, so this key does not distinguish them.
                continue
            division = (path[0], _division(values_of_run))
            path_so_far, _ = list_of_division.get(division, (path, 0))
            list_of_division[division] = (_shared_beginning(path_so_far, path), len(distinct_values))
        n_values_of_list: dict[KeyPath, int] = {}
        for path, n_values in list_of_division.values():
            if path in n_values_of_list:
                # Some items of this list differ in their names, and others with the same name differ in their options,
                # so the keys of this list divide the runs in several ways. In this case, count the items themselves.
                items = {identity(_value_at(plan.config.unresolved, path)) for plan in members}
                n_values = len(items)
            n_values_of_list[path] = n_values
        counts = [f"{'.'.join(path)} ({n_values} values)" for path, n_values in n_values_of_list.items()]
        if counts:
            summaries.append(", ".join(counts))
    return summaries


def _values_by_path(plans: Sequence[Plan]) -> dict[KeyPath, dict[int, list[str]]]:
    """Return the values of each varied key in each run, as JSON; keys are given by the path that labels show.

    Two keys may be shown with the same path (``attack`` and ``attack.name``), so a run may have two values.
    """
    values_of_path: dict[KeyPath, dict[int, list[str]]] = {}
    for key in varied_keys([plan.config.unresolved for plan in plans]):
        values_of_run = values_of_path.setdefault(key.shown_path, {})
        for number, value in _values_or_defaults(key, plans).items():
            values_of_run.setdefault(number, []).append(identity(value))
    return values_of_path


def _division(values_of_run: Mapping[int, list[str]]) -> Hashable:
    """Return the groups of runs that have the same values, without the values themselves."""
    runs_of_values: dict[tuple[str, ...], list[int]] = {}
    for number, values in values_of_run.items():
        runs_of_values.setdefault(tuple(values), []).append(number)
    return frozenset(tuple(sorted(runs)) for runs in runs_of_values.values())


def _shared_beginning(first: KeyPath, second: KeyPath) -> KeyPath:
    """Return the keys at the beginning that two paths share."""
    shared: list[str] = []
    for first_key, second_key in zip(first, second, strict=False):
        if first_key != second_key:
            break
        shared.append(first_key)
    return tuple(shared)


def with_distinct_labels(plans: Sequence[Plan]) -> list[Plan]:
    """Return the runs of one command with labels that are all different, where possible.

    If several runs have the same label, whatever else distinguishes them is added to it, such as the folder of their
    configurations.
    """
    labelled = list(plans)
    for numbers in _grouped(plans, _labels_of_run):
        if len(numbers) == 1:
            continue
        configurations = []
        for number in numbers:
            stored = plans[number].config.model_dump(mode="json")
            # Two configurations in different folders may differ in nothing but the folder.
            configurations.append([{**stored, "folder": stored["base_dir"]}])
        differences = distinguishing_values(configurations)
        for number, difference in zip(numbers, differences, strict=True):
            if difference:
                labelled[number] = replace(labelled[number], sweep_label=f"{plans[number].label}, {difference}")
    return labelled


def _grouped(plans: Sequence[Plan], key: Callable[[Plan], Hashable]) -> list[list[int]]:
    """Return lists of the positions in ``plans`` of runs with the same key."""
    groups: dict[Hashable, list[int]] = {}
    for number, plan in enumerate(plans):
        groups.setdefault(key(plan), []).append(number)
    return list(groups.values())


def _task_name(plan: Plan) -> Hashable:
    return plan.task.name


def _task_and_model(plan: Plan) -> Hashable:
    return (plan.task.name, plan.model_label)


def _configuration_file(plan: Plan) -> Hashable:
    return (plan.config.name, plan.config.base_dir)


def _labels_of_run(plan: Plan) -> Hashable:
    return (plan.task.name, plan.label, plan.model_label)


def _labels(plans: Sequence[Plan], base_labels: Sequence[str], *, of_model: bool = False) -> list[str]:
    """Return the base labels, each followed by ``key=value`` for every varied key that the label does not show yet.

    With ``of_model``, these are labels of models, and only keys of the model are shown. Otherwise, they are labels of
    tasks, and all other keys are shown.
    """
    labels = []
    for plan, label, texts in zip(plans, base_labels, _varied_values(plans, base_labels, of_model), strict=True):
        options = ", ".join(_option_texts(texts, plan.config.unresolved, label))
        if not options:
            labels.append(label)
        elif of_model:
            # Models are often listed one after the other, where a comma would be ambiguous.
            labels.append(f"{label} ({options})")
        else:
            labels.append(f"{label}, {options}")
    return labels


def _varied_values(plans: Sequence[Plan], base_labels: Sequence[str], of_model: bool) -> list[dict[KeyPath, str]]:
    """Return, for each run, the keys that vary and are not shown in its label, with their values as short texts."""
    texts: list[dict[KeyPath, str]] = [{} for _ in plans]
    for key in varied_keys([plan.config.unresolved for plan in plans]):
        is_model_key = key.path[0] == "model"
        if is_model_key != of_model or _is_shown(key, base_labels):
            continue
        values = _values_or_defaults(key, plans)
        distinct_values = {identity(value) for value in values.values()}
        if len(distinct_values) == 1:
            # One run states the default, the others leave it out.
            continue
        for number, text in zip(values, short_texts(list(values.values())), strict=True):
            texts[number][key.shown_path] = text
    return texts


def _values_or_defaults(key: VariedKey, plans: Sequence[Plan]) -> dict[int, Any]:
    """Return the value of a key in each run that has it; where the configuration leaves it out, the default."""
    values: dict[int, Any] = {}
    for number, value in key.values.items():
        if value is ABSENT:
            if _lacks_section(plans[number], key.path[:-1]):
                # For example, an attack by gradient has no search, so options of the search do not apply to it.
                continue
            value = _default(plans[number], key.path)
        values[number] = value
    return values


def _lacks_section(plan: Plan, path: KeyPath) -> bool:
    """Whether a run does not have a group of options, and has none by default."""
    configuration = plan.config.unresolved
    if len(path) < 2 or _value_at(configuration, path) is not None:
        return False
    try:
        field = _declared_option(configuration, path, plan.config.base_dir)
    except LmassayError:
        return False
    return field is not None and not field.is_required() and field.get_default(call_default_factory=True) is None


def _is_shown(key: VariedKey, base_labels: Sequence[str]) -> bool:
    """Return whether the base labels already show a key's values.

    The label of each run must mention the run's value, and runs with the same label must have the same value. A run
    that leaves the key out, and so has the default, need not mention it.
    """
    value_of_label: dict[str, str] = {}
    for number, value in key.values.items():
        label = base_labels[number]
        text = value_text(value)
        if value_of_label.setdefault(label, text) != text:
            return False
        if value is not ABSENT and not _mentions_value(label, value):
            return False
    return True


def _mentions_value(label: str, value: Any) -> bool:
    """Return whether a label names a value; a file may be named with or without its folder and suffix."""
    return any(_mentions(label, name) for name in file_names(value))


def _mentions(label: str, text: str) -> bool:
    """Return whether a label contains a text as a separate word: 1 is in ``prompt 1``, but not in ``prompt 12``."""
    return bool(text) and re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.])", label) is not None


# --- the names of keys ------------------------------------------------------------------------------------------------


def _option_texts(texts: Mapping[KeyPath, str], configuration: Mapping[str, Any], label: str) -> list[str]:
    """Return ``name=value`` for each key.

    Names are short where they are clear: ``rate`` next to the attack it belongs to, but ``s_src.beta``.
    """
    short_names = [_short_name(path, configuration, label) for path in texts]
    options = []
    for name, (path, text) in zip(short_names, texts.items(), strict=True):
        if short_names.count(name) > 1:
            name = ".".join(path)
        options.append(f"{name}={text}")
    return options


def _short_name(path: KeyPath, configuration: Mapping[str, Any], label: str) -> str:
    """Return a name of a key that is short, but clear in this label."""
    # An option of a plug-in that the label names needs no prefix.
    for depth in range(len(path) - 1, 1, -1):
        name = _plugin_name(_value_at(configuration, path[:depth]))
        if name is not None and _mentions_value(label, name):
            return ".".join(path[depth:])
    is_option = path[0] in ("task", "model") and len(path) > 1
    if is_option:
        path = path[1:]
    return ".".join(path)


def _plugin_name(node: Any) -> str | None:
    """Return the name of a plug-in that is described by a name or by a mapping with the key ``name``."""
    name = node.get("name") if isinstance(node, Mapping) else node
    if not isinstance(name, str):
        return None
    return name


def _value_at(configuration: Mapping[str, Any], path: KeyPath) -> Any:
    """Return the value at a path of a configuration; None if there is none."""
    node: Any = configuration
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key)
    return node


# --- defaults ---------------------------------------------------------------------------------------------------------


def _default(plan: Plan, path: KeyPath) -> Any:
    """Return the default of an option that a configuration leaves out; ABSENT if it is unknown, empty or not plain.

    Plain defaults are numbers, texts, paths, booleans and None.
    """
    try:
        field = _declared_option(plan.config.unresolved, path, plan.config.base_dir)
    except LmassayError:
        return ABSENT
    if field is None:
        return ABSENT
    default = field.get_default(call_default_factory=True)
    is_plain = isinstance(default, bool | int | float | str | Path | None)
    if default == "" or not is_plain:
        return ABSENT
    return default


def _declared_option(configuration: Mapping[str, Any], path: KeyPath, base: Path) -> FieldInfo | None:
    """Find the declaration of an option.

    The options of a plug-in are known from its name, those of a group of options from its type.
    """
    kind: str | None = None
    if path[0] in ("task", "model"):
        kind = path[0]
    # The options of the plug-in or group that the path has reached.
    options: type[BaseModel] | None = None
    for depth, key in enumerate(path[1:], 1):
        if kind is not None:
            name = _plugin_name(_value_at(configuration, path[:depth]))
            options = None if name is None else options_model(current_registry().get(kind, name, base))
        if options is None:
            return None
        field = options.model_fields.get(key)
        is_last_key = depth == len(path) - 1
        if field is None or is_last_key:
            return field
        kind = nested_kind(field)
        options = inner_model(field.annotation)
    return None
