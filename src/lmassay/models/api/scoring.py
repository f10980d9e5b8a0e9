"""Log-probabilities of a prompt's tokens from OpenAI-compatible completions: ``echo``, or vLLM's ``prompt_logprobs``.

A server may leave the numbers out, shift them, or return those of other tokens. So every response is checked: as many
numbers as tokens, no number above 0, and token texts that concatenate to the prompt. What a single response cannot show
is tested once, before the first request, by :mod:`lmassay.models.api.probe`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from lmassay.errors import ModelError
from lmassay.models.api.alignment import continuation_start
from lmassay.models.api.client import Client
from lmassay.models.api.dialects import token_count
from lmassay.models.api.failures import read_json, refuse_error
from lmassay.models.hf.chat import RenderedPrompt, transcript
from lmassay.types import Continuation, LogProbs, Response, Slot

ProbabilityMethod = Literal["echo", "prompt_logprobs", "llama.cpp"]
"""How a server is asked for probabilities."""
Probabilities = Literal["none", "auto", "echo", "prompt_logprobs", "llama.cpp"]
"""The user's choice; ``auto`` tries all methods."""

NOTHING_BEFORE = (
    "nothing precedes the first token of this text, so it has no probability; "
    "set the model's prefix to a token of the model, such as <|endoftext|> or <s>"
)
NO_SYSTEM = "a text that is scored has no place for a system message; remove the model's system option"
SEPARATORS = ("<|endoftext|>", "<s>", "<bos>", "<|begin_of_text|>", "</s>")
"""Tokens that separate documents in the training of many models. The first of them that a model has is put before a
text that nothing precedes. For local models, the same is done with <|endoftext|> or, if the vocabulary lacks it, with
the token that their tokenizer names as bos or eos."""
# By how much a log-probability may exceed 0 because of rounding.
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The user's options that matter for scoring."""

    model: str
    api: Literal["chat", "completions"] = "chat"
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = "auto"
    """``none``, the text of a token that is put before every text, or ``auto``: what the server itself puts there or,
    if it puts nothing there and nothing else precedes the scored text, one of ``SEPARATORS``."""


@dataclass(frozen=True, slots=True)
class TextPrefix:
    """The text of the token that is sent before a text, if the server does not put one there itself."""

    text: str = ""
    always: bool = False
    """Whether it is sent before every text, even if a context already precedes the scored text."""
    name: str = ""
    """How the signature shows it: a token, ``own`` for what the server puts there, ``none``, or ``none/TOKEN`` for a
    token that is only sent if nothing else precedes the scored text."""

    def before(self, context: str) -> str:
        """What is sent before a context, which may be empty."""
        if self.always or not context:
            return self.text
        return ""


class ProbabilityClient(Protocol):
    """Requests probabilities from a server, by the method that the server supports."""

    async def logprobs(self, request: LogProbs) -> Response:
        """The log-probability of a continuation."""

    async def slot(self, request: Slot) -> Response:
        """The log-probabilities of words in a blank."""


# --- what a server returns for a prompt -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """The tokens of a prompt with their log-probabilities."""

    prompt: str
    texts: tuple[str | None, ...]
    """The text of each token; None for a first token that the server does not name."""
    logprobs: tuple[float | None, ...]
    """The first is None if nothing precedes the token; the others are numbers."""
    tokens_in: int | None = None
    tokens_out: int | None = None

    def start(self, context_length: int) -> int:
        """The index of the first token that reaches into the text after the context."""
        return continuation_start(self.prompt, self.texts, context_length)


Reader = Callable[[str, Any], ScoredPrompt]
"""Reads the log-probabilities of a prompt from the JSON document that the server returned for it.

Raises a ModelError if some are missing or if they cannot be log-probabilities.
"""


