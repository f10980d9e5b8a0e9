"""A model made of Python functions."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmassay.contracts import Model
from lmassay.errors import LmassayError, PluginError, error_with_location
from lmassay.plugins.fingerprint import Fingerprint, fingerprint
from lmassay.redaction import excerpt
from lmassay.types import Continuation, Generate, LogProbs, Response
from lmassay.types.wording import counted

Generator = Callable[[list[str]], Any]
"""A function from prompts to answers; it may be asynchronous."""
LogProbability = Callable[[list[tuple[str, str]]], Any]
"""A function from pairs of context and continuation to log-probabilities; it may be asynchronous."""
DEFAULT_BATCH_SIZE = 64
# How many characters of a wrong reply an error message shows.
_MAX_SHOWN = 60


class FunctionModel(Model):
    """A model made of Python functions, for :func:`lmassay.evaluate`; :func:`lmassay.model` creates it.

    ``generate`` gets a list of prompts and returns a list with one text for each. ``logprobs`` gets a list of pairs
    (context, continuation) and returns the natural log-probability of each continuation. Both may be asynchronous. They
    are called with at most ``batch_size`` requests at a time, and the answers of each call are stored at once.

    A chat is passed as one text: its messages, separated by empty lines. A text that ``generate`` returns is cut at the
    first of the request's stop texts. Both functions may also return Response objects, which are used as they are. The
    same prompt must get the same answer; for a function that draws random answers, set ``cached`` to False.
    """

    def __init__(
        self,
        generate: Generator | None = None,
        logprobs: LogProbability | None = None,
        name: str = "",
        batch_size: int = DEFAULT_BATCH_SIZE,
        cached: bool = True,
    ) -> None:
        functions: dict[str, Callable[..., Any]] = {}
        if generate is not None:
            functions["generate"] = generate
        if logprobs is not None:
            functions["logprobs"] = logprobs
        if not functions:
            raise PluginError("a model needs a function: give generate, logprobs or both")
        for role, function in functions.items():
            if not callable(function):
                raise PluginError(f"{role} must be a function, not a value of type {type(function).__name__}")
        if batch_size < 1:
            raise PluginError(f"batch_size must be at least 1, not {batch_size}")
        self.name = name or _function_name(next(iter(functions.values())))
        self.can = frozenset(functions)
        self.cached = cached
        self._functions = functions
        self._batch_size = batch_size
        self._fingerprints: dict[str, Fingerprint] = {}
        self._loop: _BackgroundLoop | None = None

    def identity(self) -> Mapping[str, Any]:
        """Return the name, and for each function a digest of its code and of everything that it uses."""
        identity = {"name": self.name}
        for role, computed in self._digests().items():
            identity[role] = computed.digest
        return identity

    def notes(self) -> Sequence[str]:
        """Return a note if answers are reused in this Python process only."""
        for computed in self._digests().values():
            if computed.not_comparable and self.cached:
                return [
                    f"the answers of {self.name} are reused in this Python process only, because it uses "
                    f"{computed.not_comparable}, which lmassay cannot compare"
                ]
        return []

    def generate(self, requests: Sequence[Generate]) -> Iterator[Response]:
        """Answer Generate requests, batch by batch."""
        for batch in self._batches(requests):
            prompts = [_as_one_text(request.prompt, request.messages) for request in batch]
            answers = self._call("generate", prompts)
            for number, (request, answer) in enumerate(zip(batch, answers, strict=True)):
                yield self._response(answer, request, number)

    def logprobs(self, requests: Sequence[LogProbs]) -> Iterator[Response]:
        """Answer LogProbs requests, batch by batch."""
        for batch in self._batches(requests):
            pairs = [(_as_one_text(request.context, request.messages), request.continuation) for request in batch]
            for number, answer in enumerate(self._call("logprobs", pairs)):
                yield self._continuation(answer, number)

    def _digests(self) -> Mapping[str, Fingerprint]:
        # Computed once: a function may change its own variables when it is called.
        if not self._fingerprints:
            self._fingerprints = {role: fingerprint(function) for role, function in self._functions.items()}
        return self._fingerprints

    def _batches(self, requests: Sequence[Any]) -> Iterator[Sequence[Any]]:
        for start in range(0, len(requests), self._batch_size):
            yield requests[start : start + self._batch_size]

    def _call(self, role: str, arguments: list[Any]) -> list[Any]:
        """Call a function and return its answers, one per request."""
        try:
            reply = self._functions[role](arguments)
            if inspect.isawaitable(reply):
                reply = self._awaited(reply)
            if isinstance(reply, str | bytes | Mapping) or not isinstance(reply, Iterable):
                shown_reply = "None"
                if reply is not None:
                    shown_reply = f"{type(reply).__name__} {excerpt(str(reply), _MAX_SHOWN)!r}"
                raise PluginError(
                    f"the function {self.name} returned {shown_reply} for a list of "
                    f"{counted(len(arguments), 'request')}; it must return a list with one answer per request"
                )
            answers = list(reply)
        except LmassayError:
            raise
        except (Exception, SystemExit) as error:
            # A function that calls sys.exit must not end the notebook.
            # The most common mistake is a function of a single prompt.
            expects_one = isinstance(error, AttributeError | TypeError) and "list" in str(error)
            hint = "; it is called with a list of requests, not with a single one" if expects_one else ""
            raise PluginError(f"the function {self.name} failed: {error_with_location(error)}{hint}") from error
        if len(answers) != len(arguments):
            raise PluginError(
                f"the function {self.name} returned {counted(len(answers), 'answer')} to "
                f"{counted(len(arguments), 'request')}; it must return one per request, in the same order"
            )
        return answers

    def close(self) -> None:
        """End the event loop of an asynchronous function."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _awaited(self, reply: Awaitable[Any]) -> Any:
        if self._loop is None:
            self._loop = _BackgroundLoop()
        return self._loop.result_of(reply)

    def _response(self, answer: Any, request: Generate, number: int) -> Response:
        """Check an answer of the function ``generate``, and turn it into a response."""
        if isinstance(answer, Response):
            return answer
        if not isinstance(answer, str):
            raise PluginError(self._wrong_type(answer, number, "a text"))
        # The earliest stop text ends the answer, as it would with a model that stops by itself.
        end = len(answer)
        for stop in request.stop:
            if stop and stop in answer:
                end = min(end, answer.index(stop))
        return Response(answer[:end])

    def _continuation(self, answer: Any, number: int) -> Response:
        """Check an answer of the function ``logprobs``, and turn it into a response."""
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, Continuation):
            return Response(answer)
        try:
            logprob = float(answer)
        except (TypeError, ValueError):
            raise PluginError(self._wrong_type(answer, number, "a number")) from None
        # A positive number is most often a probability, or a loss without its sign.
        if math.isnan(logprob) or logprob > 0:
            raise PluginError(
                f"the function {self.name} returned {logprob} as answer {number + 1}; a log-probability is at most 0"
            )
        return Response(Continuation(logprob, (logprob,)))

    def _wrong_type(self, answer: Any, number: int, expected: str) -> str:
        kind = "None" if answer is None else f"a value of type {type(answer).__name__}"
        return f"the function {self.name} returned {kind} as answer {number + 1}; every answer must be {expected}"


def _function_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else str(name)


def _as_one_text(prompt: str | None, messages: Sequence[tuple[str, str]]) -> str:
    """Return a prompt, or the messages of a chat as one text."""
    if not messages:
        return prompt or ""
    return "\n\n".join(content for _, content in messages)


class _BackgroundLoop:
    """An event loop in its own thread, because the calling thread may already run one, as in a notebook.

    All calls of a function share it, so that a client can keep its connections open.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lmassay-function", daemon=True)
        self._thread.start()

    def result_of(self, reply: Awaitable[Any]) -> Any:
        """Wait for an asynchronous function and return what it returns."""

        async def wait() -> Any:
            return await reply

        future = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
