"""The keys of a description of data, checked: every mistake is told with file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, DataError, did_you_mean
from lmassay.evaluations.bias.records import Record
from lmassay.storage.yamlfile import Lines, read_mapping

KEYS = (
    *("name", "language", "licence", "source", "files", "id", "category", "template", "context", "question"),
    *("choices", "correct", "count_from", "context_type", "ambiguous", "disambiguated", "unknown", "unknown_texts"),
    *("biased", "groups", "stereotyped_groups", "polarity", "negative", "non_negative", "label", "by"),
)
Several = str | tuple[str, ...]
"""One field that holds a list, or a field for each entry."""
_JOINED = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """Where a value stands: a field, several that are joined, or what a pattern finds in them."""

    paths: tuple[str, ...]
    pattern: re.Pattern[str] | None = None

    def is_in(self, record: Record) -> bool:
        return all(record.has(path) for path in self.paths)

    def value(self, record: Record) -> Any:
        """The value as it is, if it is one field."""
        return self.text(record) if self.pattern or len(self.paths) > 1 else record.get(self.paths[0])

    def text(self, record: Record) -> str:
        text = _JOINED.join(record.text(path) for path in self.paths)
        if self.pattern is None:
            return text
        found = self.pattern.search(text)
        if found is None:
            raise DataError(f"{record.where}: the pattern '{self.pattern.pattern}' is not found in '{text}'")
        return _JOINED.join(part for part in found.groups() if part is not None) or found[0]


@dataclass(frozen=True, slots=True)
class Keys:
    """What stands in a description."""

    path: Path
    data: Mapping[str, Any]
    lines: Lines

    @classmethod
    def read(cls, path: Path) -> Keys:
        data, lines = read_mapping(path)
        keys = cls(path, data, lines)
        for name in data:
            if name not in KEYS:
                raise ConfigError(f"{keys.place(name)}: unknown key{did_you_mean(name, KEYS)}")
        return keys

    def place(self, key: str) -> str:
        """File, line and key, for messages."""
        lines = self.lines.get(key)
        return f"{self.path}{f', line {lines[0][0]}' if lines else ''}: {key}"

    def text(self, key: str, default: str) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str):
            raise ConfigError(f"{self.place(key)}: {value!r} is no text; put it in quotes")
        return value

    def choice(self, key: str, known: Sequence[str]) -> str:
        value = self.text(key, known[0])
        if value not in known:
            raise ConfigError(f"{self.place(key)}: '{value}' must be one of {', '.join(known)}")
        return value

    def number(self, key: str, default: int) -> int:
        value = self.data.get(key, default)
        if value not in (0, 1) or isinstance(value, bool):
            raise ConfigError(f"{self.place(key)}: {value!r} must be 0 or 1")
        return int(value)

    def values(self, key: str, default: Sequence[str]) -> tuple[str, ...]:
        """One text or several."""
        value = self.data.get(key)
        if value is None:
            return tuple(default)
        values = value if isinstance(value, list) else [value]
        if not values or any(isinstance(text, dict | list | bool) or text is None for text in values):
            raise ConfigError(f"{self.place(key)}: {value!r} must be a text or a list of texts; put them in quotes")
        return tuple(map(str, values))

    def column(self, key: str) -> Column:
        return self.optional_column(key) or Column((key,))

    def optional_column(self, key: str) -> Column | None:
        value = self.data.get(key)
        return None if value is None else self._column(key, value)

    def columns(self, key: str) -> dict[str, Column]:
        """Names with their columns: a mapping, or a list of columns that keep their last name."""
        value = self.data.get(key) or {}
        if isinstance(value, str | list):
            listed = [value] if isinstance(value, str) else value
            if not all(isinstance(path, str) for path in listed):
                raise ConfigError(f"{self.place(key)}: {value!r} must be a list of columns, or a mapping name: column")
            value = {path.rpartition(".")[2]: path for path in listed}
        if not isinstance(value, dict):
            raise ConfigError(f"{self.place(key)}: {value!r} must be a list of columns, or a mapping name: column")
        return {str(name): self._column(f"{key}.{name}", column) for name, column in value.items()}

    def several(self, key: str) -> Several | None:
        value = self.data.get(key)
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, list) or len(value) < 2 or not all(isinstance(path, str) for path in value):
            raise ConfigError(
                f"{self.place(key)}: {value!r} must be a column that holds a list, or two or more columns"
            )
        return tuple(value)

    def _column(self, key: str, value: Any) -> Column:
        if isinstance(value, str) and value:
            return Column((value,))
        if isinstance(value, list) and value and all(isinstance(path, str) for path in value):
            return Column(tuple(value))
        if isinstance(value, dict) and set(value) == {"column", "pattern"}:
            inner = self._column(f"{key}.column", value["column"])
            try:
                return Column(inner.paths, re.compile(value["pattern"]))
            except (re.error, TypeError) as error:
                raise ConfigError(f"{self.place(f'{key}.pattern')}: no valid regular expression: {error}") from None
        raise ConfigError(
            f"{self.place(key)}: {value!r} must be the name of a column, a list of names to join, or a mapping of "
            f"'column' and 'pattern'"
        )
