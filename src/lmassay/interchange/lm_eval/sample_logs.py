"""Reads the sample logs that lm-evaluation-harness writes with ``--log_samples``.

``samples_<task>_<time>.jsonl`` has one JSON object, a *sample*, for each document (in lmassay: example) and filter,
with its requests and answers. A *filter* of the harness extracts the answer from the generated text.
``results_<time>.json`` in the same folder is called the *totals* here: it has the mean scores and the model. The format
is that of version 0.4.13. Logs of earlier 0.4 versions, which wrote arguments as lists and had no list of metrics, can
be read as well.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from lmassay.contracts import Task
from lmassay.errors import DataError
from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY, RunMetadata, UnloggedExamples, read_metadata
from lmassay.plugins.evaluations import evaluations
from lmassay.plugins.hooks import call_hook
from lmassay.redaction import redact
from lmassay.storage.files import require_file, sha256
from lmassay.types import digest

_HINT = "is this a samples_*.jsonl that lm-evaluation-harness wrote with --log_samples?"
_GZIP_MAGIC = b"\x1f\x8b"
_REQUIRED_KEYS = ("doc_id", "doc", "target", "arguments", "filtered_resps")
# All keys of a sample that are not metrics.
_OTHER_KEYS = frozenset(
    (*_REQUIRED_KEYS, "resps", "filter", "metrics", "doc_hash", "prompt_hash", "target_hash", METADATA_KEY)
)


@dataclass(frozen=True, slots=True)
class LogSample:
    """A sample: one document of a log with its requests, answers and scores."""

    file: Path
    line: int
    doc_id: int
    """The number of the document in its data set, counted from 0."""
    doc: Mapping[str, Any]
    """The fields of the document."""
    target: str
    """The expected answer, as a text."""
    requests: Sequence[Sequence[Any]]
    """For each request: context and continuation, or prompt and generation options."""
    answers: Sequence[Any]
    """For each request, after the filter: a text, or a log-likelihood and whether it was the greedy choice."""
    filter: str
    metrics: Mapping[str, Any]
    """A dict from metric to the value in the log, which need not be a number."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The fields that `lmassay export` adds to a sample, so that the run can be restored."""

    @property
    def where(self) -> str:
        """File and line, for error messages."""
        return f"{self.file}, line {self.line}"

    def log_likelihoods(self) -> list[float] | None:
        """The log-likelihood of each request; None if the answers are texts, or do not match the requests.

        Raises DataError if a log-likelihood is not a finite number.
        """
        if not self.answers or len(self.answers) != len(self.requests):
            return None
        for answer in self.answers:
            if not isinstance(answer, list | tuple) or len(answer) != 2:
                return None
        for request in self.requests:
            if len(request) < 2 or not isinstance(request[1], str):
                return None
        return [self._log_likelihood(answer[0]) for answer in self.answers]

    def texts(self) -> list[str] | None:
        """The generated answer to each request; None if the answers are not texts."""
        texts = []
        for answer in self.answers:
            # A filter that keeps several generated texts per request writes a list, of which the first is used.
            text = answer[0] if isinstance(answer, list) and answer else answer
            if not isinstance(text, str):
                return None
            texts.append(text)
        if not texts or self.log_likelihoods():
            return None
        return texts

    def _log_likelihood(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{self.where}: the log-likelihood {shortened(value)} is not a usable number") from None
        if not math.isfinite(number):
            raise DataError(f"{self.where}: a log-likelihood is {number}; the model gave no usable answer there")
        return number


@dataclass(frozen=True, slots=True)
class SampleLog:
    """The samples of a log under one filter, in the order of their documents."""

    path: Path
    sha256: str
    task: str
    filter: str
    samples: Sequence[LogSample]


@dataclass(frozen=True, slots=True)
class LogTotals:
    """What a results file contains about one task and the model. Fields without information are empty."""

    path: Path
    model: str
    """The name of the model."""
    source: str
    """The kind of model in the harness, such as ``hf``."""
    harness: str
    """The version of the harness."""
    task_version: str
    documents: int | None
    """The number of documents in the evaluation, from ``n-samples``."""
    measured: int | None
    """The number of scored documents, from ``sample_len``: fewer than ``documents`` if --samples selected some."""
    means: Mapping[str, float]
    """A dict from metric to its mean."""
    identity: Mapping[str, str]
    """The fields that identify the model's weights: its revision, commit and data type, if they are known."""
    shots: int | None
    """The number of examples in each prompt, from ``n-shot``."""
    metadata: RunMetadata


def read_log(path: Path, filter_name: str = "", task: str = "") -> SampleLog:
    """Read the samples of a log under one filter. Raises DataError with the first line that cannot be used.

    ``task`` is the name of the harness's task; by default, it is taken from the file name.
    """
    require_file(path, "samples")
    # The cache key below has the state before the file is read: if the file changes in the meantime, the next call
    # reads it again.
    state = path.stat()
    return _read_log(path, filter_name, task or task_of(path), (state.st_mtime_ns, state.st_size))


# The task and the model of an import read the same files, so they are cached. Time and size are part of the key, so a
# file that has changed is read again.
@lru_cache(maxsize=128)
def _read_log(path: Path, filter_name: str, task: str, _: tuple[int, int]) -> SampleLog:
    samples = list(_read_samples(path))
    if not samples:
        raise DataError(f"{path} has no samples; {_HINT}")
    filters = list(dict.fromkeys(sample.filter for sample in samples))
    if filter_name and filter_name not in filters:
        raise DataError(f"{path} has no filter '{filter_name}'; it has {', '.join(filters)}")
    if not filter_name and len(filters) > 1:
        raise DataError(
            f"{path} scores each document under {len(filters)} filters ({', '.join(filters)}); choose one with --filter"
        )
    chosen_filter = filter_name or filters[0]
    chosen = [sample for sample in samples if sample.filter == chosen_filter]
    line_of_document: dict[int, int] = {}
    for sample in chosen:
        if sample.doc_id in line_of_document:
            first_line = line_of_document[sample.doc_id]
            raise DataError(f"{sample.where}: doc_id {sample.doc_id} appears twice, first in line {first_line}")
        line_of_document[sample.doc_id] = sample.line
    chosen.sort(key=lambda sample: sample.doc_id)
    return SampleLog(path, sha256(path), task, chosen_filter, chosen)


def task_of(path: Path) -> str:
    """The name of the task, which is a part of the file name. Raises DataError if the name has another form.

    >>> task_of(Path("samples_blimp_adjunct_island_2026-01-31T09-30-00.123456.jsonl"))
    'blimp_adjunct_island'
    """
    name, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
    if not path.name.startswith("samples_") or not name or not stamp[:1].isdigit():
        raise DataError(f"the name of {path} does not contain the task (samples_<task>_<time>.jsonl); give --task NAME")
    return name


def find_totals(path: Path) -> Path | None:
    """The results file that was written together with a sample log, if it is still in the same folder."""
    stamp = path.stem.rpartition("_")[2]
    totals = path.with_name(f"results_{stamp}.json")
    if totals.is_file():
        return totals
    return None


def read_totals(path: Path, task: str, filter_name: str) -> LogTotals:
    """Read what a results file contains about a task under one filter."""
    require_file(path, "results")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: this is not JSON ({error})") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict):
        raise DataError(f"{path}: the key 'results' is missing; is this lm-evaluation-harness's results_*.json?")
    if task not in results:
        raise DataError(f"{path} has no results of the task {task}; it has {', '.join(results) or 'none'}")
    results_of_task = _mapping(results[task])
    # Keys are "<metric>,<filter>".
    ending = f",{filter_name}"
    means: dict[str, float] = {}
    for name, value in results_of_task.items():
        if name.endswith(ending) and _is_number(value):
            means[name.removesuffix(ending)] = float(value)
    config = _mapping(document.get("config"))
    identity: dict[str, str] = {}
    for name in ("model_revision", "model_sha", "model_dtype"):
        text = _text(config.get(name)).removeprefix("torch.")
        if text:
            identity[name] = text
    sample_counts = _mapping(_mapping(document.get("n-samples")).get(task))
    return LogTotals(
        path=path,
        model=_text(document.get("model_name")),
        source=_text(document.get("model_source")),
        harness=_text(document.get("lm_eval_version")),
        task_version=_text(_mapping(document.get("versions")).get(task)),
        documents=_count(sample_counts.get("effective")),
        measured=_count(results_of_task.get("sample_len")),
        means=means,
        identity=identity,
        shots=_count(_mapping(document.get("n-shot")).get(task)),
        metadata=read_metadata(document.get(METADATA_KEY), task, list(results), path),
    )


def require_whole(log: SampleLog, totals: LogTotals) -> None:
    """Raise DataError if a log has not as many documents as were evaluated: its scores would differ from the totals."""
    count = len(log.samples)
    if totals.documents is not None and count not in (totals.documents, totals.measured):
        raise DataError(
            f"{log.path} has {count} documents, but {totals.path} says that {totals.documents} were evaluated "
            f"(n-samples of {log.task}); was the log cut off? Copy the whole log again, or give the results file that "
            "was written with it: --totals FILE"
        )


def _read_samples(path: Path) -> Iterator[LogSample]:
    with path.open("rb") as stream:
        if stream.read(2) == _GZIP_MAGIC:
            raise DataError(f"{path} is compressed; unpack it first, e.g. gunzip -k {path.name}")
        stream.seek(0)
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _sample(path, number, _parse_line(line, f"{path}, line {number}"))


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        # ``error.object`` instead of ``line``, because the position is counted without the byte-order mark.
        byte = error.object[error.start]
        raise DataError(f"{where}: byte 0x{byte:02x} is not UTF-8; {_HINT}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is not JSON ({error}); was the log cut off?") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: a sample must be a JSON object; {_HINT}")
    return row


def _sample(path: Path, line: int, row: Mapping[str, Any]) -> LogSample:
    """Check a line of a log, which is a JSON object, and return it as a sample."""
    where = f"{path}, line {line}"
    for name in _REQUIRED_KEYS:
        if name not in row:
            raise DataError(f"{where}: the field '{name}' is missing; {_HINT}")
    # bool is a subclass of int, so isinstance would accept true.
    if type(row["doc_id"]) is not int:
        raise DataError(f"{where}: doc_id is {row['doc_id']!r}; it must be a whole number")
    if not isinstance(row["filtered_resps"], list):
        raise DataError(f"{where}: filtered_resps is not a list; {_HINT}")
    metrics = row.get("metrics", [name for name in row if name not in _OTHER_KEYS])
    if not isinstance(metrics, list) or not all(isinstance(name, str) and name in row for name in metrics):
        raise DataError(f"{where}: 'metrics' must be a list of keys of the sample; got {shortened(metrics)}")
    doc = row["doc"] if isinstance(row["doc"], dict) else {"doc": row["doc"]}
    return LogSample(
        file=path,
        line=line,
        doc_id=row["doc_id"],
        doc=plain_json(doc),
        target=str(row["target"]),
        requests=_requests(row["arguments"], where),
        answers=row["filtered_resps"],
        filter=str(row.get("filter", "none")),
        metrics={name: row[name] for name in metrics},
        metadata=_mapping(row.get(METADATA_KEY)),
    )


def _requests(arguments: Any, where: str) -> list[list[Any]]:
    """The arguments of each request: ``{gen_args_0: {arg_0: …, arg_1: …}}``, or a list of lists in earlier versions."""
    entries = list(arguments.values()) if isinstance(arguments, dict) else arguments
    if not isinstance(entries, list):
        raise DataError(f"{where}: 'arguments' must be an object or a list; {_HINT}")
    # All choices of a question have the same context, so it is kept in memory only once.
    shared_texts: dict[str, str] = {}
    requests = []
    for entry in entries:
        parts = list(entry.values()) if isinstance(entry, dict) else entry
        if not isinstance(parts, list):
            raise DataError(f"{where}: each entry of 'arguments' must contain the arguments of a request; {_HINT}")
        request = []
        for part in parts:
            request.append(shared_texts.setdefault(part, part) if isinstance(part, str) else part)
        requests.append(request)
    return requests


def by_id(identified: Iterable[tuple[str, int, LogSample]]) -> dict[str, LogSample]:
    """A dict from the id of an example to its sample.

    ``identified`` has tuples of an id, the number of the document, and the sample. If several samples have the same id,
    the number is appended to the ids of all but the first.
    """
    samples: dict[str, LogSample] = {}
    for example_id, number, sample in identified:
        free_id = example_id
        while free_id in samples:
            free_id = f"{free_id}-{number}"
        samples[free_id] = sample
    return samples


def requests_digest(samples: Sequence[LogSample]) -> str:
    """The digest of all requests to the model, for the signature of an imported run."""
    requests = []
    for sample in samples:
        requests.append([plain_json(list(request)) for request in sample.requests])
    return digest(requests)[:8]


def is_finite(value: float) -> bool:
    """Whether a number from a file is finite as a float; JSON allows integers that are too large."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def shortened(value: Any) -> str:
    """The text of a value for an error message: without secrets, and shortened if it is long."""
    return _SHORT_REPR.repr(value)


class _ShortRepr(reprlib.Repr):
    """Blanks out API keys before it shortens a text, because half of a key would not be recognised."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(redact(x), level)


_SHORT_REPR = _ShortRepr()


def plain_json(value: Any) -> Any:
    """The same value in which NaN and Infinity, which JSON does not have, are replaced by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    # JSON can contain lone surrogates, UTF-8 cannot.
    return str(value).encode(errors="backslashreplace").decode()


def _count(value: Any) -> int | None:
    if _is_number(value):
        return int(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)


# --- readers: logs whose documents a task of an evaluation can score itself -------------------------------------------


class LogReader(Protocol):
    """Recognises logs that a task of an evaluation can score itself. ``Evaluation.log_reader`` creates one."""

    joins: bool
    """True if several such logs form one run; minimal pairs, for example, have a log for each construction."""

    def reads(self, log: SampleLog) -> bool:
        """True if the task can score every sample of the log."""

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], absent: UnloggedExamples
    ) -> Task:
        """The task that scores the logs.

        ``imported`` is added to its signature; ``absent`` are the examples that no log contains.
        """


def reader_for(logs: Sequence[SampleLog]) -> LogReader | None:
    """The first evaluation's reader that can read all of the logs; None if there is none."""

    def reader_if_suitable(reader: LogReader) -> LogReader | None:
        # This function is called within call_hook, which handles errors, because the reader's methods may fail, too.
        can_take_all = reader.joins or len(logs) == 1
        if can_take_all and all(reader.reads(log) for log in logs):
            return reader
        return None

    for evaluation in evaluations():
        make_reader = evaluation.log_reader
        if make_reader is None:
            continue
        reader = call_hook(evaluation, "log_reader", make_reader, reads=reader_if_suitable, otherwise=lambda: None)
        if reader is not None:
            return reader
    return None
