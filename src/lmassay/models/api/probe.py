"""Test, before the first request, whether the probabilities that a server returns are right.

A server with an OpenAI-compatible API may accept a parameter and ignore it. A program that does not notice this reports
results at chance level. So the server is tested with requests whose answers can be checked:

- Each response must have as many log-probabilities as tokens, none above 0, and tokens that spell the prompt.
- The server generates a token after a context and reports its log-probability. When context and token are sent as a
  prompt, the token must have the same log-probability. This holds for every model, good or bad, and fails for numbers
  that are shifted, sampled, scaled, all 0, or those of another tokenizer.
- A nonsense continuation must come back as it was sent, and cannot be more probable than the most probable token.
- A text and the same text with a longer ending must have the same log-probabilities up to that ending.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.api.alignment import UnclearBoundaryError
from lmassay.models.api.blanks import MORE_THAN_ANY_VOCABULARY, CompletionsBlanks, max_logprobs_allowed
from lmassay.models.api.client import Client
from lmassay.models.api.concurrency import RequestPolicy, with_tries
from lmassay.models.api.dialects import token_count
from lmassay.models.api.failures import failure_of, no_connection_message, refuse_error
from lmassay.models.api.llama_cpp import LlamaCppPrefix, LlamaCppScorer, find_prefix
from lmassay.models.api.scoring import (
    SEPARATORS,
    CompletionsScorer,
    Post,
    Probabilities,
    ProbabilityClient,
    ProbabilityMethod,
    ScoredPrompt,
    ServerSettings,
    TextPrefix,
    checked_logprob,
    json_poster,
)

# The texts of the probe. Any text will do: no test depends on what the model knows.
_CONTEXTS = ("The keys to the old house", "When the rain stopped, the children went back to the")
_SENTENCE = "The keys to the old house are on the table."
_ENDING = " Nobody knows why, and nobody asks."
_NONSENSE = " qzxv wplk"
# How far two computations of the same log-probability may be apart: _TOLERANCE nats, plus _RELATIVE_TOLERANCE times its
# absolute value. Servers compute in 16 bits or less, and process prompts and generated tokens in different batches.
_TOLERANCE = 0.2
_RELATIVE_TOLERANCE = 0.02
# How many of the most probable next tokens are requested to compare their log-probabilities with another computation.
_TOP_TOKENS = 5
# How many of these are compared.
_COMPARED_TOKENS = 3
_NO_NEXT_TOKENS = "the server reports no log-probabilities of the tokens that it generates"
# HTTP statuses of a server that does not support this kind of request, rather than one that is failing.
_UNKNOWN_REQUEST = (400, 404, 405, 415, 422, 501)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the probe has found out about a server."""

    method: ProbabilityMethod
    """How the server is asked for probabilities."""
    prefix: TextPrefix | LlamaCppPrefix
    """The token that is put before a text."""
    vocabulary: int | None
    """The number of tokens in the distribution at a blank; None if the server does not return all of it."""
    deviation: float
    """The largest difference between two computations of the same log-probability, in nats."""
    findings: tuple[str, ...]
    """One line per method that was tried, for the user."""
    tokens_in: int
    tokens_out: int

    @property
    def signature(self) -> str:
        """How the signature of a run shows what the log-probabilities depend on."""
        parts = [f"prefix={self.prefix.name}"]
        if self.vocabulary is not None:
            parts.append(f"vocabulary={self.vocabulary}")
        return f"{self.method}({','.join(parts)})"


class ServerConnection:
    """Access to the two APIs of a server: the OpenAI-compatible one (``post``) and its own (``post_native``)."""

    def __init__(self, client: Client, settings: ServerSettings, policy: RequestPolicy, url: str) -> None:
        self.post = json_poster(client)
        self.post_native = json_poster(client.native())
        self.settings = settings
        self.policy = policy
        self.url = url

    def scorer(self, result: ProbeResult) -> ProbabilityClient:
        """A client for the method that the probe found."""
        if isinstance(result.prefix, LlamaCppPrefix):
            return LlamaCppScorer(self.post_native, self.settings, result.prefix)
        return CompletionsBlanks(
            self.post, self.post_native, self.settings, result.method, result.prefix, result.vocabulary
        )


