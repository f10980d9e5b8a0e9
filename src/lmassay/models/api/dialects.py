"""Write a request as JSON and read the answer from JSON, in OpenAI's protocol and in Anthropic's.

The parameter that restricts an answer to given choices differs between servers; it is written here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from lmassay.errors import ConfigError, ModelError
from lmassay.models.api.failures import read_json, refuse_error
from lmassay.plugins.options import refuse_secret_options
from lmassay.redaction import redact
from lmassay.types import Finish, Generate, Response, canonical, digest

Temperature = Literal["send", "omit"]
TokenParameter = Literal["max_tokens", "max_completion_tokens"]
Constrain = Literal["none", "grammar", "structured_outputs", "guided_choice", "json_schema"]

# Parameters of a request that the task or another option of the model sets.
_SET_ELSEWHERE = frozenset(
    {
        "model",
        "messages",
        "prompt",
        "system",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "stop_sequences",
        "stream",
        "n",
    }
)
# Names of parameters that look like secrets.
_SECRET = re.compile(r"api.?key|secret|passw|credential|authorization|(access|auth).?token", re.IGNORECASE)
# The provider's word for why an answer ended → the value of ``Response.finish``; any other word means "stop".
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
# Types of the content parts that make up the answer. Parts of other types, such as the model's reasoning, are ignored.
_TEXT_PARTS = (None, "text", "output_text")
# With a JSON schema, the answer is an object with the choice under this key.
_CHOICE_KEY = "answer"
# The object around the choice needs up to this many tokens.
_WRAPPING_TOKENS = 32
# Escapes of llama.cpp's grammar format.
_GBNF_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


class Dialect(Protocol):
    """The format of a server's requests and answers."""

    @property
    def path(self) -> str:
        """The path that requests are posted to."""

    @property
    def can_restrict_to_choices(self) -> bool:
        """Whether the server can be made to answer with one of given choices."""

    @property
    def sends_temperature(self) -> bool:
        """Whether requests contain the temperature."""

    def check(self) -> None:
        """Raise a ConfigError for settings that cannot be sent."""

    def identity(self) -> dict[str, Any]:
        """The settings that influence the answers, for the identity of the model."""

    def body(self, request: Generate) -> dict[str, Any]:
        """The JSON document that is sent for a request."""

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        """Read the answer from the JSON document that the server returned.

        ``Response.finish`` says whether the answer was refused, filtered, cut off or empty. ``seconds`` is how long the
        request took; None if that is not known.
        """


@dataclass(frozen=True, slots=True)
class OpenAIDialect:
    """The format of OpenAI's chat completions, or of its older completions.

    The fields are the options of the same names of :class:`lmassay.models.api.openai_models.OpenAICompatible`.
    """

    model: str
    api: Literal["chat", "completions"] = "chat"
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    constrain: Constrain = "none"
    token_parameter: TokenParameter = "max_tokens"  # noqa: S105 - no secret
    temperature: Temperature = "send"

    @property
    def can_restrict_to_choices(self) -> bool:
        return self.constrain != "none"

    @property
    def sends_temperature(self) -> bool:
        return self.temperature == "send"

    @property
    def path(self) -> str:
        return "/chat/completions" if self.api == "chat" else "/completions"

    def check(self) -> None:
        check_parameters(self.parameters)
        if self.constrain == "json_schema" and self.api == "completions":
            raise ConfigError("model.constrain: json_schema needs `api: chat`")

    def identity(self) -> dict[str, Any]:
        identity = {"api": self.api, **_identity(self.system, self.parameters, self.temperature)}
        if self.constrain != "none":
            identity["constrain"] = self.constrain
        return identity

    def body(self, request: Generate) -> dict[str, Any]:
        if request.choices and self.constrain == "none":
            raise ConfigError(
                "model.constrain: say how this server restricts answers to choices: grammar, structured_outputs, "
                "guided_choice or json_schema"
            )
        body: dict[str, Any] = {}
        if self.api == "completions":
            prompt = request.prompt or "\n".join(content for _, content in request.messages)
            # Nothing is put between the system text and the prompt: if a line break is needed, the user writes it at
            # the end of the system text.
            body["prompt"] = f"{self.system}{prompt}"
        else:
            turns = request.messages or (("user", request.prompt),)
            if self.system:
                turns = (("system", self.system), *turns)
            body["messages"] = _messages(turns)
        body["model"] = self.model
        body[self.token_parameter] = request.max_tokens
        if self.sends_temperature:
            body["temperature"] = request.temperature
        if request.stop:
            body["stop"] = list(request.stop)
        if request.choices:
            body[self.token_parameter] += further_tokens(self.constrain)
            body.update(as_parameters(self.constrain, request.choices))
        # The user's own parameters come last and win.
        body.update(self.parameters)
        return body

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        refuse_error(data)
        try:
            choice = data["choices"][0]
            message = choice.get("message") or {}
            content = message.get("content") if "message" in choice else choice.get("text")
            text = _text(content)
            finish: Finish = _OPENAI_FINISHES.get(choice.get("finish_reason") or "stop", "stop")
            if message.get("refusal"):
                finish = "refusal"
            usage = data.get("usage")
        except (LookupError, TypeError, AttributeError):
            raise ModelError(f"the server's answer has no text in its `choices`: {_excerpt(data)}") from None
        if not isinstance(usage, dict):
            usage = {}
        tokens_in = token_count(usage.get("prompt_tokens"))
        tokens_out = token_count(usage.get("completion_tokens"))
        if text and request.choices:
            text = unwrapped(self.constrain, text)
        return _response(text, finish, tokens_in, tokens_out, seconds)


