"""Reading YAML, from a file so that every key can be shown with its line, or from the command line; nothing in it is
executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lmassay.errors import ConfigError
from lmassay.storage.files import record_read

Lines = Mapping[str, Sequence[tuple[int, str]]]
"""Key path → the lines it stands in, each with the plain value that stands there.

A key inside a list is found with the place of its entry, ``patterns[1].words``, and without, ``patterns.words``.
"""

_MAX_CHARACTERS = 10_000_000
_MAX_NODES = 100_000
_MAX_DEPTH = 40
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a text comes from; only a file has lines that a reader can look up."""

    name: str
    is_file: bool

    def at(self, line: int) -> str:
        return f"{self.name}, line {line}" if self.is_file else self.name


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A YAML file as written, with the line of every key, so that mistakes can be shown in their place."""

    path: Path
    data: dict[str, Any]
    lines: Lines

    def locate(self, message: str) -> str:
        """Put file and line before a message that begins with a key path."""
        lines = self._lines_of(message)
        where = " or ".join(str(line) for line in lines)
        return f"{self.path}, line {where}: {message}" if lines else f"{self.path}: {message}"

    def error(self, messages: Iterable[str]) -> ConfigError:
        """All mistakes as one error, a line each, in the order of the file; missing keys come last."""
        ordered = sorted(dict.fromkeys(messages), key=lambda message: self._lines_of(message) or [_MAX_CHARACTERS])
        return ConfigError("\n".join(self.locate(message) for message in ordered))

    def _lines_of(self, message: str) -> list[int]:
        key = message.partition(":")[0]
        # A key that is not there has the line of the nearest one around it.
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        places = self.lines[key] if key else ()
        # The same key may stand in several entries of a list: the value that was refused tells which is meant.
        meant = [line for line, value in places if value and f"(got {value})" in message]
        return list(dict.fromkeys(meant or [line for line, _ in places]))


def read_yaml(path: Path) -> YamlFile:
    """A YAML file that holds a mapping."""
    return YamlFile(path, *read_mapping(path))


def read_mapping(path: Path) -> tuple[dict[str, Any], Lines]:
    """A YAML file that holds a mapping, and the lines of its keys."""
    record_read(path)
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); convert it") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from None
    if len(text) > _MAX_CHARACTERS:
        raise ConfigError(f"{path} is no configuration: it has more than {_MAX_CHARACTERS} characters")
    data, lines = _read(text, _Source(str(path), is_file=True))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file must be a mapping of keys to values")
    return data, lines


def read_brackets(text: str, where: str) -> Any:
    """A list or mapping in brackets, as typed on a command line; ``where`` begins what is said of a mistake.

    >>> read_brackets("{name: openai, tries: [1, 2]}", "model")
    {'name': 'openai', 'tries': [1, 2]}
    """
    return _read(text, _Source(where, is_file=False))[0]


def _read(text: str, source: _Source) -> tuple[Any, Lines]:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        lines = _lines(node, source) if node is not None else {}
        return yaml.safe_load(text), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        if not source.is_file and "<stream end>" in problem:
            shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"
            raise ConfigError(f"{source.name}: the brackets of {shown!r} do not match") from None
        place = source.name if mark is None else source.at(mark.line + 1)
        remedy = "" if source.is_file else "; a text that begins with a bracket goes in quotes of its own: '\"{x} …\"'"
        raise ConfigError(f"{place}: no valid YAML: {problem}{remedy}") from None
    except RecursionError:
        raise ConfigError(f"{source.name}: no valid YAML: brackets inside brackets without end") from None
    except ValueError as error:
        # A value that looks like a date and is none.
        raise ConfigError(f"{source.name}: no valid YAML: {error}; put the value in quotes") from None


def _lines(root: yaml.Node, source: _Source) -> Lines:
    """Key paths with the lines and values they have; refuses what no honest configuration contains."""
    found: dict[str, list[tuple[int, str]]] = {}
    # Paths with and without the places of list entries: `patterns[1].words` and `patterns.words`.
    stack: list[tuple[str, str, int, yaml.Node]] = [("", "", 0, root)]
    count = 0
    while stack:
        exact, plain, depth, node = stack.pop()
        count += 1
        if count > _MAX_NODES or depth > _MAX_DEPTH:
            raise ConfigError(
                f"{source.name}: brackets go deeper than {_MAX_DEPTH}, or anchors refer to themselves or never end"
            )
        if isinstance(node, yaml.SequenceNode):
            for place, item in enumerate(node.value):
                inside = f"{exact}[{place}]"
                found[inside] = [(item.start_mark.line + 1, "")]
                stack.append((inside, plain, depth + 1, item))
        elif isinstance(node, yaml.MappingNode):
            for name, line, value in _entries(node, source):
                is_plain_value = isinstance(value, yaml.ScalarNode) and not value.style
                text = repr(yaml.safe_load(value.value)) if is_plain_value else ""
                paths = (f"{exact}.{name}".strip("."), f"{plain}.{name}".strip("."))
                for path in dict.fromkeys(paths):
                    found.setdefault(path, []).append((line, text))
                stack.append((*paths, depth + 1, value))
    return {key: sorted(places) for key, places in found.items()}


def _entries(node: yaml.MappingNode, source: _Source) -> Iterator[tuple[str, int, yaml.Node]]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
            raise ConfigError(f"{source.at(line)}: the key {key.value!r} is no text; put it in quotes")
        name = str(key.value)
        if name in seen and name != "<<":
            earlier = f" in line {seen[name]}" if source.is_file else ""
            raise ConfigError(f"{source.at(line)}: the key '{name}' was given already{earlier}")
        seen[name] = line
        yield name, line, value
