"""The user's own data in the shape of BBQ: a short YAML file says which field of a row is what.

All mistakes in that file are reported at once, each with file and line.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lmassay.answers.patterns import CANNOT_BE_ANSWERED, CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME
from lmassay.errors import DataError
from lmassay.evaluations.bias.bbq import bias_notes, biased_answer
from lmassay.evaluations.bias.data_files import FILE_ENDINGS, DataRow, read_rows
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, checked_items
from lmassay.evaluations.bias.kobbq.samples import parse_choices
from lmassay.plugins.yaml_models import YamlModel, listed, read_model
from lmassay.storage.files import sha256
from lmassay.storage.yamlfile import YamlFile
from lmassay.types import digest

# --- the keys of the file ---------------------------------------------------------------------------------------------

_JOINED = "-"


def _texts(value: Any) -> list[str]:
    """One text or several; numbers are taken as they are written."""
    texts = listed(value)
    if not texts or any(isinstance(text, dict | list | bool) or text is None for text in texts):
        raise ValueError("must be a text or a list of texts; put them in quotes")
    return [str(text) for text in texts]


def _columns(value: Any) -> Any:
    if not value or not all(isinstance(path, str) and path for path in listed(value)):
        raise ValueError("must be the name of a column, or a list of names")
    return listed(value)


def _column_or_columns(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(path, str) for path in value):
        raise ValueError("must be a column that holds a list, or two or more columns")
    return value


def _named_columns(value: Any) -> Any:
    """A mapping, or a list of columns that keep their last name."""
    if isinstance(value, dict):
        return value
    columns = listed(value or None)
    if not all(isinstance(path, str) for path in columns):
        raise ValueError("must be a list of columns, or a mapping name: column")
    return {path.rpartition(".")[2]: path for path in columns}


def _regular_expression(value: Any) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except (re.error, TypeError) as error:
        raise ValueError(f"not a valid regular expression: {error}") from None


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Several = Annotated[str | tuple[str, ...], BeforeValidator(_column_or_columns)]
"""One field that holds a list, or a field for each entry."""


class ColumnReference(YamlModel):
    """Where a value stands: a field, several that are joined, or what a pattern finds in them."""

    column: Annotated[tuple[str, ...], BeforeValidator(_columns)]
    pattern: Annotated[re.Pattern[str] | None, BeforeValidator(_regular_expression)]

    @model_validator(mode="before")
    @classmethod
    def _named_alone(cls, value: Any) -> Any:
        if isinstance(value, str | list):
            _columns(value)
            return {"column": value, "pattern": None}
        if not isinstance(value, dict):
            raise ValueError("must be the name of a column, a list of names, or a mapping of 'column' and 'pattern'")
        return value

    def is_in(self, record: DataRow) -> bool:
        return all(record.has(path) for path in self.column)

    def value(self, record: DataRow) -> Any:
        """The value as it is, if it is one field."""
        return self.text(record) if self.pattern or len(self.column) > 1 else record.get(self.column[0])

    def text(self, record: DataRow) -> str:
        text = _JOINED.join(record.text(path) for path in self.column)
        if self.pattern is None:
            return text
        found = self.pattern.search(text)
        if found is None:
            raise DataError(f"{record.where}: the pattern '{self.pattern.pattern}' is not found in '{text}'")
        return _JOINED.join(part for part in found.groups() if part is not None) or found[0]


def _column(name: str) -> ColumnReference:
    return ColumnReference.model_validate(name)


class DataDescription(YamlModel):
    """What a description says; a column of None was not named, and its usual name is looked for."""

    files: Texts = Field(description="name the files of the data, e.g. questions.jsonl")
    name: str | None = None
    language: Literal["en", "ko"] = "en"
    licence: str = ""
    source: str = ""
    id: ColumnReference = _column("id")
    category: ColumnReference = _column("category")
    template: ColumnReference | None = None
    context: ColumnReference = _column("context")
    question: ColumnReference = _column("question")
    choices: Several = "choices"
    correct: ColumnReference = _column("correct")
    count_from: Literal[0, 1] = 0
    context_type: ColumnReference = _column("context_type")
    ambiguous: Texts = ("amb", "ambig", "ambiguous")
    disambiguated: Texts = ("dis", "disambig", "disambiguated")
    unknown: ColumnReference | None = None
    unknown_texts: Texts = ()
    biased: ColumnReference | None = None
    groups: Several | None = None
    stereotyped_groups: str = ""
    polarity: ColumnReference | None = None
    negative: Texts = ("neg", "negative")
    non_negative: Texts = ("nonneg", "non-negative", "nonnegative")
    label: ColumnReference | None = None
    by: Annotated[dict[str, ColumnReference], BeforeValidator(_named_columns)] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, data: dict[str, Any]) -> dict[str, Any]:
        """A key without a value is a key left out."""
        return {key: value for key, value in data.items() if value is not None}

    @field_validator("count_from", mode="before")
    @classmethod
    def _not_a_boolean(cls, value: Any) -> Any:
        # Python takes false and true for 0 and 1.
        if isinstance(value, bool):
            raise ValueError("must be 0 or 1")
        return value

    @cached_property
    def contexts(self) -> Mapping[str, Literal["amb", "dis"]]:
        """What the words for the type of a context mean."""
        meanings: dict[str, Literal["amb", "dis"]] = {}
        meanings |= dict.fromkeys(self.ambiguous, "amb")
        meanings |= dict.fromkeys(self.disambiguated, "dis")
        return meanings

    @cached_property
    def polarities(self) -> Mapping[str, bool]:
        """Which words for the polarity of a question mean that it is negative."""
        return {**dict.fromkeys(self.negative, True), **dict.fromkeys(self.non_negative, False)}

    @cached_property
    def unknown_choices(self) -> frozenset[str]:
        """The texts of ``unknown_texts``, as they are compared."""
        return frozenset(_same(text) for text in self.unknown_texts)


# --- the rows ---------------------------------------------------------------------------------------------------------

_UNKNOWN = (CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME, CANNOT_BE_ANSWERED)
_NEITHER = ("", "none")
_Meaning = TypeVar("_Meaning")


def read_described(path: Path) -> BiasDataset:
    """The data set that a .yaml file describes."""
    described, yaml_file = read_model(path, DataDescription)
    files = _files(described, yaml_file)
    absent = set(described.by)

    def rows() -> Iterator[DataRow]:
        for file in files:
            for record in read_rows(file):
                absent.difference_update([name for name in absent if described.by[name].is_in(record)])
                yield record

    items = list(checked_items((_item(record, described), record.where) for record in rows()))
    if items and absent:
        raise yaml_file.error(f"by: no row has the field of '{name}'" for name in sorted(absent))
    signature = digest(sha256(path), [sha256(file) for file in files])
    notes = [*bias_notes(items), *_lone_questions(items)]
    name = path.stem if described.name is None else described.name
    return BiasDataset(name, items, described.language, signature, notes=notes)


def _lone_questions(items: Sequence[BiasItem]) -> list[str]:
    """Questions without a template are taken for independent, which those made from one are not."""
    if len(items) < 2 or len({item.template for item in items}) < len(items):
        return []
    return [
        "every question has a template of its own, so intervals take all for independent; name one with `template:`"
    ]


def _files(described: DataDescription, yaml_file: YamlFile) -> list[Path]:
    folder = yaml_file.path.parent
    found: list[Path] = []
    mistakes: list[str] = []
    for pattern in described.files:
        matches = sorted(glob.glob(str(folder / pattern)))  # noqa: PTH207 - takes absolute patterns too
        if not matches:
            mistakes.append(f"files: there is no file {folder / pattern}; check the path")
        found += [Path(match) for match in matches]
    for file in found:
        if file.suffix not in FILE_ENDINGS:
            mistakes.append(f"files: {file.name} must end in {', '.join(FILE_ENDINGS)}")
    if mistakes:
        raise yaml_file.error(mistakes)
    return list(dict.fromkeys(found))


def _item(record: DataRow, described: DataDescription) -> BiasItem:
    choices = tuple(_choices(record, described.choices or "choices"))
    groups = _groups(record, described.groups, len(choices))
    unknown = _unknown(record, described, choices, groups)
    key = described.id.text(record)
    polarity = _polarity(record, described)
    further = {} if polarity is None else {"polarity": polarity[0]}
    further |= {name: column.text(record) for name, column in described.by.items() if column.is_in(record)}
    template = described.template or (_column("template") if record.has("template") else None)
    return BiasItem(
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


def _choices(record: DataRow, named: Several) -> list[str]:
    if not isinstance(named, str):
        return [record.text(path) for path in named]
    listed = _listed(record, named)
    if not all(isinstance(choice, str) for choice in listed):
        raise DataError(f"{record.where}: '{named}' must be a list of texts; it is {listed!r}")
    return listed


def _listed(record: DataRow, path: str) -> list[Any]:
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


def _groups(record: DataRow, named: Several | None, count: int) -> list[list[str]] | None:
    if named is None:
        if not record.has("groups"):
            return None
        named = "groups"
    values = _listed(record, named) if isinstance(named, str) else [record.get(path) for path in named]
    if len(values) != count:
        raise DataError(f"{record.where}: groups for {len(values)} choices, but there are {count}")
    return [[str(name) for name in value] if isinstance(value, list) else [str(value)] for value in values]


def _unknown(
    record: DataRow, described: DataDescription, choices: Sequence[str], groups: Sequence[Sequence[str]] | None
) -> int:
    column = described.unknown or (_column("unknown") if record.has("unknown") else None)
    if column is not None:
        return _place(column.value(record), choices, described.count_from, f"{record.where}: unknown")
    if described.unknown_choices:
        found = [place for place, choice in enumerate(choices) if _same(choice) in described.unknown_choices]
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


def _polarity(record: DataRow, described: DataDescription) -> tuple[str, bool] | None:
    column = described.polarity or (_column("polarity") if record.has("polarity") else None)
    if column is None:
        return None
    word = column.text(record)
    return word, _one_of(described.polarities, word, record, "polarity")


def _biased(
    record: DataRow,
    described: DataDescription,
    choices: Sequence[str],
    groups: Sequence[Sequence[str]] | None,
    unknown: int,
    polarity: tuple[str, bool] | None,
) -> int | None:
    column = described.biased or (_column("biased") if record.has("biased") else None)
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


def _one_of(known: Mapping[str, _Meaning], word: str, record: DataRow, what: str) -> _Meaning:
    if word not in known:
        keys = "'ambiguous' and 'disambiguated'" if what == "context type" else "'negative' and 'non_negative'"
        raise DataError(
            f"{record.where}: the {what} is '{word}', which is none of {', '.join(known)}; the keys {keys} of the "
            f"description say which words mean what"
        )
    return known[word]


def _same(text: str) -> str:
    return " ".join(text.split()).casefold()
