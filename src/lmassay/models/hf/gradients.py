"""Find the substitutions that hurt a model most, with one backward pass: white-box attacks (Michel et al. 2019).

The increase of the loss is approximated to first order: replacing token x_i by v changes it by about
∇L(x_i) · (E(v) − E(x_i)), where E is the embedding and ∇L(x_i) the gradient of the loss with respect to E(x_i).
Gradients and embeddings never leave this package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import regex  # type: ignore[import-untyped,unused-ignore]
import torch
from numpy.typing import NDArray

from lmassay.errors import FatalModelError, ModelError
from lmassay.models.hf.batches import Batcher, Tokens, by_padded_size
from lmassay.models.hf.logits import NOT_FINITE
from lmassay.types import Response, Substitute, Substitution, Substitutions, digest

Answers = Iterator[tuple[int, Response | ModelError]]
Floats = NDArray[np.float32]
Span = tuple[int, int]

# A backward pass keeps what a forward pass computes, so its batches are smaller.
_CPU_TOKENS = 512
_ACCELERATOR_TOKENS = 4096
# How many candidates are tried at one position. Several are needed, because not all of them are tokenized as intended.
_MAX_TRIES = 50
# How often the last letter of a word is repeated to get a word that the vocabulary does not have; once is often not
# enough.
_MAX_REPEATS = 3
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]+")


@dataclass(frozen=True, slots=True)
class AttackedTokens:
    """A prompt and the output that is expected for it (the target), as tokens."""

    ids: Tokens
    """The tokens that the model reads; for a causal model, these end with the target."""
    spans: tuple[Span | None, ...]
    """Where each token is in the prompt, without spaces; None for tokens that are not part of it."""
    target: Tokens
    """The tokens whose loss is to increase."""
    start: int = 0
    """The position in ``target`` of the first token whose loss counts."""
    reads_target: bool = False
    """Whether ``ids`` end with the target."""

    @property
    def length(self) -> int:
        """How many tokens the model processes, each counted once."""
        return len(self.ids) if self.reads_target else len(self.ids) + len(self.target)


class AttackedModel(Protocol):
    """What the search for substitutions needs from a model; it differs between causal and encoder-decoder models."""

    @property
    def model(self) -> Any:
        """The model, with its weights."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the Hugging Face library."""

    @property
    def embedding(self) -> Any:
        """The module that embeds the tokens that the model reads."""

    def encode(self, prompt: str, target: str) -> AttackedTokens:
        """Tokenize a prompt and what the model is expected to write, in the same way as for generation."""

    def loss(self, batch: Sequence[AttackedTokens]) -> torch.Tensor:
        """The sum of the negative log-probabilities of all targets."""

    def is_too_long(self, tokens: AttackedTokens) -> bool:
        """Whether the tokens exceed the model's window."""