@dataclass(frozen=True, slots=True)
class ClaudeDialect:
    """The format of Anthropic's Messages API; the fields are the model's options of the same names."""

    model: str
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    temperature: Temperature = "send"

    @property
    def can_restrict_to_choices(self) -> bool:
        return False

    @property
    def sends_temperature(self) -> bool:
        return self.temperature == "send"

    @property
    def path(self) -> str:
        return "/v1/messages"

    def check(self) -> None:
        check_parameters(self.parameters)

    def identity(self) -> dict[str, Any]:
        return _identity(self.system, self.parameters, self.temperature)

    def body(self, request: Generate) -> dict[str, Any]:
        if request.choices:
            raise ConfigError("model: Claude cannot be restricted to choices; send requests without choices")
        turns = request.messages or (("user", request.prompt),)
        # Anthropic's API has a separate parameter for system messages.
        system_texts = [self.system]
        system_texts += [content for role, content in turns if role == "system"]
        system = "\n\n".join(filter(None, system_texts))
        # Anthropic's API rejects stop sequences that are only white space; `read` cuts the text there instead.
        stop = [text for text in request.stop if text.strip()]
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "messages": _messages([turn for turn in turns if turn[0] != "system"]),
        }
        if self.sends_temperature:
            body["temperature"] = request.temperature
        if system:
            body["system"] = system
        if stop:
            body["stop_sequences"] = stop
        # The user's own parameters come last and win.
        body.update(self.parameters)
        return body

    def read(self, request: Generate, data: Any, seconds: float | None) -> Response:
        refuse_error(data)
        try:
            text = _text(data["content"])
            finish: Finish = _CLAUDE_FINISHES.get(data.get("stop_reason") or "end_turn", "stop")
            usage = data.get("usage")
        except (LookupError, TypeError, AttributeError):
            raise ModelError(f"the server's answer has no text in its `content`: {_excerpt(data)}") from None
        if not isinstance(usage, dict):
            usage = {}
        tokens_in = token_count(usage.get("input_tokens"))
        if tokens_in is not None:
            # Tokens that were read from or written to the prompt cache are counted separately.
            for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
                tokens_in += token_count(usage.get(name)) or 0
        tokens_out = token_count(usage.get("output_tokens"))
        for stop in request.stop:
            is_white_space = not stop.strip()
            if text and is_white_space and stop in text:
                text = text.partition(stop)[0]
                # The text would have ended here, before it reached the maximum length.
                if finish == "length":
                    finish = "stop"
        return _response(text, finish, tokens_in, tokens_out, seconds)