def read_echo(prompt: str, data: Any) -> ScoredPrompt:
    """Read a response to ``echo`` with ``logprobs``: tokens of the prompt, then at most one generated token."""
    choice, usage = _choice_and_usage(data)
    columns = choice.get("logprobs")
    texts = columns.get("tokens") if isinstance(columns, dict) else None
    logprobs = columns.get("token_logprobs") if isinstance(columns, dict) else None
    if not isinstance(texts, list) or not isinstance(logprobs, list):
        raise ModelError("the server accepts `echo` but returns no log-probabilities of the prompt")
    if len(texts) != len(logprobs):
        raise ModelError(f"the server returned {len(logprobs)} log-probabilities for {len(texts)} tokens")
    generated = token_count(usage.get("completion_tokens"))
    if generated is None:
        # The server does not say. One token was requested.
        generated = 1
    in_prompt = len(texts) - generated
    expected = token_count(usage.get("prompt_tokens"))
    if in_prompt < 1 or generated > 1:
        raise ModelError(
            "the server accepts `echo` but returns no log-probabilities of the prompt, only of generated tokens"
        )
    if expected is not None and in_prompt != expected:
        raise ModelError(f"the server returned {in_prompt} log-probabilities for a prompt of {expected} tokens")
    token_texts = [_checked_text(text) for text in texts[:in_prompt]]
    return ScoredPrompt(prompt, tuple(token_texts), _checked_numbers(logprobs[:in_prompt]), expected, generated)


def read_prompt_logprobs(prompt: str, data: Any) -> ScoredPrompt:
    """Read a response to ``prompt_logprobs: 0``: one entry per token of the prompt, except for the first."""
    choice, usage = _choice_and_usage(data)
    entries = choice.get("prompt_logprobs")
    if not isinstance(entries, list) or not entries:
        raise ModelError("the server ignores `prompt_logprobs`")
    expected = token_count(usage.get("prompt_tokens"))
    if expected is not None and len(entries) != expected:
        raise ModelError(f"the server returned {len(entries)} log-probabilities for a prompt of {expected} tokens")
    texts: list[str | None] = []
    logprobs: list[Any] = []
    for position, entry in enumerate(entries):
        if entry is None and position == 0:
            texts.append(None)
            logprobs.append(None)
            continue
        # With 0 alternatives, the only entry is the prompt's own token.
        if not isinstance(entry, dict) or len(entry) != 1:
            raise ModelError("the server's `prompt_logprobs` do not name exactly one token at each position")
        (token,) = entry.values()
        if not isinstance(token, dict):
            raise ModelError("the server's `prompt_logprobs` have an unknown format")
        texts.append(_checked_text(token.get("decoded_token")))
        logprobs.append(token.get("logprob"))
    return ScoredPrompt(
        prompt, tuple(texts), _checked_numbers(logprobs), expected, token_count(usage.get("completion_tokens"))
    )


READERS: Mapping[ProbabilityMethod, Reader] = {"echo": read_echo, "prompt_logprobs": read_prompt_logprobs}