async def probe(connection: ServerConnection, wanted: Probabilities, needs: frozenset[str]) -> ProbeResult:
    """Find the method by which a server gives probabilities.

    Raises a FatalModelError that says why each method failed if none works. ``wanted`` is the model's option
    ``probabilities``. ``needs`` are the kinds of requests that the task sends; the probabilities of the whole
    vocabulary are only requested if it sends ``slot`` requests (words in a blank).
    """
    methods: Sequence[ProbabilityMethod] = ("echo", "prompt_logprobs", "llama.cpp")
    if wanted not in ("auto", "none"):
        methods = [method for method in methods if method == wanted]
    needed = needs & {"logprobs", "slot"}
    findings: list[str] = []
    usage = _Usage()
    for method in methods:
        attempt = _Attempt(connection, method, usage, tests_blanks="slot" in needed)
        try:
            result = await attempt.run()
        except _NotSupportedError as error:
            findings.append(f"{method}: {error}")
            continue
        findings.append(f"{method}: {attempt.summary(result)}")
        return replace(result, findings=tuple(findings), tokens_in=usage.tokens_in, tokens_out=usage.tokens_out)
    needed_text = " and ".join(sorted(needed)) or "logprobs"
    raise FatalModelError(
        f"the server at {connection.url} does not return the probabilities that this task needs ({needed_text}); "
        + "; ".join(findings)
    )


class _NotSupportedError(ModelError):
    """The server failed a test; the message says which."""


@dataclass(slots=True)
class _Usage:
    """The tokens that the probe used."""

    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        usage = data.get("usage")
        if not isinstance(usage, dict):
            # llama.cpp's own /completion reports only the length of the prompt. One token was requested.
            usage = {"prompt_tokens": data.get("tokens_evaluated"), "completion_tokens": 1}
        tokens_in = token_count(usage.get("prompt_tokens"))
        tokens_out = token_count(usage.get("completion_tokens"))
        if tokens_in is not None and tokens_out is not None:
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out