class SubstitutionFinder:
    """Answers Substitute requests with a model in memory."""

    def __init__(self, attacked: AttackedModel, batch_tokens: int | None) -> None:
        self._attacked = attacked
        on_cpu = attacked.model.device.type == "cpu"
        default_tokens = _CPU_TOKENS if on_cpu else _ACCELERATOR_TOKENS
        self._batcher = Batcher(batch_tokens or default_tokens)

    def answer(self, requests: Sequence[Substitute]) -> Answers:
        """Find the best substitutions of each request."""
        encoded: dict[int, AttackedTokens] = {}
        for index, request in enumerate(requests):
            tokens = self._attacked.encode(request.left + request.text + request.right, request.target)
            if self._attacked.is_too_long(tokens):
                yield index, Response(finish="too_long")
            elif len(tokens.target) <= tokens.start:
                # Without a target there is no loss that a substitution could increase.
                yield index, Response(Substitutions(()))
            else:
                encoded[index] = tokens

        def length(index: int) -> int:
            return encoded[index].length

        def work(batch: Sequence[int]) -> Iterator[Floats]:
            return self._gradients([encoded[index] for index in batch])

        order = sorted(encoded, key=length)
        gradients = self._batcher.run(order, by_padded_size(length), work)
        for index, gradient in zip(order, gradients, strict=True):
            if isinstance(gradient, ModelError):
                yield index, gradient
            else:
                items = self._best(requests[index], encoded[index], gradient)
                yield index, Response(Substitutions(items), tokens_in=length(index))

    def _gradients(self, batch: Sequence[AttackedTokens]) -> Iterator[Floats]:
        """The gradient of each text's loss with respect to the embeddings of its tokens."""
        embedded: list[torch.Tensor] = []

        def capture(module: Any, arguments: Any, output: torch.Tensor) -> torch.Tensor | None:
            # A decoder may use the same module; the first call is the one that embeds what the model reads.
            if embedded:
                return None
            embedded.append(output.detach().requires_grad_(True))
            return embedded[0]

        hook = self._attacked.embedding.register_forward_hook(capture)
        try:
            with torch.enable_grad():
                loss = self._attacked.loss(batch)
                # Texts of a batch do not influence each other, so the gradient of the sum contains that of each.
                (gradients,) = torch.autograd.grad(loss, embedded)
        finally:
            hook.remove()
        if not bool(torch.isfinite(gradients).all()):
            raise FatalModelError(NOT_FINITE)
        for line, tokens in enumerate(batch):
            yield gradients[line, : len(tokens.ids)].float().cpu().numpy()

    @cached_property
    def _vocabulary(self) -> SubstituteVocabulary:
        return SubstituteVocabulary(self._attacked.tokenizer, self._attacked.embedding)

    # --- candidates ---------------------------------------------------------------------------------------------------

    def _best(self, request: Substitute, tokens: AttackedTokens, gradient: Floats) -> tuple[Substitution, ...]:
        """The best substitutions of a request: those with the largest gain, the estimated increase of the loss.

        The best substitution of each position comes first, beginning with the best position; then the second best of
        each position, and so on.
        """
        if request.candidates == "unknown":
            by_position = self._unknown_words(request, tokens, gradient)
        else:
            by_position = self._other_tokens(request, tokens, gradient)

        def rank(substitution: Substitution) -> tuple[float, str]:
            # Rounded, so that substitutions with equal gains are ordered by the seed and not by noise in the last bits.
            return -float(f"{substitution.gain:.4g}"), digest(request.seed, substitution.text)

        ranked = [sorted(substitutions, key=rank) for substitutions in by_position]
        best: list[Substitution] = []
        for place in range(max(map(len, ranked), default=0)):
            at_this_place = []
            for substitutions in ranked:
                if place < len(substitutions):
                    at_this_place.append(substitutions[place])
            best += sorted(at_this_place, key=rank)
            if len(best) >= request.count:
                break
        return tuple(best[: request.count])

    def _other_tokens(
        self, request: Substitute, tokens: AttackedTokens, gradient: Floats
    ) -> Iterator[list[Substitution]]:
        """For each position, substitutions by other tokens of the vocabulary."""
        positions = _positions(request, tokens)
        if not positions:
            return
        vocabulary = self._vocabulary
        # How many substitutions are needed at each position; most texts have so many positions that one is enough.
        needed = math.ceil(request.count / len(positions))
        for position in positions:
            old_token = tokens.ids[position]
            candidates = vocabulary.candidates(old_token)
            if request.candidates == "neighbours":
                candidates = vocabulary.neighbours(old_token, request.neighbours)
            gains = (vocabulary.embeddings[candidates] - vocabulary.embeddings[old_token]) @ gradient[position]
            order = np.argsort(-gains, kind="stable")[:_MAX_TRIES]
            substitutions: list[Substitution] = []
            for choice in order:
                substitution = self._with_token(
                    request, tokens, position, int(candidates[choice]), float(gains[choice])
                )
                if substitution is not None:
                    substitutions.append(substitution)
                    if len(substitutions) == needed:
                        break
            yield substitutions

    def _with_token(
        self, request: Substitute, tokens: AttackedTokens, position: int, new_token: int, gain: float
    ) -> Substitution | None:
        """The substitution of one token by another; None if the new text is not tokenized as intended."""
        span = tokens.spans[position]
        assert span is not None
        prompt = request.left + request.text + request.right
        word = self._vocabulary.words[new_token]
        if word == prompt[span[0] : span[1]]:
            return None
        new_prompt = prompt[: span[0]] + word + prompt[span[1] :]
        intended = (*tokens.ids[:position], new_token, *tokens.ids[position + 1 :])
        if self._attacked.encode(new_prompt, request.target).ids != intended:
            return None
        return _substitution(request, span, word, gain)

    def _unknown_words(
        self, request: Substitute, tokens: AttackedTokens, gradient: Floats
    ) -> Iterator[list[Substitution]]:
        """For each word, substitutions by misspellings that the vocabulary does not have.

        A misspelling has two neighbouring letters swapped. If the vocabulary has all of these, the last letter is
        repeated, as in TEAPOT (the program of Michel et al. 2019).
        """
        for match in _WORD.finditer(request.text):
            if _is_kept(request, match.span()):
                continue
            span = (match.start() + len(request.left), match.end() + len(request.left))
            old_tokens = _tokens_in(tokens, span)
            if not old_tokens or self._attacked.tokenizer.unk_token_id in (tokens.ids[i] for i in old_tokens):
                continue
            substitutions = self._unknown_spellings(request, tokens, gradient, span, old_tokens, _swaps(match.group()))
            if not substitutions:
                repeats = _repeats(match.group())
                substitutions = self._unknown_spellings(request, tokens, gradient, span, old_tokens, repeats)[:1]
            yield substitutions

    def _unknown_spellings(
        self,
        request: Substitute,
        tokens: AttackedTokens,
        gradient: Floats,
        span: Span,
        old_tokens: Sequence[int],
        spellings: Sequence[str],
    ) -> list[Substitution]:
        """Substitutions of a word by those spellings that need the unknown token, or more tokens than before."""
        prompt = request.left + request.text + request.right
        first = old_tokens[0]
        end = old_tokens[-1] + 1
        tokens_after = tokens.ids[end:]
        substitutions = []
        for word in spellings:
            new_prompt = prompt[: span[0]] + word + prompt[span[1] :]
            new_ids = self._attacked.encode(new_prompt, request.target).ids
            new_end = len(new_ids) - len(tokens_after)
            # The rest of the text must keep its tokens, so that only this word has changed for the model.
            if new_ids[:first] != tokens.ids[:first] or new_ids[new_end:] != tokens_after:
                continue
            new_tokens = new_ids[first:new_end]
            is_unknown = self._attacked.tokenizer.unk_token_id in new_tokens or len(new_tokens) > len(old_tokens)
            if not new_tokens or not is_unknown:
                continue
            # The number of tokens may change, so each old token is compared with the mean of the new ones.
            new_embedding = self._vocabulary.embeddings[list(new_tokens)].mean(axis=0)
            gain = 0.0
            for position in old_tokens:
                old_embedding = self._vocabulary.embeddings[tokens.ids[position]]
                gain += float((new_embedding - old_embedding) @ gradient[position])
            substitutions.append(_substitution(request, span, word, gain))
        return substitutions


