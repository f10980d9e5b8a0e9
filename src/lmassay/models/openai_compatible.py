"""Any server that speaks OpenAI's protocol: OpenAI itself, vLLM, llama.cpp, Ollama, a gateway of your own."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from lmassay.errors import ConfigError, FatalModelError, ModelError
from lmassay.models.http import Answered, HttpCaller, Reply, answers_as_they_arrive
from lmassay.provenance import redact, remember_secret
from lmassay.types import Finish, Generate, Response, canonical, digest, request_as_dict

_SET_ELSEWHERE = frozenset({"model", "messages", "prompt", "temperature", "max_tokens", "stop", "stream", "n"})
_SECRET = re.compile(r"api.?key|secret|passw|credential|authorization|(access|auth).?token", re.IGNORECASE)
_FINISHES: Mapping[str, Finish] = {"length": "length", "content_filter": "content_filter"}


class OpenAICompatible:
    """A model behind a base URL. The key comes from an environment variable and is kept nowhere.

    ``api: chat`` asks /chat/completions, ``api: completions`` the older /completions.
    """

    name = "openai"
    can = frozenset({"generate"})

    def __init__(
        self,
        base_url: str,
        model: str,
        api: Literal["chat", "completions"] = "chat",
        api_key_env: str = "OPENAI_API_KEY",
        system: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        tries: int = 6,
        wait: float = 0.5,
        label: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.model = model
        self.label = label or model
        self.concurrency = concurrency
        self._api = api
        self._key_name = api_key_env
        self._system = system
        self._timeout, self._tries, self._wait = timeout, tries, wait
        self._parameters = parameters or {}

    def check(self) -> None:
        """Everything that can be known without a connection."""
        host = _checked_host(self.base_url)
        if self.concurrency < 1 or self._tries < 1 or self._timeout <= 0 or self._wait < 0:
            raise ConfigError("model: concurrency and tries must be at least 1, timeout above 0, wait at least 0")
        _check_parameters(self._parameters)
        key = self._key()
        if not key and host.endswith("openai.com"):
            raise ConfigError(f"the environment variable {self._key_name} is not set; export your API key in it")

    def _key(self) -> str:
        key = os.environ.get(self._key_name, "").strip()
        if key:
            remember_secret(key)
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise ConfigError(f"the key in {self._key_name} has blanks or odd characters in it; copy it again")
        return key

    def identity(self) -> Mapping[str, Any]:
        system = {"system": digest(self._system)[:8]} if self._system else {}
        extra = {"parameters": digest(self._parameters)[:8]} if self._parameters else {}
        return {"name": self.name, "model": self.model, "url": self.base_url, "api": self._api, **system, **extra}

    def generate(self, requests: Sequence[Generate]) -> Iterator[Answered]:
        return answers_as_they_arrive(self._conversation, requests, self.concurrency)

    @asynccontextmanager
    async def _conversation(self) -> AsyncIterator[_Conversation]:
        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        policy = (self._timeout, self._tries, self._wait, self.concurrency)
        async with HttpCaller(self.base_url, headers, *policy) as caller:
            yield _Conversation(self, caller)

    def body(self, request: Generate) -> dict[str, Any]:
        """The JSON that is sent."""
        common = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            **({"stop": list(request.stop)} if request.stop else {}),
            **self._parameters,
        }
        if self._api == "completions":
            prompt = request.prompt or "\n".join(content for _, content in request.messages)
            return {"prompt": f"{self._system}{prompt}", **common}
        turns = request.messages or (("user", request.prompt),)
        if self._system:
            turns = (("system", self._system), *turns)
        return {"messages": [{"role": role, "content": content} for role, content in turns], **common}

    @property
    def path(self) -> str:
        return "/chat/completions" if self._api == "chat" else "/completions"


class _Conversation:
    """Requests of one batch over one set of connections."""

    def __init__(self, model: OpenAICompatible, caller: HttpCaller) -> None:
        self._model = model
        self._caller = caller
        self._answered = False

    async def answer(self, request: Generate) -> Response:
        body = self._model.body(request)
        headers = {}
        if request.temperature == 0:
            # A server that honours this answers a repeated request, e.g. after a crash, without charging again. A
            # sampled answer must be a new draw each time.
            headers["Idempotency-Key"] = f"lmassay-{digest(self._model.identity(), request_as_dict(request))[:32]}"
        try:
            reply = await self._caller.post(self._model.path, body, headers)
            response = read_reply(reply)
        except FatalModelError:
            raise
        except ConnectionError as error:
            if not self._answered:
                # Nothing ever answered there: every further request would fail the same way, slowly.
                url = self._model.base_url
                raise FatalModelError(f"no server answers at {url}: {error}; is it running?") from error
            return Response(error=str(error))
        except ModelError as error:
            return Response(error=str(error))
        self._answered = True
        return response


def read_reply(reply: Reply) -> Response:
    """The first choice of a chat or plain completion; refused, filtered, cut and empty answers are told apart."""
    try:
        choice = reply.data["choices"][0]
        message = choice.get("message") or {}
        text = _text(message.get("content") if "message" in choice else choice.get("text"))
        finish: Finish = _FINISHES.get(choice.get("finish_reason") or "stop", "stop")
        refused = bool(message.get("refusal"))
        usage = reply.data.get("usage")
    except (LookupError, TypeError, AttributeError):
        told = redact(canonical(reply.data))[:200]
        raise ModelError(f"the server's answer has no choice in it: {told}") from None
    tokens = usage if isinstance(usage, dict) else {}
    measured: dict[str, Any] = {
        "tokens_in": _whole(tokens.get("prompt_tokens")),
        "tokens_out": _whole(tokens.get("completion_tokens")),
        "seconds": reply.seconds,
    }
    if refused:
        return Response(finish="refusal", **measured)
    if finish == "content_filter":
        return Response(finish="content_filter", **measured)
    if text is None:
        return Response(finish="empty", **measured)
    return Response(text, finish=finish if text else "empty", **measured)


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        # Some servers send content as parts.
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    if content is not None and not isinstance(content, str):
        raise TypeError("content is no text")
    return content


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _checked_host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"model.base_url: '{redact(base_url)}' is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"model.base_url: '{redact(base_url)}' is no http(s) address, e.g. http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query:
        raise ConfigError("model.base_url: no user, password or query here; the key goes into an environment variable")
    return host


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    for name in parameters:
        if name in _SET_ELSEWHERE:
            raise ConfigError(f"model.parameters.{name}: this is set by the task or the model's own options")
        if _SECRET.search(name):
            raise ConfigError(f"model.parameters.{name}: secrets do not belong in a configuration; use api_key_env")
    try:
        canonical(dict(parameters))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model.parameters: only what JSON can hold can be sent: {error}") from None
