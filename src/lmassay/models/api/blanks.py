"""Log-probabilities of words in a blank, through OpenAI-compatible completions.

There are two methods. vLLM returns the log-probabilities of its whole vocabulary after a text if it is started with
``--max-logprobs -1``; one request per blank is then enough, and words can be ranked. Every server that scores prompts
can score the text with each word filled in, which needs one request per word and gives no ranks.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.api.dialects import token_count
from lmassay.models.api.failures import refuse_error
from lmassay.models.api.scoring import (
    NOTHING_BEFORE,
    CompletionsScorer,
    Post,
    ProbabilityMethod,
    ServerSettings,
    TextPrefix,
    checked_logprob,
)
from lmassay.models.hf.logits import candidate_columns
from lmassay.models.spelling import not_comparable
from lmassay.types import Candidates, Response, Slot

# More tokens than any vocabulary has. vLLM rejects a request for so many probabilities and says how many it allows.
MORE_THAN_ANY_VOCABULARY = 1 << 20
# Ids and counts of tokens have few digits; a longer number is not an id, and Python may refuse to read it.
_MAX_ALLOWED = re.compile(r"max allowed: (\d{1,12})")
_TOKEN_ID = re.compile(r"token_id:(\d{1,12})")
# Servers compute in 16 bits, so the probabilities of a large vocabulary do not add up to exactly 1.
_SUM_TOLERANCE = 0.01
# Put between the words whose tokens are requested, so that they are tokenized as inside a sentence.
_SEPARATOR = "the"
_WORDS_PER_REQUEST = 200
BLANK_IN_WORD = "the blank is inside a word; put a space before it, or score whole sentences"
_NO_RANKS = (
    "ranks and cut-offs need the probabilities of the whole vocabulary, which this server does not return; start vLLM "
    "with --max-logprobs -1, or use a task without cut-offs (cutoffs_top: [], cutoffs_bottom: [])"
)


@dataclass(frozen=True, slots=True)
class NextTokens:
    """The log-probabilities of all tokens after a text, by token."""

    by_id: Mapping[int, float]
    tokens_in: int | None
    """How many tokens the server read; None if it does not say."""
    tokens_out: int | None
    """How many tokens the server generated; None if it does not say."""


def max_logprobs_allowed(message: str) -> int | None:
    """The number of log-probabilities that a request may ask for, as vLLM's error message says; None if it does not.

    >>> max_logprobs_allowed("Requested sample logprobs of 1048576, which is greater than max allowed: 49152")
    49152
    """
    allowed = _MAX_ALLOWED.search(message)
    return None if allowed is None else int(allowed[1])


class CompletionsBlanks(CompletionsScorer):
    """Scores texts and words in blanks through /completions."""

    def __init__(
        self,
        post: Post,
        post_native: Post,
        settings: ServerSettings,
        method: ProbabilityMethod,
        prefix: TextPrefix,
        vocabulary_size: int | None = None,
    ) -> None:
        super().__init__(post, post_native, settings, method, prefix)
        # How many probabilities are requested; None if the server does not return those of its whole vocabulary.
        self._vocabulary_size = vocabulary_size
        # Word → its tokens after a space.
        self._spellings: dict[str, tuple[int, ...]] = {}
        # Several blanks need the same words at the same time; with the lock, each word is requested once.
        self._spellings_lock = asyncio.Lock()

    async def slot(self, request: Slot) -> Response:
        """The log-probabilities of words in a blank.

        Raises a ModelError if the blank is inside a word, and a FatalModelError if the request needs ranks but the
        server does not return its whole vocabulary.
        """
        started = time.monotonic()
        # The space before the blank belongs to the word.
        text = request.left.rstrip(" ")
        if text and text == request.left:
            raise ModelError(BLANK_IN_WORD)
        context = self._prefix.before(text) + text
        is_first_word = not text.strip()
        if self._vocabulary_size is None or request.multi_token:
            if request.ranked:
                raise FatalModelError(_NO_RANKS)
            answer, tokens_in, tokens_out = await self._fill_in(request, context, is_first_word)
        else:
            next_tokens = await self.next_tokens(context, self._vocabulary_size)
            answer = await self._look_up(request, next_tokens, is_first_word)
            tokens_in = next_tokens.tokens_in
            tokens_out = next_tokens.tokens_out
        return Response(answer, tokens_in=tokens_in, tokens_out=tokens_out, seconds=time.monotonic() - started)

    # --- one text per word --------------------------------------------------------------------------------------------

    async def _fill_in(
        self, request: Slot, context: str, is_first_word: bool
    ) -> tuple[Candidates, int | None, int | None]:
        """Score each word in the text that it is filled into: the log-probabilities, without ranks.

        Also returns how many tokens the server read and wrote; None if it does not say.
        """
        logprobs = np.full(len(request.candidates), np.nan)
        spellings: list[tuple[int, ...]] = []
        tokens_in: int | None = 0
        tokens_out: int | None = 0
        # The server names tokens by their texts. Each distinct text gets a number, which serves as the token's id.
        number_of_text: dict[str | None, int] = {}
        for index, word in enumerate(request.candidates):
            filled = word if is_first_word else f" {word}"
            scored = await self.score(context + filled)
            tokens_in = _sum(tokens_in, scored.tokens_in)
            tokens_out = _sum(tokens_out, scored.tokens_out)
            start = scored.start(len(context))
            values = scored.logprobs[start:]
            tokens = []
            for token_text in scored.texts[start:]:
                tokens.append(number_of_text.setdefault(token_text, len(number_of_text)))
            spellings.append(tuple(tokens))
            if len(values) != 1 and not request.multi_token:
                # A word of several tokens is not in the vocabulary.
                continue
            known_values = [value for value in values if value is not None]
            if len(known_values) < len(values):
                raise ModelError(NOTHING_BEFORE)
            logprobs[index] = math.fsum(known_values)
        if request.multi_token:
            logprobs[not_comparable(spellings)] = np.nan
        return Candidates(logprobs), tokens_in, tokens_out

    # --- the whole vocabulary -----------------------------------------------------------------------------------------

    async def next_tokens(self, context: str, count: int) -> NextTokens:
        """The log-probabilities of all tokens after a text. Raises a ModelError if some tokens are missing."""
        body = {
            "model": self._settings.model,
            "prompt": context,
            "max_tokens": 1,
            # Some servers apply the temperature before they report log-probabilities; 1 leaves them unchanged.
            "temperature": 1,
            "logprobs": count,
            # Different tokens may have the same text.
            "return_tokens_as_token_ids": True,
            **self._settings.parameters,
        }
        data = await self._post("/completions", body)
        refuse_error(data)
        try:
            top = data["choices"][0]["logprobs"]["top_logprobs"][0]
            entries = list(top.items())
        except (LookupError, TypeError, AttributeError):
            raise ModelError("the server returns no log-probabilities of the next token") from None
        by_id: dict[int, float] = {}
        for name, logprob in entries:
            token = _TOKEN_ID.fullmatch(name)
            if token is None:
                raise ModelError("the server does not name tokens by their ids")
            by_id[int(token[1])] = checked_logprob(logprob)
        total = math.fsum(math.exp(value) for value in by_id.values())
        if abs(total - 1) > _SUM_TOLERANCE:
            raise ModelError(f"the probabilities of the server's {len(by_id)} tokens add up to {total:.3f}, not to 1")
        usage = data.get("usage")
        if not isinstance(usage, dict):
            usage = {}
        tokens_in = token_count(usage.get("prompt_tokens"))
        tokens_out = token_count(usage.get("completion_tokens"))
        return NextTokens(by_id, tokens_in, tokens_out)

    async def _look_up(self, request: Slot, next_tokens: NextTokens, is_first_word: bool) -> Candidates:
        """Select the log-probabilities of the words from those of all tokens; with ranks if the request needs them."""
        logprobs = np.array(list(next_tokens.by_id.values()), dtype=np.float32)
        row_of_token: dict[int, int] = {}
        for row, token in enumerate(next_tokens.by_id):
            row_of_token[token] = row
        # -1 stands for a word that is not a single token of this model. As for local models, such a word has no
        # probability at the blank.
        rows = np.full(len(request.candidates), -1, dtype=np.int64)
        spellings = await self._spell(request.candidates, is_first_word)
        for index, tokens in enumerate(spellings):
            if len(tokens) == 1:
                rows[index] = row_of_token.get(tokens[0], -1)
        probabilities = np.exp(logprobs) if request.ranked else None
        return candidate_columns(logprobs, probabilities, rows)

    # --- the tokens of words ------------------------------------------------------------------------------------------

    async def _spell(self, words: Sequence[str], is_first_word: bool) -> list[tuple[int, ...]]:
        """The tokens of words after a space, or at the beginning of a text.

        Those after a space are kept, because many blanks have the same words.
        """
        if is_first_word:
            return [await self.tokenize(word) for word in words]
        async with self._spellings_lock:
            unknown = [word for word in dict.fromkeys(words) if word not in self._spellings]
            for start in range(0, len(unknown), _WORDS_PER_REQUEST):
                chunk = unknown[start : start + _WORDS_PER_REQUEST]
                self._spellings.update(await self._spellings_of(chunk))
        return [self._spellings[word] for word in words]

    async def _spellings_of(self, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The tokens of words inside a sentence: "the cat the dog the" is split at each " the"."""
        # The separator at the beginning of a text may have other tokens than inside a text, after a space.
        first = await self.tokenize(_SEPARATOR)
        twice = await self.tokenize(f"{_SEPARATOR} {_SEPARATOR}")
        separator_inside = twice[len(first) :]
        text = _SEPARATOR
        for word in words:
            text += f" {word} {_SEPARATOR}"
        tokens = await self.tokenize(text)
        segments = _split(tokens[len(first) :], separator_inside)
        same_beginning = twice[: len(first)] == first == tokens[: len(first)]
        if same_beginning and len(segments) == len(words):
            return dict(zip(words, segments, strict=True))
        # One of the words may contain the separator, so each word is requested by itself.
        if len(words) > 1:
            spellings: dict[str, tuple[int, ...]] = {}
            for word in words:
                spellings.update(await self._spellings_of([word]))
            return spellings
        # For a single word, no separator is needed after it.
        (word,) = words
        separator_and_word = await self.tokenize(f"{_SEPARATOR} {word}")
        if separator_and_word[: len(first)] != first:
            raise ModelError(f"the server's tokens do not show where the word '{word}' begins")
        return {word: separator_and_word[len(first) :]}

    async def tokenize(self, text: str) -> tuple[int, ...]:
        """The server's tokens of a text, without special tokens such as the one at the beginning of a prompt."""
        body = {"model": self._settings.model, "prompt": text, "add_special_tokens": False}
        data = await self._post_native("/tokenize", body)
        tokens = data.get("tokens") if isinstance(data, dict) else None
        if not isinstance(tokens, list) or not tokens or not all(type(token) is int for token in tokens):
            raise ModelError("the server's /tokenize has an unknown format")
        return tuple(tokens)


def _split(tokens: Sequence[int], separator: Sequence[int]) -> list[tuple[int, ...]]:
    """The tokens before each separator; an empty list if a part is empty or the tokens do not end with a separator.

    >>> _split([1, 9, 2, 3, 9], [9])
    [(1,), (2, 3)]
    """
    segments: list[tuple[int, ...]] = []
    segment: list[int] = []
    for token in tokens:
        segment.append(token)
        if separator and segment[-len(separator) :] == list(separator):
            segments.append(tuple(segment[: -len(separator)]))
            segment = []
    if segment or not all(segments):
        return []
    return segments


def _sum(total: int | None, count: int | None) -> int | None:
    """The sum of two counts; None if one is unknown."""
    return None if total is None or count is None else total + count
