"""Step 3: a model's answers become letters, or stay as they are where no choice can be read out of them."""

from __future__ import annotations

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
_OOC_HEADER = ("id", "choices", "raw", "processed")
_BLOCK = 2_000


@dataclass(frozen=True, slots=True)
class Postprocessed:
    """How the answers of a predictions file were read."""

    answers: int
    out_of_choice: int
    warnings: tuple[str, ...]
    reference_out_of_choice: int
    disagreements: int
    """Answers that the two ways of parsing read differently; 0 where only one was asked for."""


def postprocess(
    predictions_path: Path,
    preprocessed_path: Path,
    *,
    ooc_path: Path | None = None,
    parsing: Parsing = "reference",
    advance: Advance | None = None,
) -> Postprocessed:
    """Put a column ``prediction`` into a predictions file; answers out of choice are listed in ``ooc_path``."""
    forbid_overwriting(
        {"--ooc-path": ooc_path},
        {"--predictions-tsv-path": predictions_path, "--preprocessed-tsv-path": preprocessed_path},
    )
    table = read_table(predictions_path, "predictions", ("guid", "raw"), may_lack=PREDICTION, remedy=UNFINISHED)
    guids, raws = table.column("guid"), table.column("raw")
    choices = _choices(table, guids, preprocessed_path)
    reference = _parsed(raws, choices, _reference, advance)
    chosen = reference if parsing == "reference" else _parsed(raws, choices, _robust, advance)
    outside = [row for row, text in enumerate(chosen) if text not in LETTERS]
    if ooc_path is not None:
        with atomic_write(ooc_path) as stream:
            shown = [repr(lowered(*choices[row])) for row in outside]
            ids, answers, texts = ([column[row] for row in outside] for column in (guids, raws, chosen))
            stream.writelines(lines(_OOC_HEADER, (ids, shown, answers, texts), "\r\n"))
    with atomic_write(predictions_path) as stream:
        stream.writelines(rewritten(table, PREDICTION, chosen, as_is="raw"))
    return Postprocessed(
        answers=table.count,
        out_of_choice=len(outside),
        warnings=(*_warnings(table, guids), *_composed(raws, choices, reference)),
        reference_out_of_choice=sum(text not in LETTERS for text in reference),
        disagreements=sum(_letter(a) != _letter(b) for a, b in zip(reference, chosen, strict=True)),
    )


def _choices(table: TsvTable, guids: Sequence[str], path: Path) -> list[tuple[str, str, str]]:
    """The choices of each answer's question."""
    questions = read_table(path, "preprocessed", ("sample_id", *LETTERS))
    places = questions.require_unique("sample_id")
    shown = list(zip(*(questions.column(letter) for letter in LETTERS), strict=True))
    empty = next((row for row, choices in enumerate(shown) if "" in choices), None)
    if empty is not None:
        raise DataError(f"{questions.where(empty)}: a choice is empty; write the file again with `preprocess`")
    unknown = [row for row, guid in enumerate(guids) if guid not in places]
    if unknown:
        raise DataError(
            f"{table.where(unknown[0])}: guid '{guids[unknown[0]]}' is not in {path} ({len(unknown)} of {table.count} "
            "are not); give the preprocessed file that the answers were made with"
        )
    return [shown[places[guid]] for guid in guids]


def _parsed(
    raws: Sequence[str],
    choices: Sequence[tuple[str, str, str]],
    parse: Callable[[str, tuple[str, str, str]], str],
    advance: Advance | None,
) -> list[str]:
    found: list[str] = []
    for start in range(0, len(raws), _BLOCK):
        part = slice(start, start + _BLOCK)
        found += map(parse, raws[part], choices[part])
        if advance is not None:
            advance(len(found), len(raws))
    return found


def _reference(raw: str, choices: tuple[str, str, str]) -> str:
    return parse_reference(raw, lowered(*choices))


def _robust(raw: str, choices: tuple[str, str, str]) -> str:
    from lmassay.answers.parser import parse

    return parse(raw, choices).letter or raw


def _letter(text: str) -> str:
    return text if text in LETTERS else ""


def _warnings(table: TsvTable, guids: Sequence[str]) -> list[str]:
    found = []
    if not table.complete:
        found.append(
            f"{table.where(table.count - 1)}: the last row has no line end, so its answer may be cut off; {UNFINISHED}"
        )
    words = table.words("raw")
    if words:
        found.append(
            f"{words} answers are a word that stands for a missing value (None, NA, nan …): they count as empty, and "
            "are written so"
        )
    if len(set(guids)) < len(guids):
        seen: set[str] = set()
        twice = sorted({guid for guid in guids if guid in seen or seen.add(guid)})  # type: ignore[func-returns-value]
        found.append(f"{len(twice)} guids have several answers ({first_few(twice)}); `collect` will want one of each")
    return found


def _composed(raws: Sequence[str], choices: Sequence[tuple[str, str, str]], reference: Sequence[str]) -> list[str]:
    """Hangul can be written in two ways, as syllables or as their parts; to the original they are different texts."""
    count = 0
    for raw, shown, text in zip(raws, choices, reference, strict=True):
        if text not in LETTERS and not all(is_normalized("NFC", part) for part in (raw, *shown)):
            a, b, c = (normalize("NFC", choice) for choice in shown)
            count += parse_reference(normalize("NFC", raw), lowered(a, b, c)) in LETTERS
    if not count:
        return []
    return [f"{count} answers out of choice would be read as a choice if their Hangul were composed (NFC)"]