@dataclass(slots=True)
class _Attempt:
    """Tests one method of asking a server."""

    connection: ServerConnection
    method: ProbabilityMethod
    usage: _Usage
    tests_blanks: bool = False
    """Whether the task scores words in blanks, so that the probabilities of the whole vocabulary are tested, too."""
    deviations: list[float] = field(default_factory=list)
    """How far two computations of the same log-probability were apart in each comparison, in nats."""
    vocabulary_note: str = ""
    """Why blanks cannot be scored with the probabilities of the whole vocabulary, if they cannot."""

    async def run(self) -> ProbeResult:
        """Run all tests of this method. Raises _NotSupportedError if the server fails one."""
        try:
            if self.method == "llama.cpp":
                return await self._test_llama_cpp()
            return await self._test_completions()
        except FatalModelError:
            raise
        except ModelError as error:
            raise _NotSupportedError(str(error)) from error

    def summary(self, result: ProbeResult) -> str:
        """What the server returns, in one line for the user."""
        agreement = f"two computations of the same log-probability differ by at most {result.deviation:.4f}"
        if result.vocabulary is None:
            blanks = ""
            if self.tests_blanks:
                blanks = f"; at a blank, each word is scored by itself and not ranked ({self.vocabulary_note})"
            return f"log-probabilities of prompts{blanks}; {agreement}"
        return f"log-probabilities of given tokens, and of all {result.vocabulary:,} tokens at a blank; {agreement}"

    # --- OpenAI-compatible completions --------------------------------------------------------------------------------

    async def _test_completions(self) -> ProbeResult:
        """Test the methods ``echo`` and ``prompt_logprobs``."""
        post = self._with_retries(self.connection.post)
        settings = self.connection.settings
        native = self._with_retries(self.connection.post_native)
        scorer = CompletionsBlanks(post, native, settings, self.method, TextPrefix())
        sentence = await self._scored(scorer, _SENTENCE)
        longer = await self._scored(scorer, _SENTENCE + _ENDING)
        self._require_same_beginning(sentence, longer)
        for context in _CONTEXTS:
            await self._compare_with_generation(post, scorer, context)
        prefix = await self._prefix(scorer, sentence)
        vocabulary = await self._vocabulary(post, scorer) if self.tests_blanks else None
        return ProbeResult(self.method, prefix, vocabulary, max(self.deviations), (), 0, 0)

    async def _vocabulary(self, post: Post, scorer: CompletionsBlanks) -> int | None:
        """The size of the vocabulary if the server returns the probabilities of all tokens after a text.

        Otherwise None; ``vocabulary_note`` then says why.
        """
        try:
            count = await self._max_logprobs_allowed(scorer)
            for context in _CONTEXTS:
                await self._compare_with_top_tokens(post, scorer, context, count)
        except ModelError as error:
            self.vocabulary_note = f"the server does not return its whole vocabulary: {error}"
            return None
        return count

    async def _max_logprobs_allowed(self, scorer: CompletionsBlanks) -> int:
        """How many log-probabilities of next tokens the server returns at most. vLLM says so if more are requested."""
        try:
            next_tokens = await scorer.next_tokens(_CONTEXTS[0], MORE_THAN_ANY_VOCABULARY)
        except _NotSupportedError as error:
            allowed = max_logprobs_allowed(str(error))
            if allowed is None:
                raise
            return allowed
        return len(next_tokens.by_id)

    async def _compare_with_top_tokens(self, post: Post, scorer: CompletionsBlanks, context: str, count: int) -> None:
        """Test that a token has the same log-probability whether the server names it by its text or by its id."""
        next_tokens = await scorer.next_tokens(context, count)
        tokens_before = await scorer.tokenize(context)
        compared = 0
        for text, logprob in (await self._next_tokens(post, context)).items():
            tokens = await scorer.tokenize(context + text)
            if tokens[:-1] != tokens_before or tokens[-1] not in next_tokens.by_id:
                continue
            self._compare(logprob, next_tokens.by_id[tokens[-1]], f"the token {text!r} has two log-probabilities")
            compared += 1
        if not compared:
            raise _NotSupportedError("none of the server's next tokens has the id that /tokenize gives it")

    async def _scored(self, scorer: CompletionsScorer, text: str) -> ScoredPrompt:
        """Score a text. Raises a ModelError if the server's tokens do not spell it."""
        scored = await scorer.score(text)
        # Called for its checks: it aligns the tokens with the text.
        scored.start(len(text))
        return scored

    def _require_same_beginning(self, short: ScoredPrompt, long: ScoredPrompt) -> None:
        """Test that a text has the same log-probabilities whatever follows it."""
        # The last token of the short text may be another one in the long text.
        shared = len(short.texts) - 1
        if short.texts[:shared] != long.texts[:shared]:
            raise _NotSupportedError("the same text has other tokens if more text follows")
        for a, b in zip(short.logprobs[1:shared], long.logprobs[1:shared], strict=True):
            assert a is not None
            assert b is not None
            self._compare(a, b, "the log-probabilities of a text change if more text follows")

    async def _compare_with_generation(self, post: Post, scorer: CompletionsScorer, context: str) -> None:
        """Test that a token has the same log-probability as the next token after a prompt and as part of the prompt."""
        top_tokens = await self._next_tokens(post, context)
        compared: list[float] = []
        for text, logprob in top_tokens.items():
            if len(compared) == _COMPARED_TOKENS:
                break
            in_prompt = await self._logprobs_in_prompt(scorer, context, text)
            if in_prompt:
                # If both spellings are one token, it is not known which of them the server generated.
                closest = min(in_prompt, key=lambda value: abs(value - logprob))
                self._compare(
                    logprob, closest, f"the token {text!r} has one log-probability when generated, another in a prompt"
                )
                compared.append(closest)
        if not compared:
            raise _NotSupportedError("none of the server's next tokens comes back when it is sent as part of a prompt")
        nonsense = await self._scored(scorer, context + _NONSENSE)
        try:
            start = nonsense.start(len(context))
        except UnclearBoundaryError:
            return
        total = math.fsum(value for value in nonsense.logprobs[start:] if value is not None)
        if total >= max(compared) - 1e-6:
            raise _NotSupportedError("a nonsense text is as probable as the most probable token")

    async def _logprobs_in_prompt(self, scorer: CompletionsScorer, context: str, text: str) -> list[float]:
        """The log-probabilities of a token as the last one of a prompt, for each way to write it.

        Empty if the tokenizer splits the text into other tokens.
        """
        spellings = [text]
        if not text[0].isspace():
            # Decoding a SentencePiece token by itself removes the space that it begins with.
            spellings.append(f" {text}")
        logprobs: list[float] = []
        for spelling in spellings:
            scored = await self._scored(scorer, context + spelling)
            logprob = scored.logprobs[-1]
            try:
                is_last_token = scored.start(len(context)) == len(scored.texts) - 1
            except UnclearBoundaryError:
                continue
            if scored.texts[-1] == text and is_last_token and logprob is not None:
                logprobs.append(logprob)
        return logprobs

    async def _next_tokens(self, post: Post, context: str) -> dict[str, float]:
        """The server's most probable tokens after a context, with their log-probabilities; the best one first."""
        body = {
            "model": self.connection.settings.model,
            "prompt": context,
            "max_tokens": 1,
            # Some servers apply the temperature before they report log-probabilities; 1 leaves them unchanged.
            "temperature": 1,
            "logprobs": _TOP_TOKENS,
            **self.connection.settings.parameters,
        }
        data = await post("/completions", body)
        refuse_error(data)
        try:
            columns = data["choices"][0]["logprobs"]
            top = columns["top_logprobs"][0]
            ordered = sorted(top.items(), key=lambda item: -item[1])
        except (LookupError, TypeError, AttributeError):
            raise _NotSupportedError(_NO_NEXT_TOKENS) from None
        usable: dict[str, float] = {}
        for text, logprob in ordered:
            # White space is spelled in several ways, and part of a character cannot be sent.
            if text.strip().isprintable() and text.strip() and "\N{REPLACEMENT CHARACTER}" not in text:
                usable[text] = checked_logprob(logprob)
        if not usable:
            raise _NotSupportedError(_NO_NEXT_TOKENS)
        return usable

    async def _prefix(self, scorer: CompletionsScorer, sentence: ScoredPrompt) -> TextPrefix:
        """What has to be put before a text so that its first token is scored."""
        settings = self.connection.settings
        if settings.prefix == "none":
            return TextPrefix("", always=True, name="none")
        if settings.prefix != "auto":
            if not await self._is_token(scorer, settings.prefix, sentence):
                raise _NotSupportedError(f"model.prefix: '{settings.prefix}' is not a token of this model")
            return TextPrefix(settings.prefix, always=True, name=settings.prefix)
        if sentence.start(0) > 0:
            # The server puts a token there itself.
            return TextPrefix(name="own")
        for text in SEPARATORS:
            if await self._is_token(scorer, text, sentence):
                return TextPrefix(text, name=f"none/{text}")
        return TextPrefix(name="none")

    async def _is_token(self, scorer: CompletionsScorer, text: str, sentence: ScoredPrompt) -> bool:
        """Whether a text is one token when it precedes the sentence."""
        try:
            scored = await self._scored(scorer, text + _SENTENCE)
        except ModelError:
            return False
        own_tokens = sentence.start(0)
        has_one_more = len(scored.texts) == len(sentence.texts) + 1
        return has_one_more and scored.start(len(text)) == own_tokens + 1

    # --- llama.cpp ----------------------------------------------------------------------------------------------------

    async def _test_llama_cpp(self) -> ProbeResult:
        """Test llama.cpp's own endpoints."""
        post = self._with_retries(self.connection.post_native)
        settings = self.connection.settings
        prefix = await find_prefix(post, settings)
        scorer = LlamaCppScorer(post, settings, prefix)
        vocabulary = 0
        for context in _CONTEXTS:
            tokens = await scorer.tokenize(context)
            ids = (*prefix.before(something_precedes=True), *tokens.ids)
            distribution = await scorer.distribution(ids)
            vocabulary = len(distribution.ids)
            if len(set(distribution.ids)) != vocabulary:
                raise _NotSupportedError("the server's distribution names a token twice")
            nonsense = await scorer.tokenize(_NONSENSE)
            most_probable = distribution.ids[0]
            for token in (most_probable, nonsense.ids[0]):
                forced_logprob = await scorer.forced_logprob(ids, token)
                self._compare(
                    distribution.by_id[token], forced_logprob, f"the token {token} has two different log-probabilities"
                )
            await self._compare_with_text(post, context, distribution.logprobs[0])
        return ProbeResult("llama.cpp", prefix, vocabulary, max(self.deviations), (), 0, 0)

    async def _compare_with_text(self, post: Post, context: str, top_logprob: float) -> None:
        """Test that a prompt gives the same result whether it is sent as a text or as tokens."""
        body = {"prompt": context, "n_predict": 1, "n_probs": 1, "temperature": 0}
        data = await post("/completion", body)
        try:
            top = data["completion_probabilities"][0]["top_logprobs"][0]["logprob"]
        except (LookupError, TypeError):
            # The most probable token may end inside a character; then the server reports none.
            return
        # With another prefix, our tokens begin differently from those that the server itself makes of a text.
        if self.connection.settings.prefix == "auto" and isinstance(top, int | float):
            self._compare(
                top_logprob,
                float(top),
                "a prompt gives different log-probabilities as a text and as tokens",
            )

    # --- both ---------------------------------------------------------------------------------------------------------

    def _compare(self, a: float, b: float, complaint: str) -> None:
        """Record how far two computations of a log-probability are apart; raise _NotSupportedError if too far."""
        deviation = abs(a - b)
        if deviation > _TOLERANCE + _RELATIVE_TOLERANCE * min(abs(a), abs(b)):
            raise _NotSupportedError(f"{complaint} ({a:.2f} and {b:.2f})")
        self.deviations.append(deviation)

    def _with_retries(self, post: Post) -> Post:
        """A post that retries temporary failures, as often as the user's option ``tries`` allows."""
        policy = self.connection.policy

        async def post_with_retries(path: str, body: Mapping[str, Any]) -> Any:
            tries = 0
            while True:
                tries += 1
                try:
                    async with asyncio.timeout(policy.timeout):
                        data = await post(path, body)
                except Exception as error:
                    pause = self._pause(error, tries, path)
                    await asyncio.sleep(pause)
                    continue
                self.usage.add(data)
                return data

        return post_with_retries

    def _pause(self, error: Exception, tries: int, path: str) -> float:
        """Seconds to wait before the next attempt. Raises an error if there should be none."""
        failure = failure_of(error)
        if failure is None:
            raise error
        if failure.unreachable:
            raise FatalModelError(no_connection_message(self.connection.url, failure)) from error
        if failure.status in _UNKNOWN_REQUEST or failure.finish is not None:
            raise _NotSupportedError(f"{path}: {failure.message}") from error
        if isinstance(error, ModelError) and not failure.retryable and not failure.fatal:
            raise error
        if failure.fatal:
            raise FatalModelError(f"the server at {self.connection.url} cannot be tested: {failure.message}") from error
        pause = self.connection.policy.pause(failure, tries)
        if pause is None:
            raise _NotSupportedError(f"{path}: {with_tries(failure, tries)}") from error
        return pause
