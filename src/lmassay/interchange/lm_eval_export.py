"""A run of ours as sample logs of lm-evaluation-harness: ``FOLDER/<model>/samples_<task>_<time>.jsonl`` and the totals.

Minimal pairs become BLiMP's tasks, one file a paradigm. Other runs that asked for text or for log-probabilities become
logs in the general form. Each sample has a field ``lmassay`` more than the harness writes, with what it takes to get
the same run back by `lmassay import`. Examples in error or without a score are no samples, and are counted.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmassay.data import atomic_write
from lmassay.errors import UserError
from lmassay.interchange.metric_facts import facts_of
from lmassay.store import RunRecord, Store
from lmassay.syntax.blimp import paradigms
from lmassay.types import Continuation, Response, Row

FORMAT = "0.4.13"
_FILTER = "none"
# Whether the answer was also the greedy one is not known to us, and not said.
_GREEDY = "None"
# Names that one family of systems keeps for its devices.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
_TOTAL_NAMES = {"accuracy": "acc", "accuracy_char": "acc_norm"}

Sample = dict[str, Any]
Asked = Sequence[tuple[Mapping[str, Any], Response]]


@dataclass(frozen=True, slots=True)
class Written:
    """What an export has made."""

    files: Sequence[Path]
    samples: int
    left_out: int


def write_logs(store: Store, record: RunRecord, folder: Path) -> Written:
    """Write a run's logs and totals; nothing is written for a run whose answers such logs have no place for."""
    stamp = _stamp(record)
    logs: dict[str, list[Sample]] = {}
    left_out = 0
    for row, asked in _rows(store, record):
        task, sample = _pair(row) if record.task == "minimal_pairs" else (_task_name(record), _general(row, asked))
        if row.state != "scored" or sample is None:
            left_out += 1
            continue
        log = logs.setdefault(task, [])
        log.append(_sample(len(log), sample))
    if not logs:
        raise UserError(
            f"{record.id} cannot be written as a log of lm-evaluation-harness: {_why_not(record)}; "
            "--format jsonl has all that there is"
        )
    home = folder / _safe(record.model)
    files = []
    for task, samples in logs.items():
        files.append(home / f"samples_{_safe(task)}_{stamp}.jsonl")
        with atomic_write(files[-1]) as stream:
            stream.writelines(_line(sample) for sample in samples)
    files.append(home / f"results_{stamp}.json")
    with atomic_write(files[-1]) as stream:
        stream.write(json.dumps(_totals(record, logs), indent=2) + "\n")
    return Written(files, sum(map(len, logs.values())), left_out)


def _rows(store: Store, record: RunRecord) -> Iterator[tuple[Row, Asked]]:
    for row, (name, asked) in zip(store.rows(record.id), store.asked(record.id), strict=True):
        assert row.example.id == name
        yield row, asked


def _pair(row: Row) -> tuple[str, Sample | None]:
    """A minimal pair as a document of BLiMP, with the log-probabilities that its verdict rests on."""
    inputs, groups, details = row.example.inputs, row.example.groups, row.score.details
    paradigm = groups.get("paradigm", "pairs")
    task = f"blimp_{paradigm}" if paradigm in paradigms() else f"minimal_pairs_{paradigm}"
    if "logprob_good" not in details or "asked" not in inputs:
        return task, None
    named = {"field": groups.get("field"), "linguistics_term": groups.get("phenomenon"), "UID": paradigm}
    doc = {"sentence_good": inputs["good"], "sentence_bad": inputs["bad"]}
    ours: dict[str, Any] = {"id": row.example.id, "groups": dict(groups)}
    if "tokens_good" in details:
        ours["tokens"] = [details["tokens_good"], details["tokens_bad"]]
    answers = [[repr(float(details[f"logprob_{side}"])), _GREEDY] for side in ("good", "bad")]
    return task, {
        "doc": doc | {name: label for name, label in named.items() if label},
        "target": "0",
        "asked": [list(request) for request in inputs["asked"]],
        "answers": answers,
        "metrics": {_TOTAL_NAMES[name]: value for name, value in row.score.values.items() if name in _TOTAL_NAMES},
        "lmassay": ours,
    }