def _messages(turns: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def _response(
    text: str | None, finish: Finish, tokens_in: int | None, tokens_out: int | None, seconds: float | None
) -> Response:
    # A model that reasons first may be cut off before the first word of its answer.
    cut_before_answer = finish == "length" and not text
    if finish in ("refusal", "content_filter") or cut_before_answer:
        return Response(finish=finish, tokens_in=tokens_in, tokens_out=tokens_out, seconds=seconds)
    if not text:
        # Servers write an empty answer as "", null or []; a local model that generates nothing also answers "".
        text = ""
        finish = "empty"
    return Response(text, finish=finish, tokens_in=tokens_in, tokens_out=tokens_out, seconds=seconds)


def _text(content: Any) -> str | None:
    """The text of an answer, which some servers send as a list of parts."""
    if isinstance(content, list):
        texts = []
        for part in content:
            if not isinstance(part, dict):
                raise TypeError("a part of the content is not an object")
            if part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
                texts.append(part["text"])
        return "".join(texts)
    if content is not None and not isinstance(content, str):
        raise TypeError("content is not text")
    return content


def token_count(value: Any) -> int | None:
    """A number of tokens as a server reports it; None if it cannot be one."""
    # Negative numbers, and numbers that no database can store, are a server's mistake. A bool is not a count.
    if type(value) is int and 0 <= value < 1 << 40:
        return value
    return None


def _excerpt(data: Any) -> str:
    return redact(json.dumps(data))[:200]


def _identity(system: str, parameters: Mapping[str, Any], temperature: Temperature) -> dict[str, Any]:
    identity: dict[str, Any] = {}
    if system:
        identity["system"] = digest(system)[:8]
    if parameters:
        identity["parameters"] = digest(parameters)[:8]
    if temperature == "omit":
        identity["temperature"] = temperature
    return identity


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check the user's own parameters of a request: not set elsewhere, not a secret, and valid JSON."""
    for name in parameters:
        if name in _SET_ELSEWHERE:
            raise ConfigError(f"model.parameters.{name}: the task or another option sets this; leave it out")
        if _SECRET.search(name):
            raise ConfigError(f"model.parameters.{name}: secrets do not belong in a configuration; use api_key_env")
    refuse_secret_options(parameters, "model.parameters")
    try:
        canonical(dict(parameters))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model.parameters: these values cannot be written as JSON: {error}") from None


# --- answers that are restricted to choices ---------------------------------------------------------------------------


def as_parameters(constrain: Constrain, choices: Sequence[str]) -> dict[str, Any]:
    """The parameters of a request that restrict the answer to these choices."""
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
    """How many tokens the answer may need in addition to the choice itself."""
    if constrain == "json_schema":
        return _WRAPPING_TOKENS
    return 0


def gbnf(choices: Sequence[str]) -> str:
    """llama.cpp's grammar (GBNF) for an answer that is one of these texts.

    >>> gbnf(["A", 'say "B"'])
    'root ::= "A" | "say \\\\"B\\\\""'
    """
    literals = [f'"{_gbnf_escaped(choice)}"' for choice in choices]
    return "root ::= " + " | ".join(literals)


def _gbnf_escaped(text: str) -> str:
    """A text as it is written between quotes in llama.cpp's grammar format."""
    escaped = []
    for character in text:
        if character in _GBNF_ESCAPES:
            escaped.append(_GBNF_ESCAPES[character])
        elif character.isprintable():
            escaped.append(character)
        else:
            escaped.append(f"\\U{ord(character):08X}")
    return "".join(escaped)


def _choice_schema(choices: Sequence[str]) -> dict[str, Any]:
    """A JSON schema for an object that contains one of these choices."""
    answer = {"type": "string", "enum": list(choices)}
    schema = {
        "type": "object",
        "properties": {_CHOICE_KEY: answer},
        "required": [_CHOICE_KEY],
        "additionalProperties": False,
    }
    return {"name": "choice", "strict": True, "schema": schema}


def unwrapped(constrain: Constrain, text: str) -> str:
    """The choice without the JSON object that the server puts around it; any other text as it is."""
    if constrain != "json_schema":
        return text
    try:
        answer = read_json(text.encode("utf-8", "surrogatepass"))[_CHOICE_KEY]
    except (ModelError, LookupError, TypeError):
        return text
    return answer if isinstance(answer, str) else text
