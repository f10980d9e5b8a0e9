"""A run in the schema of Every Eval Ever (github.com/evaleval/every_eval_ever), version 0.2.2.

``eval.schema.json`` describes one document a run with its results, ``instance_level_eval.schema.json`` one JSON object
an example and result in a companion file. What the schema demands and a run does not know is said to be unknown.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lmassay
from lmassay.errors import UserError
from lmassay.interchange.exports import export_of
from lmassay.plugins.evaluations import metric_of
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import Continuation, Response, Result, Row, RunRecord

SCHEMA_VERSION = "0.2.2"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
# Metrics that mean the same everywhere keep their plain name; others say whose they are.
_COMMON = ("accuracy", "exact_match", "f1_macro")
_LOCAL = ("hf", "smollm2")
_CLOSED = ("azure", "clova", "claude")


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Who stands behind the numbers."""

    organization: str = "unknown"
    relationship: str = "other"


@dataclass(frozen=True, slots=True)
class ExportedEvaluation:
    """What an export has made."""

    file: Path
    samples: Path | None
    results: int
    instances: int


def write_evaluation(store: Store, record: RunRecord, target: Path, evaluator: Evaluator) -> ExportedEvaluation:
    """Write the document and its companion: to a .json file, or under a folder as their data store lays it out."""
    results = [result for result in record.results if result.value is not None]
    if not results:
        raise UserError(f"{record.id} has no results to hand on; it is {record.status}")
    file, stated = _places(record, target)
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    judged = _judged_by_example(store, record, results)
    state, count = hashlib.sha256(), 0
    if judged:
        with atomic_write(samples) as stream:
            for instance in _instances(store, record, judged):
                line = json.dumps(instance, allow_nan=False) + "\n"
                state.update(line.encode("ascii"))
                stream.write(line)
                count += 1
    document = _document(store, record, results, evaluator)
    if count:
        document["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": stated.removesuffix(".json") + "_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": state.hexdigest(),
            "total_rows": count,
        }
    with atomic_write(file) as stream:
        stream.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    return ExportedEvaluation(file, samples if count else None, len(results), count)


def _places(record: RunRecord, target: Path) -> tuple[Path, str]:
    """Where the document goes, and under which path it speaks of itself."""
    if target.suffix == ".json":
        return target, target.name
    # The same run has the same name each time, in the form of a random one, which the data store asks for.
    name = uuid.UUID(bytes=hashlib.sha256(record.id.encode()).digest()[:16], version=4)
    developer, model = _developer(record), record.model.rpartition("/")[2]
    inside = "/".join(["data", *(_part(text) for text in (record.task, developer, model)), f"{name}.json"])
    return target / inside, inside


def _document(store: Store, record: RunRecord, results: Sequence[Result], evaluator: Evaluator) -> dict[str, Any]:
    generation = _generation(store, record)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation_id(record),
        "evaluation_timestamp": record.finished or record.created,
        "retrieved_timestamp": str(datetime.now(UTC).timestamp()),
        "source_metadata": {
            "source_name": "lmassay",
            "source_type": "evaluation_run",
            "source_organization_name": evaluator.organization,
            "evaluator_relationship": evaluator.relationship,
        },
        "eval_library": _library(record),
        "model_info": _model(record),
        "evaluation_results": [_result(record, result, generation) for result in results],
    }


def evaluation_id(record: RunRecord) -> str:
    """What tells this evaluation from others; it stays the same when a run is exported again."""
    return f"{record.task}/{record.model}/{record.id}"


def result_id(result: Result) -> str:
    return f"{result.metric}|{result.group}"


def _library(record: RunRecord) -> dict[str, Any]:
    signature: Mapping[str, str] = record.depends_on
    versions: Mapping[str, str] = record.provenance.versions
    details = {"signature": record.signature, "run": record.id}
    own = versions.get("lmassay", lmassay.__version__)
    details |= _unfinished(record)
    details |= {f"note_{n}": str(note) for n, note in enumerate(record.provenance.notes, 1)}
    if "imported" not in signature:
        return {"name": "lmassay", "version": own, "additional_details": details}
    name, _, version = signature["imported"].partition("-")
    return {"name": name, "version": version, "additional_details": details | {"imported_by": f"lmassay {own}"}}


