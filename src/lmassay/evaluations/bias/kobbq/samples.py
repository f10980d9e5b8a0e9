"""Read and check KoBBQ's sample files, count known defects in them, and derive file names from names of models."""

from __future__ import annotations

import ast
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import BiasDataset, BiasItem
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, first_few, read_table
from lmassay.redaction import excerpt
from lmassay.storage.files import sha256

UNKNOWN = "알 수 없음"
"""The wording of the choice "cannot be known" in the samples; each prompt replaces it by its own wording."""
CHOICE_COUNT = 3
"""The number of choices of every question."""
SAMPLE_COLUMNS = ("sample_id", "label_annotation", "context", "question", "choices", "biased_answer", "answer")
OPTIONAL_COLUMNS = ("bbq_id", "bbq_category", "prediction")
BACKSPACE = "\b"
_MAX_QUOTED = 80

# category-001a-001-amb-bsd: category, template number and version, sample number, context type, question type.
_SAMPLE_ID = re.compile(r"([^-]+)-([0-9]+)([a-d])-([0-9]+)-(amb|dis)-(bsd|cnt)", re.ASCII)
# A list of plain strings as Python prints it. Nearly all lists have this form; the others are parsed with ``ast``.
_PLAIN_LIST = re.compile(r"\['[^'\\\r\n]*'(?:, '[^'\\\r\n]*')*\]")
_PLAIN_LIST_BYTES = re.compile(_PLAIN_LIST.pattern.encode())
_MAX_LIST_LENGTH = 100_000
_LATIN_LETTER = re.compile("[A-Za-z]")
# What some file systems reject in names: control characters, reserved characters, a dot at the beginning, two dots in a
# row, and a dot or space at the end.
_UNSAFE_IN_FILE_NAME = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|%\ud800-\udfff]|^\.|(?<=\.)\.|[. ]$')
# In bytes. File systems allow 255, and the topic and the ending are added to the name of the model.
_MAX_FILE_NAME_LENGTH = 120


@dataclass(frozen=True, slots=True)
class KobbqSample:
    """A row of a samples file."""

    id: str
    label: str
    context: str
    question: str
    choices: tuple[str, ...]
    biased_answer: str
    answer: str

    @property
    def category(self) -> str:
        """The category, which is the first part of the id."""
        return self.id.partition("-")[0]

    @property
    def template(self) -> str:
        """Category and number of the template, without its version (a to d): the versions belong together."""
        category, number, _ = self.id.split("-", 2)
        return f"{category}-{number[:-1]}"


def read_samples(path: Path) -> list[KobbqSample]:
    """Read all samples of a file; raise a DataError with the line of the first row that is not valid."""
    return samples_of(read_samples_table(path))


def read_samples_table(path: Path) -> TsvTable:
    """Read a samples file as a table."""
    return read_table(path, "samples", SAMPLE_COLUMNS)


def samples_of(table: TsvTable) -> list[KobbqSample]:
    """Check the rows of a table and return them as samples."""
    ids = table.column("sample_id")
    table.require_unique("sample_id", ids)
    other_columns = [table.column(name) for name in SAMPLE_COLUMNS[1:]]
    samples = []
    for row, cells in enumerate(zip(ids, *other_columns, strict=True)):
        sample_id, label, context, question, choices_text, biased_answer, answer = cells
        try:
            if _SAMPLE_ID.fullmatch(sample_id) is None:
                raise ValueError(f"sample_id {sample_id} is not of the form category-001a-001-amb-bsd")
            if not context:
                raise ValueError("context is empty")
            if not question:
                raise ValueError("question is empty")
            choices = parse_choices(choices_text)
            _check_answers(choices, biased_answer, answer)
        except ValueError as error:
            raise DataError(f"{table.where(row)}: {error}; correct the row") from None
        samples.append(KobbqSample(sample_id, label, context, question, choices, biased_answer, answer))
    return samples


def _check_answers(choices: Sequence[str], biased_answer: str, answer: str) -> None:
    if len(choices) != CHOICE_COUNT or len(set(choices)) != CHOICE_COUNT:
        raise ValueError(f"choices are {list(choices)!r}; three different texts are needed")
    if UNKNOWN not in choices:
        if any(unicodedata.normalize("NFC", choice) == UNKNOWN for choice in choices):
            raise ValueError("the Hangul is decomposed (NFD) and matches nothing; convert the file to NFC")
        raise ValueError(f"none of the choices {list(choices)!r} is '{UNKNOWN}'")
    if answer not in choices:
        raise ValueError(f"answer '{answer}' is not one of the choices {list(choices)!r}")
    if biased_answer not in choices or biased_answer == UNKNOWN:
        raise ValueError(f"biased_answer '{biased_answer}' is not one of the two persons in {list(choices)!r}")


