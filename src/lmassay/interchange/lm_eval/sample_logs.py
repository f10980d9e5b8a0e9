"""Sample logs of lm-evaluation-harness (``--log_samples``), read strictly: one JSON object a document and filter.

``samples_<task>_<time>.jsonl`` holds the documents with what was asked and answered, ``results_<time>.json`` beside it
the totals and who was asked. The format is that of version 0.4.13; what earlier versions of 0.4 wrote otherwise
(arguments as lists, no list of metrics) is read as well.
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
from lmassay.interchange.lm_eval.run_metadata import KEY, RunMetadata, UnloggedExamples, read_metadata
from lmassay.plugins.evaluations import evaluations
from lmassay.plugins.hooks import call_hook
from lmassay.storage.files import require_file, sha256
from lmassay.types import digest

_WHAT = "is this a samples_*.jsonl that lm-evaluation-harness wrote with --log_samples?"
_GZIP = b"\x1f\x8b"
# All keys of a sample that are no metric.
_FIXED = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")
) | frozenset(("doc_hash", "prompt_hash", "target_hash", KEY))


@dataclass(frozen=True, slots=True)
class LogSample:
    """One document of a log."""

    file: Path
    line: int
    doc_id: int
    doc: Mapping[str, Any]
    target: str
    asked: Sequence[Sequence[Any]]
    """Per request: context and continuation, or prompt and how it was generated from."""
    answers: Sequence[Any]
    """Per request, after the filter: a text, or log-probability and whether it was the greedy choice."""
    filter: str
    metrics: Mapping[str, Any]
    ours: Mapping[str, Any] = field(default_factory=dict)
    """What `lmassay export` adds, so that a run comes back as it was."""

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"

    def log_likelihoods(self) -> list[float] | None:
        """Of each request, or None if this sample was generated, or does not tell which answer belongs to which."""
        if not self.answers or len(self.answers) != len(self.asked):
            return None
        if not all(isinstance(a, list | tuple) and len(a) == 2 for a in self.answers):
            return None
        if not all(len(request) > 1 and isinstance(request[1], str) for request in self.asked):
            return None
        return [self._number(answer[0]) for answer in self.answers]

    def texts(self) -> list[str] | None:
        """The generated answer to each request, or None if there is none."""
        found = [answer[0] if isinstance(answer, list) and answer else answer for answer in self.answers]
        return found if found and all(isinstance(text, str) for text in found) and not self.log_likelihoods() else None

    def _number(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{self.where}: the log-likelihood {shortened(value)} is no usable number") from None
        if not math.isfinite(number):
            raise DataError(f"{self.where}: a log-likelihood is {number}; the model gave no usable answer there")
        return number


@dataclass(frozen=True, slots=True)
class SampleLog:
    """A whole sample log under one filter, in the order of its documents."""

    path: Path
    sha256: str
    task: str
    filter: str
    samples: Sequence[LogSample]


@dataclass(frozen=True, slots=True)
class LogTotals:
    """What a results file says of one task and of who was asked; empty where it does not say."""

    path: Path
    model: str
    source: str
    harness: str
    task_version: str
    documents: int | None
    """How many documents were asked about, where ``n-samples`` says so."""
    measured: int | None
    """How many the last metric was computed on: fewer than ``documents`` where --samples chose some."""
    means: Mapping[str, float]
    identity: Mapping[str, str]
    shots: int | None
    """How many examples were shown before each question, where ``n-shot`` says so."""
    ours: RunMetadata


def read_log(path: Path, filter_name: str = "", task: str = "") -> SampleLog:
    """The samples of a log under one filter; raises at the first line that cannot be used, with its number."""
    require_file(path, "samples")
    state = path.stat()
    return _read_log(path, filter_name, task or task_of(path), (state.st_mtime_ns, state.st_size))


# The task and the model of an import read the same files.
@lru_cache(maxsize=128)
def _read_log(path: Path, filter_name: str, task: str, _: tuple[int, int]) -> SampleLog:
    samples = list(_samples(path))
    if not samples:
        raise DataError(f"{path} holds no samples; {_WHAT}")
    filters = list(dict.fromkeys(sample.filter for sample in samples))
    if filter_name and filter_name not in filters:
        raise DataError(f"{path} has no filter '{filter_name}'; it has {', '.join(filters)}")
    if not filter_name and len(filters) > 1:
        raise DataError(
            f"{path} judges each document under {len(filters)} filters ({', '.join(filters)}); choose with --filter"
        )
    kept = [sample for sample in samples if sample.filter == (filter_name or filters[0])]
    seen: dict[int, int] = {}
    for sample in kept:
        if sample.doc_id in seen:
            raise DataError(f"{sample.where}: doc_id {sample.doc_id} was given already in line {seen[sample.doc_id]}")
        seen[sample.doc_id] = sample.line
    kept.sort(key=lambda sample: sample.doc_id)
    return SampleLog(path, sha256(path), task, filter_name or filters[0], kept)


def task_of(path: Path) -> str:
    """The task that the harness names in its file names.

    >>> task_of(Path("samples_blimp_adjunct_island_2026-01-31T09-30-00.123456.jsonl"))
    'blimp_adjunct_island'
    """
    name, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
    if not path.name.startswith("samples_") or not name or not stamp[:1].isdigit():
        raise DataError(f"the name of {path} does not tell the task (samples_<task>_<time>.jsonl); give --task NAME")
    return name


def find_totals(path: Path) -> Path | None:
    """The results file that was written together with a sample log, if it still lies there."""
    found = path.with_name(f"results_{path.stem.rpartition('_')[2]}.json")
    return found if found.is_file() else None


def read_totals(path: Path, task: str, filter_name: str) -> LogTotals:
    """What a results file says of a task."""
    require_file(path, "results")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: this is no JSON ({error})") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict):
        raise DataError(f"{path}: the key 'results' is missing; is this lm-evaluation-harness's results_*.json?")
    if task not in results:
        raise DataError(f"{path} has no results of the task {task}; it has {', '.join(results) or 'none'}")
    config = _mapping(document.get("config"))
    ending = f",{filter_name}"
    means = {name.removesuffix(ending): value for name, value in _mapping(results[task]).items() if ending in name}
    return LogTotals(
        path=path,
        model=_text(document.get("model_name")),
        source=_text(document.get("model_source")),
        harness=_text(document.get("lm_eval_version")),
        task_version=_text(_mapping(document.get("versions")).get(task)),
        documents=_count(_mapping(_mapping(document.get("n-samples")).get(task)).get("effective")),
        measured=_count(_mapping(results[task]).get("sample_len")),
        means={n: float(v) for n, v in means.items() if _is_number(v)},
        identity={
            name: text
            for name in ("model_revision", "model_sha", "model_dtype")
            if (text := _text(config.get(name)).removeprefix("torch."))
        },
        shots=_count(_mapping(document.get("n-shot")).get(task)),
        ours=read_metadata(document.get(KEY), task, list(results), path),
    )


def require_whole(log: SampleLog, totals: LogTotals) -> None:
    """Refuse a log that holds fewer or more documents than were asked about: its scores would be those of a part."""
    found = len(log.samples)
    if totals.documents is not None and found not in (totals.documents, totals.measured):
        raise DataError(
            f"{log.path} holds {found} documents, but {totals.path} says that {totals.documents} were asked about "
            f"(n-samples of {log.task}); was the log cut off? Copy it again, whole, or give the results file that was "
            "written with it: --totals FILE"
        )


def _samples(path: Path) -> Iterator[LogSample]:
    with path.open("rb") as stream:
        if stream.read(2) == _GZIP:
            raise DataError(f"{path} is compressed; unpack it first, e.g. gunzip -k {path.name}")
        stream.seek(0)
        for number, raw in enumerate(stream, 1):
            if raw.strip():
                yield _sample(path, number, _row(raw, f"{path}, line {number}"))


def _row(raw: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: byte 0x{raw[error.start]:02x} is not UTF-8; {_WHAT}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: this is no JSON ({error}); was the log cut off?") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: a sample must be a JSON object; {_WHAT}")
    return row


def _sample(path: Path, line: int, row: Mapping[str, Any]) -> LogSample:
    where = f"{path}, line {line}"
    for name in ("doc_id", "doc", "target", "arguments", "filtered_resps"):
        if name not in row:
            raise DataError(f"{where}: the field '{name}' is missing; {_WHAT}")
    if type(row["doc_id"]) is not int:
        raise DataError(f"{where}: doc_id is {row['doc_id']!r}; it must be a whole number")
    if not isinstance(row["filtered_resps"], list):
        raise DataError(f"{where}: filtered_resps is no list; {_WHAT}")
    names = row.get("metrics", [name for name in row if name not in _FIXED])
    if not isinstance(names, list) or not all(isinstance(name, str) and name in row for name in names):
        raise DataError(f"{where}: 'metrics' must be a list of keys of the sample; got {shortened(names)}")
    doc = row["doc"] if isinstance(row["doc"], dict) else {"doc": row["doc"]}
    return LogSample(
        file=path,
        line=line,
        doc_id=row["doc_id"],
        doc=plain_json(doc),
        target=str(row["target"]),
        asked=_asked(row["arguments"], where),
        answers=row["filtered_resps"],
        filter=str(row.get("filter", "none")),
        metrics={name: row[name] for name in names},
        ours=_mapping(row.get(KEY)),
    )


def _asked(arguments: Any, where: str) -> list[list[Any]]:
    """``{gen_args_0: {arg_0: …, arg_1: …}}``, or a list of lists in earlier versions."""
    requests = list(arguments.values()) if isinstance(arguments, dict) else arguments
    if not isinstance(requests, list):
        raise DataError(f"{where}: 'arguments' must be an object or a list; {_WHAT}")
    found = [list(r.values()) if isinstance(r, dict) else r for r in requests]
    if not all(isinstance(request, list) for request in found):
        raise DataError(f"{where}: each entry of 'arguments' must hold what a request was made of; {_WHAT}")
    # All choices of a question share one context: it is kept once.
    texts: dict[str, str] = {}
    return [[texts.setdefault(part, part) if isinstance(part, str) else part for part in r] for r in found]


def by_id(named: Iterable[tuple[str, int, LogSample]]) -> dict[str, LogSample]:
    """Samples by the id of their example; one that was there already gets its number, as in a run of ours."""
    found: dict[str, LogSample] = {}
    for name, number, sample in named:
        free = name
        while free in found:
            free = f"{free}-{number}"
        found[free] = sample
    return found


def requests_digest(samples: Sequence[LogSample]) -> str:
    """What tells questions apart: all that was put to the model, whoever it was."""
    return digest([[plain_json(list(request)) for request in sample.asked] for sample in samples])[:8]


def is_finite(value: float) -> bool:
    """Whether a number of a file is one to compute with; JSON has whole numbers that no float can hold."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def shortened(value: Any) -> str:
    """A value in an error message, whatever its length."""
    return reprlib.repr(value)


