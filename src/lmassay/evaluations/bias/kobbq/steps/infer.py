"""Step 2: send the questions of a file to a model and write each answer to the predictions file as soon as it arrives.

The predictions file is the only record of what was asked: a question with an answer in this file is not asked again.
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
from lmassay.redaction import redact, without_keys
from lmassay.storage.files import atomic_write, require_file
from lmassay.storage.locks import exclusive
from lmassay.types import Generate, Response, SourceLocation

_KOALPACA = "beomi/KoAlpaca-Polyglot-12.8B"
_OPENAI_NAMES = re.compile(r"(gpt-|chatgpt|davinci|text-|o\d)", re.IGNORECASE)
_OPENAI_KEYS = ("OPENAI", "OPENAI_API_KEY")
# With --base-url, models of these providers still use the provider's own protocol. All others use OpenAI's protocol.
_PROVIDERS_WITH_OWN_PROTOCOL = frozenset({"claude", "clova"})
_AZURE_ENDPOINTS = ("AZURE_ENDPOINT", "AZURE_OPENAI_ENDPOINT")
# KoBBQ's programs strip spaces and line ends from answers only for the models of these providers.
_STRIPPED_PROVIDERS = frozenset({"openai", "azure", "clova"})


def model_spec_at(name: str, base_url: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the configuration of a model that is served at an address.

    Models of Claude and CLOVA are asked in their provider's protocol and with its key, all others in OpenAI's protocol.

    >>> model_spec_at("claude-2.0", "https://gateway.example", {})["name"]
    'claude'
    >>> model_spec_at("my-model", "http://127.0.0.1:8000/v1", {})["name"]
    'openai'
    """
    spec = model_spec(name, environment)
    if spec["name"] not in _PROVIDERS_WITH_OWN_PROTOCOL:
        spec = {"name": "openai", "model": name}
    return {**spec, "base_url": base_url}


