"""Probabilities from llama.cpp's own endpoints: /tokenize, and /completion for one token at a time.

llama.cpp's OpenAI-compatible endpoint accepts ``echo`` but returns no log-probabilities of the prompt. Its own endpoint
reports the log-probability of the token that it samples, computed before any sampling option applies. ``logit_bias``
makes it sample the token that is to be scored. ``n_probs`` returns the whole distribution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lmassay.errors import ModelError
from lmassay.models.api.blanks import BLANK_IN_WORD
from lmassay.models.api.scoring import (
    NO_SYSTEM,
    NOTHING_BEFORE,
    SEPARATORS,
    Post,
    ServerSettings,
    checked_logprob,
    reply_text,
    require_messages_in,
)
from lmassay.models.hf.chat import RenderedPrompt, transcript
from lmassay.models.hf.logits import candidate_columns
from lmassay.models.spelling import not_comparable
from lmassay.redaction import excerpt
from lmassay.types import Candidates, Continuation, LogProbs, Response, Slot

Tokens = tuple[int, ...]

# Added to the logit of a token, so that it is sampled whatever the model computes.
_FORCING_BIAS = 1000.0
# More tokens than any vocabulary has.
_WHOLE_VOCABULARY = 1 << 20
# The server sums float32 numbers, so the probabilities of a large vocabulary do not add up to exactly 1.
_SUM_TOLERANCE = 0.01
# The parts of a response that are read; without this, it repeats the prompt and all settings.
_FIELDS = ["completion_probabilities", "tokens_evaluated", "truncated"]
# Put before a word whose tokens are requested, so that the word is tokenized as inside a sentence.
_WORD_BEFORE = "the"


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text as the server tokenizes it."""

    ids: Tokens
    ends: tuple[int, ...]
    """Where each token ends in the text, in bytes."""

    def start(self, context: str) -> int:
        """The index of the first token that reaches into the text after the context."""
        context_length = len(context.encode("utf-8", "surrogatepass"))
        for index, end in enumerate(self.ends):
            if end > context_length:
                return index
        return len(self.ids)


@dataclass(frozen=True)
class Distribution:
    """The log-probabilities of all tokens of the vocabulary at one position, the most probable token first."""

    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]
    """The bytes of each token."""
    logprobs: tuple[float, ...]

    @cached_property
    def by_id(self) -> dict[int, float]:
        """Token → log-probability."""
        return dict(zip(self.ids, self.logprobs, strict=True))

    @cached_property
    def rows_of_piece(self) -> dict[bytes, list[int]]:
        """The bytes of a token → the rows of all tokens with these bytes."""
        rows: dict[bytes, list[int]] = {}
        for row, piece in enumerate(self.pieces):
            rows.setdefault(piece, []).append(row)
        return rows


@dataclass(frozen=True, slots=True)
class LlamaCppPrefix:
    """The tokens that are put before a text."""

    after_context: Tokens
    """The prefix if part of the text precedes the first scored token."""
    at_beginning: Tokens
    """The prefix if nothing else precedes the first scored token."""
    name: str
    """How the signature shows the prefix."""

    def before(self, something_precedes: bool) -> Tokens:
        """The tokens that are put before a text."""
        return self.after_context if something_precedes else self.at_beginning


