"""How a server is told that the answer must be one of some texts. Each kind of server has a parameter of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

Constrain = Literal["none", "grammar", "structured_outputs", "guided_choice", "json_schema"]
_KEY = "answer"
# What the object around a choice may cost.
_WRAPPING_TOKENS = 32
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def as_parameters(constrain: Constrain, choices: Sequence[str]) -> dict[str, Any]:
    """What is added to the request."""
    if constrain == "grammar":
        return {"grammar": gbnf(choices)}
    if constrain == "structured_outputs":
        return {"structured_outputs": {"choice": list(choices)}}
    if constrain == "guided_choice":
        return {"guided_choice": list(choices)}
    if constrain == "json_schema":
        return {"response_format": {"type": "json_schema", "json_schema": _schema(choices)}}
    return {}


def further_tokens(constrain: Constrain) -> int:
    """How much longer than the choice itself the answer may be."""
    return _WRAPPING_TOKENS if constrain == "json_schema" else 0


def gbnf(choices: Sequence[str]) -> str:
    """llama.cpp's grammar for one of these texts.

    >>> gbnf(["A", 'say "B"'])
    'root ::= "A" | "say \\\\"B\\\\""'
    """
    return "root ::= " + " | ".join(f'"{_escaped(choice)}"' for choice in choices)


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(char) or (char if char.isprintable() else f"\\U{ord(char):08X}") for char in text)


def _schema(choices: Sequence[str]) -> dict[str, Any]:
    answer = {"type": "string", "enum": list(choices)}
    schema = {"type": "object", "properties": {_KEY: answer}, "required": [_KEY], "additionalProperties": False}
    return {"name": "choice", "strict": True, "schema": schema}


def unwrapped(constrain: Constrain, text: str) -> str:
    """The choice itself, where the server answers with an object around it."""
    if constrain != "json_schema":
        return text
    try:
        answer = json.loads(text)[_KEY]
    except (ValueError, LookupError, TypeError):
        return text
    return answer if isinstance(answer, str) else text
