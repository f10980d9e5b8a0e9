"""Turn sample logs of lm-evaluation-harness into runs: a task that scores the log, and a model with its answers.

Both are ordinary plug-ins, so an imported run is planned, scored, stored and resumed like any other run::

    task:  {name: lm_eval, samples: [samples_blimp_x.jsonl]}
    model: {name: lm_eval, samples: [samples_blimp_x.jsonl], model: gpt2}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lmassay.contracts import Model, Task
from lmassay.errors import BudgetReached, DataError
from lmassay.evaluations.imported.task import LoggedMetrics
from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY, UNFINISHED, UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import (
    LogSample,
    LogTotals,
    SampleLog,
    find_totals,
    read_log,
    read_totals,
    reader_for,
    require_whole,
)
from lmassay.redaction import redact
from lmassay.running.config import RunConfig
from lmassay.types import Continuation, Generate, LogProbs, Response, SourceLocation, digest

_UNKNOWN = "unknown"


def logged_task(
    samples: Annotated[list[Path], Field(description="the sample logs of the harness (samples_*.jsonl)")],
    filter: Annotated[str, Field(description="the filter whose scores are used, if the log has several")] = "",
    task: Annotated[str, Field(description="the task of the harness, if its name is not in the file name")] = "",
    results: Annotated[
        Path | None, Field(description="the results file of the harness; by default the one next to the log")
    ] = None,
) -> Task:
    """The task that scores logs.

    A task of lmassay scores minimal pairs and BBQ questions again; other logs keep the metrics that they contain.
    """
    logs = _read_logs(samples, filter, task)
    totals_of_logs = [_read_totals(log, results) for log in logs]
    notes = _origin_notes(logs, totals_of_logs)
    signature = _import_signature(totals_of_logs)
    reader = reader_for(logs)
    if reader is not None:
        return reader.task(logs, signature, notes, _unlogged_examples(totals_of_logs))
    if len(logs) > 1:
        raise DataError("several logs can become one run only if all have minimal pairs; import the others one by one")
    return LoggedMetrics(logs[0], signature, totals_of_logs[0], notes)


class LoggedModel(Model):
    """The model that the harness evaluated. Its answers are looked up in the log, by file, line and request."""

    name = "lm_eval"
    can = frozenset({"generate", "logprobs"})
    # The answers are in the log, so storing them in the cache as well would be useless.
    cached = False

    option_help: ClassVar[Mapping[str, str]] = {
        "samples": "the sample logs of the harness (samples_*.jsonl)",
        "filter": "the filter whose scores are used, if the log has several",
        "task": "the task of the harness, if its name is not in the file name",
        "results": "the results file of the harness; by default the one next to the log",
        "model": "the name of the model; by default the one in the results file",
    }
    config_example = "model: {name: lm_eval, samples: [samples_hellaswag_2026-01-31.jsonl], model: gpt2}"

    def __init__(
        self,
        samples: list[Path],
        model: str = "",
        filter: str = "",
        task: str = "",
        results: Path | None = None,
    ) -> None:
        self._logs = _read_logs(samples, filter, task)
        self._totals = [_read_totals(log, results) for log in self._logs]
        models: list[str] = []
        for totals in self._totals:
            if totals and totals.model and totals.model not in models:
                models.append(totals.model)
        if not model and len(models) > 1:
            raise DataError(f"the logs are from several models ({', '.join(models)}); import one model at a time")
        if not model and not models:
            raise DataError(
                f"{samples[0]}: no results_*.json next to it names the model; give --model NAME or --totals FILE"
            )
        self.label = redact(model or models[0])
        self._unlogged = _unlogged_examples(self._totals)
        self._samples: dict[str, LogSample] = {}
        for log in self._logs:
            for sample in log.samples:
                self._samples[f"{sample.file}:{sample.line}"] = sample

    def identity(self) -> Mapping[str, Any]:
        """Return how the harness identified the model, and a digest of the files with its answers."""
        identity: dict[str, Any] = {"name": self.name, "model": self.label}
        # All logs are from one model, so the first file that identifies it is enough.
        for totals in self._totals:
            if totals is None:
                continue
            for name, value in {"source": totals.source, **totals.identity}.items():
                if value:
                    identity[name] = value
            break
        identity["log"] = digest([log.sha256 for log in self._logs])[:8]
        return identity

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Response]:
        """Yield the log-likelihoods in the log."""
        for request in requests:
            if request.location and request.location.role == METADATA_KEY:
                yield self._unlogged_response(str(request.location.key))
                continue
            sample, position = self._sample_at(request.location)
            values = sample.log_likelihoods()
            if values is None:
                raise DataError(f"{sample.where}: there are no log-likelihoods")
            # The sum is returned as if the text were a single token, because the harness does not log the number of
            # tokens. `lmassay export` adds the number to each sample, where the task of minimal pairs finds it.
            yield Response(Continuation(values[position], (values[position],)))

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        """Yield the generated texts in the log."""
        for request in requests:
            sample, position = self._sample_at(request.location)
            texts = sample.texts()
            if texts is None:
                raise DataError(f"{sample.where}: there is no generated text")
            text = texts[position]
            yield Response(text) if text else Response(finish="empty")

    def _unlogged_response(self, example_id: str) -> Response:
        """Return the stored error of an example of the exported run that is not in the log.

        Raises BudgetReached for the entry that says that the run was interrupted.
        """
        if example_id == UNFINISHED:
            # As when a budget is reached, the imported run keeps its results, but its status is not "done".
            raise BudgetReached(self._unlogged.unfinished_reason)
        return Response(error=self._unlogged.error(example_id))

    def _sample_at(self, location: SourceLocation | None) -> tuple[LogSample, int]:
        """Return the sample that a request is about, and the position of the request in it."""
        if location is None or str(location.key) not in self._samples:
            raise DataError("this model only answers the requests in its logs; use it with the task lm_eval")
        return self._samples[str(location.key)], int(location.role)


def configuration(
    samples: Sequence[Path], *, model: str = "", filter_name: str = "", task: str = "", results: Path | None = None
) -> RunConfig:
    """Return the configuration of an import, as it could be written in a YAML file."""
    options: dict[str, Any] = {"samples": [str(path.resolve()) for path in samples]}
    if filter_name:
        options["filter"] = filter_name
    if task:
        options["task"] = task
    if results:
        options["results"] = str(results.resolve())
    model_options = dict(options)
    if model:
        # The name is stored with the results. It is redacted, because users may copy it from settings with an API key.
        model_options["model"] = redact(model)
    return RunConfig(
        name="import",
        task={"name": "lm_eval", **options},
        model={"name": "lm_eval", **model_options},
        base_dir=Path.cwd(),
    )


def grouped(samples: Sequence[Path], filter_name: str = "", task: str = "") -> list[list[Path]]:
    """Group logs into runs: all logs of minimal pairs are one run, every other log is a separate run."""
    joined: list[Path] = []
    separate: list[list[Path]] = []
    for path in dict.fromkeys(path.resolve() for path in samples):
        reader = reader_for([read_log(path, filter_name, task)])
        if reader is not None and reader.joins:
            joined.append(path)
        else:
            separate.append([path])
    if joined:
        return [joined, *separate]
    return separate


def _read_logs(samples: Sequence[Path], filter_name: str, task: str) -> list[SampleLog]:
    if not samples:
        raise DataError("no log is given; name at least one samples_*.jsonl")
    return [read_log(path, filter_name, task) for path in samples]


def _read_totals(log: SampleLog, results: Path | None) -> LogTotals | None:
    """Return what ``results_*.json`` says about a log; None without such a file."""
    path = results or find_totals(log.path)
    if path is None:
        return None
    totals = read_totals(path, log.task, log.filter)
    require_whole(log, totals)
    return totals


def _import_signature(totals_of_logs: Sequence[LogTotals | None]) -> dict[str, str]:
    """Return what an import adds to the signature: the programs that wrote the logs, and the number of shots."""
    # The keys of a dict are unique and keep the order of the logs.
    programs: dict[str, None] = {}
    shots: dict[str, None] = {}
    for totals in totals_of_logs:
        programs[_program(totals).replace(" ", "-")] = None
        if totals is not None and totals.shots is not None:
            shots[str(totals.shots)] = None
    signature = {"imported": "+".join(programs)}
    if shots:
        signature["shots"] = "+".join(shots)
    return signature


def _unlogged_examples(totals_of_logs: Sequence[LogTotals | None]) -> UnloggedExamples:
    return UnloggedExamples([totals.metadata for totals in totals_of_logs if totals is not None])


def _program(totals: LogTotals | None) -> str:
    """Return the program that wrote a log, with its version."""
    if totals is None:
        return f"lm_eval {_UNKNOWN}"
    if totals.source == "lmassay":
        # "lmassay <version> in the format of <version>"
        return " ".join(totals.harness.split()[:2])
    return f"lm_eval {totals.harness or _UNKNOWN}"


def _origin_notes(logs: Sequence[SampleLog], totals_of_logs: Sequence[LogTotals | None]) -> list[str]:
    """Return the notes of an imported run: where each log comes from, and what is missing."""
    notes = []
    lacks_metadata = False
    for log, totals in zip(logs, totals_of_logs, strict=True):
        notes.append(_origin(log, totals))
        # Samples have metadata only if lmassay exported the log; then results_*.json has the rest of the run.
        if log.samples[0].metadata and totals is None:
            lacks_metadata = True
    if lacks_metadata:
        notes.append("results_*.json is missing, so it is unknown whether the run was complete and had other metrics")
    return notes


def _origin(log: SampleLog, totals: LogTotals | None) -> str:
    """Return a note on where the numbers come from: the file, its digest, and the program that wrote it."""
    text = f"imported from {log.path.name} (sha-256 {log.sha256}), written by {_program(totals)}"
    if totals and totals.task_version:
        text += f", task version {totals.task_version}"
    return text
