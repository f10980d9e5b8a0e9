"""Reads YAML safely, from files or from the command line, and keeps the line of every key for error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lmassay.errors import ConfigError, closest
from lmassay.redaction import excerpt
from lmassay.storage.file_names import spelled_on_disk
from lmassay.storage.files import record_read

Lines = Mapping[str, Sequence[tuple[int, str]]]
"""A dict from the path of a key to the lines in which the key occurs, each with its value there.

A key inside a list has two paths: with the index of its item, ``patterns[1].words``, and without, ``patterns.words``.
"""

_MAX_CHARACTERS = 10_000_000
# These limits are necessary because a few lines of YAML with anchors can expand to billions of values, and because deep
# nesting exhausts Python's stack.
_MAX_NODES = 100_000
_MAX_DEPTH = 40
# The words that messages use for YAML's types of scalars.
_SCALARS = {"timestamp": "date", "int": "whole number", "float": "number", "bool": "truth value"}
_MAX_SHOWN_TEXT = 60


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a YAML text comes from: a file or the command line. Messages name lines only for a file."""

    name: str
    is_file: bool

    def at(self, line: int) -> str:
        """Return the location of a line for messages."""
        if self.is_file:
            return f"{self.name}, line {line}"
        return self.name


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The contents of a YAML file, with the lines of its keys for error messages."""

    path: Path
    data: dict[str, Any]
    lines: Lines
    overridden: frozenset[str] = frozenset()
    """Paths of the keys whose values come from the command line."""

    def locate(self, message: str, key: str = "") -> str:
        """Put the location in front of a message that begins with the path of a key.

        The location is the file and the line, or ``--set`` if the value comes from the command line. If the message
        begins with something else, ``key`` is the path of the key whose line is meant.
        """
        # The longest path first, because one option may have set a part of a value that another option has set.
        for overridden in sorted(self.overridden, key=len, reverse=True):
            if re.match(rf"{re.escape(overridden)}(?=[.:\[]|$)", key or message):
                if message.startswith(f"{overridden}:"):
                    return f"--set {message}"
                return f"--set {overridden}: {message}"
        lines = self._lines_of(message, key)
        if not lines:
            return f"{self.path}: {message}"
        numbers = " or ".join(str(line) for line in lines)
        return f"{self.path}, line {numbers}: {message}"

    def error(self, messages: Iterable[str]) -> ConfigError:
        """Return an error with all messages, one per line, in the order of the file.

        Messages about keys that have no line in the file, not even that of a key around them, come last.
        """
        # No file has as many lines as the largest allowed number of characters.
        ordered = sorted(dict.fromkeys(messages), key=lambda message: self._lines_of(message) or [_MAX_CHARACTERS])
        return ConfigError("\n".join(self.locate(message) for message in ordered))

    def _lines_of(self, message: str, key: str = "") -> list[int]:
        """Return the lines that a message is about; several if the same key occurs in several items of a list."""
        key = key or message.partition(":")[0]
        # For a missing key, use the line of the nearest key around it.
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        occurrences = self.lines[key] if key else ()
        # If the message quotes the wrong value, only the lines with this value are meant.
        lines = [line for line, value in occurrences if value and f"(got {value})" in message]
        if not lines:
            lines = [line for line, _ in occurrences]
        return list(dict.fromkeys(lines))


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file that contains a mapping."""
    return YamlFile(path, *read_mapping(path))


def read_mapping(path: Path) -> tuple[dict[str, Any], Lines]:
    """Read a YAML file that contains a mapping, and return it with the lines of its keys."""
    path = spelled_on_disk(path)
    record_read(path)
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); convert it") from None
    except FileNotFoundError:
        raise ConfigError(f"cannot read the configuration {path}: no such file{_similar_file(path)}") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from None
    if len(text) > _MAX_CHARACTERS:
        raise ConfigError(f"{path} is not a configuration: it has more than {_MAX_CHARACTERS} characters")
    data, lines = _read(text, _Source(str(path), is_file=True))
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file must be a mapping of keys to values")
    return data, lines


def _similar_file(path: Path) -> str:
    """Suggest a configuration with a similar name, or how to write one."""
    # The suffixes are not compared, because they make all names similar.
    name_of_stem: dict[str, str] = {}
    if path.parent.is_dir():
        name_of_stem = {file.stem: file.name for file in path.parent.glob("*.y*ml")}
    stem = closest(path.stem, name_of_stem)
    if stem is not None:
        return f"; did you mean '{name_of_stem[stem]}'?"
    return "; `lmassay init` writes a sample"


def read_brackets(text: str, source: str) -> Any:
    """Read a list or mapping in brackets from the command line. Error messages begin with ``source``.

    >>> read_brackets("{name: openai, tries: [1, 2]}", "model")
    {'name': 'openai', 'tries': [1, 2]}
    """
    return _read(text, _Source(source, is_file=False))[0]


