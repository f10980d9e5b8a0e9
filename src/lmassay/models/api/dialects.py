"""How a request is put into JSON and an answer read from it: OpenAI's protocol and Anthropic's.

This includes how a server is told that the answer must be one of some texts, for which each has its own parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from lmassay.errors import ConfigError, ModelError
from lmassay.models.api.failures import refuse_error
from lmassay.redaction import redact
from lmassay.types import Finish, Generate, Response, canonical, digest

Temperature = Literal["send", "omit"]
TokenParameter = Literal["max_tokens", "max_completion_tokens"]
Constrain = Literal["none", "grammar", "structured_outputs", "guided_choice", "json_schema"]
_SET_ELSEWHERE = (
    *("model", "messages", "prompt", "system", "temperature"),
    *("max_tokens", "max_completion_tokens", "stop", "stop_sequences", "stream", "n"),
)
_SECRET = re.compile(r"api.?key|secret|passw|credential|authorization|(access|auth).?token", re.IGNORECASE)
_OPENAI_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_CLAUDE_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
# Parts of an answer that are the answer; thinking aloud is not.
_TEXT_PARTS = (None, "text", "output_text")
# With a JSON schema, the answer is an object with the choice under this key.
_CHOICE_KEY = "answer"
# What the object around a choice may cost.
_WRAPPING_TOKENS = 32
_GBNF_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


class Dialect(Protocol):
    """What a server wants to hear and how it answers."""

    @property
    def path(self) -> str: ...

    @property
    def keeps_to_choices(self) -> bool: ...

    def check(self) -> None:
        """Raise a ConfigError for what cannot be sent."""

    def identity(self) -> dict[str, Any]:
        """What of it makes the answers what they are."""

    def body(self, request: Generate) -> dict[str, Any]:
        """The JSON that is sent."""

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        """The answer; refused, filtered, cut and empty ones are told apart."""


@dataclass(frozen=True, slots=True)
class OpenAIDialect:
    """Chat completions, or the older completions."""

    model: str
    api: Literal["chat", "completions"] = "chat"
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    constrain: Constrain = "none"
    token_parameter: TokenParameter = "max_tokens"  # noqa: S105 - no secret
    temperature: Temperature = "send"

    @property
    def keeps_to_choices(self) -> bool:
        return self.constrain != "none"

    @property
    def path(self) -> str:
        return "/chat/completions" if self.api == "chat" else "/completions"

    def check(self) -> None:
        check_parameters(self.parameters)
        if self.constrain == "json_schema" and self.api == "completions":
            raise ConfigError("model.constrain: json_schema needs `api: chat`")

    def identity(self) -> dict[str, Any]:
        constrain = {} if self.constrain == "none" else {"constrain": self.constrain}
        return {"api": self.api, **_identity(self.system, self.parameters, self.temperature), **constrain}

    def body(self, request: Generate) -> dict[str, Any]:
        if request.choices and self.constrain == "none":
            raise ConfigError("model.constrain: say how this server keeps to choices: grammar, structured_outputs, …")
        most = request.max_tokens + (further_tokens(self.constrain) if request.choices else 0)
        common = {
            "model": self.model,
            self.token_parameter: most,
            **({"temperature": request.temperature} if self.temperature == "send" else {}),
            **({"stop": list(request.stop)} if request.stop else {}),
            **(as_parameters(self.constrain, request.choices) if request.choices else {}),
            **self.parameters,
        }
        if self.api == "completions":
            prompt = request.prompt or "\n".join(content for _, content in request.messages)
            return {"prompt": f"{self.system}{prompt}", **common}
        turns = request.messages or (("user", request.prompt),)
        if self.system:
            turns = (("system", self.system), *turns)
        return {"messages": [{"role": role, "content": content} for role, content in turns], **common}

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        refuse_error(data, "choice")
        try:
            choice = data["choices"][0]
            message = choice.get("message") or {}
            text = _text(message.get("content") if "message" in choice else choice.get("text"))
            finish: Finish = _OPENAI_FINISHES.get(choice.get("finish_reason") or "stop", "stop")
            refused = bool(message.get("refusal"))
            usage = data.get("usage")
        except (LookupError, TypeError, AttributeError):
            raise ModelError(f"the server's answer has no choice in it: {_excerpt(data)}") from None
        tokens = usage if isinstance(usage, dict) else {}
        counts = _whole(tokens.get("prompt_tokens")), _whole(tokens.get("completion_tokens"))
        if text and request.choices:
            text = unwrapped(self.constrain, text)
        return _response(text, "refusal" if refused else finish, counts, seconds)


@dataclass(frozen=True, slots=True)
class ClaudeDialect:
    """Anthropic's messages."""

    model: str
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    temperature: Temperature = "send"

    @property
    def keeps_to_choices(self) -> bool:
        return False

    @property
    def path(self) -> str:
        return "/v1/messages"

    def check(self) -> None:
        check_parameters(self.parameters)

    def identity(self) -> dict[str, Any]:
        return _identity(self.system, self.parameters, self.temperature)

    def body(self, request: Generate) -> dict[str, Any]:
        if request.choices:
            raise ConfigError("model: claude cannot be held to choices; let it answer freely")
        turns = request.messages or (("user", request.prompt),)
        # System turns are no messages here.
        system = "\n\n".join(filter(None, [self.system, *(content for role, content in turns if role == "system")]))
        stop = [text for text in request.stop if text.strip()]
        return {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "messages": [{"role": role, "content": content} for role, content in turns if role != "system"],
            **({"temperature": request.temperature} if self.temperature == "send" else {}),
            **({"system": system} if system else {}),
            **({"stop_sequences": stop} if stop else {}),
            **self.parameters,
        }

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        refuse_error(data, "content")
        try:
            text = _text(data["content"])
            finish: Finish = _CLAUDE_FINISHES.get(data.get("stop_reason") or "end_turn", "stop")
            usage = data.get("usage")
        except (LookupError, TypeError, AttributeError):
            raise ModelError(f"the server's answer has no content in it: {_excerpt(data)}") from None
        tokens = usage if isinstance(usage, dict) else {}
        inputs = [
            _whole(tokens.get(name))
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        ]
        tokens_in = None if inputs[0] is None else sum(count or 0 for count in inputs)
        # White space alone is no stop sequence there, so the text is cut here.
        for stop in request.stop:
            if text and not stop.strip() and stop in text:
                text, finish = text.partition(stop)[0], "stop" if finish == "length" else finish
        return _response(text, finish, (tokens_in, _whole(tokens.get("output_tokens"))), seconds)


