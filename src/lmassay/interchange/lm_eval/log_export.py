"""A run of ours as sample logs of lm-evaluation-harness: ``FOLDER/<model>/samples_<task>_<time>.jsonl`` and the totals.

An evaluation may say how its samples look: minimal pairs become BLiMP's tasks, one file a paradigm. Other runs that
asked for text or for log-probabilities become logs in the general form. Each sample, and the totals, have a field
``lmassay`` more than the harness writes, with what it takes to get the same run back by `lmassay import`. Examples in
error or without a score are no samples: the totals name them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmassay.errors import UserError
from lmassay.interchange.exports import export_of
from lmassay.interchange.lm_eval.run_metadata import KEY, UnloggedExample, metadata_of
from lmassay.plugins.evaluations import metric_of
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import Continuation, Response, Row, RunRecord

FORMAT = "0.4.13"
_FILTER = "none"
# Whether the answer was also the greedy one is not known to us, and not said.
GREEDY = "None"

Sample = dict[str, Any]
Asked = Sequence[tuple[Mapping[str, Any], Response]]


@dataclass(frozen=True, slots=True)
class ExportedLogs:
    """What an export has made."""

    files: Sequence[Path]
    samples: int
    left_out: int


def write_logs(store: Store, record: RunRecord, folder: Path) -> ExportedLogs:
    """Write a run's logs and totals; nothing is written for a run whose answers such logs have no place for."""
    logs, left_out = _logs(store, record)
    if not logs:
        raise UserError(
            f"{record.id} cannot be written as a log of lm-evaluation-harness: {_why_not(store, record)}; "
            "--format jsonl has all that there is"
        )
    home, time = folder / safe_name(record.model), stamp(_moment(record), record.id)
    files = []
    for task, samples in logs.items():
        files.append(home / f"samples_{task}_{time}.jsonl")
        with atomic_write(files[-1]) as stream:
            stream.writelines(_line(sample) for sample in samples)
    files.append(home / f"results_{time}.json")
    with atomic_write(files[-1]) as stream:
        stream.write(json.dumps(_totals(record, logs, left_out), indent=2) + "\n")
    return ExportedLogs(files, sum(map(len, logs.values())), len(left_out))


def _logs(store: Store, record: RunRecord) -> tuple[dict[str, list[Sample]], list[UnloggedExample]]:
    """The samples of each log, and the examples that are in none."""
    logs: dict[str, list[Sample]] = {}
    left_out: list[UnloggedExample] = []
    names = TaskNames()
    export, cluster = export_of(record), record.design.cluster
    reported = {result.metric for result in record.results}
    for row, asked in _rows(store, record):
        name, doc, target = _document(record, row) if export.log_document is None else export.log_document(row)
        task = names.of(name)
        made = None
        if row.state == "scored":
            made = _general(row, asked, reported) if export.log_sample is None else export.log_sample(row)
        if made is None:
            left_out.append(_left_out(task, doc, target, row))
            continue
        made[KEY] |= {"cluster": cluster} if cluster else {}
        log = logs.setdefault(task, [])
        log.append(_sample(len(log), {"doc": doc, "target": target, **made}))
    return logs, left_out


def _rows(store: Store, record: RunRecord) -> Iterator[tuple[Row, Asked]]:
    for row, (name, asked) in zip(store.rows(record.id), store.requests_and_responses(record.id), strict=True):
        assert row.example.id == name
        yield row, asked


def _left_out(task: str, doc: Mapping[str, Any], target: str, row: Row) -> UnloggedExample:
    error = row.error or ""
    if row.state == "scored":
        error = "what was asked and answered was not kept, so that the log could not hold it"
    elif row.state == "error":
        error = error or "unknown"
    return UnloggedExample(task, row.example.id, doc, target, dict(row.example.groups), error, dict(row.score.unscored))


def _document(record: RunRecord, row: Row) -> tuple[str, dict[str, Any], str]:
    reference = row.example.reference
    target = reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)
    return _task_name(record), {**row.example.inputs, "reference": reference}, target


