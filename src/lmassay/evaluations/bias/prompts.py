"""Prompts in KoBBQ's format: a TSV file with one prompt per row, whose columns are the parts of the prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import LETTERS
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, read_table

_CHOICE_COLUMNS = ("a", "b", "c")
# The Spanish, Dutch and Turkish prompts were not reviewed by native speakers.
_SHIPPED = {"en": "english.tsv", "es": "spanish.tsv", "ko": "korean.tsv", "nl": "dutch.tsv", "tr": "turkish.tsv"}
UNREVIEWED_LANGUAGES = frozenset({"es", "nl", "tr"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that are frequent in one of these languages and rare in the others.
_FUNCTION_WORDS = {
    "en": _words("the and with of is was not question answer which who their this that"),
    "es": _words("el la los las y con una por es fue pregunta respuesta quién para del"),
    "nl": _words("het een en van niet vraag antwoord wie was met uit alleen zijn haar"),
    "tr": _words("ve bir ile soru yanıt kim bu için ya da yalnızca metin değil olan"),
}
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_LETTERS_OF_ANY_SCRIPT = re.compile(r"[^\W\d_]+")
# A text with fewer function words than this is too short to recognise its language.
_MIN_FUNCTION_WORDS = 3
# The English words above are about a sixth of the words of an English text, but less than 5 % of those of a Dutch or
# German text, although Dutch has "is" and "was", too, and German has "was".
_MIN_SHARE_IN_ENGLISH = 0.06
# A text that is shorter, or that repeats a few words, is not judged, because its share could be low by chance.
_MIN_JUDGED_WORDS = 60
_MIN_DIFFERENT_WORDS = 20
_SINGLE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
# KoBBQ's files also have a column ``prompt`` with the whole prompt in one text. It is not needed, so it may be missing.
_COLUMNS = ("prompt_id", "instruction", "context", "question", *_CHOICE_COLUMNS, "answer", "unknown")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The texts that a prompt puts before each part of a question, such as "Question: " (with the space at the end)."""

    id: int
    instruction: str
    context: str
    question: str
    choices: tuple[str, ...]
    answer: str
    unknown: str
    """The text of the choice that says that the answer cannot be known; if empty, the text in the data is used."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters in the labels of the choices, in the case in which the labels show them.

        >>> PromptTemplate(5, "", "", "", ("Choices:(A) ", "(B) ", "(C) "), "", "").letters
        ('A', 'B', 'C')
        """
        letters = []
        for label, default_letter in zip(self.choices, LETTERS, strict=False):
            letter = default_letter
            shown_letters = _SINGLE_LETTER.findall(label)
            if shown_letters:
                # The letter is next to the choice, so the last one counts: "Option a) A: ".
                letter = shown_letters[-1]
            letters.append(letter)
        return tuple(letters)

    @property
    def has_letters(self) -> bool:
        """Whether every label shows a letter that an answer may name."""
        return all(_SINGLE_LETTER.search(label) for label in self.choices)

    @property
    def prefix(self) -> str:
        """The beginning that all questions with this prompt share."""
        return self.instruction + "\n\n"

    def text(self, context: str, question: str, choices: Sequence[str]) -> tuple[str, str]:
        """Return (prefix, query) for a question with its choices in the given order; a model gets both as one text.

        >>> prompt = PromptTemplate(1, "Choose.", "Text: ", "Question: ", ("A: ", "B: ", "C: "), "Answer:", "unknown")
        >>> "".join(prompt.text("Two people.", "Who?", ["he", "she", "unknown"])).splitlines()
        ['Choose.', '', 'Text: Two people.', 'Question: Who?', 'A: he', 'B: she', 'C: unknown', 'Answer:']
        """
        if len(choices) > len(self.choices):
            raise ValueError(f"{len(choices)} choices, but only {len(self.choices)} labels")
        labelled_choices = [label + choice for label, choice in zip(self.choices, choices, strict=False)]
        lines = [self.context + context, self.question + question, *labelled_choices, self.answer]
        return self.prefix, "\n".join(lines)


