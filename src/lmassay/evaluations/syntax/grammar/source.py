"""Where in a grammar file something stands, so that every mistake is reported with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError, did_you_mean
from lmassay.storage.yamlfile import YamlFile


class GrammarMistake(Exception):  # noqa: N818 - reads as what it is
    """Something in a grammar is wrong; :meth:`GrammarSource.at` adds the place and makes it a ConfigError."""


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """A grammar file."""

    file: YamlFile

    def place(self, key: str) -> str:
        """File, line and key."""
        return self.file.locate(key)

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Mistakes that are found inside are reported with the place of this key."""
        try:
            yield
        except GrammarMistake as misfit:
            raise ConfigError(self.file.locate(f"{key}: {misfit}")) from None


def text(value: Any) -> str:
    """A value that must be text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise GrammarMistake(f"YAML reads a word such as yes, no, on or off as {value}; put it in quotes")
    raise GrammarMistake(f"{value!r} is no text; put it in quotes")


def texts(value: Any) -> list[str]:
    """A list of names that must not be empty, or one name alone."""
    found = [text(item) for item in value] if isinstance(value, list) else [text(value)]
    if not found:
        raise GrammarMistake("the list is empty; give at least one name or leave the key out")
    return found


def check_keys(entry: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for name in entry:
        if name not in known:
            raise GrammarMistake(f"unknown key '{name}'{did_you_mean(name, known)}")


def check_no_repetition(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GrammarMistake(f"'{name}' is there twice; leave one of them out")
        seen.add(name)