def _general(row: Row, asked: Asked, reported: set[str]) -> Sample | None:
    """What was asked and answered about any example, if that is text or log-probabilities."""
    found = [part for request, response in asked if (part := _request(request, response)) is not None]
    if not found or len(found) < len(asked):
        return None
    # Some scores are codes, or parts of a metric: nobody would average them, and the task reports nothing of them.
    metrics = {name: value for name, value in row.score.values.items() if name in reported or not reported}
    others = {name: value for name, value in row.score.values.items() if name not in metrics}
    return {
        "asked": [arguments for arguments, _ in found],
        "answers": [answer for _, answer in found],
        "metrics": metrics,
        KEY: {"id": row.example.id, "groups": dict(row.example.groups), "scores": others},
    }


def _request(request: Mapping[str, Any], response: Response) -> tuple[list[Any], Any] | None:
    answer, turns = response.answer, request.get("messages") or ()
    chat = json.dumps([{"role": role, "content": text} for role, text in turns], ensure_ascii=False) if turns else ""
    if request["verb"] == "generate" and isinstance(answer, str):
        temperature = float(request.get("temperature", 0.0))
        how = {
            "until": list(request.get("stop") or ()),
            "max_gen_toks": request.get("max_tokens"),
            "temperature": temperature,
            "do_sample": temperature > 0,
        }
        return [chat or request.get("prompt", ""), how], answer
    if request["verb"] == "logprobs" and isinstance(answer, Continuation):
        return [chat or request["context"], request["continuation"]], [repr(answer.total), GREEDY]
    return None


