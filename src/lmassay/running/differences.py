"""Find the keys in which configurations differ, and show their values as short texts in the labels of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from lmassay.redaction import redact

KeyPath = tuple[str, ...]
"""The path of a value in a configuration: ``("task", "attack", "rate")``."""

MAX_VALUE_LENGTH = 40
# If two long texts have to be distinguished, how many characters before their first difference are shown.
_CONTEXT_BEFORE_DIFFERENCE = 8
# These keys do not affect the results: the name of a run, the folder of its configuration and its budget. The field
# ``unresolved`` of RunConfig repeats the other keys.
_NOT_COMPARED = ("name", "base_dir", "budget", "unresolved")
# The values of these keys are always plug-ins, even where all configurations give only their names.
_PLUGIN_PATHS = {("task",), ("model",)}
# White space, control characters, and the marks that reorder text.
_BLANKS = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")
_NEEDS_QUOTES = re.compile(r"[\s,=\[\]\"]|^$")


class Absent(Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "absent"


ABSENT: Literal[Absent.ABSENT] = Absent.ABSENT
"""The value of a key that a configuration leaves out. It is not None, because a key may be set to None."""


@dataclass(frozen=True, slots=True)
class VariedKey:
    """A key whose value is not the same in all configurations.

    The options of a plug-in are compared only between configurations that name the same plug-in, so ``values`` may
    cover only some of the configurations.
    """

    path: KeyPath
    values: Mapping[int, Any]
    """The number of a configuration → its value."""

    @property
    def shown_path(self) -> KeyPath:
        """The path without a final ``name``, because ``s_src: bleu`` is short for ``s_src: {name: bleu}``."""
        if self.path[-1] == "name" and len(self.path) > 1:
            return self.path[:-1]
        return self.path


def varied_keys(configurations: Sequence[Mapping[str, Any]]) -> list[VariedKey]:
    """Return the keys in which configurations differ: those of the task first, those of the model last."""
    by_number = dict(enumerate(configurations))
    keys = _keys_in(configurations, without=_NOT_COMPARED)
    varied: list[VariedKey] = []
    for key in sorted(keys, key=_task_first_model_last):
        varied += _varied((key,), _values_at(key, by_number))
    return varied


def _task_first_model_last(key: str) -> int:
    order = {"task": 0, "model": 2}
    return order.get(key, 1)


def _keys_in(mappings: Iterable[Mapping[str, Any]], without: Sequence[str]) -> list[str]:
    """Return all keys of several mappings, in the order in which they first appear."""
    keys: dict[str, None] = {}
    for mapping in mappings:
        for key in mapping:
            if key not in without:
                keys[str(key)] = None
    return list(keys)


def _values_at(key: str, nodes: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
    """Return the value of a key in each mapping, ABSENT where it is left out."""
    values: dict[int, Any] = {}
    for number, node in nodes.items():
        values[number] = node.get(key, ABSENT)
    return values


def _varied(path: KeyPath, values: Mapping[int, Any]) -> Iterator[VariedKey]:
    """Yield the differences at a key, or at the keys inside it."""
    nodes = _as_mappings(path, values)
    if nodes is None:
        if _differ(values):
            yield VariedKey(path, values)
        return
    names = _values_at("name", nodes)
    if _differ(names):
        yield VariedKey((*path, "name"), names)
    for members in _comparable_nodes(path, nodes):
        for key in _keys_in(members.values(), without=("name",)):
            yield from _varied((*path, key), _values_at(key, members))


def _differ(values: Mapping[int, Any]) -> bool:
    return len({identity(value) for value in values.values()}) > 1


def _as_mappings(path: KeyPath, values: Mapping[int, Any]) -> dict[int, Mapping[str, Any]] | None:
    """Return the values as mappings if some of them are mappings: ``chrf`` is short for ``{name: chrf}``."""
    has_mapping = any(isinstance(value, Mapping) for value in values.values())
    if not has_mapping and path not in _PLUGIN_PATHS:
        return None
    nodes: dict[int, Mapping[str, Any]] = {}
    for number, value in values.items():
        if isinstance(value, Mapping):
            nodes[number] = value
        elif isinstance(value, str):
            nodes[number] = {"name": value}
        elif value is None or value is ABSENT:
            nodes[number] = {}
        else:
            return None
    return nodes


def _comparable_nodes(path: KeyPath, nodes: Mapping[int, Mapping[str, Any]]) -> list[dict[int, Mapping[str, Any]]]:
    """Group the nodes whose options can be compared: those of the same plug-in. Tasks must also have the same label."""
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for number, node in nodes.items():
        label = node.get("label") if path == ("task",) else None
        groups.setdefault(identity([node.get("name"), label]), {})[number] = node
    return list(groups.values())


def identity(value: Any) -> str:
    """Return a value as JSON text; two values are the same if their texts are equal."""
    return json.dumps(value, sort_keys=True, default=str)


# --- texts that distinguish configurations ----------------------------------------------------------------------------


def distinguishing_values(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return for each group of configurations a text that distinguishes it from the others: ``s_src=bleu, seed=2``.

    Only as many keys are named as are needed, and only keys in which all configurations of a group agree. Groups that
    cannot be distinguished get the same text. A text can be empty: a key that a configuration leaves out is not named.

    >>> distinguishing_values([[{"task": {"name": "t", "s_src": "chrf"}}], [{"task": {"name": "t", "s_src": "bleu"}}]])
    ['s_src=chrf', 's_src=bleu']
    """
    configurations: list[Mapping[str, Any]] = []
    group_of: list[int] = []
    for number, members in enumerate(groups):
        configurations += members
        group_of += [number] * len(members)
    parts: list[tuple[str, ...]] = [()] * len(groups)
    for key in varied_keys(configurations):
        texts = _texts_by_group(key, group_of, len(groups))
        if texts is None:
            continue
        extended: list[tuple[str, ...]] = []
        for part, text in zip(parts, texts, strict=True):
            extended.append((*part, text) if text else part)
        # A key that distinguishes no further groups is left out.
        if len(set(extended)) > len(set(parts)):
            parts = extended
        if len(set(parts)) == len(groups):
            break
    return [", ".join(part) for part in parts]


