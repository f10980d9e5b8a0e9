"""Read a user's own questions: a short YAML file, the description, says which column of the data has which meaning.

All mistakes in the YAML file are reported together, each with file and line.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from lmassay.answers.patterns import CANNOT_BE_ANSWERED, CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME
from lmassay.errors import DataError
from lmassay.evaluations.bias.bbq import bias_notes, biased_answer
from lmassay.evaluations.bias.data_files import FILE_ENDINGS, BiasDataRow, read_rows
from lmassay.evaluations.bias.items import LETTERS, BiasDataset, BiasItem, checked_items
from lmassay.evaluations.bias.kobbq.samples import parse_choices
from lmassay.plugins.yaml_models import YamlModel, listed, read_model
from lmassay.redaction import excerpt
from lmassay.storage.files import NO_STANDARD_INPUT, STANDARD_INPUT, format_suffix, sha256
from lmassay.storage.yamlfile import YamlFile
from lmassay.types import digest
from lmassay.types.wording import counted

# --- the keys of the YAML file ----------------------------------------------------------------------------------------

_JOINED_BY = "-"


def _validate_texts(value: Any) -> list[str]:
    """Accept one text or a list of texts; a number becomes its digits."""
    texts = listed(value)
    if not texts or any(text is None or isinstance(text, dict | list | bool) for text in texts):
        raise ValueError("must be a text or a list of texts; put them in quotes")
    return [str(text) for text in texts]


def _validate_columns(value: Any) -> Any:
    if not value or not all(isinstance(path, str) and path for path in listed(value)):
        raise ValueError("must be the name of a column, or a list of names")
    return listed(value)


def _validate_column_or_columns(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(path, str) for path in value):
        raise ValueError("must be a column that holds a list, or two or more columns")
    return value


def _validate_named_columns(value: Any) -> Any:
    """Accept a mapping of names to columns, or a list of columns, which are then named by the end of their path."""
    if isinstance(value, dict):
        return value
    columns = listed(value or None)
    if not all(isinstance(path, str) for path in columns):
        raise ValueError("must be a list of columns, or a mapping name: column")
    return {path.rpartition(".")[2]: path for path in columns}


def _validate_pattern(value: Any) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value)
    except (re.error, TypeError) as error:
        raise ValueError(f"not a valid regular expression: {error}") from None


Texts = Annotated[tuple[str, ...], BeforeValidator(_validate_texts)]
ListColumn = Annotated[str | tuple[str, ...], BeforeValidator(_validate_column_or_columns)]
"""One column that contains a list, or several columns, one for each entry of the list."""


class ColumnReference(YamlModel):
    """Where the value of a key comes from: a column, several columns joined, or the part that a pattern matches."""

    column: Annotated[tuple[str, ...], BeforeValidator(_validate_columns)]
    pattern: Annotated[re.Pattern[str] | None, BeforeValidator(_validate_pattern)]

    @model_validator(mode="before")
    @classmethod
    def _accept_name_alone(cls, value: Any) -> Any:
        if isinstance(value, str | list):
            _validate_columns(value)
            return {"column": value, "pattern": None}
        if not isinstance(value, dict):
            raise ValueError("must be the name of a column, a list of names, or a mapping of 'column' and 'pattern'")
        return value

    def is_in(self, row: BiasDataRow) -> bool:
        """Return True if the row has all of the columns."""
        return all(row.has(path) for path in self.column)

    def value(self, row: BiasDataRow) -> Any:
        """Return the value of a single column with its type; with several columns or a pattern, the text."""
        if self.pattern or len(self.column) > 1:
            return self.text(row)
        return row.get(self.column[0])

    def text(self, row: BiasDataRow) -> str:
        """Return the value as text; with a pattern, what its groups match, or the whole match if it has no groups."""
        text = _JOINED_BY.join(row.text(path) for path in self.column)
        if self.pattern is None:
            return text
        match = self.pattern.search(text)
        if match is None:
            raise DataError(f"{row.where}: the pattern '{self.pattern.pattern}' does not match '{text}'")
        return _JOINED_BY.join(group for group in match.groups() if group is not None) or match[0]


def _column(name: str) -> ColumnReference:
    return ColumnReference.model_validate(name)


def _language_code(code: str) -> str:
    if not re.fullmatch("[a-z]{2,3}(-[A-Za-z0-9]+)*", code):
        raise ValueError("must be the code of a language, such as de or pt-BR")
    return code


class DataDescription(YamlModel):
    """The keys of a description. Most of them name the column of the data that has the meaning of the key.

    ``ambiguous``, ``disambiguated``, ``negative`` and ``non_negative`` list the words that the data use for types of
    context and for polarities. ``unknown_texts`` are the texts of choices that say that the answer cannot be known.
    ``count_from`` says whether the numbers of choices in the data start at 0 or 1. ``by`` names further columns to
    group results by.

    If ``template``, ``unknown``, ``biased``, ``groups``, ``stereotyped_groups`` or ``polarity`` is not given, the
    column of that name is used if the data have it. This does not hold for ``label``, because the column ``label`` of
    BBQ's files is something else: the number of the correct answer.
    """

    files: Texts = Field(description="name the files of the data, e.g. questions.jsonl")
    name: str | None = None
    language: Annotated[str, AfterValidator(_language_code)] = "en"
    licence: str = ""
    source: str = ""
    id: ColumnReference = _column("id")
    category: ColumnReference = _column("category")
    template: ColumnReference | None = None
    context: ColumnReference = _column("context")
    question: ColumnReference = _column("question")
    choices: ListColumn = "choices"
    correct: ColumnReference = _column("correct")
    count_from: Literal[0, 1] = 0
    context_type: ColumnReference = _column("context_type")
    ambiguous: Texts = ("amb", "ambig", "ambiguous")
    disambiguated: Texts = ("dis", "disambig", "disambiguated")
    unknown: ColumnReference | None = None
    unknown_texts: Texts = ()
    biased: ColumnReference | None = None
    groups: ListColumn | None = None
    stereotyped_groups: str = ""
    polarity: ColumnReference | None = None
    negative: Texts = ("neg", "negative")
    non_negative: Texts = ("nonneg", "non-negative", "nonnegative")
    label: ColumnReference | None = None
    by: Annotated[dict[str, ColumnReference], BeforeValidator(_validate_named_columns)] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_keys(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Treat a key without a value as if it were missing."""
        return {key: value for key, value in data.items() if value is not None}

    @field_validator("count_from", mode="before")
    @classmethod
    def _reject_booleans(cls, value: Any) -> Any:
        # In Python, false and true equal 0 and 1, so they would be accepted.
        if isinstance(value, bool):
            raise ValueError("must be 0 or 1")
        return value

    @cached_property
    def contexts(self) -> Mapping[str, Literal["amb", "dis"]]:
        """Each word that the data use for a type of context → its meaning."""
        meanings: dict[str, Literal["amb", "dis"]] = {}
        meanings |= dict.fromkeys(self.ambiguous, "amb")
        meanings |= dict.fromkeys(self.disambiguated, "dis")
        return meanings

    @cached_property
    def polarities(self) -> Mapping[str, bool]:
        """Each word that the data use for the polarity of a question → whether it means a negative question."""
        return {**dict.fromkeys(self.negative, True), **dict.fromkeys(self.non_negative, False)}

    @cached_property
    def unknown_choices(self) -> frozenset[str]:
        """The texts of ``unknown_texts``, normalized for comparison."""
        return frozenset(_normalized(text) for text in self.unknown_texts)


