"""Step 1: samples and a prompt become questions, each in three orders of its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.items import rotations
from lmassay.evaluations.bias.kobbq.pandas_output import lines, retold
from lmassay.evaluations.bias.kobbq.samples import (
    CHOICES,
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
_BLOCK = 20_000
Advance = Callable[[float, int | None], None]


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """What was made of how much."""

    samples: int
    questions: int
    notes: tuple[str, ...]
    """Defects of the samples."""
    extra: tuple[str, ...]
    """Columns that KoBBQ does not have; they are carried along."""


@dataclass(frozen=True, slots=True)
class _RotatedSample:
    """A sample with its choices in one order."""

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
    """Write the questions of a samples file for one prompt, as TSV for the later steps and as JSON for the model."""
    forbid_overwriting(
        {"--evaluation-json-path": json_path, "--evaluation-tsv-path": tsv_path},
        {"--samples-tsv-path": samples_path, "--prompt-tsv-path": prompts_path},
    )
    prompt = choose_prompt(read_prompts(prompts_path), prompt_id, prompts_path)
    table = read_samples_table(samples_path)
    taken = [name for name in ADDED_COLUMNS if name in table]
    if taken:
        raise DataError(f"{samples_path} has a column '{taken[0]}' already: it is no samples file; give the original")
    samples = samples_of(table)
    questions = sorted(_questions(samples, prompt.unknown), key=lambda question: question.id)
    done = advance or (lambda done, total: None)
    # Columns that are not touched are read before anything is written.
    columns = _columns(table, samples, prompt.unknown, questions) if tsv_path else []
    if json_path:
        with atomic_write(json_path) as stream:
            for number, part in enumerate(_json(prompt, samples, questions)):
                stream.write(part)
                done(min(number * _BLOCK, len(questions)), len(questions))
    if tsv_path:
        with atomic_write(tsv_path) as stream:
            stream.writelines(lines((*table.header, *ADDED_COLUMNS), columns))
    known = {*SAMPLE_COLUMNS, "bbq_id", "bbq_category", "prediction"}
    extra = tuple(name for name in table.header if name not in known)
    return Preprocessed(len(samples), len(questions), tuple(defects(samples)), extra)


def _questions(samples: Sequence[KobbqSample], unknown: str) -> Iterator[_RotatedSample]:
    orders = list(rotations(CHOICES))
    for number, sample in enumerate(samples):
        choices = [unknown if choice == UNKNOWN else choice for choice in sample.choices]
        answer = unknown if sample.answer == UNKNOWN else sample.answer
        for rotation, (a, b, c) in enumerate(orders):
            shown = choices[a], choices[b], choices[c]
            # The last that is equal: a prompt's words for "unknown" may be another choice's text.
            letter = LETTERS[CHOICES - 1 - shown[::-1].index(answer)]
            yield _RotatedSample(f"{sample.id}-{rotation}", number, shown, answer, letter)


def _columns(
    table: TsvTable, samples: Sequence[KobbqSample], unknown: str, questions: Sequence[_RotatedSample]
) -> list[Sequence[str]]:
    order = [question.sample for question in questions]
    columns: list[Sequence[str]] = []
    for name in table.header:
        if name == "sample_id":
            columns.append([question.id for question in questions])
        elif name == "choices":
            columns.append([repr(list(question.choices)) for question in questions])
        elif name == "answer":
            columns.append([question.answer for question in questions])
        else:
            column = retold(table.column(name))
            columns.append([column[place] for place in order])
    columns += [[question.choices[place] for question in questions] for place in range(CHOICES)]
    columns.append([question.letter for question in questions])
    return columns


def _json(prompt: PromptTemplate, samples: Sequence[KobbqSample], questions: Sequence[_RotatedSample]) -> Iterator[str]:
    """The document as ``json.dump(…, ensure_ascii=False, indent=4)`` writes it, put together from encoded pieces."""

    def encoded(text: str) -> str:
        return encode_basestring(text)[1:-1]

    yield f'{{\n    "ver": "test",\n    "prefix": "{encoded(prompt.prefix)}",\n    "data": ['
    context, question = encoded(prompt.context), encoded(prompt.question)
    heads = [f"{context}{encoded(s.context)}\\n{question}{encoded(s.question)}\\n" for s in samples]
    label_a, label_b, label_c = map(encoded, prompt.choices)
    end = encoded(prompt.answer)
    known: dict[str, str] = {}
    gap = '",\n            "'
    before = "\n"
    for start in range(0, len(questions), _BLOCK):
        parts = []
        for asked in questions[start : start + _BLOCK]:
            a, b, c = (known.get(choice) or known.setdefault(choice, encoded(choice)) for choice in asked.choices)
            query = f"{heads[asked.sample]}{label_a}{a}\\n{label_b}{b}\\n{label_c}{c}\\n{end}"
            row = gap.join((query, a, b, c, asked.letter, encoded(asked.id)))
            parts.append(f'        [\n            "{row}"\n        ]')
        yield before + ",\n".join(parts)
        before = ",\n"
    yield "\n    ]\n}"
