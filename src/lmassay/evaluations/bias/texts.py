"""What a reader wants to see of an example: what was asked, what came back, how it was read, what was right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmassay.reporting.example_texts import Asked, Parts, answer_at, prompt_text
from lmassay.types import Row

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def texts(row: Row, asked: Asked) -> Parts:
    """The question with its choices, the answer, and how it was read."""
    inputs, details = row.example.inputs, row.score.details
    choices = dict(zip(_LETTERS, inputs.get("choices", ()), strict=False))
    prompt = prompt_text(asked[0][0]) if asked else ""
    question = [
        ("context", inputs.get("context")),
        ("question", inputs.get("question")),
        ("choices", "\n".join(f"{letter}: {choice}" for letter, choice in choices.items())),
    ]
    logprobs = zip(choices, details.get("logprobs", ()), strict=False)
    # The log of another tool need not have asked for every choice.
    by_choice = ", ".join(f"{letter} {value:.2f}" for letter, value in logprobs if value is not None)
    finish = details.get("finish", "stop")
    return [
        *([("prompt", prompt)] if prompt else question),
        (f"answer ({finish})" if finish != "stop" else "answer", details.get("raw", answer_at(asked, 0))),
        ("log-probability", by_choice),
        ("read as", _read(details, choices)),
        ("reference", _reference(row.example.reference, choices)),
    ]


def _read(details: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    if "letter" not in details:
        return ""
    letter = details["letter"]
    told = [f"{letter}: {choices.get(letter, '')}" if letter else "out of choice"]
    told += [details["role"]] if letter and details.get("role") else []
    told += [str(details["how"])] if details.get("how") else []
    parsers = {name: details[name] or "out of choice" for name in ("reference", "robust") if name in details}
    differ = ", ".join(f"the {name} parser reads {read}" for name, read in parsers.items())
    return " · ".join([*told, *([differ] if len(set(parsers.values())) > 1 else [])])


def _reference(reference: Any, choices: Mapping[str, str]) -> Any:
    if not isinstance(reference, Mapping):
        return reference
    roles = {"answer": "right", "unknown": "unknown", "biased": "stereotyped"}
    return "\n".join(
        f"{roles.get(role, role)}: {letter}: {choices.get(letter, '')}" for role, letter in reference.items() if letter
    )