def _choice_and_usage(data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first choice in a response, and its token counts, which are empty if the server sends none."""
    refuse_error(data)
    try:
        choice = data["choices"][0]
    except (LookupError, TypeError):
        choice = None
    if not isinstance(choice, dict):
        raise ModelError("the server's answer has no `choices`")
    usage = data.get("usage")
    return choice, usage if isinstance(usage, dict) else {}


def _checked_text(text: Any) -> str:
    if not isinstance(text, str):
        raise ModelError(f"the server returned {text!r:.100} as the text of a token")
    return text


def _checked_numbers(values: Sequence[Any]) -> tuple[float | None, ...]:
    """Log-probabilities; only the first may be missing."""
    numbers: list[float | None] = []
    for position, value in enumerate(values):
        if value is None and position == 0:
            numbers.append(None)
        else:
            numbers.append(checked_logprob(value))
    return tuple(numbers)


def checked_logprob(value: Any) -> float:
    """A log-probability as the server returned it. Raises a ModelError for anything that cannot be one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.nan
    # NaN fails both comparisons.
    if not -math.inf < number <= _ROUNDING:
        raise ModelError(f"the server returned {value!r:.100} as a log-probability")
    return min(number, 0.0)


# --- requests ---------------------------------------------------------------------------------------------------------


Post = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Posts a JSON document to a path and returns the JSON document that comes back."""


def json_poster(client: Client) -> Post:
    """A function that posts to paths of a client's endpoint."""

    async def post(path: str, body: Mapping[str, Any]) -> Any:
        # Escaped, so that a lone surrogate in a text is sent instead of crashing the encoder.
        raw = await client.post(path, json.dumps(body).encode("ascii"))
        return read_json(raw)

    return post


class CompletionsScorer:
    """Scores texts through /completions of an OpenAI-compatible server.

    ``post`` posts to the OpenAI-compatible API of the server, ``post_native`` to its own API, such as ``/tokenize``.
    """

    def __init__(
        self, post: Post, post_native: Post, settings: ServerSettings, method: ProbabilityMethod, prefix: TextPrefix
    ) -> None:
        self._post = post
        self._post_native = post_native
        self._settings = settings
        self._method = method
        self._prefix = prefix

    async def logprobs(self, request: LogProbs) -> Response:
        started = time.monotonic()
        if not request.continuation:
            return Response(finish="empty")
        context = request.context
        continuation = request.continuation
        rendered = RenderedPrompt(context)
        if request.messages:
            rendered = await self._render(request.messages)
            context = rendered.text
            continuation = reply_text(rendered, continuation)
        elif self._settings.system:
            raise ModelError(NO_SYSTEM)
        if not rendered.templated:
            context = self._prefix.before(context) + context
        scored = await self.score(context + continuation, is_templated=rendered.templated)
        answer = continuation_of(scored, len(context))
        seconds = time.monotonic() - started
        return Response(answer, tokens_in=scored.tokens_in, tokens_out=scored.tokens_out, seconds=seconds)

    async def score(self, prompt: str, *, is_templated: bool = False) -> ScoredPrompt:
        """The tokens of a prompt with their log-probabilities.

        ``is_templated`` says that a chat template has written the prompt with its special tokens. Then the server must
        not add any; a ModelError is raised if it does.
        """
        body: dict[str, Any] = {"model": self._settings.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        if self._method == "echo":
            # As in lm-evaluation-harness. One token is generated, because some servers reject `max_tokens: 0`.
            body |= {"echo": True, "logprobs": 1}
        else:
            body["prompt_logprobs"] = 0
        if is_templated:
            # A template has written its special tokens already. This is an option of vLLM.
            body["add_special_tokens"] = False
        body.update(self._settings.parameters)
        data = await self._post("/completions", body)
        scored = READERS[self._method](prompt, data)
        if is_templated and scored.start(0) != 0:
            raise ModelError("the server puts a token before a chat template that has its own; use `api: completions`")
        return scored

    async def _render(self, messages: Sequence[tuple[str, str]]) -> RenderedPrompt:
        """Chat turns as the text that the model continues."""
        turns = list(messages)
        if self._settings.system:
            turns.insert(0, ("system", self._settings.system))
        if self._settings.api == "completions":
            return RenderedPrompt(transcript(turns))
        chat = [{"role": role, "content": content} for role, content in turns]
        model = self._settings.model
        tokens = await self._post_native(
            "/tokenize", {"model": model, "messages": chat, "add_generation_prompt": True, "add_special_tokens": False}
        )
        if not isinstance(tokens, dict) or not isinstance(tokens.get("tokens"), list):
            raise ModelError("the server does not show how it writes chat messages; set `api: completions`")
        text = await self._post_native("/detokenize", {"model": model, "tokens": tokens["tokens"]})
        # vLLM calls the text "prompt", SGLang "text".
        rendered = text.get("prompt", text.get("text")) if isinstance(text, dict) else None
        if not isinstance(rendered, str):
            raise ModelError("the server does not show how it writes chat messages; set `api: completions`")
        require_messages_in(rendered, turns)
        return RenderedPrompt(rendered, templated=True)


def continuation_of(scored: ScoredPrompt, context_length: int) -> Continuation:
    """The score of the text after the context.

    As with local models, a token that crosses the boundary belongs to the continuation. Raises a ModelError if nothing
    precedes the first token to be scored.
    """
    values: list[float] = []
    for value in scored.logprobs[scored.start(context_length) :]:
        if value is None:
            raise ModelError(NOTHING_BEFORE)
        values.append(value)
    return Continuation(math.fsum(values), tuple(values))


def reply_text(rendered: RenderedPrompt, continuation: str) -> str:
    """A reply as it is written after a prompt.

    Without a template, it is the next piece of the text, so it follows after a space if neither side has white space.
    """
    if rendered.templated:
        return continuation
    needs_space = rendered.text[-1:].strip() and continuation[:1].strip()
    return f" {continuation}" if needs_space else continuation


def require_messages_in(rendered: str, turns: Sequence[tuple[str, str]]) -> None:
    """Raise a ModelError if a chat template left out a message; some skip roles that they do not support."""
    for role, content in turns:
        if role != "assistant" and content.strip() not in rendered:
            raise ModelError(f"the server's chat template leaves out the {role} message; set `api: completions`")