def model_spec(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the configuration of the model that a name stands for in KoBBQ's programs.

    >>> model_spec("claude-2.0", {})
    {'name': 'claude', 'model': 'claude-2.0'}
    """
    lower_name = name.lower()
    # One model is misspelled in the published commands, as cluade-instant-1.2.
    if lower_name.startswith(("claude", "cluade")):
        return {"name": "claude", "model": name.replace("cluade", "claude")}
    if lower_name == "clova-x":
        return {"name": "clova"}
    if lower_name.startswith("hcx-"):
        return {"name": "clova", "model": name}
    if lower_name == "koalpaca-polyglot-12.8b":
        return {"name": "hf", "model": _KOALPACA}
    if lower_name == "smollm2":
        return {"name": "smollm2"}
    if "/" in name:
        return {"name": "hf", "model": name}
    has_openai_key = any(environment.get(variable) for variable in _OPENAI_KEYS)
    has_azure_endpoint = any(environment.get(variable) for variable in _AZURE_ENDPOINTS)
    prefers_azure = has_azure_endpoint and not has_openai_key
    if _OPENAI_NAMES.match(name):
        return {"name": "azure" if prefers_azure else "openai", "model": name}
    # A deployment at Azure may have any name, and so may a folder with a local model.
    if prefers_azure and not Path(name).exists():
        return {"name": "azure", "model": name}
    return {"name": "hf", "model": name}


def strips_answers(provider: str) -> bool:
    """Return True if KoBBQ's programs strip spaces and line ends from the answers of this provider's models."""
    return provider in _STRIPPED_PROVIDERS


# --- questions, the predictions file, and the requests ----------------------------------------------------------------

HEADER = ("time", "topic", "guid", "truth", "raw")
_PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class InferenceQuestion:
    """One question of the preprocessed file: its id, the letter of the right answer, and the prompt."""

    guid: str
    truth: str
    prompt: str


@dataclass(slots=True)
class InferenceSummary:
    """How many questions were asked, how the answers ended, and how many tokens they used."""

    n_requests: int = 0
    errors: list[str] = field(default_factory=list)
    """The error of each request that failed."""
    finishes: dict[str, int] = field(default_factory=dict)
    """How many answers have each finish reason."""
    tokens_in: int = 0
    tokens_out: int = 0

    def most_frequent_errors(self, limit: int = 3) -> list[tuple[str, int]]:
        """Return the most frequent errors with their counts."""
        return Counter(self.errors).most_common(limit)


def read_questions(path: Path) -> list[InferenceQuestion]:
    """Read the questions of a JSON file that the first step wrote."""
    require_file(path, "data")
    questions: list[InferenceQuestion] = []
    try:
        document = json.loads(path.read_bytes())
        prefix = document["prefix"]
        for query, *_, truth, guid in document["data"]:
            for text in (query, truth, guid):
                if not isinstance(text, str):
                    raise TypeError("a field is not a text")
            questions.append(InferenceQuestion(guid, truth, prompt=prefix + query))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise DataError(
            f"{path} is not a file of `lmassay kobbq preprocess` (--evaluation-json-path); make it again"
        ) from None
    if not questions:
        raise DataError(f"{path} has no questions")
    seen: set[str] = set()
    for question in questions:
        if question.guid in seen:
            raise DataError(f"{path}: the id {question.guid} occurs twice; ids must be unique")
        seen.add(question.guid)
    return questions


def predictions_path(data: Path, output: Path, model: str) -> Path:
    """Return the path of the file for the answers of a model."""
    return output / f"{data.name.removesuffix('.json')}_{file_name_of(model)}_predictions.tsv"


class PredictionsFile:
    """The TSV file with the answers of a model. New answers are appended as soon as they arrive."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self._topic = topic
        self.had_incomplete_row = False
        """Whether the last row was incomplete, as after a crash. It is removed, and its question is asked again."""
        self.answered_guids: set[str] = set()
        """The ids of the questions that have an answer."""
        self._columns: Sequence[str] = HEADER
        self._line_end = "\r\n"
        self._stream: IO[str] | None = None

    @contextmanager
    def opened(self) -> Iterator[PredictionsFile]:
        """Open the file for this process alone."""
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
        """Write an answer at once: it may have been paid for."""
        # Readers of TSV files do not accept a NUL character, and an answer of a server may contain the API key.
        text = without_keys(raw).replace("\0", "\ufffd")
        row = [str(datetime.now()), self._topic, question.guid, question.truth, text]
        if _PREDICTION in self._columns:
            row.append("")
        self._write(row)
        self.answered_guids.add(question.guid)

    def sort(self, questions: Sequence[InferenceQuestion]) -> None:
        """Sort a complete file in the order of the questions; concurrent requests are answered in any order."""
        rank_of_guid = {question.guid: rank for rank, question in enumerate(questions)}
        header, *rows = _read_records(self.path, self.path.stat().st_size)
        guid_column = self._columns.index("guid")

        def rank(row: Sequence[str]) -> int:
            # Answers to questions of an earlier command that are not in this one come last.
            return rank_of_guid.get(row[guid_column], len(rank_of_guid))

        ordered = sorted(rows, key=rank)
        if ordered == rows:
            return
        with atomic_write(self.path, newline="") as stream:
            writer = csv.writer(stream, delimiter="\t", lineterminator=self._line_end)
            writer.writerows([header, *ordered])

    # --- internals ----------------------------------------------------------------------------------------------------

    def _write(self, row: Sequence[str]) -> None:
        assert self._stream is not None
        text = io.StringIO(newline="")
        csv.writer(text, delimiter="\t", lineterminator=self._line_end).writerow(row)
        # One write and one flush per row, so that a crash can damage only the last row.
        self._stream.write(text.getvalue())
        self._stream.flush()

    def _read(self) -> None:
        if not self.path.exists():
            return
        complete_size = _size_of_complete_rows(self.path)
        records = _read_records(self.path, complete_size)
        if not records:
            if self.path.stat().st_size and not self.path.read_bytes().startswith(HEADER[0].encode()):
                raise DataError(f"{self.path} is not a predictions file; move it away or choose another --output-dir")
            self._remove_incomplete_row(complete_size)
            return
        header = tuple(records[0])
        if header not in (HEADER, (*HEADER, _PREDICTION)):
            raise DataError(
                f"{self.path}, line 1: the columns are {', '.join(header)}, but should be {', '.join(HEADER)}; move "
                "the file away or choose another --output-dir"
            )
        for number, record in enumerate(records[1:], 2):
            # Rows that the original program appends after the third step lack the sixth column.
            if len(record) not in (len(HEADER), len(header)):
                raise DataError(
                    f"{self.path}, row {number}: {len(record)} columns instead of {len(header)}; correct or delete the "
                    "row"
                )
        # Only now, so that a file that turns out not to be a predictions file is not changed.
        self._remove_incomplete_row(complete_size)
        self._columns = header
        # The second step writes CRLF; after the third step, which rewrites the file, it has LF.
        first_line = self.path.read_bytes().split(b"\n", 1)[0]
        self._line_end = "\r\n" if first_line.endswith(b"\r") else "\n"
        guid_column = HEADER.index("guid")
        self.answered_guids = {record[guid_column] for record in records[1:]}

    def _remove_incomplete_row(self, complete_size: int) -> None:
        with self.path.open("r+b") as stream:
            stream.seek(complete_size)
            incomplete = stream.read()
            if not incomplete:
                return
            # One incomplete row rarely has more tabs than there are columns. If it has more, a quotation mark is
            # probably never closed and whole rows follow it, so removing the rest would lose answers.
            if incomplete.count(b"\t") > len(HEADER):
                line = self.path.read_bytes()[:complete_size].count(b"\n") + 1
                raise DataError(f"{self.path}, line {line}: a quotation mark is never closed; correct the row")
            stream.truncate(complete_size)
        self.had_incomplete_row = True


def _size_of_complete_rows(path: Path) -> int:
    """Return the number of bytes up to the end of the last complete row; a row may span lines inside quotes."""
    end = position = 0
    open_quotes = False
    with path.open("rb") as stream:
        for line in stream:
            position += len(line)
            open_quotes ^= line.count(b'"') % 2 == 1
            if not open_quotes and line.endswith(b"\n"):
                end = position
    return end


def _read_records(path: Path, size: int) -> list[list[str]]:
    """Read the rows within the first ``size`` bytes."""
    raw = path.read_bytes()[:size]
    if raw.startswith(codecs.BOM_UTF8):
        raise DataError(f"{path}, line 1: the file begins with a byte order mark; save it without one")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: not UTF-8; move the file away, or convert it") from None
    # An answer may be longer than csv's default limit. The limit holds for the whole process, so it is set back below.
    previous_limit = csv.field_size_limit(1 << 30)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True))
    except csv.Error as error:
        raise DataError(f"{path}: {error}; correct the file or move it away") from None
    finally:
        csv.field_size_limit(previous_limit)


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
    summary: InferenceSummary,
) -> None:
    """Ask the questions that have no answer yet, and update ``summary`` with every response.

    If a request fails permanently, its question stays without an answer, and the next call asks it again. ``strip``
    says whether to remove spaces and line ends around answers. ``note`` is called with every response, ``progress``
    with the number of questions done and their total.
    """
    unanswered = [question for question in questions if question.guid not in predictions.answered_guids]
    answered_before = len(questions) - len(unanswered)
    requests = []
    for question in unanswered:
        location = SourceLocation("answer", question.guid)
        requests.append(Generate(messages=(("user", question.prompt),), max_tokens=max_tokens, location=location))
    if not requests:
        return
    model.use_budget(budget)
    # The ids of open batches are kept here, so that a batch is not paid for twice after a crash.
    model.use_folder(predictions.path.parent / ".open")
    for index, response in ask(model, "generate", requests):
        question = unanswered[index]
        summary.n_requests += 1
        if response.error is not None:
            summary.errors.append(response.error)
        else:
            text = response.answer if isinstance(response.answer, str) else ""
            if strip:
                text = text.strip("\n ")
            predictions.add(question, text)
            summary.finishes[response.finish] = summary.finishes.get(response.finish, 0) + 1
        summary.tokens_in += response.tokens_in or 0
        summary.tokens_out += response.tokens_out or 0
        budget.spend(response, model.prices)
        note(question, response)
        budget.require_usage(response)
        progress(answered_before + summary.n_requests, len(questions))


def answer_note(question: InferenceQuestion, response: Response, model: str) -> dict[str, Any]:
    """Return the details of a response that have no column in the predictions file.

    ``model`` is the name of the model that answered, not an alias of it.
    """
    return {
        "guid": question.guid,
        "model": model,
        "finish": response.finish,
        "tokens_in": response.tokens_in,
        "tokens_out": response.tokens_out,
        "error": None if response.error is None else redact(response.error),
    }
