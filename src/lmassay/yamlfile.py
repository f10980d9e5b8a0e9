"""Reading YAML so that every key can be shown with its line; nothing in the file is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from lmassay.errors import ConfigError

Lines = Mapping[str, Sequence[tuple[int, str]]]
"""Key path → the lines it stands in, each with the plain value that stands there."""

_MAX_CHARACTERS = 10_000_000
_MAX_NODES = 100_000
_MAX_DEPTH = 40


def read_mapping(path: Path) -> tuple[dict[str, Any], Lines]:
    """A YAML file that holds a mapping, and the lines of its keys."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); convert it") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from None
    if len(text) > _MAX_CHARACTERS:
        raise ConfigError(f"{path} is no configuration: it has more than {_MAX_CHARACTERS} characters")
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        lines = _lines(node, path) if node is not None else {}
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{line}: no valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: no valid YAML: brackets inside brackets without end") from None
    except ValueError as error:
        # A value that looks like a date and is none.
        raise ConfigError(f"{path}: no valid YAML: {error}; put the value in quotes") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file must be a mapping of keys to values")
    return data, lines


def _lines(root: yaml.Node, path: Path) -> Lines:
    """Key paths with the lines and values they have; refuses what no honest configuration contains."""
    found: dict[str, list[tuple[int, str]]] = {}
    stack: list[tuple[str, int, yaml.Node]] = [("", 0, root)]
    count = 0
    while stack:
        prefix, depth, node = stack.pop()
        count += 1
        if count > _MAX_NODES or depth > _MAX_DEPTH:
            raise ConfigError(f"{path}: the anchors of this file refer to themselves or expand without end")
        if isinstance(node, yaml.SequenceNode):
            stack += [(prefix, depth + 1, item) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            for name, line, value in _entries(node, path):
                full = f"{prefix}.{name}".strip(".")
                text = (
                    repr(yaml.safe_load(value.value)) if isinstance(value, yaml.ScalarNode) and not value.style else ""
                )
                found.setdefault(full, []).append((line, text))
                stack.append((full, depth + 1, value))
    return {key: sorted(places) for key, places in found.items()}


def _entries(node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, int, yaml.Node]]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
            raise ConfigError(f"{path}, line {line}: the key {key.value!r} is no text; put it in quotes")
        name = str(key.value)
        if name in seen and name != "<<":
            raise ConfigError(f"{path}, line {line}: the key '{name}' was given already in line {seen[name]}")
        seen[name] = line
        yield name, line, value