def _unfinished(record: RunRecord) -> dict[str, str]:
    """That a run is not whole, and why: nothing for one that is."""
    if record.status == "done":
        return {}
    return {"run_status": record.status, **({"run_status_note": record.note} if record.note else {})}


def _model(record: RunRecord) -> dict[str, Any]:
    spec = record.config.get("model")
    kind = spec if isinstance(spec, str) else str((spec or {}).get("name", "none"))
    versions: Mapping[str, str] = record.provenance.versions
    identity = record.depends_on.get("model", "")
    details = {"kind": kind, "identity": identity, "deployment_type": "unknown", "model_availability": "unknown"}
    info: dict[str, Any] = {"name": record.model, "id": record.model, "developer": _developer(record)}
    if kind in _LOCAL:
        details["deployment_type"] = "self_deployed"
        info["inference_engine"] = {"name": "transformers", "version": versions.get("transformers", "unknown")}
    elif kind in _CLOSED:
        details |= {"deployment_type": "externally_managed", "model_availability": "closed_weights"}
        info["inference_platform"] = {"claude": "anthropic"}.get(kind, kind)
    return {**info, "additional_details": details}


def _developer(record: RunRecord) -> str:
    developer, slash, _ = record.model.strip("/").partition("/")
    return developer if slash and not record.model.startswith("/") else "unknown"


def _result(record: RunRecord, result: Result, generation: Mapping[str, Any]) -> dict[str, Any]:
    metric, group = result.metric, result.group
    declared = metric_of(record, metric)
    config: dict[str, Any] = {
        "evaluation_description": f"{metric} of {record.task} ({record.label}), {group}",
        "metric_id": metric if metric in _COMMON else f"lmassay.{record.task}.{metric}",
        "metric_name": metric,
        "lower_is_better": declared.better != "higher",
    }
    # A metric without bounds has no type: the schema would want bounds for it.
    if declared.range is not None and declared.range[0] <= (result.value or 0.0) <= declared.range[1]:
        low, high = declared.range
        config |= {"score_type": "continuous", "min_score": low, "max_score": high}
    if declared.better == "zero":
        config["additional_details"] = {"ideal": "0"}
    counts = {"n": str(result.n), "n_error": str(result.n_error), "n_unscored": str(result.n_unscored)}
    counts |= {f"n_{name}": str(count) for name, count in result.clusters.items()}
    counts |= _unfinished(record)
    details: dict[str, Any] = {"score": result.value, "details": counts, "uncertainty": {"num_samples": result.n}}
    if result.low is not None and result.high is not None:
        details["uncertainty"]["confidence_interval"] = {
            "lower": result.low,
            "upper": result.high,
            "confidence_level": float(record.config.get("confidence", 0.95)),
            "method": result.method or record.depends_on.get("ci", "see the signature"),
        }
    name = f"{record.task}.{_part(record.label)}"
    return {
        "evaluation_result_id": result_id(result),
        "evaluation_name": name if group == "overall" else f"{name}.{group}",
        "source_data": _data(record),
        "evaluation_timestamp": record.finished or record.created,
        "metric_config": config,
        "score_details": details,
        "generation_config": dict(generation),
    }


def _data(record: RunRecord) -> dict[str, Any]:
    """The data are known to us by what they hash to, not by where they were published."""
    signature: Mapping[str, str] = record.depends_on
    known = {name: signature[name] for name in ("data", "src", "ref", "prompt", "attack") if name in signature}
    version = {"source_version": known["data"]} if "data" in known else {}
    return {"dataset_name": record.label, "source_type": "other", **version, "additional_details": known}


def _generation(store: Store, record: RunRecord) -> dict[str, Any]:
    command = record.provenance.command
    arguments: dict[str, Any] = {"execution_command": shlex.join(["lmassay", *command])}
    for _, asked in store.requests_and_responses(record.id):
        first = next((request for request, _ in asked if request["verb"] == "generate"), None)
        if first is not None:
            arguments |= {"temperature": float(first.get("temperature", 0.0)), "max_tokens": int(first["max_tokens"])}
        break
    details = {"seed": str(record.config.get("seed", 0)), "limit": str(record.config.get("limit"))}
    return {"generation_args": arguments, "additional_details": details}