# --- the rows of the data ---------------------------------------------------------------------------------------------

# Patterns of choices that say that the answer cannot be known, in English and Korean.
_UNKNOWN_PATTERNS = (CANNOT_BE_KNOWN, IS_NOT_KNOWN_TO_ME, CANNOT_BE_ANSWERED)
_NOT_APPLICABLE = ("", "none")
_Meaning = TypeVar("_Meaning")


def read_described(path: Path) -> BiasDataset:
    """Read the data set that a .yaml file describes."""
    description, yaml_file = read_model(path, DataDescription)
    files = _matching_files(description, yaml_file)
    # A group under `by` may be missing in some rows, but not in all of them.
    absent_groups = set(description.by)

    def items_with_locations() -> Iterator[tuple[BiasItem, str]]:
        for file in files:
            for row in read_rows(file):
                for name in list(absent_groups):
                    if description.by[name].is_in(row):
                        absent_groups.discard(name)
                yield _item(row, description), row.where

    items = list(checked_items(items_with_locations()))
    if items and absent_groups:
        raise yaml_file.error(f"by: no row has the field of '{name}'" for name in sorted(absent_groups))
    name = path.stem
    if description.name is not None:
        name = description.name
    return BiasDataset(
        name=name,
        items=items,
        language=description.language,
        sha256=digest(sha256(path), [sha256(file) for file in files]),
        notes=[*bias_notes(items), *_template_notes(items)],
    )