@lru_cache(maxsize=1 << 15)
def parse_choices(text: str) -> tuple[str, ...]:
    """Return the strings of a list that is written as Python prints it.

    KoBBQ's program calls ``eval`` on such a text; here no code is executed.

    >>> parse_choices("['손자', '할머니', '알 수 없음']")
    ('손자', '할머니', '알 수 없음')
    """
    # Nearly all lists have neither quotes nor escapes inside, and splitting is much faster than parsing.
    if _PLAIN_LIST.fullmatch(text):
        return tuple(text[2:-2].split("', '"))
    node: ast.expr | None
    try:
        # The text is cut, because parsing a very long or deeply nested one would take all memory.
        node = ast.parse(text[:_MAX_LIST_LENGTH].strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        node = None
    if isinstance(node, ast.List) and len(text) <= _MAX_LIST_LENGTH:
        values = []
        for element in node.elts:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                values.append(element.value)
        if len(values) == len(node.elts):
            return tuple(values)
    quoted = text
    if len(text) > _MAX_QUOTED:
        quoted = excerpt(text, _MAX_QUOTED - 3) + "..."
    raise ValueError(f"choices is not a list of strings but {quoted}")


def parse_choice_bytes(text: bytes) -> tuple[bytes, ...]:
    """Parse a list of choices that has not been decoded, for files that are processed as bytes."""
    if _PLAIN_LIST_BYTES.fullmatch(text):
        return tuple(text[2:-2].split(b"', '"))
    return tuple(choice.encode() for choice in parse_choices(text.decode()))


# --- for the task -----------------------------------------------------------------------------------------------------


def kobbq_items(path: Path) -> BiasDataset:
    """Read the samples of a file as items, with notes on the known defects of the data."""
    table = read_samples_table(path)
    samples = samples_of(table)
    return BiasDataset(
        name="kobbq",
        items=[_item(sample) for sample in samples],
        language="ko",
        sha256=sha256(path),
        kind="kobbq",
        notes=tuple(defects(samples)),
    )


def _item(sample: KobbqSample) -> BiasItem:
    category, template_version, sample_number, context_type, question_type = sample.id.split("-")
    return BiasItem(
        id=sample.id,
        category=category,
        template=sample.template,
        context_type=cast('Literal["amb", "dis"]', context_type),
        context=sample.context,
        question=sample.question,
        choices=sample.choices,
        correct=sample.choices.index(sample.answer),
        unknown=sample.choices.index(UNKNOWN),
        biased=sample.choices.index(sample.biased_answer),
        label=sample.label,
        groups={"version": template_version[-1], "sample": sample_number, "question_type": question_type},
    )


def defects(samples: Sequence[KobbqSample]) -> Iterator[str]:
    """Describe and count the defects of the published data. They are only reported; the samples are not changed."""
    with_backspace = 0
    questions: Counter[tuple[str, str]] = Counter()
    with_equal_choices: list[str] = []
    nested: list[str] = []
    with_latin: set[str] = set()
    for sample in samples:
        if BACKSPACE in sample.context or BACKSPACE in sample.question:
            with_backspace += 1
        questions[sample.context, sample.question] += 1
        if len(set(sample.choices)) < CHOICE_COUNT:
            # This occurs only in samples that were just made from templates, because files with such samples are
            # rejected.
            with_equal_choices.append(sample.id)
            continue
        short, long = sorted(set(sample.choices) - {UNKNOWN}, key=len)
        # If an answer contains the longer choice, the reference parser finds both choices and may reject the answer.
        if short in long:
            nested.append(f"{short}/{long}")
        for person in (short, long):
            if _LATIN_LETTER.search(person):
                with_latin.add(person)
    if with_backspace:
        yield f"{with_backspace} of {len(samples)} samples have a control character (U+0008) in context or question"
    repeated = len(samples) - len(questions)
    if repeated:
        yield f"{repeated} of {len(samples)} samples repeat the context and question of another"
    if with_equal_choices:
        yield f"{len(with_equal_choices)} samples have two equal choices: {first_few(with_equal_choices, 4)}"
    if nested:
        yield f"{len(nested)} samples have a choice that contains another: {first_few(sorted(set(nested)), 4)}"
    if with_latin:
        listed = ", ".join(sorted(with_latin))
        yield f"choices with Latin letters, which can be mistaken for the letter of a choice: {listed}"


# --- names of files ---------------------------------------------------------------------------------------------------


def file_name_of(model: str) -> str:
    """Return the name of a model in a form for file names; different models always get different names.

    Plain names are not changed. Characters that a file system may reject are written as their UTF-8 codes, and a name
    that is too long is cut and ends in a digest of the whole name.

    >>> file_name_of("gpt-3.5-turbo"), file_name_of("org/model"), file_name_of("../x")
    ('gpt-3.5-turbo', 'org%2Fmodel', '%2E%2E%2Fx')
    """

    def percent_encoded(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

    file_name = _UNSAFE_IN_FILE_NAME.sub(percent_encoded, model)
    if not file_name or len(file_name.encode()) > _MAX_FILE_NAME_LENGTH:
        digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        # Cut to leave room for the digest. Encoding a character never gives "%~", so no other name can be the same.
        beginning = file_name.encode()[: _MAX_FILE_NAME_LENGTH - 20].decode("utf-8", "ignore")
        file_name = f"{beginning}%~{digest}"
    return file_name
