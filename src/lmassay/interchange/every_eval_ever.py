"""Writes a run in the schema of Every Eval Ever (github.com/evaleval/every_eval_ever), version 0.2.2.

``eval.schema.json`` describes one document per run with its results. ``instance_level_eval.schema.json`` describes an
additional file with one JSON object, an *instance*, per example and result. Fields that the schema requires, but that a
run does not record, get the value "unknown".
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
from lmassay.storage.file_names import is_reserved
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import Continuation, Response, Result, Row, RunRecord

SCHEMA_VERSION = "0.2.2"
# Metrics that mean the same in all programs. Their ids are their names; other ids begin with "lmassay" and the task.
_COMMON_METRICS = ("accuracy", "exact_match", "f1_macro")
# Names of model plug-ins. For others, such as `openai`, it is unknown where the model runs, because the base URL can be
# any address.
_LOCAL_MODELS = ("hf", "smollm2")
_CLOSED_MODELS = ("azure", "clova", "claude")


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The organization that is responsible for the numbers."""

    organization: str = "unknown"
    relationship: str = "other"
    """Its relationship to the developer of the model; one of :data:`lmassay.interchange.RELATIONSHIPS`."""


@dataclass(frozen=True, slots=True)
class ExportedEvaluation:
    """The files of an export, and what they contain."""

    file: Path
    """The document with the results."""
    samples: Path | None
    """The file with the instances; None if there are none."""
    results: int
    """The number of results in the document."""
    instances: int
    """The number of lines in the file with the instances."""


def write_evaluation(store: Store, record: RunRecord, target: Path, evaluator: Evaluator) -> ExportedEvaluation:
    """Write the document of a run and the file with its instances.

    ``target`` is a .json file, or a folder in which both are placed as in the project's data store.
    """
    results = [result for result in record.results if result.value is not None]
    if not results:
        raise UserError(f"{record.id} has no results to export; it is {record.status}")
    file, stated_path = _paths(record, target)
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    judged = _metrics_with_verdict(store, record, results)
    checksum = hashlib.sha256()
    count = 0
    if judged:
        with atomic_write(samples) as stream:
            for instance in _instances(store, record, judged):
                line = json.dumps(instance, allow_nan=False) + "\n"
                checksum.update(line.encode("ascii"))
                stream.write(line)
                count += 1
    document = _document(store, record, results, evaluator)
    if count:
        document["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": stated_path.removesuffix(".json") + "_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": checksum.hexdigest(),
            "total_rows": count,
        }
    with atomic_write(file) as stream:
        stream.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    return ExportedEvaluation(file, samples if count else None, len(results), count)


def _paths(record: RunRecord, target: Path) -> tuple[Path, str]:
    """The path of the document, and the path relative to ``target``, which is written into the document."""
    if target.suffix == ".json":
        return target, target.name
    # The data store requires a random UUID. This one is computed from the run's id, so that a run gets the same name
    # each time it is exported.
    digest = hashlib.sha256(record.id.encode()).digest()
    name = uuid.UUID(bytes=digest[:16], version=4)
    model = record.model.rpartition("/")[2]
    folders = [_path_part(text) for text in (record.task, _developer(record), model)]
    relative_path = "/".join(["data", *folders, f"{name}.json"])
    return target / relative_path, relative_path


def _document(store: Store, record: RunRecord, results: Sequence[Result], evaluator: Evaluator) -> dict[str, Any]:
    """The document of a run, with the keys of ``eval.schema.json``."""
    generation = _generation_config(store, record)
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
        "model_info": _model_info(record),
        "evaluation_results": [_result(record, result, generation) for result in results],
    }


def evaluation_id(record: RunRecord) -> str:
    """The id of a run's evaluation; it stays the same when the run is exported again."""
    return f"{record.task}/{record.model}/{record.id}"


def result_id(result: Result) -> str:
    """The id of a result within its document."""
    return f"{result.metric}|{result.group}"


def _library(record: RunRecord) -> dict[str, Any]:
    """The program that computed the numbers: lmassay, or the harness from which a log was imported."""
    signature: Mapping[str, str] = record.depends_on
    lmassay_version = record.provenance.versions.get("lmassay", lmassay.__version__)
    details = {"signature": record.signature, "run": record.id, **_unfinished(record)}
    if record.annotation.tags:
        details["tags"] = " ".join(record.annotation.tags)
    if record.annotation.note:
        details["note"] = record.annotation.note
    for number, note in enumerate(record.provenance.notes, 1):
        details[f"note_{number}"] = str(note)
    if "imported" not in signature:
        return {"name": "lmassay", "version": lmassay_version, "additional_details": details}
    name, _, version = signature["imported"].partition("-")
    details["imported_by"] = f"lmassay {lmassay_version}"
    return {"name": name, "version": version, "additional_details": details}


def _unfinished(record: RunRecord) -> dict[str, str]:
    """The status of a run that is not done, and the reason; empty if it is done."""
    if record.status == "done":
        return {}
    details = {"run_status": record.status}
    if record.note:
        details["run_status_note"] = record.note
    return details