class LlamaCppScorer:
    """Scores texts and blanks token by token."""

    def __init__(self, post: Post, settings: ServerSettings, prefix: LlamaCppPrefix) -> None:
        self._post = post
        self._settings = settings
        self._prefix = prefix
        # The token that the server samples when only the distribution is needed, see `distribution`.
        self._harmless_token: int | None = None

    # --- answers ------------------------------------------------------------------------------------------------------

    async def logprobs(self, request: LogProbs) -> Response:
        started = time.monotonic()
        if not request.continuation:
            return Response(finish="empty")
        if request.messages:
            ids, start = await self._tokens_of_reply(request)
        else:
            if self._settings.system:
                raise ModelError(NO_SYSTEM)
            ids, start = await self._tokens_of_text(request.context, request.continuation)
        # The server returns the probability of one given token at a time, so there is a request per token.
        values = []
        for position in range(start, len(ids)):
            values.append(await self.forced_logprob(ids[:position], ids[position]))
        answer = Continuation(math.fsum(values), tuple(values))
        seconds = time.monotonic() - started
        return Response(answer, tokens_in=len(ids), tokens_out=len(values), seconds=seconds)

    async def slot(self, request: Slot) -> Response:
        started = time.monotonic()
        # The space before the blank belongs to the word.
        text = request.left.rstrip(" ")
        if text and text == request.left:
            raise ModelError(BLANK_IN_WORD)
        tokenized = await self.tokenize(text)
        context = (*self._prefix.before(bool(text)), *tokenized.ids)
        if not context:
            raise ModelError(NOTHING_BEFORE)
        is_first_word = not text.strip()
        distribution = await self.distribution(context)
        answer = await self._candidates(request, distribution, is_first_word)
        tokens_out = 1
        if request.multi_token:
            answer, scored_tokens = await self._add_long_words(request, context, answer, is_first_word)
            tokens_out += scored_tokens
        seconds = time.monotonic() - started
        return Response(answer, tokens_in=len(context), tokens_out=tokens_out, seconds=seconds)

    # --- texts --------------------------------------------------------------------------------------------------------

    async def _tokens_of_text(self, context: str, continuation: str) -> tuple[Tokens, int]:
        """The tokens of a text, and the position of the first one to score."""
        tokenized = await self.tokenize(context + continuation)
        start = tokenized.start(context)
        prefix = self._prefix.before(start > 0)
        if not prefix and start == 0:
            raise ModelError(NOTHING_BEFORE)
        return (*prefix, *tokenized.ids), len(prefix) + start

    async def _tokens_of_reply(self, request: LogProbs) -> tuple[Tokens, int]:
        """The tokens of chat messages and the reply to them, and the position of the first token of the reply."""
        rendered = await self._render(request.messages)
        if not rendered.templated:
            return await self._tokens_of_text(rendered.text, reply_text(rendered, request.continuation))
        # A template has written its special tokens already, so nothing is put before it. The prompt ends with a
        # complete token, so the tokens of the reply begin after it.
        prompt = await self.tokenize(rendered.text)
        both = await self.tokenize(rendered.text + request.continuation)
        if both.ids[: len(prompt.ids)] == prompt.ids:
            return both.ids, len(prompt.ids)
        reply = await self.tokenize(request.continuation)
        return (*prompt.ids, *reply.ids), len(prompt.ids)

    async def _render(self, messages: Sequence[tuple[str, str]]) -> RenderedPrompt:
        """Chat messages as the text that the model continues; the server applies its chat template."""
        turns = list(messages)
        if self._settings.system:
            turns.insert(0, ("system", self._settings.system))
        if self._settings.api == "completions":
            return RenderedPrompt(transcript(turns))
        chat = [{"role": role, "content": content} for role, content in turns]
        data = await self._post("/apply-template", {"messages": chat})
        if not isinstance(data, dict) or not isinstance(data.get("prompt"), str):
            raise ModelError("the server does not show how it writes chat messages; set `api: completions`")
        require_messages_in(data["prompt"], turns)
        return RenderedPrompt(data["prompt"], templated=True)

    async def tokenize(self, text: str, *, add_special: bool = False) -> TokenizedText:
        """The server's tokens of a text. Raises a ModelError if they do not spell it.

        With ``add_special``, they include the special tokens that the server adds. It is then not checked what they
        spell, and the result has no ``ends``.
        """
        if not text:
            return TokenizedText((), ())
        body = {"content": text, "add_special": add_special, "parse_special": True, "with_pieces": True}
        data = await self._post("/tokenize", body)
        ids: list[int] = []
        pieces: list[bytes] = []
        try:
            for token in data["tokens"]:
                ids.append(int(token["id"]))
                pieces.append(_piece_as_bytes(token["piece"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            raise ModelError("the server's /tokenize has an unknown format") from None
        if add_special:
            # The bytes of special tokens are not part of the text, so there are no offsets into it.
            return TokenizedText(tuple(ids), ())
        spelled = b"".join(pieces)
        text_bytes = text.encode("utf-8", "surrogatepass")
        # SentencePiece puts a space before a text; the space is not part of the text.
        surplus = 1 if spelled == b" " + text_bytes else 0
        if spelled[surplus:] != text_bytes:
            raise ModelError(f"the server's tokens do not spell the text {excerpt(text, 40)!r}")
        ends: list[int] = []
        end = -surplus
        for piece in pieces:
            end += len(piece)
            ends.append(end)
        return TokenizedText(tuple(ids), tuple(ends))

    # --- probabilities ------------------------------------------------------------------------------------------------

    async def forced_logprob(self, context: Tokens, token: int) -> float:
        """The log-probability of a token after a context: the server is forced to sample the token."""
        entry = await self._sample(context, token, n_probs=1)
        if entry is None:
            # The server does not report a token that ends inside a character.
            distribution = await self.distribution(context)
            if token not in distribution.by_id:
                raise ModelError(f"the server's distribution lacks the token {token}")
            return distribution.by_id[token]
        return checked_logprob(entry.get("logprob"))

    async def distribution(self, context: Tokens) -> Distribution:
        """The log-probabilities of all tokens after a context. Raises a ModelError if some tokens are missing."""
        if self._harmless_token is None:
            harmless = await self.tokenize(" the")
            self._harmless_token = harmless.ids[-1]
        # Any token will do, except one that ends inside a character: for such a token, the server reports nothing.
        entry = await self._sample(context, self._harmless_token, n_probs=_WHOLE_VOCABULARY)
        if entry is None or not isinstance(entry.get("top_logprobs"), list):
            raise ModelError("the server's /completion returns no probabilities")
        ids: list[int] = []
        pieces: list[bytes] = []
        logprobs: list[float] = []
        try:
            for token in entry["top_logprobs"]:
                ids.append(int(token["id"]))
                pieces.append(_piece_as_bytes(token["bytes"]))
                logprobs.append(checked_logprob(token["logprob"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            raise ModelError("the server's /completion returns probabilities in an unknown format") from None
        total = math.fsum(math.exp(value) for value in logprobs)
        if abs(total - 1) > _SUM_TOLERANCE:
            raise ModelError(f"the probabilities of the server's {len(ids)} tokens add up to {total:.3f}, not to 1")
        return Distribution(tuple(ids), tuple(pieces), tuple(logprobs))

    async def _sample(self, context: Tokens, token: int, n_probs: int) -> dict[str, Any] | None:
        """Let the server sample a given token; its entry in the response, or None if the response has none.

        Raises a ModelError if the server cut the context or sampled another token.
        """
        body = {
            "prompt": list(context),
            "n_predict": 1,
            "n_probs": n_probs,
            "temperature": 0,
            "logit_bias": [[token, _FORCING_BIAS]],
            "cache_prompt": True,
            "response_fields": _FIELDS,
            **self._settings.parameters,
        }
        data = await self._post("/completion", body)
        if not isinstance(data, dict):
            raise ModelError("the server's /completion has an unknown format")
        evaluated = data.get("tokens_evaluated")
        if data.get("truncated") or (isinstance(evaluated, int) and evaluated != len(context)):
            raise ModelError(f"the server read {evaluated} of {len(context)} tokens; is its context too small?")
        entries = data.get("completion_probabilities")
        if not entries:
            return None
        entry = entries[0] if isinstance(entries, list) else None
        if not isinstance(entry, dict):
            raise ModelError("the server's /completion returns probabilities in an unknown format")
        if entry.get("id") != token:
            raise ModelError(f"the server sampled the token {entry.get('id')} although {token} was forced")
        return entry

    # --- words in a blank ---------------------------------------------------------------------------------------------

    async def _candidates(self, request: Slot, distribution: Distribution, is_first_word: bool) -> Candidates:
        """The log-probabilities of the words that are single tokens, with ranks if the request needs them."""
        # -1 stands for a word that is not a single token.
        rows = np.full(len(request.candidates), -1, dtype=np.int64)
        for index, word in enumerate(request.candidates):
            piece = (word if is_first_word else f" {word}").encode("utf-8", "surrogatepass")
            matching = distribution.rows_of_piece.get(piece, [])
            if len(matching) == 1:
                rows[index] = matching[0]
            elif matching:
                # Several tokens have the same bytes, e.g. a letter and its byte; the tokenizer uses one of them.
                spelled = await self._spell(word, is_first_word)
                for row in matching:
                    if (distribution.ids[row],) == spelled:
                        rows[index] = row
                        break
        logprobs = np.array(distribution.logprobs, dtype=np.float32)
        probabilities = np.exp(logprobs) if request.ranked else None
        return candidate_columns(logprobs, probabilities, rows)

    async def _add_long_words(
        self, request: Slot, context: Tokens, answer: Candidates, is_first_word: bool
    ) -> tuple[Candidates, int]:
        """Add the log-probabilities of words that consist of several tokens, by the chain rule.

        Also returns how many tokens were scored for this.
        """
        logprobs = np.array(answer.logprobs, dtype=np.float64)
        spellings = [await self._spell(word, is_first_word) for word in request.candidates]
        scored_tokens = 0
        for index, tokens in enumerate(spellings):
            if len(tokens) > 1:
                total = 0.0
                for position, token in enumerate(tokens):
                    total += await self.forced_logprob((*context, *tokens[:position]), token)
                logprobs[index] = total
                scored_tokens += len(tokens)
        logprobs[not_comparable(spellings)] = np.nan
        return Candidates(logprobs, answer.ranks, answer.masses_above, answer.masses_below), scored_tokens

    async def _spell(self, word: str, is_first_word: bool) -> Tokens:
        """The tokens of a word after a space, or at the beginning of a text."""
        if is_first_word:
            return (await self.tokenize(word)).ids
        tokenized = await self.tokenize(f"{_WORD_BEFORE} {word}")
        return tokenized.ids[tokenized.start(_WORD_BEFORE) :]


def _piece_as_bytes(piece: Any) -> bytes:
    """The bytes of a token: /tokenize returns a text, or a list of numbers if the bytes are not a text."""
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass")
    if not isinstance(piece, list):
        # bytes(n) would be n zeros, however large n is.
        raise TypeError("the bytes of a token are not a list")
    return bytes(piece)


async def find_prefix(post: Post, settings: ServerSettings) -> LlamaCppPrefix:
    """Find the tokens that are put before a text, by the same rule as for local models.

    With ``prefix: auto``, these are the tokens that the tokenizer itself puts there. If it puts none there, and nothing
    else precedes the first token to be scored, it is one of ``SEPARATORS``.
    """
    scorer = LlamaCppScorer(post, settings, LlamaCppPrefix((), (), ""))
    if settings.prefix == "none":
        return LlamaCppPrefix((), (), "none")
    if settings.prefix != "auto":
        token = await _single_token(scorer, settings.prefix)
        if token is None:
            raise ModelError(f"model.prefix: '{settings.prefix}' is not a token of this model")
        return LlamaCppPrefix((token,), (token,), settings.prefix)
    plain = (await scorer.tokenize("a")).ids
    with_special = (await scorer.tokenize("a", add_special=True)).ids
    own_prefix: Tokens = ()
    if plain and plain[0] in with_special:
        own_prefix = with_special[: with_special.index(plain[0])]
    if own_prefix:
        return LlamaCppPrefix(own_prefix, own_prefix, "own")
    for text in SEPARATORS:
        token = await _single_token(scorer, text)
        if token is not None:
            return LlamaCppPrefix((), (token,), f"none/{text}")
    return LlamaCppPrefix((), (), "none")


async def _single_token(scorer: LlamaCppScorer, text: str) -> int | None:
    tokenized = await scorer.tokenize(text)
    return tokenized.ids[0] if len(tokenized.ids) == 1 else None
