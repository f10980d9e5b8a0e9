"""One of several given answers: the one that the model finds most probable, without generating anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Tokens
from lmassay.models.hf.chat import Chat, RenderedPrompt
from lmassay.models.hf.generation import generator_of, gumbel
from lmassay.models.hf.logits import LEAST
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import Generate, Response

# The log-probabilities of the tokens of each (tokens, start), as the causal model gives them.
Scored = Callable[[Sequence[tuple[Tokens, int]]], Iterator[tuple[int, NDArray[np.float64] | ModelError]]]


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A prompt as tokens, and for each choice the ways to spell it behind the prompt."""

    prompt: Tokens
    ways: tuple[tuple[Tokens, ...], ...]

    @property
    def distinct_ways(self) -> tuple[Tokens, ...]:
        return tuple(dict.fromkeys(way for ways in self.ways for way in ways))

    @property
    def length(self) -> int:
        """Tokens that are read; the last one of a choice is only predicted."""
        return len(self.prompt) + max(map(len, self.distinct_ways)) - 1


class ChoiceSelector:
    """Weighs choices as continuations of a prompt.

    A choice weighs as much as the probability that the model goes on with it directly behind the prompt. Behind a
    prompt that does not end in white space models write "A" or " A": the probabilities of both are added. Nothing is
    asked about what follows a choice, so "A" would always outweigh "AB" where its tokens begin those of "AB"; there the
    longer one's probability is taken from the shorter one's, which is left with all other ways to go on.
    With a temperature one choice is drawn, with probabilities that are renormalised over the choices.
    """

    def __init__(self, score: Scored, words: WordTokenizer, chat: Chat, window: int | None) -> None:
        self._score, self._words, self._chat, self._window = score, words, chat, window

    def choose(self, requests: Mapping[int, Generate]) -> Iterator[tuple[int, Response | ModelError]]:
        """Answers as they are ready, by the places of the requests."""
        questions: dict[int, ChoiceQuestion] = {}
        for place, request in requests.items():
            try:
                question = self._question(request)
            except ModelError as error:
                yield place, error
                continue
            if self._window is not None and question.length > self._window:
                yield place, Response(finish="too_long", tokens_in=len(question.prompt))
            else:
                questions[place] = question
        asked = [(place, way) for place, question in questions.items() for way in question.distinct_ways]
        texts = [((*questions[place].prompt, *way), len(questions[place].prompt)) for place, way in asked]
        found: dict[int, dict[Tokens, float | ModelError]] = {place: {} for place in questions}
        for entry, values in self._score(texts):
            place, way = asked[entry]
            found[place][way] = values if isinstance(values, ModelError) else float(values.sum())
            if len(found[place]) == len(questions[place].distinct_ways):
                yield place, _answer(requests[place], questions[place], found.pop(place))

    def _question(self, request: Generate) -> ChoiceQuestion:
        prompt = self._chat.prompt(request.messages) if request.messages else RenderedPrompt(request.prompt)
        texts = [_texts(prompt.text, choice) for choice in request.choices]
        spelled = iter(self._words.behind(prompt.text, [text for choice in texts for text in choice]))
        ways = tuple(tuple(dict.fromkeys(filter(self._words.knows, islice(spelled, len(choice))))) for choice in texts)
        if () in ways:
            raise ModelError(f"the model's vocabulary cannot spell the choice {request.choices[ways.index(())]!r}")
        return ChoiceQuestion(self._words.prompt(prompt), ways)


def _texts(prompt: str, choice: str) -> tuple[str, ...]:
    """How a choice may be written: with a blank before it, too, where neither side has one."""
    joined = prompt[-1:].strip() and choice[:1].strip()
    return (choice, f" {choice}") if joined else (choice,)


def _answer(
    request: Generate, question: ChoiceQuestion, found: Mapping[Tokens, float | ModelError]
) -> Response | ModelError:
    logprobs = {way: value for way, value in found.items() if not isinstance(value, ModelError)}
    if len(logprobs) < len(found):
        return next(value for value in found.values() if isinstance(value, ModelError))
    weights = torch.tensor(_weights(question.ways, logprobs), dtype=torch.float64)
    if request.temperature > 0:
        weights = weights / request.temperature + gumbel(len(weights), generator_of(request))
    best = int(weights.argmax())
    written = max(question.ways[best], key=logprobs.__getitem__)
    return Response(request.choices[best], tokens_in=len(question.prompt), tokens_out=len(written))


def _weights(ways: Sequence[Sequence[Tokens]], logprobs: Mapping[Tokens, float]) -> list[float]:
    """The log-probability of each choice: its ways added up, without what goes on as a longer choice."""
    top = max(logprobs.values())
    share = {way: math.exp(logprob - top) for way, logprob in logprobs.items()}
    alone = {way: share[way] - sum(share[longer] for longer in _next_longer(way, share)) for way in share}
    totals = [sum(alone[way] for way in choice) for choice in ways]
    return [top + math.log(total) if total > 0 else LEAST for total in totals]


def _next_longer(way: Tokens, ways: Mapping[Tokens, float]) -> list[Tokens]:
    """Ways that begin with this one, except those that begin with another of them."""
    longer = [other for other in ways if len(other) > len(way) and other[: len(way)] == way]
    return [a for a in longer if not any(len(b) < len(a) and a[: len(b)] == b for b in longer)]
