"""KoBBQ's samples: reading them strictly, what their ids say, and names of files for models."""

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
from lmassay.storage.files import sha256

UNKNOWN = "알 수 없음"
"""How the samples say that the answer cannot be known; each prompt has its own words for it."""
CHOICES = 3
SAMPLE_COLUMNS = ("sample_id", "label_annotation", "context", "question", "choices", "biased_answer", "answer")
OPTIONAL_COLUMNS = ("bbq_id", "bbq_category", "prediction")
BACKSPACE = "\b"

_SAMPLE_ID = re.compile(r"([^-]+)-([0-9]+)([a-d])-([0-9]+)-(amb|dis)-(bsd|cnt)", re.ASCII)
# A list of plain strings as Python writes it; anything else is looked at node by node.
_PLAIN_LIST = re.compile(r"\['[^'\\\r\n]*'(?:, '[^'\\\r\n]*')*\]")
_PLAIN_BYTES = re.compile(_PLAIN_LIST.pattern.encode())
_LONGEST_LIST = 100_000
_LATIN = re.compile("[A-Za-z]")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|%\ud800-\udfff]|^\.|(?<=\.)\.|[. ]$')
_LONGEST_NAME = 120


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
        return self.id.partition("-")[0]

    @property
    def template(self) -> str:
        """Category and number; the versions of a template (a to d) belong together."""
        category, number, _ = self.id.split("-", 2)
        return f"{category}-{number[:-1]}"


def read_samples(path: Path) -> list[KobbqSample]:
    """All samples of a file; any that is not in order is an error with its line."""
    return samples_of(read_samples_table(path))


def read_samples_table(path: Path) -> TsvTable:
    return read_table(path, "samples", SAMPLE_COLUMNS)


def samples_of(table: TsvTable) -> list[KobbqSample]:
    ids = table.column("sample_id")
    table.require_unique("sample_id", ids)
    labels, contexts, questions, lists, biased, answers = (table.column(name) for name in SAMPLE_COLUMNS[1:])
    samples = []
    for row, (key, label, context, question, written, against, answer) in enumerate(
        zip(ids, labels, contexts, questions, lists, biased, answers, strict=True)
    ):
        try:
            if _SAMPLE_ID.fullmatch(key) is None:
                raise ValueError(f"sample_id {key} is not of the form category-001a-001-amb-bsd")
            if not (context and question):
                raise ValueError(f"{'question' if context else 'context'} is empty")
            choices = parse_choices(written)
            _check_answers(choices, against, answer)
        except ValueError as error:
            raise DataError(f"{table.where(row)}: {error}; correct the row") from None
        samples.append(KobbqSample(key, label, context, question, choices, against, answer))
    return samples


def _check_answers(choices: Sequence[str], biased: str, answer: str) -> None:
    if len(choices) != CHOICES or len(set(choices)) != CHOICES:
        raise ValueError(f"choices are {list(choices)!r}; three different texts are needed")
    if UNKNOWN not in choices:
        if any(unicodedata.normalize("NFC", choice) == UNKNOWN for choice in choices):
            raise ValueError("the Hangul is decomposed (NFD) and matches nothing; convert the file to NFC")
        raise ValueError(f"none of the choices {list(choices)!r} is '{UNKNOWN}'")
    if answer not in choices:
        raise ValueError(f"answer '{answer}' is none of the choices {list(choices)!r}")
    if biased not in choices or biased == UNKNOWN:
        raise ValueError(f"biased_answer '{biased}' is none of the two persons in {list(choices)!r}")


@lru_cache(maxsize=1 << 15)
def parse_choices(text: str) -> tuple[str, ...]:
    """The strings of a list as Python writes it. It is data: it is taken apart, never evaluated.

    >>> parse_choices("['손자', '할머니', '알 수 없음']")
    ('손자', '할머니', '알 수 없음')
    """
    if _PLAIN_LIST.fullmatch(text):
        return tuple(text[2:-2].split("', '"))
    try:
        node = ast.parse(text[:_LONGEST_LIST].strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        node = None
    if isinstance(node, ast.List) and len(text) <= _LONGEST_LIST:
        values = [part.value if isinstance(part, ast.Constant) else None for part in node.elts]
        if all(isinstance(value, str) for value in values):
            return tuple(cast("list[str]", values))
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise ValueError(f"choices is not a list of strings but {shown}")


def parse_choice_bytes(text: bytes) -> tuple[bytes, ...]:
    """The same for what has not been decoded."""
    if _PLAIN_BYTES.fullmatch(text):
        return tuple(text[2:-2].split(b"', '"))
    return tuple(choice.encode() for choice in parse_choices(text.decode()))


# --- for the task -----------------------------------------------------------------------------------------------------


def kobbq_items(path: Path) -> BiasDataset:
    """The samples of a file as items, with the defects that are known of them."""
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
    category, version, number, context_type, question_type = sample.id.split("-")
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
        groups={"version": version[-1], "sample": number, "question_type": question_type},
    )


def defects(samples: Sequence[KobbqSample]) -> Iterator[str]:
    """What is wrong with the data themselves, counted; nothing of it is changed."""
    marked = [s for s in samples if BACKSPACE in s.context or BACKSPACE in s.question]
    if marked:
        yield f"{len(marked)} of {len(samples)} samples hold a control character (U+0008) in context or question"
    asked = Counter((s.context, s.question) for s in samples)
    repeated = len(samples) - len(asked)
    if repeated:
        yield f"{repeated} of {len(samples)} samples repeat the context and question of another"
    people = [sorted(set(s.choices) - {UNKNOWN}, key=len) for s in samples]
    nested = [f"{short}/{long}" for short, long in people if short in long]
    if nested:
        yield f"{len(nested)} samples have a choice that contains another: {first_few(sorted(set(nested)), 4)}"
    latin = sorted({choice for pair in people for choice in pair if _LATIN.search(choice)})
    if latin:
        yield f"choices with Latin letters, which can be taken for the letter of a choice: {', '.join(latin)}"


# --- names of files ---------------------------------------------------------------------------------------------------


def file_name_of(model: str) -> str:
    """A model's name as part of a file name: no two models share one.

    Plain names stay as they are. What a file system may object to is written as its code, and a name that is too long
    ends in a digest of all of it.

    >>> file_name_of("gpt-3.5-turbo"), file_name_of("org/model"), file_name_of("../x")
    ('gpt-3.5-turbo', 'org%2Fmodel', '%2E%2E%2Fx')
    """
    name = _UNSAFE.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass")), model
    )
    if not name or len(name.encode()) > _LONGEST_NAME:
        digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name.encode()[: _LONGEST_NAME - 20].decode('utf-8', 'ignore')}%~{digest}"
    return name