def read_prompts(path: Path) -> dict[int, PromptTemplate]:
    """Read all prompts of a file, by id."""
    table = read_table(path, "prompts", _COLUMNS)
    columns = [table.column(name) for name in _COLUMNS]
    prompts: dict[int, PromptTemplate] = {}
    for row, cells in enumerate(zip(*columns, strict=True)):
        id_text, instruction, context, question, *labels, answer, unknown = cells
        prompt_id = _prompt_id(table, row, id_text)
        if prompt_id in prompts:
            raise DataError(f"{table.where(row)}: prompt_id {prompt_id} appears twice; give each prompt its own")
        prompts[prompt_id] = PromptTemplate(prompt_id, instruction, context, question, tuple(labels), answer, unknown)
    return prompts


def choose_prompt(
    prompts: Mapping[int, PromptTemplate], prompt_id: int, path: Path, *, may_keep_unknown: bool = False
) -> PromptTemplate:
    """Return the prompt with this id, or raise a DataError that names the ids of the file ``path``.

    With ``may_keep_unknown``, the column ``unknown`` may be empty; the data's own text for that choice is then shown.
    """
    if prompt_id not in prompts:
        raise DataError(f"there is no prompt {prompt_id} in {path}; it has {', '.join(map(str, sorted(prompts)))}")
    if not (prompts[prompt_id].unknown or may_keep_unknown):
        raise DataError(f"{path}: prompt {prompt_id} has no text in the column 'unknown'; give the text of that choice")
    return prompts[prompt_id]


def shipped_prompts(language: str) -> Path:
    """Return the file of prompts that comes with lmassay for a language."""
    if language not in _SHIPPED:
        raise DataError(
            f"lmassay has no prompts for the language '{language}'; translate those that lmassay init prompts "
            "writes, and name the file in task.prompts"
        )
    return Path(__file__).parent / "prompts_data" / _SHIPPED[language]


def guess_language(text: str) -> str | None:
    """Return the language of a text, if it is clearly one of those that lmassay has prompts for; otherwise None.

    >>> guess_language("Read the passage and answer the question."), guess_language("질문에 답하세요")
    ('en', 'ko')
    >>> guess_language("A B C") is None
    True
    """
    words = _LETTERS_OF_ANY_SCRIPT.findall(text.lower())
    if not words:
        return None
    korean_words = [word for word in words if _HANGUL.search(word)]
    if len(korean_words) > len(words) / 2:
        return "ko"
    counts: Counter[str] = Counter()
    for language, function_words in _FUNCTION_WORDS.items():
        counts[language] = sum(word in function_words for word in words)
    (best, most), (_, second_most), *_ = counts.most_common()
    # Only a clear majority counts, because a wrong warning would be worse than no warning.
    if most < _MIN_FUNCTION_WORDS or most < 2 * second_most:
        return None
    return best


def is_surely_not_english(text: str) -> bool:
    """Return True for a text that is long enough to judge and has hardly any of the most frequent English words.

    >>> is_surely_not_english("Too short to judge.")
    False
    """
    words = _LETTERS_OF_ANY_SCRIPT.findall(text.lower())
    if len(words) < _MIN_JUDGED_WORDS or len(set(words)) < _MIN_DIFFERENT_WORDS:
        return False
    english_words = sum(word in _FUNCTION_WORDS["en"] for word in words)
    return english_words < _MIN_SHARE_IN_ENGLISH * len(words)


def _prompt_id(table: TsvTable, row: int, text: str) -> int:
    message = f"{table.where(row)}: prompt_id is '{text}'; it must be a whole number"
    # Whole numbers with decimals ("1.0") are accepted, because programs write ids like this if a cell of the column is
    # empty.
    try:
        number = float(text)
    except ValueError as error:
        raise DataError(message) from error
    if not number.is_integer():
        raise DataError(message)
    return int(number)
