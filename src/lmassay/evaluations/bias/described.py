"""The user's own data in the shape of BBQ: a short YAML file says which field of a row is what.

Every mistake in that file is reported with file and line.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from lmassay.answers.words import CANNOT_BE_ANSWERED, CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME
from lmassay.errors import ConfigError, DataError, did_you_mean
from lmassay.evaluations.bias.bbq import bias_notes, biased_answer
from lmassay.evaluations.bias.items import LETTERS, Dataset, Item, checked
from lmassay.evaluations.bias.kobbq.samples import parse_choices
from lmassay.evaluations.bias.records import KINDS, Record, read_records
from lmassay.storage.files import sha256
from lmassay.storage.yamlfile import Lines, read_mapping
from lmassay.types import digest

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


# --- what a description says, and the rows read by it -----------------------------------------------------------------

_UNKNOWN = (CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME, CANNOT_BE_ANSWERED)
_NEITHER = ("", "none")
_Meaning = TypeVar("_Meaning")


@dataclass(frozen=True, slots=True)
class _Description:
    """What a description says; a column of None was not named, and its usual name is looked for."""

    id: Column
    category: Column
    template: Column | None
    context: Column
    question: Column
    choices: Several
    correct: Column
    count_from: int
    context_type: Column
    contexts: Mapping[str, Literal["amb", "dis"]]
    unknown: Column | None
    unknown_texts: frozenset[str]
    biased: Column | None
    groups: Several | None
    stereotyped_groups: str | None
    polarity: Column | None
    polarities: Mapping[str, bool]
    label: Column | None
    by: Mapping[str, Column]


def read_described(path: Path) -> Dataset:
    """The data set that a .yaml file describes."""
    keys = Keys.read(path)
    name, language = keys.text("name", path.stem), keys.choice("language", ("en", "ko"))
    for key in ("licence", "source"):
        keys.text(key, "")
    files = _files(keys)
    described = _description(keys)
    absent = set(described.by)

    def rows() -> Iterator[Record]:
        for file in files:
            for record in read_records(file):
                absent.difference_update([name for name in absent if described.by[name].is_in(record)])
                yield record

    items = list(checked((_item(record, described), record.where) for record in rows()))
    if items and absent:
        raise ConfigError(f"{keys.place('by')}: no row has the field of '{min(absent)}'")
    signature = digest(sha256(path), [sha256(file) for file in files])
    return Dataset(name, items, language, signature, notes=[*bias_notes(items), *_lone_questions(items)])


def _lone_questions(items: Sequence[Item]) -> list[str]:
    """Questions without a template are taken for independent, which those made from one are not."""
    if len(items) < 2 or len({item.template for item in items}) < len(items):
        return []
    return [
        "every question has a template of its own, so intervals take all for independent; name one with `template:`"
    ]


def _description(keys: Keys) -> _Description:
    contexts: dict[str, Literal["amb", "dis"]] = {}
    contexts |= dict.fromkeys(keys.values("ambiguous", ("amb", "ambig", "ambiguous")), "amb")
    contexts |= dict.fromkeys(keys.values("disambiguated", ("dis", "disambig", "disambiguated")), "dis")
    polarities = dict.fromkeys(keys.values("negative", ("neg", "negative")), True)
    polarities |= dict.fromkeys(keys.values("non_negative", ("nonneg", "non-negative", "nonnegative")), False)
    return _Description(
        id=keys.column("id"),
        category=keys.column("category"),
        template=keys.optional_column("template"),
        context=keys.column("context"),
        question=keys.column("question"),
        choices=keys.several("choices") or "choices",
        correct=keys.column("correct"),
        count_from=keys.number("count_from", 0),
        context_type=keys.column("context_type"),
        contexts=contexts,
        unknown=keys.optional_column("unknown"),
        unknown_texts=frozenset(_same(text) for text in keys.values("unknown_texts", ())),
        biased=keys.optional_column("biased"),
        groups=keys.several("groups"),
        stereotyped_groups=keys.text("stereotyped_groups", "") or None,
        polarity=keys.optional_column("polarity"),
        polarities=polarities,
        label=keys.optional_column("label"),
        by=keys.columns("by"),
    )


def _files(keys: Keys) -> list[Path]:
    found: list[Path] = []
    for pattern in keys.values("files", ()):
        matches = sorted(glob.glob(str(keys.path.parent / pattern)))  # noqa: PTH207 - takes absolute patterns too
        if not matches:
            raise ConfigError(f"{keys.place('files')}: there is no file {keys.path.parent / pattern}; check the path")
        found += [Path(match) for match in matches]
    if not found:
        raise ConfigError(f"{keys.path}: the key 'files' is required; name the files of the data, e.g. questions.jsonl")
    for file in found:
        if file.suffix not in KINDS:
            raise ConfigError(f"{keys.place('files')}: {file.name} must end in {', '.join(KINDS)}")
    return list(dict.fromkeys(found))


def _item(record: Record, described: _Description) -> Item:
    choices = tuple(_choices(record, described.choices))
    groups = _groups(record, described.groups, len(choices))
    unknown = _unknown(record, described, choices, groups)
    key = described.id.text(record)
    polarity = _polarity(record, described)
    further = {} if polarity is None else {"polarity": polarity[0]}
    further |= {name: column.text(record) for name, column in described.by.items() if column.is_in(record)}
    template = described.template or (Column(("template",)) if record.has("template") else None)
    return Item(
        id=key,
        category=described.category.text(record),
        template=template.text(record) if template else key,
        context_type=_one_of(described.contexts, described.context_type.text(record), record, "context type"),
        context=described.context.text(record),
        question=described.question.text(record),
        choices=choices,
        correct=_place(described.correct.value(record), choices, described.count_from, f"{record.where}: correct"),
        unknown=unknown,
        biased=_biased(record, described, choices, groups, unknown, polarity),
        label=described.label.text(record) if described.label else "",
        groups={name: text for name, text in further.items() if text.lower() not in _NEITHER},
    )


def _choices(record: Record, named: Several) -> list[str]:
    if not isinstance(named, str):
        return [record.text(path) for path in named]
    listed = _listed(record, named)
    if not all(isinstance(choice, str) for choice in listed):
        raise DataError(f"{record.where}: '{named}' must be a list of texts; it is {listed!r}")
    return listed


def _listed(record: Record, path: str) -> list[Any]:
    """A field that holds a list, or the text of one as JSON or Python write it."""
    value = record.get(path)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            try:
                value = list(parse_choices(value))
            except ValueError:
                raise DataError(
                    f"{record.where}: '{path}' is no list of texts: {value[:80]!r}; name several columns in its place "
                    f"if each has one"
                ) from None
    if not isinstance(value, list):
        raise DataError(f"{record.where}: '{path}' must be a list; it is {value!r}")
    return value


def _groups(record: Record, named: Several | None, count: int) -> list[list[str]] | None:
    if named is None:
        if not record.has("groups"):
            return None
        named = "groups"
    values = _listed(record, named) if isinstance(named, str) else [record.get(path) for path in named]
    if len(values) != count:
        raise DataError(f"{record.where}: groups for {len(values)} choices, but there are {count}")
    return [[str(name) for name in value] if isinstance(value, list) else [str(value)] for value in values]


def _unknown(
    record: Record, described: _Description, choices: Sequence[str], groups: Sequence[Sequence[str]] | None
) -> int:
    column = described.unknown or (Column(("unknown",)) if record.has("unknown") else None)
    if column is not None:
        return _place(column.value(record), choices, described.count_from, f"{record.where}: unknown")
    if described.unknown_texts:
        found = [place for place, choice in enumerate(choices) if _same(choice) in described.unknown_texts]
    elif groups is not None:
        found = [place for place, names in enumerate(groups) if "unknown" in map(str.lower, names)]
    else:
        found = [place for place, choice in enumerate(choices) if any(p.search(choice.lower()) for p in _UNKNOWN)]
    if len(found) != 1:
        raise DataError(
            f"{record.where}: {'no choice is' if not found else f'{len(found)} choices are'} known to mean that the "
            f"answer is unknown ({', '.join(choices)}); give the key 'unknown_texts' or a column 'unknown'"
        )
    return found[0]


def _polarity(record: Record, described: _Description) -> tuple[str, bool] | None:
    column = described.polarity or (Column(("polarity",)) if record.has("polarity") else None)
    if column is None:
        return None
    word = column.text(record)
    return word, _one_of(described.polarities, word, record, "polarity")


def _biased(
    record: Record,
    described: _Description,
    choices: Sequence[str],
    groups: Sequence[Sequence[str]] | None,
    unknown: int,
    polarity: tuple[str, bool] | None,
) -> int | None:
    column = described.biased or (Column(("biased",)) if record.has("biased") else None)
    if column is not None:
        value = column.value(record)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        return _place(value, choices, described.count_from, f"{record.where}: biased")
    path = described.stereotyped_groups or "stereotyped_groups"
    if groups is None or polarity is None or not record.has(path):
        return None
    stereotyped = record.get(path)
    names = stereotyped if isinstance(stereotyped, list) else [stereotyped]
    return biased_answer(groups, [str(name) for name in names], unknown, polarity[1])


def _place(value: Any, choices: Sequence[str], count_from: int, where: str) -> int:
    """Which choice is meant: by its text, its letter, or its number."""
    if isinstance(value, str):
        text = value.strip()
        same = [place for place, choice in enumerate(choices) if _same(choice) == _same(text)]
        if same:
            return same[0]
        if len(text) == 1 and text.upper() in LETTERS[: len(choices)]:
            return LETTERS.index(text.upper())
        if text.isdecimal() and text.isascii():
            value = int(text[:9])
    if type(value) is int and 0 <= value - count_from < len(choices):
        return value - count_from
    last = count_from + len(choices) - 1
    raise DataError(
        f"{where}: {value!r} is no choice; give its text, its letter (A to {LETTERS[len(choices) - 1]}) or its number "
        f"({count_from} to {last}; the key 'count_from' says where counting begins)"
        if 1 <= len(choices) <= len(LETTERS)
        else f"{where}: {len(choices)} choices; there must be 2 to {len(LETTERS)}"
    )


def _one_of(known: Mapping[str, _Meaning], word: str, record: Record, what: str) -> _Meaning:
    if word not in known:
        keys = "'ambiguous' and 'disambiguated'" if what == "context type" else "'negative' and 'non_negative'"
        raise DataError(
            f"{record.where}: the {what} is '{word}', which is none of {', '.join(known)}; the keys {keys} of the "
            f"description say which words mean what"
        )
    return known[word]


def _same(text: str) -> str:
    return " ".join(text.split()).casefold()