def _judged_by_example(store: Store, record: RunRecord, results: Sequence[Result]) -> list[tuple[Result, bool]]:
    """Overall results that are shares of right and wrong examples, with which of both is good."""
    wanted = {result.metric: result for result in results if result.group == "overall"}
    headline = record.design.headline or list(wanted)
    found: dict[str, bool] = {}
    for row in store.score_rows(record.id):
        for metric, value in row.score.values.items():
            found[metric] = found.get(metric, True) and value in (0.0, 1.0)
    # What is called an accuracy may still be a degree in data of somebody's own: then no example is right or wrong.
    judged: list[tuple[Result, bool]] = []
    for metric in headline:
        declared = metric_of(record, metric)
        if metric in wanted and declared.verdict and found.get(metric):
            judged.append((wanted[metric], declared.better != "higher"))
    return judged


def _instances(store: Store, record: RunRecord, judged: Sequence[tuple[Result, bool]]) -> Iterator[dict[str, Any]]:
    for row, (_, asked) in zip(store.rows(record.id), store.requests_and_responses(record.id), strict=True):
        if row.state != "scored":
            continue
        instance: Instance = instance_of(record, row, asked)
        for result, lower_is_better in judged:
            score = row.score.values.get(result.metric)
            if score is None:
                continue
            yield {
                "schema_version": SCHEMA_VERSION,
                "evaluation_id": evaluation_id(record),
                "model_id": record.model,
                "evaluation_name": f"{record.task}.{_part(record.label)}",
                "evaluation_result_id": result_id(result),
                **instance,
                "evaluation": {"score": score, "is_correct": (score == 1.0) != lower_is_better},
            }


def _part(text: str) -> str:
    """A name that any file system takes."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:80]
    return plain if plain and plain.lower() != "data" else f"x-{plain}"


# --- instances: what was put in, what came out, how the answer was read -----------------------------------------------


Asked = Sequence[tuple[Mapping[str, Any], Response]]
Instance = dict[str, Any]
# Details of our tasks that hold the answer in the model's own words.
_ANSWERS = ("raw", "answer", "adv_out", "out")
_READ = ("letter", "answer", "prediction")


def instance_of(record: RunRecord, row: Row, asked: Asked) -> Instance:
    """All of an instance but who, which evaluation and which verdict."""
    own = export_of(record).instance
    made = (None if own is None else own(row)) or _general(record.task, row, asked)
    put_in = made["input"]
    text = json.dumps({"raw": put_in["raw"], "reference": put_in["reference"]}, sort_keys=True, separators=(",", ":"))
    return {
        "sample_id": row.example.id,
        "sample_hash": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        "interaction_type": "single_turn",
        **made,
        "metadata": {str(name): str(label) for name, label in row.example.groups.items()},
    }


def _general(task: str, row: Row, asked: Asked) -> Instance:
    details = row.score.details
    prompts = [text for request, _ in asked if (text := _prompt(request))]
    outputs = [_answer(response) for _, response in asked] or [
        _text(details[name]) for name in _ANSWERS if details.get(name) is not None
    ]
    read = next((_text(details[name]) for name in _READ if details.get(name) is not None), "")
    choices = row.example.inputs.get("choices")
    put_in: dict[str, Any] = {
        "raw": "\n\n".join(dict.fromkeys(prompts)) or _text(dict(row.example.inputs)),
        "reference": [] if row.example.reference is None else [_text(row.example.reference)],
    }
    if isinstance(choices, list):
        put_in["choices"] = [_text(choice) for choice in choices]
    return {
        "input": put_in,
        "output": {"raw": outputs},
        "answer_attribution": [attribution(read or (outputs[-1] if outputs else ""), f"lmassay's task {task}")],
    }


def attribution(value: str, method: str) -> dict[str, Any]:
    """How the value that counts was read from the output."""
    return {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": value,
        "extraction_method": method,
        "is_terminal": True,
    }


def _prompt(request: Mapping[str, Any]) -> str:
    turns = request.get("messages") or ()
    return "\n".join(f"{role}: {text}" for role, text in turns) or str(
        request.get("prompt") or request.get("context") or ""
    )


def _answer(response: Response) -> str:
    answer = response.answer
    if isinstance(answer, Continuation):
        return repr(answer.total)
    return answer if isinstance(answer, str) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
