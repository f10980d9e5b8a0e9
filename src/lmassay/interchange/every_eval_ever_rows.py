"""One example in Every Eval Ever's instance-level form: what was put in, what came out, how the answer was read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.interchange.exports import export_of
from lmassay.types import Continuation, Response, Row, RunRecord

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