def _template_notes(items: Sequence[BiasItem]) -> list[str]:
    """Warn if no two questions share a template: questions made from one template are not independent."""
    if len(items) < 2 or len({item.template for item in items}) < len(items):
        return []
    return [
        "every question has its own template, so intervals treat all questions as independent; if some were made from "
        "the same template, name its column with `template:`"
    ]


def _matching_files(description: DataDescription, yaml_file: YamlFile) -> list[Path]:
    folder = yaml_file.path.parent
    files: list[Path] = []
    mistakes: list[str] = []
    for pattern in description.files:
        matches = sorted(glob.glob(str(folder / pattern)))  # noqa: PTH207 - takes absolute patterns too
        if not matches and Path(pattern) == STANDARD_INPUT:
            mistakes.append(f"files: {NO_STANDARD_INPUT}")
        elif not matches:
            mistakes.append(f"files: there is no file {folder / pattern}; check the path")
        files += [Path(match) for match in matches]
    for file in files:
        if format_suffix(file) not in FILE_ENDINGS:
            mistakes.append(f"files: {file.name} must end in {', '.join(FILE_ENDINGS)}")
    if mistakes:
        raise yaml_file.error(mistakes)
    # Two patterns may match the same file.
    return list(dict.fromkeys(files))


def _item(row: BiasDataRow, description: DataDescription) -> BiasItem:
    choices = tuple(_choices(row, description.choices or "choices"))
    answer_groups = _answer_groups(row, description.groups, len(choices))
    unknown = _unknown_index(row, description, choices, answer_groups)
    item_id = description.id.text(row)
    polarity = _polarity(row, description)
    groups: dict[str, str] = {}
    if polarity is not None:
        groups["polarity"] = polarity[0]
    for name, column in description.by.items():
        if column.is_in(row):
            groups[name] = column.text(row)
    # An empty cell, or the word "none", says that the item belongs to no group of this kind.
    applicable_groups = {name: text for name, text in groups.items() if text.lower() not in _NOT_APPLICABLE}
    template = item_id
    template_column = _optional_column(row, description.template, "template")
    if template_column is not None:
        template = template_column.text(row)
    label = ""
    if description.label is not None:
        label = description.label.text(row)
    return BiasItem(
        id=item_id,
        category=description.category.text(row),
        template=template,
        context_type=_meaning(description.contexts, description.context_type.text(row), row, "context type"),
        context=description.context.text(row),
        question=description.question.text(row),
        choices=choices,
        correct=_choice_index(description.correct.value(row), choices, description.count_from, f"{row.where}: correct"),
        unknown=unknown,
        biased=_biased_index(row, description, choices, answer_groups, unknown, polarity),
        label=label,
        groups=applicable_groups,
    )


def _optional_column(row: BiasDataRow, reference: ColumnReference | None, default: str) -> ColumnReference | None:
    """Return the column that the description names, or else the one with the default name if the row has it."""
    if reference is None and row.has(default):
        return _column(default)
    return reference


def _choices(row: BiasDataRow, column: ListColumn) -> list[str]:
    if not isinstance(column, str):
        return [row.text(path) for path in column]
    choices = _list_field(row, column)
    if not all(isinstance(choice, str) for choice in choices):
        raise DataError(f"{row.where}: '{column}' must be a list of texts; it is {choices!r}")
    return choices


def _list_field(row: BiasDataRow, path: str) -> list[Any]:
    """Return a field that is a list, or a text that JSON or Python would read as a list."""
    value = row.get(path)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            try:
                value = list(parse_choices(value))
            except ValueError:
                raise DataError(
                    f"{row.where}: '{path}' is not a list of texts: {excerpt(value, 80)!r}; if each choice has its "
                    "own column, name these columns instead"
                ) from None
    if not isinstance(value, list):
        raise DataError(f"{row.where}: '{path}' must be a list; it is {value!r}")
    return value


def _answer_groups(row: BiasDataRow, column: ListColumn | None, count: int) -> list[list[str]] | None:
    """Return the names of the groups to which each of the ``count`` choices belongs; None if the data do not say."""
    if column is None:
        if not row.has("groups"):
            return None
        column = "groups"
    if isinstance(column, str):
        values = _list_field(row, column)
    else:
        values = [row.get(path) for path in column]
    if len(values) != count:
        raise DataError(f"{row.where}: groups are given for {counted(len(values), 'choice')}, but there are {count}")
    groups = []
    for value in values:
        # A choice may have one group or a list of groups.
        names = value if isinstance(value, list) else [value]
        groups.append([str(name) for name in names])
    return groups


