"""Writes a run as sample logs of lm-evaluation-harness.

The files are ``FOLDER/<model>/samples_<task>_<time>.jsonl`` and the totals, ``results_<time>.json``. An evaluation may
define the form of its samples: minimal pairs become BLiMP's tasks, with one file per paradigm. Other runs with
generated text or log-probabilities are written in a general form. Each sample and the totals have an additional field
``lmassay``, from which `lmassay import` can restore the run. Examples with errors or without a score do not become
samples; they are listed in the totals.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmassay.errors import UserError
from lmassay.interchange.exports import export_of
from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY, UnloggedExample, metadata_of
from lmassay.plugins.evaluations import metric_of
from lmassay.storage.file_names import safe_name, same_file_key
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import Continuation, Response, Row, RunRecord
from lmassay.types.controls import escape_controls_in_json

# The version of the harness whose format is written.
FORMAT = "0.4.13"
# The harness's name for the filter that leaves the answer unchanged.
_FILTER = "none"
# The value for "was this the greedy choice?", which lmassay does not record.
GREEDY = "None"

Sample = dict[str, Any]
Exchanges = Sequence[tuple[Mapping[str, Any], Response]]


@dataclass(frozen=True, slots=True)
class ExportedLogs:
    """The files of an export, and the numbers of examples."""

    files: Sequence[Path]
    samples: int
    """The number of examples that were written as samples."""
    left_out: int
    """The number of examples that are only listed in the totals."""


def write_logs(store: Store, record: RunRecord, folder: Path) -> ExportedLogs:
    """Write the logs and totals of a run. Raises UserError if none of its examples can be written in this format."""
    logs: dict[str, list[Sample]] = {}
    unlogged: list[UnloggedExample] = []
    if export_of(record).has_logs:
        logs, unlogged = _logs(store, record)
    if not logs:
        raise UserError(
            f"{record.id} cannot be written as a log of lm-evaluation-harness: {_no_logs_reason(store, record)}; "
            "--format jsonl writes everything"
        )
    model_folder = folder / safe_name(record.model)
    time = stamp(_end_of_run(record), record.id)
    files = []
    sample_count = 0
    for task, samples in logs.items():
        path = model_folder / f"samples_{task}_{time}.jsonl"
        with atomic_write(path) as stream:
            for sample in samples:
                stream.write(_json_line(sample))
        files.append(path)
        sample_count += len(samples)
    path = model_folder / f"results_{time}.json"
    with atomic_write(path) as stream:
        stream.write(json.dumps(_totals(record, logs, unlogged), indent=2) + "\n")
    files.append(path)
    return ExportedLogs(files, sample_count, len(unlogged))


def _logs(store: Store, record: RunRecord) -> tuple[dict[str, list[Sample]], list[UnloggedExample]]:
    """A dict from log to its samples, and the examples that are in no log."""
    logs: dict[str, list[Sample]] = {}
    unlogged: list[UnloggedExample] = []
    # Names are made unique here, because they are used both as file names and as keys of the totals.
    task_names = TaskNames()
    export = export_of(record)
    cluster = record.design.cluster
    reported_metrics = {result.metric for result in record.results}
    for row, exchanges in _rows(store, record):
        if export.log_document is None:
            name, doc, target = _general_document(record, row)
        else:
            name, doc, target = export.log_document(row)
        task = task_names.of(name)
        parts = None
        if row.state == "scored":
            if export.log_sample is None:
                parts = _general_sample(row, exchanges, reported_metrics)
            else:
                parts = export.log_sample(row)
        # No parts: the example has an error or no score, or it was stored without its requests.
        if parts is None:
            unlogged.append(_unlogged_example(task, doc, target, row))
            continue
        if cluster:
            parts[METADATA_KEY]["cluster"] = cluster
        log = logs.setdefault(task, [])
        log.append(_sample(len(log), {"doc": doc, "target": target, **parts}))
    return logs, unlogged


def _rows(store: Store, record: RunRecord) -> Iterator[tuple[Row, Exchanges]]:
    # Both are read in the order of the data, one example at a time, because a run may be larger than memory.
    rows = store.rows(record.id)
    exchanges_of_rows = store.requests_and_responses(record.id)
    for row, (example, exchanges) in zip(rows, exchanges_of_rows, strict=True):
        assert row.example.id == example
        yield row, exchanges


def _unlogged_example(task: str, doc: Mapping[str, Any], target: str, row: Row) -> UnloggedExample:
    error = row.error or ""
    if row.state == "scored":
        error = "its requests and answers were not stored, so the log could not contain it"
    elif row.state == "error" and not error:
        error = "unknown"
    return UnloggedExample(task, row.example.id, doc, target, dict(row.example.groups), error, dict(row.score.unscored))


def _general_document(record: RunRecord, row: Row) -> tuple[str, dict[str, Any], str]:
    reference = row.example.reference
    target = reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)
    return _task_name(record), {**row.example.inputs, "reference": reference}, target


def _general_sample(row: Row, exchanges: Exchanges, reported_metrics: set[str]) -> Sample | None:
    """Requests, answers and metrics of an example; None unless all answers are texts or log-probabilities."""
    requests = []
    answers = []
    for request, response in exchanges:
        logged = _logged_request(request, response)
        if logged is None:
            return None
        arguments, answer = logged
        requests.append(arguments)
        answers.append(answer)
    if not requests:
        return None
    metrics: dict[str, float] = {}
    # Scores for which the run has no result, such as codes or parts of a metric, are stored separately, because the
    # harness would average them like metrics.
    other_scores: dict[str, float] = {}
    for name, value in row.score.values.items():
        is_reported = name in reported_metrics or not reported_metrics
        if is_reported:
            metrics[name] = value
        else:
            other_scores[name] = value
    return {
        "asked": requests,
        "answers": answers,
        "metrics": metrics,
        METADATA_KEY: {"id": row.example.id, "groups": dict(row.example.groups), "scores": other_scores},
    }


def _logged_request(request: Mapping[str, Any], response: Response) -> tuple[list[Any], Any] | None:
    """The arguments and the answer of a request as the harness logs them; None for other kinds of request."""
    answer = response.answer
    messages = request.get("messages") or ()
    chat = ""
    if messages:
        chat = json.dumps([{"role": role, "content": text} for role, text in messages], ensure_ascii=False)
    if request["verb"] == "generate" and isinstance(answer, str):
        temperature = float(request.get("temperature", 0.0))
        options = {
            "until": list(request.get("stop") or ()),
            "max_gen_toks": request.get("max_tokens"),
            "temperature": temperature,
            "do_sample": temperature > 0,
        }
        return [chat or request.get("prompt", ""), options], answer
    if request["verb"] == "logprobs" and isinstance(answer, Continuation):
        return [chat or request["context"], request["continuation"]], [repr(answer.total), GREEDY]
    return None


def _sample(doc_id: int, parts: Sample) -> Sample:
    """A sample with the keys, the order and the hashes of the harness."""
    arguments = {}
    for number, request in enumerate(parts["asked"]):
        arguments[f"gen_args_{number}"] = {f"arg_{position}": part for position, part in enumerate(request)}
    first_prompt = str(parts["asked"][0][0])
    return {
        "doc_id": doc_id,
        "doc": parts["doc"],
        "target": parts["target"],
        "arguments": arguments,
        "resps": [[answer] for answer in parts["answers"]],
        "filtered_resps": parts["answers"],
        "filter": _FILTER,
        "metrics": list(parts["metrics"]),
        "doc_hash": _hash(json.dumps(parts["doc"], indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(first_prompt),
        "target_hash": _hash(parts["target"]),
        **parts["metrics"],
        METADATA_KEY: parts[METADATA_KEY],
    }


def _totals(
    record: RunRecord, logs: Mapping[str, Sequence[Sample]], unlogged: Sequence[UnloggedExample]
) -> dict[str, Any]:
    """The content of the results file, with the keys of the harness."""
    versions: Mapping[str, str] = record.provenance.versions
    unlogged_counts = Counter(example.task for example in unlogged)
    results: dict[str, dict[str, Any]] = {}
    configs: dict[str, dict[str, Any]] = {}
    higher_is_better: dict[str, dict[str, bool]] = {}
    sample_counts: dict[str, dict[str, int]] = {}
    task_hashes: dict[str, str] = {}
    all_metrics: list[str] = []
    for task, samples in logs.items():
        results[task] = _means(record, task, samples, is_whole=len(logs) == 1)
        metrics = _metrics_of(results[task])
        all_metrics += metrics
        configs[task] = {"task": task, "output_type": _output_type(samples)}
        higher_is_better[task] = {metric: metric_of(record, metric).better == "higher" for metric in metrics}
        sample_counts[task] = {"original": len(samples) + unlogged_counts[task], "effective": len(samples)}
        # The hash is computed as in the harness, so that its tools recognise the same task.
        hashes = [sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"] for sample in samples]
        task_hashes[task] = _hash("".join(hashes))
    return {
        "results": results,
        "group_subtasks": {},
        "configs": configs,
        "versions": dict.fromkeys(logs, record.depends_on.get("task", record.task)),
        "n-shot": dict.fromkeys(logs, 0),
        "higher_is_better": higher_is_better,
        "n-samples": sample_counts,
        "config": {"model": "lmassay", "model_args": {"model": record.model}, "limit": record.config.get("limit")},
        "git_hash": None,
        "date": _end_of_run(record).timestamp(),
        "transformers_version": versions.get("transformers"),
        "lm_eval_version": f"lmassay {versions.get('lmassay', '')} in the format of {FORMAT}",
        "task_hashes": task_hashes,
        "model_source": "lmassay",
        "model_name": record.model,
        "model_name_sanitized": safe_name(record.model),
        "system_instruction": None,
        "chat_template": None,
        "total_evaluation_time_seconds": None,
        METADATA_KEY: metadata_of(record, all_metrics, unlogged),
    }


def _means(record: RunRecord, task: str, samples: Sequence[Sample], *, is_whole: bool) -> dict[str, Any]:
    """The mean and standard error of each metric under the keys of the harness.

    If a result of the run is not a mean, the value of the run is used instead. This is possible only with ``is_whole``,
    that is if the log contains the whole run and is not one of several.
    """
    means: dict[str, Any] = {"name": task, "alias": task, "sample_len": len(samples)}
    cluster = record.design.cluster
    metrics: dict[str, None] = {}
    for sample in samples:
        metrics |= dict.fromkeys(sample["metrics"])
    for metric in metrics:
        values = []
        clusters = []
        for sample in samples:
            if metric not in sample["metrics"]:
                continue
            values.append(sample[metric])
            if cluster:
                clusters.append(sample[METADATA_KEY]["groups"].get(cluster, ""))
            else:
                # Without clusters, every document is its own cluster.
                clusters.append(str(sample["doc_id"]))
        mean, error = _mean_and_error(values, clusters)
        means[f"{metric},{_FILTER}"] = mean
        means[f"{metric}_stderr,{_FILTER}"] = error
    if not is_whole:
        return means
    for result in record.results:
        key = f"{result.metric},{_FILTER}"
        belongs_in_log = key in means or result.metric in record.design.combinations
        if result.group != "overall" or not belongs_in_log or result.value is None:
            continue
        if not _is_same(means.get(key), result.value):
            means[key] = result.value
            means[f"{result.metric}_stderr,{_FILTER}"] = "N/A"
    return means


def _is_same(mean: float | None, value: float) -> bool:
    return mean is not None and math.isclose(mean, value, rel_tol=1e-9, abs_tol=1e-12)


def _mean_and_error(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, float | str]:
    """The mean and its cluster-robust standard error, with the factor G / (G - 1) for G clusters.

    If every value is its own cluster, this is the usual standard error of a mean.
    """
    mean = sum(values) / len(values)
    # The contribution of each cluster to the error of the mean: deviations within a cluster add up or cancel out.
    deviations: dict[str, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        deviations[cluster] = deviations.get(cluster, 0.0) + (value - mean) / len(values)
    count = len(deviations)
    if count < 2:
        # The harness writes "N/A" if there is no standard error.
        return mean, "N/A"
    sum_of_squares = sum(deviation * deviation for deviation in deviations.values())
    variance = sum_of_squares * count / (count - 1)
    return mean, math.sqrt(variance)


def _metrics_of(means: Mapping[str, Any]) -> list[str]:
    """The metrics among the keys ``<metric>,<filter>`` and ``<metric>_stderr,<filter>``."""
    metrics = []
    for key in means:
        name = key.removesuffix(f",{_FILTER}")
        if name != key and not name.endswith("_stderr"):
            metrics.append(name)
    return metrics


def _output_type(samples: Sequence[Sample]) -> str:
    arguments = samples[0]["arguments"]["gen_args_0"]
    is_generated = isinstance(arguments.get("arg_1"), dict)
    return "generate_until" if is_generated else "multiple_choice"


def _no_logs_reason(store: Store, record: RunRecord) -> str:
    """Why no example of a run can be written as a sample, as a clause for the error message."""
    if not export_of(record).has_logs:
        if record.design.replicates is not None:
            return f"the format has one sample per example, but {record.task} has one score per {record.unit}"
        return f"the format has no place for the requests of {record.task}"
    if not store.count(record.id)["scored"]:
        return f"none of its examples has a score; it is {record.status}"
    return (
        "its requests and answers are not stored (either the answers came from files, or an earlier version of lmassay "
        "made the run; then run it again)"
    )


def _task_name(record: RunRecord) -> str:
    # Letters of all scripts are kept (\W does not match them); otherwise, all Korean labels would get the same name.
    label = re.sub(r"[\W_]+", "-", record.label).strip("-")
    return f"lmassay_{record.task}_{label}"


def _end_of_run(record: RunRecord) -> datetime:
    return datetime.fromisoformat(record.finished or record.created).astimezone(UTC)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _json_line(sample: Sample) -> str:
    return escape_controls_in_json(json.dumps(sample, ensure_ascii=False, allow_nan=False)) + "\n"


# --- file names: in the form of the harness, valid on every file system, and unique -----------------------------------


class TaskNames:
    """Gives each log of a run a safe name, which is used both in its file name and in the totals."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, task: str) -> str:
        """The safe name of a log, which is called a task in the harness. Two logs never get the same one."""
        if task not in self._names:
            self._names[task] = self._free(safe_name(task))
        return self._names[task]

    def _free(self, name: str) -> str:
        free_name = name
        number = 1
        while same_file_key(free_name) in self._taken:
            number += 1
            free_name = f"{name}_{number}"
        self._taken.add(same_file_key(free_name))
        return free_name


def stamp(moment: datetime, run: str) -> str:
    """The time in file names. Runs record it in seconds, so the microseconds are computed from the run's id.

    So two runs that end in the same second get different names, and a run that is exported again gets the same names.
    """
    microseconds = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) % 1_000_000
    return moment.replace(microsecond=microseconds).strftime("%Y-%m-%dT%H-%M-%S.%f")