def _model_info(record: RunRecord) -> dict[str, Any]:
    """The description of the model, with the keys of the schema."""
    spec = record.config.get("model")
    kind = spec if isinstance(spec, str) else str((spec or {}).get("name", "none"))
    versions: Mapping[str, str] = record.provenance.versions
    details = {
        "kind": kind,
        "identity": record.depends_on.get("model", ""),
        "deployment_type": "unknown",
        "model_availability": "unknown",
    }
    info: dict[str, Any] = {"name": record.model, "id": record.model, "developer": _developer(record)}
    if kind in _LOCAL_MODELS:
        details["deployment_type"] = "self_deployed"
        info["inference_engine"] = {"name": "transformers", "version": versions.get("transformers", "unknown")}
    elif kind in _CLOSED_MODELS:
        details["deployment_type"] = "externally_managed"
        details["model_availability"] = "closed_weights"
        info["inference_platform"] = "anthropic" if kind == "claude" else kind
    info["additional_details"] = details
    return info


def _developer(record: RunRecord) -> str:
    """The part before the slash in ``acme/model-7b``; "unknown" for a name without a slash and for an absolute path."""
    developer, slash, _ = record.model.strip("/").partition("/")
    if slash and not record.model.startswith("/"):
        return developer
    return "unknown"


def _result(record: RunRecord, result: Result, generation: Mapping[str, Any]) -> dict[str, Any]:
    """One result of the document, with the keys of the schema."""
    metric = result.metric
    group = result.group
    declared = metric_of(record, metric)
    config: dict[str, Any] = {
        "evaluation_description": f"{metric} of {record.task} ({record.label}), {group}",
        "metric_id": metric if metric in _COMMON_METRICS else f"lmassay.{record.task}.{metric}",
        "metric_name": metric,
        # The schema cannot express that 0 is the best value of a metric. Such metrics get the detail "ideal" below.
        "lower_is_better": declared.better != "higher",
    }
    # A metric without bounds gets no score type, because the schema requires bounds for every type.
    if declared.range is not None:
        low, high = declared.range
        # A value outside its declared bounds would make the whole document invalid.
        if low <= (result.value or 0.0) <= high:
            config |= {"score_type": "continuous", "min_score": low, "max_score": high}
    if declared.better == "zero":
        config["additional_details"] = {"ideal": "0"}
    # The counts are texts, like all details that this module writes.
    counts = {"n": str(result.n), "n_error": str(result.n_error), "n_unscored": str(result.n_unscored)}
    for name, count in result.clusters.items():
        counts[f"n_{name}"] = str(count)
    counts |= _unfinished(record)
    uncertainty: dict[str, Any] = {"num_samples": result.n}
    if result.low is not None and result.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": result.low,
            "upper": result.high,
            "confidence_level": float(record.config.get("confidence", 0.95)),
            "method": result.method or record.depends_on.get("ci", "see the signature"),
        }
    name = f"{record.task}.{_path_part(record.label)}"
    return {
        "evaluation_result_id": result_id(result),
        "evaluation_name": name if group == "overall" else f"{name}.{group}",
        "source_data": _source_data(record),
        "evaluation_timestamp": record.finished or record.created,
        "metric_config": config,
        "score_details": {"score": result.value, "details": counts, "uncertainty": uncertainty},
        "generation_config": dict(generation),
    }


def _source_data(record: RunRecord) -> dict[str, Any]:
    """A description of the data, by their digests: a run does not record where they were published."""
    signature: Mapping[str, str] = record.depends_on
    digests = {name: signature[name] for name in ("data", "src", "ref", "prompt", "attack") if name in signature}
    source: dict[str, Any] = {"dataset_name": record.label, "source_type": "other"}
    if "data" in digests:
        source["source_version"] = digests["data"]
    source["additional_details"] = digests
    return source


def _generation_config(store: Store, record: RunRecord) -> dict[str, Any]:
    """How answers were generated: the command, and the options of the first request for generated text."""
    arguments: dict[str, Any] = {"execution_command": shlex.join(["lmassay", *record.provenance.command])}
    for request in _first_requests(store, record):
        if request.get("verb") == "generate":
            # A results folder from someone else may contain anything, so the types are checked.
            temperature = request.get("temperature", 0.0)
            if isinstance(temperature, int | float):
                arguments["temperature"] = float(temperature)
            max_tokens = request.get("max_tokens")
            if isinstance(max_tokens, int):
                arguments["max_tokens"] = max_tokens
            break
    details = {"seed": str(record.config.get("seed", 0)), "limit": str(record.config.get("limit"))}
    return {"generation_args": arguments, "additional_details": details}


def _first_requests(store: Store, record: RunRecord) -> list[Mapping[str, Any]]:
    """The requests for the first example. The options are the same for all examples."""
    for _, exchanges in store.requests_and_responses(record.id):
        return [request for request, _ in exchanges]
    return []


# --- instances: the input and output of each example, and the answer that was extracted from the output ---------------