class SubstituteVocabulary:
    """The tokens that may replace others: how they are written, and their embeddings."""

    def __init__(self, tokenizer: Any, embedding: Any) -> None:
        self.words: list[str] = []
        """How each token is written inside a text, without the space before it."""
        with torch.no_grad():
            all_tokens = torch.arange(embedding.weight.shape[0], device=embedding.weight.device)
            self.embeddings: Floats = embedding(all_tokens).float().cpu().numpy()
        excluded = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
        self._begins_word = np.zeros(len(self.embeddings), dtype=bool)
        self._is_usable = np.zeros(len(self.embeddings), dtype=bool)
        self._neighbours: dict[tuple[int, int], NDArray[np.int64]] = {}
        for index in range(len(self.embeddings)):
            text = _token_text(tokenizer, index)
            word = text.strip()
            self.words.append(word)
            self._begins_word[index] = text.startswith(" ")
            # A token that is only a part of a character is written as a replacement character.
            is_one_word = bool(word) and word.isprintable() and " " not in word and "\ufffd" not in word
            self._is_usable[index] = is_one_word and index not in excluded

    def candidates(self, token: int) -> NDArray[np.int64]:
        """The tokens that may replace a token: those that begin a word if it begins one, else those that do not."""
        is_candidate = self._is_usable & (self._begins_word == self._begins_word[token])
        is_candidate[token] = False
        return np.flatnonzero(is_candidate)

    def neighbours(self, token: int, count: int) -> NDArray[np.int64]:
        """The ``count`` candidates whose embeddings are closest to that of ``token``, by Euclidean distance."""
        if (token, count) not in self._neighbours:
            candidates = self.candidates(token)
            distances = np.linalg.norm(self.embeddings[candidates] - self.embeddings[token], axis=1)
            self._neighbours[token, count] = candidates[np.argsort(distances, kind="stable")[:count]]
        return self._neighbours[token, count]


