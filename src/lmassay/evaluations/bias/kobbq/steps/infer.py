"""Step 2: put the prompts of a file to a model and note each answer as it comes, in a file of its own.

The file is the record: an answer that stands in it is never asked again.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from lmassay.budget import Budget
from lmassay.contracts import Model, ask
from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.samples import file_name_of
from lmassay.storage.files import atomic_write, require_file
from lmassay.storage.locks import exclusive
from lmassay.types import Generate, Response, SourceLocation

_KOALPACA = "beomi/KoAlpaca-Polyglot-12.8B"
_OPENAI_NAMES = re.compile(r"(gpt-|chatgpt|davinci|text-|o\d)", re.IGNORECASE)
_OPENAI_KEYS = ("OPENAI", "OPENAI_API_KEY")
_AZURE_ENDPOINTS = ("AZURE_ENDPOINT", "AZURE_OPENAI_ENDPOINT")
_STRIPPED = frozenset({"openai", "azure", "clova"})


def model_spec(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """A model as a configuration would name it.

    >>> model_spec("claude-2.0", {})
    {'name': 'claude', 'model': 'claude-2.0'}
    """
    low = name.lower()
    if low.startswith(("claude", "cluade")):
        return {"name": "claude", "model": name.replace("cluade", "claude")}
    if low == "clova-x" or low.startswith("hcx-"):
        return {"name": "clova"} if low == "clova-x" else {"name": "clova", "model": name}
    if low == "koalpaca-polyglot-12.8b":
        return {"name": "hf", "model": _KOALPACA}
    if low == "smollm2":
        return {"name": "smollm2"}
    if "/" in name:
        return {"name": "hf", "model": name}
    has_openai, has_azure = (any(map(environment.get, names)) for names in (_OPENAI_KEYS, _AZURE_ENDPOINTS))
    if _OPENAI_NAMES.match(name):
        return {"name": "azure" if has_azure and not has_openai else "openai", "model": name}
    if has_azure and not has_openai and not Path(name).exists():
        return {"name": "azure", "model": name}
    return {"name": "hf", "model": name}


def strips_answers(model: str) -> bool:
    """Whether KoBBQ's programs take blanks and line ends off the answers of this kind of model."""
    return model in _STRIPPED


# --- questions, the file of predictions, and the asking ---------------------------------------------------------------

HEADER = ("time", "topic", "guid", "truth", "raw")
_PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class InferenceQuestion:
    """One line of the preprocessed file."""

    guid: str
    truth: str
    prompt: str


@dataclass(slots=True)
class InferenceSummary:
    """How it went."""

    asked: int = 0
    errors: list[str] = field(default_factory=list)
    finishes: dict[str, int] = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0

    def worst(self, most: int = 3) -> list[tuple[str, int]]:
        """The most frequent errors."""
        return Counter(self.errors).most_common(most)


def read_questions(path: Path) -> list[InferenceQuestion]:
    """The questions of a file that the first step wrote."""
    require_file(path, "data")
    try:
        document = json.loads(path.read_bytes())
        prefix = document["prefix"]
        found = [InferenceQuestion(entry[-1], entry[-2], prefix + entry[0]) for entry in document["data"]]
        whole = all(isinstance(text, str) for q in found for text in (q.guid, q.truth, q.prompt))
    except (ValueError, LookupError, TypeError, RecursionError):
        whole, found = False, []
    if not whole:
        raise DataError(f"{path} is no file of `lmassay kobbq preprocess` (--evaluation-json-path); make it again")
    if not found:
        raise DataError(f"{path} holds no questions")
    seen: set[str] = set()
    for question in found:
        if question.guid in seen:
            raise DataError(f"{path}: the id {question.guid} occurs twice; ids must be unique")
        seen.add(question.guid)
    return found


def predictions_path(data: Path, output: Path, model: str) -> Path:
    """Where the answers of a model go."""
    return output / f"{data.name.removesuffix('.json')}_{file_name_of(model)}_predictions.tsv"