def _sample(number: int, made: Sample) -> Sample:
    """The sample as the harness orders and hashes it."""
    asked = made["asked"]
    return {
        "doc_id": number,
        "doc": made["doc"],
        "target": made["target"],
        "arguments": {f"gen_args_{n}": {f"arg_{i}": a for i, a in enumerate(parts)} for n, parts in enumerate(asked)},
        "resps": [[answer] for answer in made["answers"]],
        "filtered_resps": made["answers"],
        "filter": _FILTER,
        "metrics": list(made["metrics"]),
        "doc_hash": _hash(json.dumps(made["doc"], indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(str(asked[0][0])),
        "target_hash": _hash(made["target"]),
        **made["metrics"],
        KEY: made[KEY],
    }


def _totals(
    record: RunRecord, logs: Mapping[str, Sequence[Sample]], left_out: Sequence[UnloggedExample]
) -> dict[str, Any]:
    versions: Mapping[str, str] = record.provenance.versions
    lacking = Counter(example.task for example in left_out)
    counts = {task: {"original": len(log) + lacking[task], "effective": len(log)} for task, log in logs.items()}
    means = {task: _means(record, task, samples, is_whole=len(logs) == 1) for task, samples in logs.items()}
    return {
        "results": means,
        "group_subtasks": {},
        "configs": {task: {"task": task, "output_type": _output_type(samples)} for task, samples in logs.items()},
        "versions": dict.fromkeys(logs, record.depends_on.get("task", record.task)),
        "n-shot": dict.fromkeys(logs, 0),
        "higher_is_better": {
            task: {name: _higher_is_better(record, name) for name in _metrics_of(found)}
            for task, found in means.items()
        },
        "n-samples": counts,
        "config": {"model": "lmassay", "model_args": {"model": record.model}, "limit": record.config.get("limit")},
        "git_hash": None,
        "date": _moment(record).timestamp(),
        "transformers_version": versions.get("transformers"),
        "lm_eval_version": f"lmassay {versions.get('lmassay', '')} in the format of {FORMAT}",
        "task_hashes": {
            task: _hash("".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in samples))
            for task, samples in logs.items()
        },
        "model_source": "lmassay",
        "model_name": record.model,
        "model_name_sanitized": safe_name(record.model),
        "system_instruction": None,
        "chat_template": None,
        "total_evaluation_time_seconds": None,
        KEY: metadata_of(record, [name for found in means.values() for name in _metrics_of(found)], left_out),
    }


def _higher_is_better(record: RunRecord, name: str) -> bool:
    return metric_of(record, name).better == "higher"


def _means(record: RunRecord, task: str, samples: Sequence[Sample], *, is_whole: bool) -> dict[str, Any]:
    """Mean and standard error of each metric, as the harness gives them; the run's own number where that is no mean.

    ``is_whole`` says that the log holds the whole run: the run's number says nothing about one log of several.
    """
    found: dict[str, Any] = {"name": task, "alias": task, "sample_len": len(samples)}
    cluster = record.design.cluster
    for metric in dict.fromkeys(name for sample in samples for name in sample["metrics"]):
        scored = [sample for sample in samples if metric in sample["metrics"]]
        labels = [sample[KEY]["groups"].get(cluster, "") if cluster else str(sample["doc_id"]) for sample in scored]
        mean, error = _mean([sample[metric] for sample in scored], labels)
        found |= {f"{metric},{_FILTER}": mean, f"{metric}_stderr,{_FILTER}": error}
    for result in record.results if is_whole else []:
        key, value = f"{result.metric},{_FILTER}", result.value
        is_ours = key in found or result.metric in record.design.combinations
        if result.group == "overall" and is_ours and value is not None and not _is_same(found.get(key), value):
            found |= {key: value, f"{result.metric}_stderr,{_FILTER}": "N/A"}
    return found


def _is_same(mean: float | None, value: float) -> bool:
    return mean is not None and math.isclose(mean, value, rel_tol=1e-9, abs_tol=1e-12)


def _mean(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, float | str]:
    """The mean with its standard error from what each cluster adds to it, where a cluster may be one example."""
    mean = sum(values) / len(values)
    shares: dict[str, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        shares[cluster] = shares.get(cluster, 0.0) + (value - mean) / len(values)
    count = len(shares)
    return mean, math.sqrt(sum(s * s for s in shares.values()) * count / (count - 1)) if count > 1 else "N/A"


def _metrics_of(means: Mapping[str, Any]) -> list[str]:
    names = [key.removesuffix(f",{_FILTER}") for key in means if key.endswith(f",{_FILTER}")]
    return [name for name in names if not name.endswith("_stderr")]


def _output_type(samples: Sequence[Sample]) -> str:
    arguments = samples[0]["arguments"]["gen_args_0"]
    return "generate_until" if isinstance(arguments.get("arg_1"), dict) else "multiple_choice"


def _why_not(store: Store, record: RunRecord) -> str:
    if not export_of(record).has_logs:
        return f"a {record.task} run asks for what they have no place for"
    if not store.count(record.id)["scored"]:
        return f"none of its examples has a score; it is {record.status}"
    return (
        "it kept no question with its answer (the answers came from files, or an earlier lmassay made it, and then "
        "it must be run again)"
    )


def _task_name(record: RunRecord) -> str:
    # Letters of all scripts stay, lest all labels of another be one.
    label = re.sub(r"[\W_]+", "-", record.label).strip("-")
    return f"lmassay_{record.task}_{label}"


def _moment(record: RunRecord) -> datetime:
    return datetime.fromisoformat(record.finished or record.created).astimezone(UTC)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _line(sample: Sample) -> str:
    line = json.dumps(sample, ensure_ascii=False, allow_nan=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped it is still JSON.
        line = json.dumps(sample, allow_nan=False)
    return line + "\n"


# --- names of files: as the harness does it, such as every file system takes, no two the same -------------------------


# What leads elsewhere or is refused by some file system; controls, ends of lines and marks that reorder text, which a
# terminal must not meet; lone surrogates, which have no UTF-8.
_UNSAFE = re.compile(
    r"[\"<>:/|\\?*\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+",
)
# Names that one family of systems keeps for its devices.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
_MOST_BYTES = 120


def safe_name(name: str) -> str:
    """A name as part of a path.

    >>> safe_name("acme/lengths: 1b"), safe_name("CON"), safe_name("..")
    ('acme__lengths__ 1b', '_CON', '_')
    """
    # File systems count bytes.
    text = _UNSAFE.sub("__", name).encode()[:_MOST_BYTES].decode(errors="ignore").strip(". ")
    return f"_{text}" if not text or _RESERVED.fullmatch(text.partition(".")[0]) else text


class TaskNames:
    """A safe name for each log of a run, for file names and totals alike: what is read back is found by it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, task: str) -> str:
        if task not in self._names:
            self._names[task] = self._free(safe_name(task))
        return self._names[task]

    def _free(self, name: str) -> str:
        free, number = name, 1
        while _as_files_are_told_apart(free) in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(_as_files_are_told_apart(free))
        return free


def _as_files_are_told_apart(name: str) -> str:
    """Some file systems see no difference between large and small letters, or between two spellings of one letter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def stamp(moment: datetime, run: str) -> str:
    """The time in file names. Runs know it to the second; the microseconds come from the run's id.

    So two runs of one second have files of their own, and a run that is exported again has the same.
    """
    own = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) % 1_000_000
    return moment.replace(microsecond=own).strftime("%Y-%m-%dT%H-%M-%S.%f")
