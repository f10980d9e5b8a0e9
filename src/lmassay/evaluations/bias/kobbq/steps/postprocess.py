"""Step 3: turn a model's answers into letters; an answer in which no choice can be read stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from unicodedata import is_normalized, normalize

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import lines, rewritten
from lmassay.evaluations.bias.kobbq.steps.preprocess import LETTERS, Advance
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, first_few, read_table
from lmassay.evaluations.bias.reference_parser import lowered, parse_reference
from lmassay.storage.files import atomic_write, forbid_overwriting

PREDICTION = "prediction"
UNFINISHED = "run `lmassay kobbq infer` again, which completes the file"
Parsing = Literal["reference", "robust"]
Choices = tuple[str, str, str]
_OOC_HEADER = ("id", "choices", "raw", "processed")
# Progress is reported each time this many answers have been read.
_BLOCK = 2_000


@dataclass(frozen=True, slots=True)
class Postprocessed:
    """How the answers of a predictions file were read.

    ``answers`` is the number of all answers. ``out_of_choice`` counts those in which the chosen parser finds no choice,
    ``reference_out_of_choice`` those in which the reference parser finds none.
    """

    answers: int
    out_of_choice: int
    warnings: tuple[str, ...]
    reference_out_of_choice: int
    disagreements: int
    """Answers that the two parsers read differently; 0 if only the reference parser was used."""


def postprocess(
    predictions_path: Path,
    preprocessed_path: Path,
    *,
    ooc_path: Path | None = None,
    parsing: Parsing = "reference",
    advance: Advance | None = None,
) -> Postprocessed:
    """Write a column ``prediction`` into a predictions file; answers out of choice are listed in ``ooc_path``."""
    forbid_overwriting(
        {"--ooc-path": ooc_path},
        {"--predictions-tsv-path": predictions_path, "--preprocessed-tsv-path": preprocessed_path},
    )
    table = read_table(predictions_path, "predictions", ("guid", "raw"), may_lack=PREDICTION, remedy=UNFINISHED)
    guids = table.column("guid")
    raws = table.column("raw")
    choices = _choices_of_answers(table, guids, preprocessed_path)
    reference = _parse_all(raws, choices, _parse_reference, advance)
    predictions = reference
    if parsing == "robust":
        predictions = _parse_all(raws, choices, _parse_robust, advance)
    out_of_choice = [row for row, prediction in enumerate(predictions) if prediction not in LETTERS]
    if ooc_path is not None:
        columns: list[list[str]] = [[] for _ in _OOC_HEADER]
        for row in out_of_choice:
            cells = (guids[row], repr(lowered(*choices[row])), raws[row], predictions[row])
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
        with atomic_write(ooc_path) as stream:
            stream.writelines(lines(_OOC_HEADER, columns, "\r\n"))
    with atomic_write(predictions_path) as stream:
        stream.writelines(rewritten(table, PREDICTION, predictions, as_is="raw"))
    warnings = _warnings(table, guids)
    if parsing == "reference":
        # Only for the reference parser, because the robust parser composes the Hangul itself.
        warnings += _decomposed_hangul(raws, choices, reference)
    reference_out_of_choice = 0
    disagreements = 0
    for by_reference, by_chosen in zip(reference, predictions, strict=True):
        reference_out_of_choice += by_reference not in LETTERS
        # For an answer out of choice, each parser returns its own version of the text; that is not a disagreement.
        disagreements += _letter_or_blank(by_reference) != _letter_or_blank(by_chosen)
    return Postprocessed(
        answers=table.count,
        out_of_choice=len(out_of_choice),
        warnings=tuple(warnings),
        reference_out_of_choice=reference_out_of_choice,
        disagreements=disagreements,
    )


def _choices_of_answers(table: TsvTable, guids: Sequence[str], path: Path) -> list[Choices]:
    """Return the choices of each answer's question."""
    questions = read_table(path, "preprocessed", ("sample_id", *LETTERS))
    row_of_question = questions.require_unique("sample_id")
    columns = [questions.column(letter) for letter in LETTERS]
    choices = list(zip(*columns, strict=True))
    for row, texts in enumerate(choices):
        if "" in texts:
            raise DataError(f"{questions.where(row)}: a choice is empty; write the file again with `preprocess`")
    unknown = [row for row, guid in enumerate(guids) if guid not in row_of_question]
    if unknown:
        raise DataError(
            f"{table.where(unknown[0])}: guid '{guids[unknown[0]]}' is not in {path} ({len(unknown)} of {table.count} "
            "are not); give the preprocessed file that the answers were made with"
        )
    return [choices[row_of_question[guid]] for guid in guids]


def _parse_all(
    raws: Sequence[str],
    choices: Sequence[Choices],
    parse: Callable[[str, Choices], str],
    advance: Advance | None,
) -> list[str]:
    predictions: list[str] = []
    for start in range(0, len(raws), _BLOCK):
        block = slice(start, start + _BLOCK)
        predictions += map(parse, raws[block], choices[block])
        if advance is not None:
            advance(len(predictions), len(raws))
    return predictions


def _parse_reference(raw: str, choices: Choices) -> str:
    return parse_reference(raw, lowered(*choices))


def _parse_robust(raw: str, choices: Choices) -> str:
    from lmassay.answers.parser import parse

    return parse(raw, choices).letter or raw


def _letter_or_blank(prediction: str) -> str:
    return prediction if prediction in LETTERS else ""


def _warnings(table: TsvTable, guids: Sequence[str]) -> list[str]:
    warnings = []
    if not table.complete:
        last_row = table.where(table.count - 1)
        warnings.append(f"{last_row}: the last row has no line end, so its answer may be cut off; {UNFINISHED}")
    missing_words = table.missing_word_count("raw")
    if missing_words:
        warnings.append(
            f"{missing_words} answers are a word that pandas reads as a missing value (None, NA, nan …): they count as "
            "empty and are written as empty"
        )
    if len(set(guids)) < len(guids):
        repeated = sorted(guid for guid, times in Counter(guids).items() if times > 1)
        warnings.append(
            f"{len(repeated)} guids have several answers ({first_few(repeated)}); `collect` accepts only one"
        )
    return warnings


def _decomposed_hangul(raws: Sequence[str], choices: Sequence[Choices], reference: Sequence[str]) -> list[str]:
    """Count answers that are out of choice only because they or their choices are written in decomposed Hangul.

    Hangul can be encoded as syllables (NFC) or as their parts (NFD). The original compares the code points, so the
    same word in both encodings is two different texts to it.
    """
    count = 0
    for raw, texts, prediction in zip(raws, choices, reference, strict=True):
        if prediction in LETTERS:
            continue
        # Nearly all texts are composed, and checking is cheaper than parsing again.
        if all(is_normalized("NFC", text) for text in (raw, *texts)):
            continue
        a, b, c = (normalize("NFC", text) for text in texts)
        prediction_if_composed = parse_reference(normalize("NFC", raw), lowered(a, b, c))
        count += prediction_if_composed in LETTERS
    if not count:
        return []
    return [f"{count} answers out of choice would be read as a choice if their Hangul were composed (NFC)"]
