"""Surprisal of tokens and words: how unexpected each one is, given the text before it (or around it).

The surprisal of a token is its negative log-probability. Words are separated by white space, and the surprisal of a
word is the sum over its tokens. Tokenizers such as GPT-2's put the space at the beginning of the *next* token, so the
sum lacks the probability that the word ends, and includes the probability that the previous word ends. The
beginning-of-word correction moves each of these to the word it belongs to (Pimentel and Meister 2024, "How to Compute
the Probability of a Word"; Oh and Schuler 2024, "Leading Whitespaces of Language Models' Subword Vocabulary Pose a
Confound for Calculating Word Probabilities").
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmassay.contracts import Model, label_of
from lmassay.errors import ModelError, UserError
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.compatibility import as_model
from lmassay.plugins.options import build
from lmassay.running.model_spec import model_spec

Unit = Literal["bits", "nats"]
Per = Literal["word", "token"]
Correction = Literal["space", "space+end", "none"]


@dataclass(frozen=True, slots=True)
class Surprisal:
    """The surprisal of a word or token."""

    text: str
    start: int
    """Where it begins in its text, in characters."""
    end: int
    value: float | None
    """The surprisal. It is None if nothing precedes the first token of a text, or if a word has no token of its own."""
    tokens: int
    """How many tokens it consists of; 0 if a token of an earlier word covers it."""


@dataclass(frozen=True, slots=True)
class TextSurprisal:
    """The words or tokens of a text in order, or the reason why the model could not read it."""

    text: str
    units: tuple[Surprisal, ...]
    """Empty if the model could not read the text, or if the text has no words."""
    reason: str = ""
    """Why the model could not read the text; empty if it could."""

    def __iter__(self) -> Iterator[Surprisal]:
        return iter(self.units)

    def __len__(self) -> int:
        return len(self.units)


def surprisal(
    model: str | Model,
    texts: Sequence[str],
    per: Per = "word",
    unit: Unit = "bits",
    correction: Correction = "space",
) -> list[TextSurprisal]:
    """Return the surprisal of every word or token (``per``) of every text, in bits or nats (``unit``).

    ``model`` is a local model, written as for ``lmassay card``: a folder, a GGUF file, a hub name or ``smollm2``.
    Causal models predict a token from the text before it. Masked models predict it from both sides
    (pseudo-log-likelihood).

    ``correction`` is how words are corrected for the space that belongs to the next token. With ``space``, tokens that
    begin with a space end a word, as in the Python package minicons. With ``space+end``, the end of the text does so
    as well, as in Pimentel and Meister's code. ``none`` is the plain sum over tokens. The surprisal of single tokens,
    and that of words from masked models or from tokenizers that do not mark spaces, is never corrected.

    >>> words = lmassay.surprisal("smollm2", ["The keys are here."])[0]  # doctest: +SKIP
    >>> [(word.text, round(word.value, 1)) for word in words]  # doctest: +SKIP
    """
    for name, value, allowed in (
        ("per", per, ("word", "token")),
        ("unit", unit, ("bits", "nats")),
        ("correction", correction, ("space", "space+end", "none")),
    ):
        if value not in allowed:
            raise UserError(f"{name}: must be one of {', '.join(allowed)} (got {value!r})")
    if isinstance(texts, str):
        raise UserError("texts: give a list of texts, not a single text")
    local_model = local_model_of(model)
    boundary = correction if per == "word" else "none"
    # Nats are natural logarithms, bits are logarithms to base 2.
    scale = math.log(2) if unit == "bits" else 1.0
    scored: dict[int, TextSurprisal] = {}
    for index, scores in local_model.token_scores(texts, boundary):
        text = texts[index]
        if isinstance(scores, ModelError):
            scored[index] = TextSurprisal(text, (), str(scores))
        elif per == "token":
            scored[index] = TextSurprisal(text, tuple(_tokens(text, scores, scale)))
        else:
            scored[index] = TextSurprisal(text, tuple(_words(text, scores, scale)))
    return [scored[index] for index in range(len(texts))]


def local_model_of(model: str | Model) -> HuggingFace:
    """Return the local model that a name or object stands for; raise a UserError if it is not a local model."""
    if isinstance(model, str):
        model = as_model(build("model", model_spec(model, Path.cwd()), Path.cwd()), model)
    if not isinstance(model, HuggingFace):
        raise UserError(
            f"surprisal needs a local model (a folder, a GGUF file or a hub name); {label_of(model)} is not one"
        )
    model.check()
    if model.kind == "encoder-decoder":
        raise UserError(f"surprisal needs a causal or masked model; {label_of(model)} is an encoder-decoder")
    return model


def correction_note(model: HuggingFace, per: Per, correction: Correction) -> str:
    """Describe in a few words how words were corrected for spaces, or why they were not."""
    if per == "token":
        return "tokens"
    if model.kind == "masked":
        # A masked model needs no correction.
        return "words"
    if correction == "none":
        return "words without correction for spaces"
    if not len(model.tokenizer.ids_after_space):
        return "words without correction, because the tokenizer does not mark spaces"
    return "words with beginning-of-word correction"


def _tokens(text: str, scores: Any, scale: float) -> Iterator[Surprisal]:
    for (start, end), logprob in zip(scores.spans, scores.logprobs, strict=True):
        yield Surprisal(text[start:end], start, end, _surprisal(logprob, scale), 1)


def _words(text: str, scores: Any, scale: float) -> Iterator[Surprisal]:
    """Yield the surprisal of each word of a text."""
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
    tokens_of_word = _tokens_by_word(text, words, scores.spans)
    is_first = True
    for (start, end), tokens in zip(words, tokens_of_word, strict=True):
        if not tokens:
            # A token that begins in an earlier word covers this one, too.
            yield Surprisal(text[start:end], start, end, None, 0)
            continue
        logprob = float(sum(scores.logprobs[token] for token in tokens))
        if scores.boundaries is not None:
            # The word is complete if a boundary follows it ...
            logprob += scores.boundaries[tokens[-1] + 1]
            # ... and the space before it belongs to the previous word. The first word has no word before it.
            if not is_first:
                logprob -= scores.boundaries[tokens[0]]
        is_first = False
        yield Surprisal(text[start:end], start, end, _surprisal(logprob, scale), len(tokens))


def _tokens_by_word(text: str, words: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the indices of the tokens of each word. A token belongs to the word with its first non-space character.

    A token that consists only of spaces belongs to the next word, just as the space in front of a word does.
    """
    tokens: list[list[int]] = [[] for _ in words]
    word = 0
    for token, (start, end) in enumerate(spans):
        content = start
        while content < end and text[content].isspace():
            content += 1
        while word < len(words) - 1 and content >= words[word][1]:
            word += 1
        if words:
            tokens[word].append(token)
    return tokens


def _surprisal(logprob: float, scale: float) -> float | None:
    """Return the surprisal for a log-probability; ``scale`` is 1 for nats and ln 2 for bits."""
    if math.isnan(logprob):
        return None
    value = -float(logprob) / scale
    if abs(logprob) < 1e-9:
        # Rounding can make the log-probability of a token with probability 1 slightly positive. The surprisal would
        # then be negative, or -0.0 if the log-probability is exactly 0.
        return max(0.0, value)
    return value