def _read(text: str, source: _Source) -> tuple[Any, Lines]:
    """Parse a YAML text, and return its value with the lines of its keys. Raises ConfigError if it is not valid."""
    try:
        if yaml.__with_libyaml__:
            try:
                # The C loader is several times faster, but crashes the process at tens of thousands of levels.
                _refuse_deep_nesting(text, source)
                return _loaded(yaml.CSafeLoader(text), source)
            except (yaml.YAMLError, UnicodeEncodeError):
                # Try again with the Python loader, because more explanations of its messages can be found online. It
                # also has a message about half of a surrogate pair, which the C loader cannot encode.
                pass
        return _loaded(yaml.SafeLoader(text), source)
    except yaml.reader.ReaderError as error:
        location = source.at(text.count("\n", 0, error.position) + 1)
        raise ConfigError(
            f"{location}: not valid YAML: the character {chr(error.character)!a} is not allowed; delete it"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        if not source.is_file and "<stream end>" in problem:
            quoted = text if len(text) <= _MAX_SHOWN_TEXT else f"{excerpt(text, _MAX_SHOWN_TEXT)} …"
            raise ConfigError(f"{source.name}: the brackets of {quoted!r} do not match") from None
        location = source.name if mark is None else source.at(mark.line + 1)
        remedy = ""
        if not source.is_file:
            remedy = "; put a text that begins with a bracket in its own quotes: '\"{x} …\"'"
        raise ConfigError(f"{location}: not valid YAML: {problem}{remedy}") from None
    except RecursionError:
        raise ConfigError(f"{source.name}: not valid YAML: brackets are nested too deeply") from None


def _refuse_deep_nesting(text: str, source: _Source) -> None:
    """Raise a ConfigError if lists and mappings are nested too deeply. Anchors are not followed."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH + 1:
            raise _nested_too_deeply(source)


def _nested_too_deeply(source: _Source) -> ConfigError:
    return ConfigError(
        f"{source.name}: nested more than {_MAX_DEPTH} levels deep, or with anchors that refer to themselves"
    )


def _loaded(loader: yaml.SafeLoader | yaml.CSafeLoader, source: _Source) -> tuple[Any, Lines]:
    """Return the value of a YAML text and the lines of its keys."""
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        # This comes first, because it raises an error for values that would exhaust the memory.
        lines = _lines(node, source)
        return loader.construct_document(node), lines
    finally:
        loader.dispose()


def _lines(root: yaml.Node, source: _Source) -> Lines:
    """Return the lines and values of all keys.

    Raises ConfigError for nesting and anchors that would exhaust the memory.
    """
    lines: dict[str, list[tuple[int, str]]] = {}
    scalars = yaml.constructor.SafeConstructor()
    # Each node with its path, with and without the indexes of list items: `patterns[1].words` and `patterns.words`.
    stack: list[tuple[str, str, int, yaml.Node]] = [("", "", 0, root)]
    count = 0
    while stack:
        exact, plain, depth, node = stack.pop()
        count += 1
        if depth > _MAX_DEPTH:
            raise _nested_too_deeply(source)
        if count > _MAX_NODES:
            raise ConfigError(
                f"{source.name}: more than {_MAX_NODES:,} values, or anchors that multiply to as many; put long lists "
                "into a data file"
            )
        if isinstance(node, yaml.ScalarNode):
            _scalar(scalars, node, source)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                item_path = f"{exact}[{index}]"
                lines[item_path] = [(item.start_mark.line + 1, "")]
                stack.append((item_path, plain, depth + 1, item))
        elif isinstance(node, yaml.MappingNode):
            for name, line, value in _entries(node, source):
                # Values in quotes or blocks are texts, which messages do not repeat in full.
                is_plain_value = isinstance(value, yaml.ScalarNode) and not value.style
                text = repr(_scalar(scalars, value, source)) if is_plain_value else ""
                paths = (f"{exact}.{name}".strip("."), f"{plain}.{name}".strip("."))
                for path in dict.fromkeys(paths):
                    lines.setdefault(path, []).append((line, text))
                stack.append((*paths, depth + 1, value))
    return {key: sorted(occurrences) for key, occurrences in lines.items()}


def _scalar(constructor: yaml.constructor.SafeConstructor, node: yaml.Node, source: _Source) -> Any:
    """Return the value of a scalar.

    Raises ConfigError if it looks like a date but is not one, or if it does not have the type that its tag names.
    """
    try:
        return constructor.construct_object(node)
    except (ValueError, AttributeError, LookupError):
        # PyYAML does not check a value before it converts it, so these errors say little.
        kind = _SCALARS.get(node.tag.rpartition(":")[2], "value of its type")
        location = source.at(node.start_mark.line + 1)
        message = f"{location}: not valid YAML: {node.value!r} is not a {kind}; put the value in quotes"
        raise ConfigError(message) from None


def _entries(node: yaml.MappingNode, source: _Source) -> Iterator[tuple[str, int, yaml.Node]]:
    """Yield the name, line and value of each key of a mapping.

    Raises ConfigError if a key is not a text, or if it occurs twice.
    """
    first_lines: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(
                f"{source.at(line)}: a list or mapping in brackets is used as a key; if it belongs to a text, put the "
                "whole text in quotes"
            )
        if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
            raise ConfigError(f"{source.at(line)}: the key {key.value!r} is not a text; put it in quotes")
        name = str(key.value)
        # "<<" merges another mapping and may occur several times.
        if name in first_lines and name != "<<":
            message = f"{source.at(line)}: the key '{name}' appears twice"
            if source.is_file:
                message += f", first in line {first_lines[name]}"
            raise ConfigError(message)
        first_lines[name] = line
        yield name, line, value