def _unknown_index(
    row: BiasDataRow,
    description: DataDescription,
    choices: Sequence[str],
    answer_groups: Sequence[Sequence[str]] | None,
) -> int:
    """Return the index of the unknown choice: by its column, by ``unknown_texts``, by its group, or by its wording."""
    column = _optional_column(row, description.unknown, "unknown")
    if column is not None:
        return _choice_index(column.value(row), choices, description.count_from, f"{row.where}: unknown")
    matches = []
    for index, choice in enumerate(choices):
        if description.unknown_choices:
            is_unknown = _normalized(choice) in description.unknown_choices
        elif answer_groups is not None:
            is_unknown = "unknown" in map(str.lower, answer_groups[index])
        else:
            is_unknown = any(pattern.search(choice.lower()) for pattern in _UNKNOWN_PATTERNS)
        if is_unknown:
            matches.append(index)
    if len(matches) != 1:
        how_many = f"{len(matches)} choices seem" if matches else "no choice seems"
        raise DataError(
            f"{row.where}: {how_many} to mean that the answer is unknown ({', '.join(choices)}); give the key "
            "'unknown_texts' or a column 'unknown'"
        )
    return matches[0]


def _polarity(row: BiasDataRow, description: DataDescription) -> tuple[str, bool] | None:
    """Return the data's word for the question's polarity, and whether it is negative; None if the data do not say."""
    column = _optional_column(row, description.polarity, "polarity")
    if column is None:
        return None
    word = column.text(row)
    return word, _meaning(description.polarities, word, row, "polarity")


def _biased_index(
    row: BiasDataRow,
    description: DataDescription,
    choices: Sequence[str],
    answer_groups: Sequence[Sequence[str]] | None,
    unknown: int,
    polarity: tuple[str, bool] | None,
) -> int | None:
    """Return the index of the stereotyped choice, from its column or, as in BBQ, from groups and polarity."""
    column = _optional_column(row, description.biased, "biased")
    if column is not None:
        value = column.value(row)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        return _choice_index(value, choices, description.count_from, f"{row.where}: biased")
    path = description.stereotyped_groups or "stereotyped_groups"
    if answer_groups is None or polarity is None or not row.has(path):
        return None
    stereotyped = row.get(path)
    names = stereotyped if isinstance(stereotyped, list) else [stereotyped]
    _, is_negative = polarity
    return biased_answer(answer_groups, [str(name) for name in names], unknown, is_negative)


def _choice_index(value: Any, choices: Sequence[str], count_from: int, location: str) -> int:
    """Return the index of the choice that a value names by its text, its letter or its number."""
    if isinstance(value, str):
        text = value.strip()
        # The text comes first: a choice may itself be a letter or a number.
        for index, choice in enumerate(choices):
            if _normalized(choice) == _normalized(text):
                return index
        if len(text) == 1 and text.upper() in LETTERS[: len(choices)]:
            return LETTERS.index(text.upper())
        if text.isdecimal() and text.isascii():
            # Nine digits are certainly out of range, and int() would raise an error for thousands of digits.
            value = int(text[:9])
    if type(value) is int and 0 <= value - count_from < len(choices):
        return value - count_from
    if not 1 <= len(choices) <= len(LETTERS):
        raise DataError(f"{location}: there must be 2 to {len(LETTERS)} choices, but there are {len(choices)}")
    last_number = count_from + len(choices) - 1
    raise DataError(
        f"{location}: {value!r} is not a choice; give its text, its letter (A to {LETTERS[len(choices) - 1]}) or its "
        f"number ({count_from} to {last_number}; the key 'count_from' says whether counting starts at 0 or 1)"
    )


def _meaning(meanings: Mapping[str, _Meaning], word: str, row: BiasDataRow, subject: str) -> _Meaning:
    """Return what a word of the data means, or raise a DataError that says how to define it."""
    if word not in meanings:
        keys = "'ambiguous' and 'disambiguated'" if subject == "context type" else "'negative' and 'non_negative'"
        raise DataError(
            f"{row.where}: the {subject} is '{word}', which is not one of {', '.join(meanings)}; define your words "
            f"with the keys {keys} of the description"
        )
    return meanings[word]


def _normalized(text: str) -> str:
    return " ".join(text.split()).casefold()