def spans_of(tokenizer: Any, prompt: str, ids: Sequence[int]) -> tuple[Span | None, ...]:
    """Where each token is in a prompt, for a tokenizer without offsets: its letters are searched from left to right.

    A wrong span does no harm: a substitution counts only if the new text is tokenized as intended.
    """
    special_tokens = set(tokenizer.all_special_ids)
    spans: list[Span | None] = []
    end_of_last = 0
    for index in ids:
        letters = _token_text(tokenizer, index).strip()
        start = prompt.find(letters, end_of_last)
        if index in special_tokens or not letters or start < 0:
            spans.append(None)
            continue
        end_of_last = start + len(letters)
        spans.append((start, end_of_last))
    return tuple(spans)


def without_spaces(prompt: str, offsets: Sequence[Span]) -> tuple[Span | None, ...]:
    """Spans from a tokenizer's offsets, which may include the space before a word; None if nothing is left."""
    spans: list[Span | None] = []
    for start, end in offsets:
        part = prompt[start:end]
        word = part.strip()
        if not word:
            spans.append(None)
            continue
        start += part.index(word)
        spans.append((start, start + len(word)))
    return tuple(spans)


def _token_text(tokenizer: Any, index: int) -> str:
    """The text of a token, with the space before it if it has one; empty if there is no such token."""
    if index >= len(tokenizer):
        return ""
    token = tokenizer.convert_ids_to_tokens(index)
    if token is None:
        return ""
    # SentencePiece marks the space; its decoder would remove a space at the beginning of a text.
    if "▁" in token:
        return str(token.replace("▁", " "))
    if token.isascii():
        return str(token)
    # Byte-level tokenizers write the bytes of a token as other letters.
    return str(tokenizer.decode([index]))


def _positions(request: Substitute, tokens: AttackedTokens) -> list[int]:
    """The tokens that may be replaced: those inside the text, except for the parts that must stay."""
    positions = []
    for position, span in enumerate(tokens.spans):
        if span is None:
            continue
        start = span[0] - len(request.left)
        end = span[1] - len(request.left)
        if 0 <= start < end <= len(request.text) and not _is_kept(request, (start, end)):
            positions.append(position)
    return positions


def _is_kept(request: Substitute, span: Span) -> bool:
    """Whether a span of ``request.text`` overlaps a part that must stay."""
    return any(start < span[1] and span[0] < end for start, end in request.keep)


def _tokens_in(tokens: AttackedTokens, span: Span) -> list[int]:
    """The positions of the tokens that a part of the prompt consists of; they follow one another."""
    positions = []
    for position, token_span in enumerate(tokens.spans):
        if token_span is not None and token_span[0] < span[1] and span[0] < token_span[1]:
            positions.append(position)
    return positions


def _swaps(word: str) -> list[str]:
    """The word with each pair of different neighbouring letters swapped."""
    spellings: dict[str, None] = {}
    for index in range(len(word) - 1):
        swapped = word[:index] + word[index + 1] + word[index] + word[index + 2 :]
        if swapped != word:
            spellings[swapped] = None
    return list(spellings)


def _repeats(word: str) -> list[str]:
    """The word with its last letter repeated once, twice and so on."""
    return [word + word[-1] * times for times in range(1, _MAX_REPEATS + 1)]


def _substitution(request: Substitute, span: Span, word: str, gain: float) -> Substitution:
    """The request's text with ``word`` in place of a part; ``span`` is where the part is in the whole prompt."""
    start = span[0] - len(request.left)
    end = span[1] - len(request.left)
    text = request.text[:start] + word + request.text[end:]
    return Substitution(text, start, start + len(word), gain)