class PredictionsFile:
    """The answers on file: those that are there, and new ones as they come."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path, self._topic = path, topic
        self.cut = False
        """Whether the last row was broken off, as by a crash; it is then taken away and asked again."""
        self.done: set[str] = set()
        self._columns: Sequence[str] = HEADER
        self._line_end = "\r\n"
        self._stream: IO[str] | None = None

    @contextmanager
    def opened(self) -> Iterator[PredictionsFile]:
        """Hold the file for this process alone."""
        lock = self.path.parent / ".locks" / self.path.name
        with exclusive(lock, f"the predictions {self.path}"):
            self._read()
            try:
                with self.path.open("a", encoding="utf-8", newline="", errors="backslashreplace") as stream:
                    self._stream = stream
                    if not self.path.stat().st_size:
                        self._write(HEADER)
                    yield self
            except OSError as error:
                raise DataError(f"cannot write {self.path}: {error.strerror or error}") from error
            finally:
                self._stream = None

    def add(self, question: InferenceQuestion, raw: str) -> None:
        """Note an answer at once: it may have been paid for."""
        # No reader of such files takes a NUL.
        row = [str(datetime.now()), self._topic, question.guid, question.truth, raw.replace("\0", "\ufffd")]
        self._write([*row, ""] if _PREDICTION in self._columns else row)
        self.done.add(question.guid)

    def in_order(self, questions: Sequence[InferenceQuestion]) -> None:
        """Put a complete file into the order of the questions; answers come in any order."""
        place = {question.guid: number for number, question in enumerate(questions)}
        header, *rows = _records(self.path, self.path.stat().st_size)
        at = self._columns.index("guid")
        ordered = sorted(rows, key=lambda row: place.get(row[at], len(place)))
        if ordered == rows:
            return
        with atomic_write(self.path, newline="") as stream:
            writer = csv.writer(stream, delimiter="\t", lineterminator=self._line_end)
            writer.writerows([header, *ordered])

    # --- inside -------------------------------------------------------------------------------------------------------

    def _write(self, row: Sequence[str]) -> None:
        assert self._stream is not None
        text = io.StringIO(newline="")
        csv.writer(text, delimiter="\t", lineterminator=self._line_end).writerow(row)
        # One write and one flush a row, so that a crash can break off the last row at most.
        self._stream.write(text.getvalue())
        self._stream.flush()

    def _read(self) -> None:
        if not self.path.exists():
            return
        whole = _whole_rows(self.path)
        records = _records(self.path, whole)
        if not records:
            if self.path.stat().st_size and not self.path.read_bytes().startswith(HEADER[0].encode()):
                raise DataError(f"{self.path} is no predictions file; move it away or choose another --output-dir")
            self._take_broken_row_away(whole)
            return
        header = tuple(records[0])
        if header not in (HEADER, (*HEADER, _PREDICTION)):
            raise DataError(
                f"{self.path}, line 1: the columns are {', '.join(header)}, but should be {', '.join(HEADER)}; move "
                "the file away or choose another --output-dir"
            )
        for number, record in enumerate(records[1:], 2):
            # What was asked after the third step by the original program lacks the sixth column.
            if len(record) not in (len(HEADER), len(header)):
                raise DataError(
                    f"{self.path}, row {number}: {len(record)} columns instead of {len(header)}; mend or delete the row"
                )
        # Only now, for a file that is not ours is left as it is.
        self._take_broken_row_away(whole)
        self._columns = header
        self._line_end = "\r\n" if self.path.read_bytes().split(b"\n", 1)[0].endswith(b"\r") else "\n"
        self.done = {record[HEADER.index("guid")] for record in records[1:]}

    def _take_broken_row_away(self, whole: int) -> None:
        with self.path.open("r+b") as stream:
            stream.seek(whole)
            broken = stream.read()
            if not broken:
                return
            if broken.count(b"\t") > len(HEADER):
                line = self.path.read_bytes()[:whole].count(b"\n") + 1
                raise DataError(f"{self.path}, line {line}: a quotation mark is never closed; mend the row")
            stream.truncate(whole)
        self.cut = True


def _whole_rows(path: Path) -> int:
    """Bytes up to the end of the last row that is complete; a row may span lines inside quotes."""
    end = position = 0
    open_quotes = False
    with path.open("rb") as stream:
        for line in stream:
            position += len(line)
            open_quotes ^= line.count(b'"') % 2 == 1
            if not open_quotes and line.endswith(b"\n"):
                end = position
    return end


def _records(path: Path, size: int) -> list[list[str]]:
    raw = path.read_bytes()[:size]
    if raw.startswith(codecs.BOM_UTF8):
        raise DataError(f"{path}, line 1: a byte order mark stands before the columns; save the file without it")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: not UTF-8; move the file away, or convert it") from None
    usual = csv.field_size_limit(1 << 30)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True))
    except csv.Error as error:
        raise DataError(f"{path}: {error}; mend the file or move it away") from None
    finally:
        # The limit is the whole process's.
        csv.field_size_limit(usual)


def infer(
    model: Model,
    questions: Sequence[InferenceQuestion],
    predictions: PredictionsFile,
    *,
    max_tokens: int,
    strip: bool,
    budget: Budget,
    note: Callable[[InferenceQuestion, Response], None],
    progress: Callable[[float, int | None], None],
    told: InferenceSummary,
) -> None:
    """Ask what is not yet answered. A question that failed for good is left out, and asked again the next time."""
    todo = [question for question in questions if question.guid not in predictions.done]
    known = len(questions) - len(todo)
    requests = [
        Generate(messages=(("user", q.prompt),), max_tokens=max_tokens, location=SourceLocation("answer", q.guid))
        for q in todo
    ]
    model.use_budget(budget)
    model.use_folder(predictions.path.parent / ".open")
    for place, response in ask(model, "generate", requests) if requests else ():
        question = todo[place]
        told.asked += 1
        if response.error is not None:
            told.errors.append(response.error)
        else:
            text = response.answer if isinstance(response.answer, str) else ""
            predictions.add(question, text.strip("\n ") if strip else text)
            told.finishes[response.finish] = told.finishes.get(response.finish, 0) + 1
        told.tokens_in += response.tokens_in or 0
        told.tokens_out += response.tokens_out or 0
        budget.spend(response, model.prices)
        note(question, response)
        budget.require_usage(response)
        progress(known + told.asked, len(questions))


def answer_note(question: InferenceQuestion, response: Response) -> dict[str, Any]:
    """What the predictions file has no column for."""
    return {
        "guid": question.guid,
        "finish": response.finish,
        "tokens_in": response.tokens_in,
        "tokens_out": response.tokens_out,
        "error": response.error,
    }
