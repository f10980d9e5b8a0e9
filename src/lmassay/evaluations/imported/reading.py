"""A sample log of lm-evaluation-harness as a run of ours: which of our tasks judges it, and whose answers it holds.

Both are plug-ins like any other, so that an imported run is planned, judged, stored and resumed like any other::

    task:  {name: lm_eval, samples: [samples_blimp_x.jsonl]}
    model: {name: lm_eval, samples: [samples_blimp_x.jsonl], model: gpt2}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import Model, Task
from lmassay.errors import BudgetReached, DataError
from lmassay.evaluations.imported.task import LoggedMetrics
from lmassay.interchange.lm_eval.run_metadata import KEY, UNFINISHED, UnloggedExamples
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
    samples: list[Path],
    filter: str = "",
    task: str = "",
    results: Path | None = None,
) -> Task:
    """The task that judges logs: minimal pairs and BBQ's questions by ours, others by the metrics they hold."""
    logs = _logs(samples, filter, task)
    totals = [_totals(log, results) for log in logs]
    imported = {"imported": "+".join(dict.fromkeys(_writer(found).replace(" ", "-") for found in totals))}
    shots = dict.fromkeys(str(found.shots) for found in totals if found and found.shots is not None)
    imported |= {"shots": "+".join(shots)} if shots else {}
    notes = [_origin(log, found) for log, found in zip(logs, totals, strict=True)]
    if any(log.samples[0].ours and found is None for log, found in zip(logs, totals, strict=True)):
        notes.append("there is no results_*.json: whether the run was whole is not known, nor all of its metrics")
    reader = reader_for(logs)
    if reader is not None:
        absent = UnloggedExamples([found.ours for found in totals if found])
        return reader.task(logs, imported, notes, absent)
    if len(logs) > 1:
        raise DataError("only logs of minimal pairs are read together as one run; import the others one by one")
    return LoggedMetrics(logs[0], imported, totals[0], notes)


class LoggedModel(Model):
    """Whoever was asked by the harness: its answers are looked up in the log, by file, line and request."""

    name = "lm_eval"
    can = frozenset({"generate", "logprobs"})
    cached = False

    def __init__(
        self,
        samples: list[Path],
        model: str = "",
        filter: str = "",
        task: str = "",
        results: Path | None = None,
    ) -> None:
        self._logs = _logs(samples, filter, task)
        self._totals = [_totals(log, results) for log in self._logs]
        named = list(dict.fromkeys(totals.model for totals in self._totals if totals and totals.model))
        if not model and len(named) > 1:
            raise DataError(f"the logs are of several models ({', '.join(named)}); import those of one at a time")
        if not model and not named:
            raise DataError(
                f"{samples[0]}: there is no results_*.json beside it that tells which model was asked; "
                "give --model NAME or --totals FILE"
            )
        self.label = redact(model or named[0])
        self._absent = UnloggedExamples([totals.ours for totals in self._totals if totals])
        self._samples: dict[str, LogSample] = {f"{s.file}:{s.line}": s for log in self._logs for s in log.samples}

    def identity(self) -> Mapping[str, Any]:
        known = next((totals for totals in self._totals if totals), None)
        told = {} if known is None else {"source": known.source, **known.identity}
        # Its answers are those of the files and of no other.
        told["log"] = digest([log.sha256 for log in self._logs])[:8]
        return {"name": self.name, "model": self.label, **{k: v for k, v in told.items() if v}}

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Response]:
        for request in requests:
            if request.location and request.location.role == KEY:
                yield self._unanswered(str(request.location.key))
                continue
            sample, number = self._answered(request.location)
            found = sample.log_likelihoods()
            if found is None:
                raise DataError(f"{sample.where}: there are no log-likelihoods")
            # How many tokens it was is not told; those who need it ask the log.
            yield Response(Continuation(found[number], (found[number],)))

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        for request in requests:
            sample, number = self._answered(request.location)
            texts = sample.texts()
            if texts is None:
                raise DataError(f"{sample.where}: there is no generated text")
            yield Response(texts[number]) if texts[number] else Response(finish="empty")

    def _unanswered(self, name: str) -> Response:
        if name == UNFINISHED:
            # As where a budget was used up: what there is counts, but the run is not done.
            raise BudgetReached(self._absent.ended)
        return Response(error=self._absent.error(name))

    def _answered(self, place: SourceLocation | None) -> tuple[LogSample, int]:
        if place is None or str(place.key) not in self._samples:
            raise DataError("this model answers what its logs were asked; use it with the task lm_eval")
        return self._samples[str(place.key)], int(place.role)


def configuration(
    samples: Sequence[Path], *, model: str = "", filter_name: str = "", task: str = "", results: Path | None = None
) -> RunConfig:
    """The run that an import makes, as it could be written in a YAML file."""
    where = {"samples": [str(path.resolve()) for path in samples], "filter": filter_name, "task": task}
    where |= {"results": str(results.resolve())} if results else {}
    told = {name: value for name, value in where.items() if value}
    asked = {"model": model} if model else {}
    return RunConfig(
        name="import", task={"name": "lm_eval", **told}, model={"name": "lm_eval", **told, **asked}, base_dir=Path.cwd()
    )


def grouped(samples: Sequence[Path], filter_name: str = "", task: str = "") -> list[list[Path]]:
    """Which logs make one run: all minimal pairs do, as constructions; every other log is a run of its own."""
    paths = list(dict.fromkeys(path.resolve() for path in samples))
    joined = [path for path in paths if _joins_others(read_log(path, filter_name, task))]
    return [*([joined] if joined else []), *([path] for path in paths if path not in joined)]


def _joins_others(log: SampleLog) -> bool:
    reader = reader_for([log])
    return reader is not None and reader.joins


def _logs(samples: Sequence[Path], filter_name: str, task: str) -> list[SampleLog]:
    if not samples:
        raise DataError("no log is given; name a samples_*.jsonl")
    return [read_log(path, filter_name, task) for path in samples]


def _totals(log: SampleLog, results: Path | None) -> LogTotals | None:
    path = results or find_totals(log.path)
    if path is None:
        return None
    totals = read_totals(path, log.task, log.filter)
    require_whole(log, totals)
    return totals


def _writer(totals: LogTotals | None) -> str:
    """Which program wrote a log."""
    if totals and totals.source == "lmassay":
        return " ".join(totals.harness.split()[:2])
    return f"lm_eval {(totals.harness if totals else '') or _UNKNOWN}"


def _origin(log: SampleLog, totals: LogTotals | None) -> str:
    version = f", task version {totals.task_version}" if totals and totals.task_version else ""
    return f"imported from {log.path.name} (sha-256 {log.sha256}), written by {_writer(totals)}{version}"
