"""What ``lmassay surprisal`` does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lmassay.cli.actions.run import plugin_output_to_stderr
from lmassay.cli.console import say, warn
from lmassay.cli.endings import format_by_ending
from lmassay.cli.exit import INCOMPLETE
from lmassay.models.hf.model import HuggingFace
from lmassay.reporting.formats.spreadsheet import write_csv
from lmassay.running.word_surprisal import (
    Correction,
    Per,
    TextSurprisal,
    Unit,
    correction_note,
    local_model_of,
    surprisal,
)
from lmassay.storage.files import atomic_write, forbid_overwriting, open_text
from lmassay.types.controls import replace_controls
from lmassay.types.wording import counted

_COLUMNS = ("line", "number", "text", "start", "end", "tokens", "surprisal")
# The number of lines that are scored together: enough to fill batches, few enough to limit memory.
_LINES_AT_ONCE = 512


def surprisal_command(
    model: str, source: Path, output: Path | None, per: Per, unit: Unit, correction: Correction
) -> int:
    """Score every word or token of a text with a local model: how unexpected it is, in bits or nats."""
    if output == Path("-"):
        output = None
    form = "tsv"
    if output is not None:
        form = format_by_ending(output, {".tsv": "tsv", ".csv": "csv"})
        forbid_overwriting({"-o": output}, {"--in": source})
    lines = list(open_text(source, "input").read())
    with plugin_output_to_stderr():
        local_model = local_model_of(model)
    _warn_about_repeated_prefix(local_model, lines)
    _warn_about_unknown_words(local_model.tokenizer, lines)
    # The numbers of lines that could not be scored, each with the reason.
    unscored: list[tuple[int, str]] = []

    def scored() -> Iterator[tuple[int, TextSurprisal]]:
        for begin in range(0, len(lines), _LINES_AT_ONCE):
            texts = lines[begin : begin + _LINES_AT_ONCE]
            for offset, scores in enumerate(surprisal(local_model, texts, per, unit, correction)):
                number = begin + offset + 1
                if scores.reason:
                    unscored.append((number, scores.reason))
                yield number, scores

    if output is None:
        count = _write(sys.stdout, scored(), "\t")
    else:
        with atomic_write(output, newline="") as stream:
            count = _write(stream, scored(), "," if form == "csv" else "\t")
    for number, reason in unscored:
        warn(f"{source}, line {number}: {reason}; it was left out")
    note = correction_note(local_model, per, correction)
    model_note = f"{local_model.kind} model {local_model.label}"
    if local_model.kind == "masked" and per == "word":
        model_note += ", which needs no correction"
    if local_model.kind == "causal":
        # The policy may name two prefixes, "after a context/at the beginning". A text has nothing before it, so its
        # prefix is the second one.
        prefix = local_model.tokenizer.policy(masked=False)["prefix"].rpartition("/")[2]
        model_note += f", prefix {prefix}"
    where = f"; written to {output}" if output is not None else ""
    say(f"{count:,} {note} in {counted(len(lines), 'line')}, in {unit}; {model_note}{where}")
    return INCOMPLETE if unscored else 0


def _warn_about_repeated_prefix(model: HuggingFace, lines: Sequence[str]) -> None:
    """Warn about the first line that begins with the token that the tokenizer adds to every text."""
    tokenizer = model.tokenizer
    for number, line in enumerate(lines, start=1):
        if tokenizer.repeats_own_prefix(line):
            token = tokenizer.tokenizer.convert_ids_to_tokens(tokenizer.own_prefix[-1])
            advice = "remove it from the text"
            if model.kind == "causal":
                # A masked model always uses its own special tokens.
                advice += ", or set the model's option prefix: none"
            warn(
                f"line {number} begins with {token}, which the tokenizer puts before every text, so the model reads it "
                f"twice; {advice}"
            )
            return


def _warn_about_unknown_words(tokenizer: Any, lines: Sequence[str]) -> None:
    """Warn if the texts have words that the model's vocabulary lacks."""
    unknown_by_line = {number: tokenizer.unknown_tokens(line) for number, line in enumerate(lines, start=1)}
    total = sum(unknown_by_line.values())
    if not total:
        return
    first = next(number for number, count in unknown_by_line.items() if count)
    warn(
        f"the model's vocabulary lacks {counted(total, 'word')}, first in line {first}; the "
        f"surprisal of such a word is that of {tokenizer.tokenizer.unk_token}, which stands for everything unknown"
    )


def _write(stream: IO[str], scored: Iterator[tuple[int, TextSurprisal]], separator: str) -> int:
    """Write the scores as CSV or TSV, and return the number of rows."""
    rows = _rows(scored)
    if separator == ",":
        return write_csv(stream, _COLUMNS, rows)
    stream.write("\t".join(_COLUMNS) + "\n")
    count = 0
    for row in rows:
        cells = ["" if value is None else _cell(value) for value in row]
        stream.write("\t".join(cells) + "\n")
        count += 1
    return count


def _rows(scored: Iterator[tuple[int, TextSurprisal]]) -> Iterator[tuple[Any, ...]]:
    for line, scores in scored:
        for number, item in enumerate(scores, start=1):
            value = None if item.value is None else round(item.value, 4)
            yield line, number, item.text, item.start, item.end, item.tokens, value


def _cell(value: Any) -> str:
    """Return a value as it is written in a TSV file, where tabs and line breaks must be escaped."""
    text = str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
    return replace_controls(text)
