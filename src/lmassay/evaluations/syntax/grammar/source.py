"""The location of each part of a grammar file, so that every mistake is reported with file, line and key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError, did_you_mean
from lmassay.storage.yamlfile import YamlFile


class GrammarMistake(Exception):  # noqa: N818 - reads as what it is
    """A mistake in a grammar; :meth:`GrammarSource.at` adds the location and raises it as a ConfigError.

    ``part`` is the path of the faulty entry below the key that is being read, such as ``.words[3]``. A message names
    the key without this path, but gives the line of the entry itself: a category may have hundreds of words.
    """

    def __init__(self, message: str, part: str = "") -> None:
        super().__init__(message)
        self.part = part


@contextmanager
def within(part: str) -> Iterator[None]:
    """Report mistakes inside the ``with`` block with the line of an entry below the key that is being read."""
    try:
        yield
    except GrammarMistake as mistake:
        mistake.part = f"{part}{mistake.part}"
        raise


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """A grammar file."""

    file: YamlFile

    def locate(self, key: str) -> str:
        """Return file, line and key."""
        return self.file.locate(key)

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Report mistakes inside the ``with`` block with the location of this key."""
        try:
            yield
        except GrammarMistake as mistake:
            raise ConfigError(self.file.locate(f"{key}: {mistake}", f"{key}{mistake.part}")) from None


def text(value: Any) -> str:
    """Return a value that must be text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise GrammarMistake(f"YAML reads a word such as yes, no, on or off as {value}; put it in quotes")
    raise GrammarMistake(f"{value!r} is not text; put it in quotes")


def texts(value: Any) -> list[str]:
    """Return a list of names that must not be empty; a single name becomes a list."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise GrammarMistake("the list is empty; give at least one name or leave the key out")
    return [text(item) for item in items]


def check_keys(entry: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise a GrammarMistake for the first unknown key."""
    known_names = list(known)
    for name in entry:
        if name not in known_names:
            raise GrammarMistake(f"unknown key '{name}'{did_you_mean(name, known_names)}", f".{name}")


def check_no_repetition(names: Iterable[str]) -> None:
    """Raise a GrammarMistake for the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GrammarMistake(f"'{name}' appears twice; leave one of them out")
        seen.add(name)
