"""What configurations differ in, and short texts for the values, with which labels tell runs apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from lmassay.redaction import redact

KeyPath = tuple[str, ...]
"""Where a value stands in a configuration: ``("task", "attack", "rate")``."""

MAX_VALUE_LENGTH = 40
# How much of two long texts is shown before the place where they part.
_BEFORE_DIFFERENCE = 8
# They say what a run is called, where it was read and what it may spend, not what is measured.
_NOT_COMPARED = ("name", "base_dir", "budget", "written")
_PLUGINS = ("task", "model")
# White space, control characters, and the marks that reorder text.
_BLANKS = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")
_NEEDS_QUOTES = re.compile(r"[\s,=\[\]\"]|^$")


class Absent(Enum):
    """A key that a configuration leaves out."""

    ABSENT = "absent"


ABSENT: Literal[Absent.ABSENT] = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class VariedKey:
    """A key whose value is not the same in all configurations: the values by the number of the configuration.

    The options of a plug-in are compared only between configurations that name the same plug-in, so a key may have
    values for some of the configurations only.
    """

    path: KeyPath
    values: Mapping[int, Any]

    @property
    def shown_path(self) -> KeyPath:
        """``s_src: bleu`` is short for ``s_src: {name: bleu}``, and is shown so."""
        return self.path[:-1] if self.path[-1] == "name" and len(self.path) > 1 else self.path


def varied_keys(configurations: Sequence[Mapping[str, Any]]) -> list[VariedKey]:
    """The keys that differ: those of the task first, those of the model last."""
    keys = dict.fromkeys(str(key) for configuration in configurations for key in configuration)
    found: list[VariedKey] = []
    for key in sorted(keys, key=lambda key: (key == "model", key != "task")):
        if key in _NOT_COMPARED:
            continue
        values = {}
        for number, configuration in enumerate(configurations):
            values[number] = configuration.get(key, ABSENT)
        found += _varied((key,), values)
    return found


def _varied(path: KeyPath, values: Mapping[int, Any]) -> Iterator[VariedKey]:
    nodes = _as_mappings(path, values)
    if nodes is None:
        if len({identity(value) for value in values.values()}) > 1:
            yield VariedKey(path, values)
        return
    names = {number: node.get("name", ABSENT) for number, node in nodes.items()}
    if len({identity(name) for name in names.values()}) > 1:
        yield VariedKey((*path, "name"), names)
    for members in _scopes(path, nodes):
        for key in dict.fromkeys(key for node in members.values() for key in node if key != "name"):
            of_key = {number: node.get(key, ABSENT) for number, node in members.items()}
            yield from _varied((*path, str(key)), of_key)


def _as_mappings(path: KeyPath, values: Mapping[int, Any]) -> dict[int, Mapping[str, Any]] | None:
    """The values as mappings, if that is what some of them are: ``chrf`` is short for ``{name: chrf}``."""
    if not any(isinstance(value, Mapping) for value in values.values()) and path not in {(p,) for p in _PLUGINS}:
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


def _scopes(path: KeyPath, nodes: Mapping[int, Mapping[str, Any]]) -> list[dict[int, Mapping[str, Any]]]:
    """Configurations whose options are compared: those of one plug-in, and of tasks those of one label."""
    scopes: dict[str, dict[int, Mapping[str, Any]]] = {}
    for number, node in nodes.items():
        label = node.get("label") if path == ("task",) else None
        scopes.setdefault(identity([node.get("name"), label]), {})[number] = node
    return list(scopes.values())


def identity(value: Any) -> str:
    """The value as JSON: values are the same if this is."""
    return json.dumps(value, sort_keys=True, default=str)


# --- what tells configurations apart ----------------------------------------------------------------------------------


def distinguishing_values(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """For each group of configurations the values that tell it from the others: ``s_src=bleu, seed=2``.

    Only as many keys are named as are needed. Where a group has several configurations, only keys that they agree in
    can tell it from the others. The text is empty for a group that cannot be told apart.

    >>> telling_apart([[{"task": {"name": "t", "s_src": "chrf"}}], [{"task": {"name": "t", "s_src": "bleu"}}]])
    ['s_src=chrf', 's_src=bleu']
    """
    group_of: list[int] = []
    configurations: list[Mapping[str, Any]] = []
    for number, members in enumerate(groups):
        configurations += members
        group_of += [number] * len(members)
    parts: list[tuple[str, ...]] = [()] * len(groups)
    for key in varied_keys(configurations):
        texts = _texts_by_group(key, group_of, len(groups))
        if texts is None:
            continue
        more = [(*known, text) if text else known for known, text in zip(parts, texts, strict=True)]
        if len(set(more)) > len(set(parts)):
            parts = more
        if len(set(parts)) == len(groups):
            break
    return [", ".join(told) for told in parts]


def _texts_by_group(key: VariedKey, group_of: Sequence[int], groups: int) -> list[str] | None:
    """``key=value`` for each group; None if the configurations of a group do not agree in the key."""
    values: list[Any] = [ABSENT] * groups
    seen: dict[int, str] = {}
    for number, group in enumerate(group_of):
        value = key.values.get(number, ABSENT)
        if seen.setdefault(group, identity(value)) != identity(value):
            return None
        values[group] = value
    name = ".".join(key.shown_path).removeprefix("task.")
    present = [value for value in values if value is not ABSENT]
    texts = iter(short_texts(present))
    return ["" if value is ABSENT else f"{name}={next(texts)}" for value in values]


# --- values as short texts --------------------------------------------------------------------------------------------


def short_texts(values: Sequence[Any], longest: int = MAX_VALUE_LENGTH) -> list[str]:
    """Each value in a few characters, different values by different texts: files by their names, long texts cut.

    >>> short_texts(["data/a.txt", "data/b.txt"])
    ['a.txt', 'b.txt']
    >>> short_texts([0.9, True, None, "two words"])
    ['0.9', 'true', 'none', '"two words"']
    """
    originals = {identity(value): value for value in values}
    texts = {key: _cut(_file_name(value_text(value)), longest) for key, value in originals.items()}
    for alike in _sharing_a_text(texts):
        texts |= _longer_texts({key: originals[key] for key in alike}, longest)
    for key, value in originals.items():
        if isinstance(value, str):
            texts[key] = _quoted(texts[key])
    # Texts that differ in several places, or only in white space, are numbered.
    for alike in _sharing_a_text(texts):
        texts |= {key: f"{texts[key]} #{number}" for number, key in enumerate(alike, 1)}
    return [texts[identity(value)] for value in values]


def _sharing_a_text(texts: Mapping[str, str]) -> list[list[str]]:
    """The keys of values that have one text in common."""
    groups: dict[str, list[str]] = {}
    for key, text in texts.items():
        groups.setdefault(text, []).append(key)
    return [members for members in groups.values() if len(members) > 1]


def _longer_texts(values: Mapping[str, Any], longest: int) -> dict[str, str]:
    """Values whose short texts are the same: numbers in full, paths with their folders, texts from where they part."""
    full = {}
    for key, value in values.items():
        full[key] = repr(value) if isinstance(value, float) else value_text(value)
    start = max(0, _common_beginning(list(full.values())) - _BEFORE_DIFFERENCE)
    if max(map(len, full.values())) <= longest:
        return full
    return {key: _cut(f"…{text[start:]}" if start else text, longest) for key, text in full.items()}


def value_text(value: Any) -> str:
    """A value on one line, without anything that is a secret."""
    if value is None:
        return "none"
    if value is ABSENT:
        return "default"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping | list | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    # A lone surrogate has no UTF-8, in which labels are stored.
    writable = text.encode("utf-8", "backslashreplace").decode()
    return _BLANKS.sub(" ", redact(writable)).strip()


def file_names(value: Any) -> list[str]:
    """How a label may name a value: as it is, by the name of the file, or by that without its ending."""
    text = value_text(value)
    name = _file_name(text)
    return list(dict.fromkeys([text, name, name.rpartition(".")[0] or name]))


def _file_name(text: str) -> str:
    is_path = "/" in text and " " not in text and "://" not in text
    return text.rstrip("/").rpartition("/")[2] if is_path else text


def _common_beginning(texts: Sequence[str]) -> int:
    length = 0
    for signs in zip(*texts, strict=False):
        if len(set(signs)) > 1:
            break
        length += 1
    return length


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _quoted(text: str) -> str:
    """In quotes where it would not be seen where the value ends."""
    return f'"{text}"' if _NEEDS_QUOTES.search(text) else text
