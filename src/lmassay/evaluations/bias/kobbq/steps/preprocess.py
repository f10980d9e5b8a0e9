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
    CHOICE_COUNT,
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
"""A callback for progress bars: it is called with the number of items done, and their total if that is known."""


@dataclass(frozen=True, slots=True)
class PreprocessingSummary:
    """How many questions were made from how many samples, and what users should know about the data."""

    samples: int
    questions: int
    notes: tuple[str, ...]
    """Defects of the samples."""
    extra: tuple[str, ...]
    """Columns of the samples file that KoBBQ's files do not have; they are copied to the output."""


@dataclass(frozen=True, slots=True)
class _RotatedQuestion:
    """The question of a sample with its choices in one order."""

    id: str
    """The id of the sample and the number of the order: ``age-001a-001-amb-bsd-0``."""
    sample_index: int
    choices: tuple[str, str, str]
    answer: str
    """The text of the right choice."""
    answer_letter: str


def preprocess(
    samples_path: Path,
    prompts_path: Path,
    prompt_id: int,
    *,
    tsv_path: Path | None = None,
    json_path: Path | None = None,
    advance: Advance | None = None,
) -> PreprocessingSummary:
    """Write the questions of a samples file with one prompt: as TSV for the later steps, and as JSON for step 2."""
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
    # As in KoBBQ's program, ids are sorted as text: without leading zeros, sample 10 would come before sample 2.
    questions = sorted(_rotated_questions(samples, prompt.unknown), key=lambda question: question.id)
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
    kobbq_columns = {*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS}
    extra = [name for name in table.header if name not in kobbq_columns]
    return PreprocessingSummary(len(samples), len(questions), tuple(defects(samples)), tuple(extra))


def _rotated_questions(samples: Sequence[KobbqSample], unknown: str) -> Iterator[_RotatedQuestion]:
    """Yield the question of each sample in the three orders of its choices, with the prompt's words for "unknown"."""
    orders = list(rotations(CHOICE_COUNT))
    in_prompt = {UNKNOWN: unknown}
    for index, sample in enumerate(samples):
        choices = [in_prompt.get(choice, choice) for choice in sample.choices]
        answer = in_prompt.get(sample.answer, sample.answer)
        for rotation, (a, b, c) in enumerate(orders):
            rotated = choices[a], choices[b], choices[c]
            answer_letter = ""
            for letter, choice in zip(LETTERS, rotated, strict=True):
                # The prompt's words for "unknown" may be the same as another choice. Of equal choices, KoBBQ's program
                # uses the last one.
                if choice == answer:
                    answer_letter = letter
            yield _RotatedQuestion(f"{sample.id}-{rotation}", index, rotated, answer, answer_letter)


def _columns(table: TsvTable, questions: Sequence[_RotatedQuestion]) -> list[Sequence[str]]:
    """Return the columns of the TSV file: those of the samples, then the choices by letter and the right letter."""
    # The columns of the samples whose cells depend on the order of the choices.
    rotated: dict[str, list[str]] = {"sample_id": [], "choices": [], "answer": []}
    by_letter: list[list[str]] = [[] for _ in range(CHOICE_COUNT)]
    answer_letters: list[str] = []
    for question in questions:
        rotated["sample_id"].append(question.id)
        # KoBBQ's files contain the choices as Python prints a list: ['a', 'b', 'c'].
        rotated["choices"].append(repr(list(question.choices)))
        rotated["answer"].append(question.answer)
        for position, choice in enumerate(question.choices):
            by_letter[position].append(choice)
        answer_letters.append(question.answer_letter)

    columns: list[Sequence[str]] = []
    for name in table.header:
        if name in rotated:
            columns.append(rotated[name])
        else:
            # KoBBQ's program reads and writes the file with pandas, which changes how numbers are spelled.
            column = as_pandas_rewrites(table.column(name))
            columns.append([column[question.sample_index] for question in questions])
    return [*columns, *by_letter, answer_letters]


def _json_parts(
    prompt: PromptTemplate, samples: Sequence[KobbqSample], questions: Sequence[_RotatedQuestion]
) -> Iterator[str]:
    """Yield the JSON document in parts, exactly as ``json.dump(…, ensure_ascii=False, indent=4)`` would write it.

    The same texts occur in thousands of questions. To save time, each is encoded once, and rows are joined from these.
    """

    def encoded(text: str) -> str:
        # Without the quotation marks at both ends, because several encoded texts are joined to one string.
        return encode_basestring(text)[1:-1]

    yield f'{{\n    "ver": "test",\n    "prefix": "{encoded(prompt.prefix)}",\n    "data": ['
    context_label = encoded(prompt.context)
    question_label = encoded(prompt.question)
    label_a, label_b, label_c = map(encoded, prompt.choices)
    answer_label = encoded(prompt.answer)
    # The texts are already encoded, so the line ends between them are written as JSON's escape, a backslash and an n.
    contexts_and_questions = []
    for sample in samples:
        context = encoded(sample.context)
        question = encoded(sample.question)
        contexts_and_questions.append(f"{context_label}{context}\\n{question_label}{question}\\n")
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
            a = encoded_choices[choice_a]
            b = encoded_choices[choice_b]
            c = encoded_choices[choice_c]
            context_and_question = contexts_and_questions[rotated.sample_index]
            query = f"{context_and_question}{label_a}{a}\\n{label_b}{b}\\n{label_c}{c}\\n{answer_label}"
            # KoBBQ's fields of a question: the query, the three choices, the letter of the answer, and the id.
            entries = between_entries.join((query, a, b, c, rotated.answer_letter, encoded(rotated.id)))
            rows.append(f'        [\n            "{entries}"\n        ]')
        yield before_block + ",\n".join(rows)
        before_block = ",\n"
    yield "\n    ]\n}"
