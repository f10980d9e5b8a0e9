"""Reads multiple-choice questions from files of published data sets, as an entry of the catalogue describes them.

Only questions whose answer is in the text are read.
"""

from __future__ import annotations

import ast
import csv
import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lmassay.errors import DataError
from lmassay.plugins.yaml_models import YamlModel


class QuestionFormat(YamlModel):
    """The columns of a file of questions with choices."""

    format: Literal["jsonl", "tsv"]
    context: str
    """The column of the text that the question is about."""
    question: str
    """The column of the question."""
    choices: str | tuple[str, ...]
    """Either several columns, one for each choice, or one column with a list of all choices."""
    answer: str
    """The column of the right answer: its text or, in JSON Lines, its number, counted from 0."""
    template: tuple[str, ...]
    """The columns that name the template: questions of one template are not independent."""
    template_pattern: str = ""
    """A regular expression for the part of the template columns, joined by hyphens, that is the template;
    all of it if left out."""
    category: str = ""
    """The column of the category. If left out, the category is the beginning of the template up to its first hyphen."""
    where: Mapping[str, str] = Field(default_factory=dict)
    """A dict from column to a pattern such as ``*-dis-*``. Only rows that match all patterns are read: they select the
    questions whose answer is in the text."""


@dataclass(frozen=True, slots=True)
class PublishedQuestion:
    """A question with its choices. ``context`` is a text from which it follows which choice, ``answer``, is right."""

    context: str
    question: str
    choices: tuple[str, ...]
    answer: str
    template: str
    category: str


def read_questions(paths: Sequence[Path], question_format: QuestionFormat) -> list[PublishedQuestion]:
    """Read the questions of these files whose answer is in the text."""
    questions: list[PublishedQuestion] = []
    for path in paths:
        for line, row in _rows(path, question_format.format):
            try:
                if _is_wanted(row, question_format):
                    questions.append(_question(row, question_format))
            except KeyError as error:
                raise DataError(f"{path}, line {line}: there is no column {error}") from error
            except (ValueError, SyntaxError) as error:
                raise DataError(f"{path}, line {line}: this row is not a question: {error}") from error
    return questions


def _rows(path: Path, file_format: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a file, each with its line number."""
    with path.open(encoding="utf-8", newline="") as stream:
        if file_format == "tsv":
            # Rows begin in line 2, because line 1 has the names of the columns.
            yield from enumerate(csv.DictReader(stream, delimiter="\t"), 2)
            return
        for line, text in enumerate(stream, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {line}: this is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {line}: the line must be an object with named fields")
            yield line, row


def _is_wanted(row: Mapping[str, Any], question_format: QuestionFormat) -> bool:
    return all(fnmatch.fnmatchcase(str(row[column]), pattern) for column, pattern in question_format.where.items())


def _question(row: Mapping[str, Any], question_format: QuestionFormat) -> PublishedQuestion:
    """Convert a row to a question. Raises KeyError or ValueError if the row is not one."""
    choices = _choices(row, question_format)
    right = row[question_format.answer]
    if isinstance(right, int):
        # Many data sets use -1 for "no label". As an index in Python, it would mean the last choice.
        if not 0 <= right < len(choices):
            raise ValueError(f"the answer {right} is not the number of a choice, 0 to {len(choices) - 1}")
        answer = choices[right]
    else:
        answer = str(right).strip()
        if answer not in choices:
            raise ValueError(f"the answer '{answer}' is not one of the choices")
    template = "-".join(str(row[column]) for column in question_format.template)
    if question_format.template_pattern:
        matched = re.search(question_format.template_pattern, template)
        if matched is None:
            raise ValueError(f"'{template}' does not match {question_format.template_pattern}")
        template = matched[0]
    category = template.partition("-")[0]
    if question_format.category:
        category = str(row[question_format.category])
    return PublishedQuestion(
        context=str(row[question_format.context]).strip(),
        question=str(row[question_format.question]).strip(),
        choices=choices,
        answer=answer,
        template=template,
        category=category,
    )


def _choices(row: Mapping[str, Any], question_format: QuestionFormat) -> tuple[str, ...]:
    columns = question_format.choices
    if not isinstance(columns, str):
        return tuple(str(row[column]).strip() for column in columns)
    value = row[columns]
    # In a TSV file, the list is a Python literal such as ['yes', 'no'].
    choices = value
    if isinstance(value, str):
        try:
            choices = ast.literal_eval(value)
        except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
            raise ValueError(f"'{columns}' cannot be read as a list: {error}") from error
    if not isinstance(choices, list):
        raise ValueError(f"'{columns}' is not a list")
    return tuple(str(choice).strip() for choice in choices)
