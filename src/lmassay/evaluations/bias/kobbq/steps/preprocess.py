"""Step 1: turn samples and a prompt into questions, each in three orders of its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import rotations
from lmassay.evaluations.bias.kobbq.pandas_output import as_pandas_rewrites, lines
from lmassay.evaluations.bias.kobbq.samples import (
    CHOICES,
    OPTIONAL_COLUMNS,
    SAMPLE_COLUMNS,
    UNKNOWN,
    KobbqSample,
    defects,
    read_samples_table,
    samples_of,
)
from lmassay.evaluations.bias.kobbq.tsv import TsvTable
from lmassay.evaluations.bias.prompts import PromptTemplate, choose_prompt, read_prompts
from lmassay.storage.files import atomic_write, forbid_overwriting

LETTERS = ("A", "B", "C")
ADDED_COLUMNS = (*LETTERS, "answer_abc")
# Questions are written in blocks, so that a large file is never in memory as one text.
_BLOCK = 20_000
Advance = Callable[[float, int | None], None]


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """How many questions were made of how many samples, and what users should know about the data."""

    samples: int
    questions: int
    notes: tuple[str, ...]
    """Defects of the samples."""
    extra: tuple[str, ...]
    """Columns that KoBBQ does not have; they are copied."""


@dataclass(frozen=True, slots=True)
class _RotatedSample:
    """A sample with its choices in one order; ``sample`` is its index."""

    id: str
    sample: int
    choices: tuple[str, str, str]
    answer: str
    letter: str


def preprocess(
    samples_path: Path,
    prompts_path: Path,
    prompt_id: int,
    *,
    tsv_path: Path | None = None,
    json_path: Path | None = None,
    advance: Advance | None = None,
) -> Preprocessed:
    """Write the questions of a samples file under one prompt, as TSV for the later steps and as JSON for the model."""
    forbid_overwriting(
        {"--evaluation-json-path": json_path, "--evaluation-tsv-path": tsv_path},
        {"--samples-tsv-path": samples_path, "--prompt-tsv-path": prompts_path},
    )
    prompt = choose_prompt(read_prompts(prompts_path), prompt_id, prompts_path)
    table = read_samples_table(samples_path)
    for name in ADDED_COLUMNS:
        if name in table:
            raise DataError(
                f"{samples_path} already has a column '{name}', so it is not a samples file; give the original file"
            )
    samples = samples_of(table)
    questions = sorted(_rotated_samples(samples, prompt.unknown), key=lambda question: question.id)
    # All columns are read before anything is written, so that an undecodable cell leaves no half-written file.
    columns = _columns(table, questions) if tsv_path else []
    if json_path:
        with atomic_write(json_path) as stream:
            for number, part in enumerate(_json_parts(prompt, samples, questions)):
                stream.write(part)
                if advance is not None:
                    advance(min(number * _BLOCK, len(questions)), len(questions))
    if tsv_path:
        with atomic_write(tsv_path) as stream:
            stream.writelines(lines((*table.header, *ADDED_COLUMNS), columns))
    known_columns = {*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS}
    extra = tuple(name for name in table.header if name not in known_columns)
    return Preprocessed(len(samples), len(questions), tuple(defects(samples)), extra)


def _rotated_samples(samples: Sequence[KobbqSample], unknown: str) -> Iterator[_RotatedSample]:
    """Yield each sample in the three orders of its choices, with the prompt's words for "unknown"."""
    orders = list(rotations(CHOICES))
    for index, sample in enumerate(samples):
        choices = [unknown if choice == UNKNOWN else choice for choice in sample.choices]
        answer = unknown if sample.answer == UNKNOWN else sample.answer
        for rotation, (a, b, c) in enumerate(orders):
            rotated = choices[a], choices[b], choices[c]
            # The original takes the last equal choice; a prompt's words for "unknown" may equal another choice.
            letter = LETTERS[CHOICES - 1 - rotated[::-1].index(answer)]
            yield _RotatedSample(f"{sample.id}-{rotation}", index, rotated, answer, letter)


def _columns(table: TsvTable, questions: Sequence[_RotatedSample]) -> list[Sequence[str]]:
    """Return the columns of the TSV file: those of the samples, then the choices by letter and the right letter."""
    columns: list[Sequence[str]] = []
    for name in table.header:
        if name == "sample_id":
            columns.append([question.id for question in questions])
        elif name == "choices":
            columns.append([repr(list(question.choices)) for question in questions])
        elif name == "answer":
            columns.append([question.answer for question in questions])
        else:
            column = as_pandas_rewrites(table.column(name))
            columns.append([column[question.sample] for question in questions])
    for position in range(CHOICES):
        columns.append([question.choices[position] for question in questions])
    columns.append([question.letter for question in questions])
    return columns


def _json_parts(
    prompt: PromptTemplate, samples: Sequence[KobbqSample], questions: Sequence[_RotatedSample]
) -> Iterator[str]:
    """Yield the document as ``json.dump(…, ensure_ascii=False, indent=4)`` would write it.

    The texts repeat in thousands of questions, so each is encoded once and the rows are put together from the pieces.
    """

    def encoded(text: str) -> str:
        return encode_basestring(text)[1:-1]

    yield f'{{\n    "ver": "test",\n    "prefix": "{encoded(prompt.prefix)}",\n    "data": ['
    context_label, question_label = encoded(prompt.context), encoded(prompt.question)
    label_a, label_b, label_c = map(encoded, prompt.choices)
    answer_label = encoded(prompt.answer)
    beginnings = []
    for sample in samples:
        context, question = encoded(sample.context), encoded(sample.question)
        beginnings.append(f"{context_label}{context}\\n{question_label}{question}\\n")
    encoded_choices: dict[str, str] = {}
    for rotated in questions:
        for choice in rotated.choices:
            if choice not in encoded_choices:
                encoded_choices[choice] = encoded(choice)
    between_entries = '",\n            "'
    before_block = "\n"
    for start in range(0, len(questions), _BLOCK):
        rows = []
        for rotated in questions[start : start + _BLOCK]:
            choice_a, choice_b, choice_c = rotated.choices
            a, b, c = encoded_choices[choice_a], encoded_choices[choice_b], encoded_choices[choice_c]
            query = f"{beginnings[rotated.sample]}{label_a}{a}\\n{label_b}{b}\\n{label_c}{c}\\n{answer_label}"
            entries = between_entries.join((query, a, b, c, rotated.letter, encoded(rotated.id)))
            rows.append(f'        [\n            "{entries}"\n        ]')
        yield before_block + ",\n".join(rows)
        before_block = ",\n"
    yield "\n    ]\n}"
