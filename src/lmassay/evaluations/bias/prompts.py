"""Prompts as KoBBQ keeps them: a TSV file with the parts of a prompt in its columns, one prompt a row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import LETTERS
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, read_table

_LABELS = ("a", "b", "c")
_SHIPPED = {"en": "english.tsv", "ko": "korean.tsv"}
_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_COLUMNS = ("prompt_id", "instruction", "context", "question", *_LABELS, "answer", "unknown")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """What stands before each part of a question; labels keep their trailing blank."""

    id: int
    instruction: str
    context: str
    question: str
    choices: tuple[str, ...]
    answer: str
    unknown: str
    """The choice that says that the answer cannot be known; empty: the data's own words stay."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters as the labels show them, upper or lower case.

        >>> PromptTemplate(5, "", "", "", ("Choices:(A) ", "(B) ", "(C) "), "", "").letters
        ('A', 'B', 'C')
        """
        return tuple(
            (_LETTER.findall(label) or [letter])[-1] for label, letter in zip(self.choices, LETTERS, strict=False)
        )

    @property
    def has_letters(self) -> bool:
        """Whether the labels show letters that an answer may name."""
        return all(_LETTER.search(label) for label in self.choices)

    @property
    def prefix(self) -> str:
        """What all questions share."""
        return self.instruction + "\n\n"

    def text(self, context: str, question: str, choices: Sequence[str]) -> tuple[str, str]:
        """(prefix, query) of a question with its choices in the order shown; a model is given one after the other.

        >>> prompt = PromptTemplate(1, "Choose.", "Text: ", "Question: ", ("A: ", "B: ", "C: "), "Answer:", "unknown")
        >>> "".join(prompt.text("Two people.", "Who?", ["he", "she", "unknown"])).splitlines()
        ['Choose.', '', 'Text: Two people.', 'Question: Who?', 'A: he', 'B: she', 'C: unknown', 'Answer:']
        """
        if len(choices) > len(self.choices):
            raise ValueError(f"{len(choices)} choices, but only {len(self.choices)} labels")
        shown = [label + choice for label, choice in zip(self.choices, choices, strict=False)]
        return self.prefix, "\n".join([self.context + context, self.question + question, *shown, self.answer])


def read_prompts(path: Path) -> dict[int, PromptTemplate]:
    """All prompts of a file by their id."""
    table = read_table(path, "prompts", _COLUMNS)
    columns = [table.column(name) for name in _COLUMNS]
    prompts: dict[int, PromptTemplate] = {}
    for row, (number, instruction, context, question, *labels, answer, unknown) in enumerate(
        zip(*columns, strict=True)
    ):
        key = _id(table, row, number)
        if key in prompts:
            raise DataError(f"{table.where(row)}: prompt_id {key} stands twice; give each prompt its own")
        prompts[key] = PromptTemplate(key, instruction, context, question, tuple(labels), answer, unknown)
    return prompts


def choose_prompt(
    prompts: Mapping[int, PromptTemplate], key: int, path: Path, *, may_keep_unknown: bool = False
) -> PromptTemplate:
    """The prompt with this id; its words for "unknown" may be left out where the data's own may stay."""
    if key not in prompts:
        raise DataError(f"there is no prompt {key} in {path}; it has {', '.join(map(str, sorted(prompts)))}")
    if not (prompts[key].unknown or may_keep_unknown):
        raise DataError(f"{path}: prompt {key} has no text in column unknown; it is one of the choices")
    return prompts[key]


def shipped_prompts(language: str) -> Path:
    """The prompts that come with lmassay for a language."""
    if language not in _SHIPPED:
        raise DataError(f"no prompts for the language '{language}' come with lmassay; give a file of your own")
    return Path(__file__).parent / "prompts_data" / _SHIPPED[language]


def _id(table: TsvTable, row: int, text: str) -> int:
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    if not number.is_integer():
        raise DataError(f"{table.where(row)}: prompt_id is '{text}'; it must be a whole number")
    return int(number)