def plain_json(value: Any) -> Any:
    """The same without NaN and Infinity, which are no JSON: they become their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): plain_json(v) for k, v in value.items()}
    return [plain_json(v) for v in value] if isinstance(value, list) else value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    # JSON can hold lone surrogates, UTF-8 cannot.
    return "" if value is None else str(value).encode(errors="backslashreplace").decode()


def _count(value: Any) -> int | None:
    return int(value) if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)


# --- readers: logs that a task of an evaluation can score itself ------------------------------------------------------


class LogReader(Protocol):
    """Recognises logs whose samples one of an evaluation's tasks understands; ``Evaluation.log_reader`` makes it."""

    joins: bool
    """True if several such logs are one run, as the constructions of minimal pairs are."""

    def reads(self, log: SampleLog) -> bool:
        """True if every sample of the log can be scored by the task."""

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], absent: UnloggedExamples
    ) -> Task:
        """The task that scores them; ``imported`` joins its signature, ``absent`` are examples that no log holds."""


def reader_for(logs: Sequence[SampleLog]) -> LogReader | None:
    """The first reader that understands all of the logs; None if no evaluation has one."""

    def fitting(reader: Any) -> LogReader | None:
        # What the reader makes of the logs belongs to the hook: it may fail there, too.
        fits = (reader.joins or len(logs) == 1) and all(reader.reads(log) for log in logs)
        return reader if fits else None

    for evaluation in evaluations():
        hook = evaluation.log_reader
        if hook is None:
            continue
        reader = call_hook(evaluation, "log_reader", hook, reads=fitting, otherwise=lambda: None)
        if reader is not None:
            return reader
    return None