def _texts_by_group(key: VariedKey, group_of: Sequence[int], groups: int) -> list[str] | None:
    """Return ``key=value`` for each group; None if the configurations of a group have different values."""
    values: list[Any] = [ABSENT] * groups
    identities: dict[int, str] = {}
    for number, group in enumerate(group_of):
        value = key.values.get(number, ABSENT)
        if identities.setdefault(group, identity(value)) != identity(value):
            return None
        values[group] = value
    name = ".".join(key.shown_path).removeprefix("task.")
    present = [number for number, value in enumerate(values) if value is not ABSENT]
    texts = [""] * groups
    for number, text in zip(present, short_texts([values[number] for number in present]), strict=True):
        texts[number] = f"{name}={text}"
    return texts


# --- values as short texts --------------------------------------------------------------------------------------------


def short_texts(values: Sequence[Any], max_length: int = MAX_VALUE_LENGTH, *, in_list: bool = True) -> list[str]:
    """Return each value in a few characters. Files are shown by name, long texts are cut; different values get
    different texts.

    A text has at most ``max_length`` characters, plus quotes and a number if it needs them. Within a list such as
    ``prompt="two words", k=4``, texts need quotes to show where they end. Without ``in_list``, only an empty text is
    quoted.

    >>> short_texts(["data/a.txt", "data/b.txt"])
    ['a.txt', 'b.txt']
    >>> short_texts([0.9, True, None, "two words"])
    ['0.9', 'true', 'none', '"two words"']
    """
    originals = {identity(value): value for value in values}
    texts: dict[str, str] = {}
    for key, value in originals.items():
        texts[key] = _shortened(_file_name(value_text(value)), max_length)
    for ambiguous in _keys_with_equal_text(texts):
        texts |= _longer_texts({key: originals[key] for key in ambiguous}, max_length)
    for key, value in originals.items():
        if isinstance(value, str) and (in_list or not texts[key]):
            texts[key] = _quoted(texts[key])
    # Values that differ only in white space, or in several places, may still have equal texts: these are numbered.
    for ambiguous in _keys_with_equal_text(texts):
        for number, key in enumerate(ambiguous, 1):
            texts[key] = f"{texts[key]} #{number}"
    return [texts[identity(value)] for value in values]


def _keys_with_equal_text(texts: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of keys that have the same text."""
    groups: dict[str, list[str]] = {}
    for key, text in texts.items():
        groups.setdefault(text, []).append(key)
    return [members for members in groups.values() if len(members) > 1]


def _longer_texts(values: Mapping[str, Any], max_length: int) -> dict[str, str]:
    """Return texts for values whose short texts are equal.

    Numbers get all their digits, paths their folders, and long texts begin shortly before the first difference.
    """
    full: dict[str, str] = {}
    for key, value in values.items():
        full[key] = repr(value) if isinstance(value, float) else value_text(value)
    if max(map(len, full.values())) <= max_length:
        return full
    start = max(0, _common_prefix_length(list(full.values())) - _CONTEXT_BEFORE_DIFFERENCE)
    texts: dict[str, str] = {}
    for key, text in full.items():
        if start > 0:
            text = f"…{text[start:]}"
        texts[key] = _shortened(text, max_length)
    return texts


def value_text(value: Any) -> str:
    """Return a value as one line of text, without secrets."""
    if value is None:
        return "none"
    if value is ABSENT:
        return "default"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        text = _plugin_text(value)
    elif isinstance(value, Mapping | list | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    # Labels are stored as UTF-8, which cannot represent a lone surrogate.
    writable = text.encode("utf-8", "backslashreplace").decode()
    return _BLANKS.sub(" ", redact(writable)).strip()


def _plugin_text(spec: Mapping[str, Any]) -> str:
    """Return a plug-in with its options as labels show it: ``pet, learning_rate=1e-05``."""
    parts = [str(spec["name"])]
    for option, value in spec.items():
        if option != "name":
            parts.append(f"{option}={value_text(value)}")
    return ", ".join(parts)


def file_names(value: Any) -> list[str]:
    """Return the texts by which a label may name a value: in full, by file name, or by file name without suffix."""
    text = value_text(value)
    name = _file_name(text)
    stem = name.rpartition(".")[0] or name
    return list(dict.fromkeys([text, name, stem]))


def _file_name(text: str) -> str:
    """Return the name of the file if a text is a path, otherwise the text."""
    # A sentence may contain a slash, but it does not begin with one.
    is_path = "/" in text and "://" not in text and (" " not in text or text.startswith("/"))
    if not is_path:
        return text
    return text.rstrip("/").rpartition("/")[2]


def _common_prefix_length(texts: Sequence[str]) -> int:
    length = 0
    for characters in zip(*texts, strict=False):
        if len(set(characters)) > 1:
            break
        length += 1
    return length


def _shortened(text: str, max_length: int) -> str:
    if len(text) <= max_length:
        return text
    return f"{text[: max_length - 1].rstrip()}…"


def _quoted(text: str) -> str:
    """Put a text in quotes if it would otherwise be unclear where the value ends."""
    if _NEEDS_QUOTES.search(text):
        return f'"{text}"'
    return text