Exchanges = Sequence[tuple[Mapping[str, Any], Response]]
Instance = dict[str, Any]
# The details of a score that contain the text that the model generated.
_ANSWER_DETAILS = ("raw", "answer", "adv_out", "out")
# The details of a score that contain the answer that the task extracted from the text.
_EXTRACTED_DETAILS = ("letter", "answer", "prediction")


def _metrics_with_verdict(store: Store, record: RunRecord, results: Sequence[Result]) -> list[tuple[Result, bool]]:
    """The overall results of metrics that judge each example as right or wrong, each with whether lower is better."""
    overall = {result.metric: result for result in results if result.group == "overall"}
    is_binary: dict[str, bool] = {}
    for row in store.score_rows(record.id):
        for metric, value in row.score.values.items():
            is_binary[metric] = is_binary.get(metric, True) and value in (0.0, 1.0)
    # The scores are checked, too: a user's own "accuracy" may have values between 0 and 1, which are not verdicts.
    judged: list[tuple[Result, bool]] = []
    for metric in record.design.headline or list(overall):
        declared = metric_of(record, metric)
        if metric in overall and declared.verdict and is_binary.get(metric):
            judged.append((overall[metric], declared.better != "higher"))
    return judged


def _instances(store: Store, record: RunRecord, judged: Sequence[tuple[Result, bool]]) -> Iterator[Instance]:
    """Yield an instance for each scored example and each metric with a verdict."""
    rows = store.rows(record.id)
    exchanges_of_rows = store.requests_and_responses(record.id)
    for row, (_, exchanges) in zip(rows, exchanges_of_rows, strict=True):
        if row.state != "scored":
            continue
        instance = instance_of(record, row, exchanges)
        for result, lower_is_better in judged:
            score = row.score.values.get(result.metric)
            if score is None:
                continue
            yield {
                "schema_version": SCHEMA_VERSION,
                "evaluation_id": evaluation_id(record),
                "model_id": record.model,
                "evaluation_name": f"{record.task}.{_path_part(record.label)}",
                "evaluation_result_id": result_id(result),
                **instance,
                # If lower is better, such as for the success of an attack, 0 is the correct outcome.
                "evaluation": {"score": score, "is_correct": (score == 1.0) != lower_is_better},
            }


def _path_part(text: str) -> str:
    """Return a text in a form that every file system accepts as a name."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:80]
    # In the data store, "data" is the name of the top folder.
    if not plain or plain.lower() == "data" or is_reserved(plain):
        return f"x-{plain}"
    return plain


def instance_of(record: RunRecord, row: Row, exchanges: Exchanges) -> Instance:
    """The parts of an instance that do not depend on the metric: input, output and attribution of the answer."""
    make_instance = export_of(record).instance
    parts = None if make_instance is None else make_instance(row)
    if not parts:
        parts = _general_instance(record.task, row, exchanges)
    # The schema defines the hash as that of input and reference.
    hashed = {"raw": parts["input"]["raw"], "reference": parts["input"]["reference"]}
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    return {
        "sample_id": row.example.id,
        "sample_hash": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        "interaction_type": "single_turn",
        **parts,
        "metadata": {str(name): str(label) for name, label in row.example.groups.items()},
    }


def _general_instance(task: str, row: Row, exchanges: Exchanges) -> Instance:
    """Input, output and attribution of an example whose evaluation does not define them."""
    details = row.score.details
    prompts: dict[str, None] = {}
    outputs = []
    for request, response in exchanges:
        prompt = _prompt(request)
        if prompt:
            prompts[prompt] = None
        outputs.append(_answer(response))
    if not outputs:
        # Answers that came from a file have no request.
        outputs = [_text(details[name]) for name in _ANSWER_DETAILS if details.get(name) is not None]
    extracted = ""
    for name in _EXTRACTED_DETAILS:
        if details.get(name) is not None:
            extracted = _text(details[name])
            break
    if not extracted and outputs:
        extracted = outputs[-1]
    reference = row.example.reference
    instance_input: dict[str, Any] = {
        "raw": "\n\n".join(prompts) or _text(dict(row.example.inputs)),
        "reference": [] if reference is None else [_text(reference)],
    }
    choices = row.example.inputs.get("choices")
    if isinstance(choices, list):
        instance_input["choices"] = [_text(choice) for choice in choices]
    return {
        "input": instance_input,
        "output": {"raw": outputs},
        "answer_attribution": [attribution(extracted, f"lmassay's task {task}")],
    }


def attribution(value: str, method: str) -> dict[str, Any]:
    """The attribution of an answer: the scored value, and how it was extracted from the output."""
    return {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": value,
        "extraction_method": method,
        "is_terminal": True,
    }


def _prompt(request: Mapping[str, Any]) -> str:
    messages = request.get("messages") or ()
    if messages:
        return "\n".join(f"{role}: {text}" for role, text in messages)
    return str(request.get("prompt") or request.get("context") or "")


def _answer(response: Response) -> str:
    answer = response.answer
    if isinstance(answer, Continuation):
        return repr(answer.total)
    if isinstance(answer, str):
        return answer
    return ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