def _response(
    text: str | None, finish: Finish, tokens: tuple[int | None, int | None], seconds: float | None
) -> Response:
    measured: dict[str, Any] = {"tokens_in": tokens[0], "tokens_out": tokens[1], "seconds": seconds}
    if finish in ("refusal", "content_filter") or (finish == "length" and not text):
        # Cut before the first word, as happens to models that think first: there is no answer.
        return Response(finish=finish, **measured)
    return Response(text, finish=finish if text else "empty", **measured)


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        # Some servers send content as parts.
        parts = [part for part in content if isinstance(part, dict) and part.get("type") in _TEXT_PARTS]
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    if content is not None and not isinstance(content, str):
        raise TypeError("content is no text")
    return content


def _whole(value: Any) -> int | None:
    # No server means less than nothing, or more than a database can count.
    return value if type(value) is int and 0 <= value < 1 << 40 else None


def _excerpt(data: Any) -> str:
    return redact(json.dumps(data))[:200]


def _identity(system: str, parameters: Mapping[str, Any], temperature: Temperature) -> dict[str, Any]:
    return {
        **({"system": digest(system)[:8]} if system else {}),
        **({"parameters": digest(parameters)[:8]} if parameters else {}),
        **({"temperature": temperature} if temperature == "omit" else {}),
    }


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Further parameters of a request: nothing that is set elsewhere, no secret, and JSON."""
    for name in parameters:
        if name in _SET_ELSEWHERE:
            raise ConfigError(f"model.parameters.{name}: this is set by the task or the model's own options")
        if _SECRET.search(name):
            raise ConfigError(f"model.parameters.{name}: secrets do not belong in a configuration; use api_key_env")
    try:
        canonical(dict(parameters))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model.parameters: only what JSON can hold can be sent: {error}") from None


# --- answers that must be one of some texts ---------------------------------------------------------------------------


def as_parameters(constrain: Constrain, choices: Sequence[str]) -> dict[str, Any]:
    """What is added to the request."""
    if constrain == "grammar":
        return {"grammar": gbnf(choices)}
    if constrain == "structured_outputs":
        return {"structured_outputs": {"choice": list(choices)}}
    if constrain == "guided_choice":
        return {"guided_choice": list(choices)}
    if constrain == "json_schema":
        return {"response_format": {"type": "json_schema", "json_schema": _choice_schema(choices)}}
    return {}


def further_tokens(constrain: Constrain) -> int:
    """How much longer than the choice itself the answer may be."""
    return _WRAPPING_TOKENS if constrain == "json_schema" else 0


def gbnf(choices: Sequence[str]) -> str:
    """llama.cpp's grammar for one of these texts.

    >>> gbnf(["A", 'say "B"'])
    'root ::= "A" | "say \\\\"B\\\\""'
    """
    return "root ::= " + " | ".join(f'"{_gbnf_escaped(choice)}"' for choice in choices)


def _gbnf_escaped(text: str) -> str:
    return "".join(_GBNF_ESCAPES.get(char) or (char if char.isprintable() else f"\\U{ord(char):08X}") for char in text)


def _choice_schema(choices: Sequence[str]) -> dict[str, Any]:
    answer = {"type": "string", "enum": list(choices)}
    schema = {
        "type": "object",
        "properties": {_CHOICE_KEY: answer},
        "required": [_CHOICE_KEY],
        "additionalProperties": False,
    }
    return {"name": "choice", "strict": True, "schema": schema}


def unwrapped(constrain: Constrain, text: str) -> str:
    """The choice itself, where the server answers with an object around it."""
    if constrain != "json_schema":
        return text
    try:
        answer = json.loads(text)[_CHOICE_KEY]
    except (ValueError, LookupError, TypeError):
        return text
    return answer if isinstance(answer, str) else text