def _general(row: Row, asked: Asked) -> Sample | None:
    """Any example with what was asked and answered about it, if that is text or log-probabilities."""
    found = [part for request, response in asked if (part := _request(request, response)) is not None]
    if not found or len(found) < len(asked):
        return None
    reference = row.example.reference
    return {
        "doc": {**row.example.inputs, "reference": reference},
        "target": reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False),
        "asked": [arguments for arguments, _ in found],
        "answers": [answer for _, answer in found],
        "metrics": dict(row.score.values),
        "lmassay": {"id": row.example.id, "groups": dict(row.example.groups)},
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
        return [chat or request["context"], request["continuation"]], [repr(answer.total), _GREEDY]
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
        "lmassay": made["lmassay"],
    }


def _totals(record: RunRecord, logs: Mapping[str, Sequence[Sample]]) -> dict[str, Any]:
    versions: Mapping[str, str] = record.provenance.get("versions", {})
    counts = {task: {"original": len(samples), "effective": len(samples)} for task, samples in logs.items()}
    return {
        "results": {task: _means(task, samples) for task, samples in logs.items()},
        "group_subtasks": {},
        "configs": {task: {"task": task, "output_type": _output_type(samples)} for task, samples in logs.items()},
        "versions": dict.fromkeys(logs, record.provenance.get("signature", {}).get("task", record.task)),
        "n-shot": dict.fromkeys(logs, 0),
        "higher_is_better": {
            task: {metric: not facts_of(metric).lower_is_better for metric in samples[0]["metrics"]}
            for task, samples in logs.items()
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
        "model_name_sanitized": _safe(record.model),
        "system_instruction": None,
        "chat_template": None,
        "total_evaluation_time_seconds": None,
        "lmassay": {"run": record.id, "task": record.task, "signature": record.signature},
    }


def _means(task: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """Mean and standard error of each metric, as the harness gives them."""
    found: dict[str, Any] = {"name": task, "alias": task, "sample_len": len(samples)}
    for metric in dict.fromkeys(name for sample in samples for name in sample["metrics"]):
        values = [sample[metric] for sample in samples if metric in sample["metrics"]]
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values)
        error = math.sqrt(spread / (len(values) - 1) / len(values)) if len(values) > 1 else "N/A"
        found |= {f"{metric},{_FILTER}": mean, f"{metric}_stderr,{_FILTER}": error}
    return found


def _output_type(samples: Sequence[Sample]) -> str:
    arguments = samples[0]["arguments"]["gen_args_0"]
    return "generate_until" if isinstance(arguments.get("arg_1"), dict) else "multiple_choice"


def _why_not(record: RunRecord) -> str:
    if record.task in ("syntax", "refining_tse", "fewshot"):
        return f"a {record.task} run asks for what they have no place for"
    return "it kept no question with its answer (none was scored, or the answers came from files)"


def _task_name(record: RunRecord) -> str:
    return f"lmassay_{record.task}_{re.sub(r'[^A-Za-z0-9]+', '-', record.label).strip('-')}"


def _moment(record: RunRecord) -> datetime:
    return datetime.fromisoformat(record.finished or record.created).astimezone(UTC)


def _stamp(record: RunRecord) -> str:
    return _moment(record).strftime("%Y-%m-%dT%H-%M-%S.%f")


def _safe(name: str) -> str:
    """A name as part of a path: nothing that leads elsewhere or that a file system refuses."""
    text = re.sub(r"[\"<>:/|\\?*\[\]\x00-\x1f]+", "__", name).strip(". ")[:120]
    return f"_{text}" if not text or _RESERVED.fullmatch(text.partition(".")[0]) else text


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
