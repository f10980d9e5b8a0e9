"""Answer with one of several given choices: the one that the model finds most probable, without generating text."""

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
from lmassay.models.hf.logits import MIN_LOGPROB
from lmassay.models.hf.tokenization import WordTokenizer
from lmassay.types import Generate, Response

# CausalLM.score: for each (tokens, start), yields its index and the log-probabilities of the tokens from position
# ``start`` on.
ScoreFunction = Callable[[Sequence[tuple[Tokens, int]]], Iterator[tuple[int, NDArray[np.float64] | ModelError]]]


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A prompt as tokens, and for each choice its spellings (as tokens) after the prompt."""

    prompt: Tokens
    spellings: tuple[tuple[Tokens, ...], ...]

    @property
    def distinct_spellings(self) -> tuple[Tokens, ...]:
        """The spellings of all choices, each once."""
        distinct: dict[Tokens, None] = {}
        for spellings_of_choice in self.spellings:
            distinct |= dict.fromkeys(spellings_of_choice)
        return tuple(distinct)

    @property
    def length(self) -> int:
        """How many tokens the model reads for the longest choice, whose last token is only predicted."""
        return len(self.prompt) + max(map(len, self.distinct_spellings)) - 1


class ChoiceSelector:
    """Compares choices by their probability as a continuation of the prompt.

    After a prompt that does not end in white space, models write "A" or " A": the probabilities of both spellings are
    added. What follows a choice is not considered. So if the tokens of "A" are the beginning of those of "AB", "A"
    would always be at least as probable as "AB". In this case, the probability of the longer choice is subtracted from
    that of the shorter one, which leaves the probability of all other continuations of "A". With a temperature above 0,
    one choice is sampled; the probabilities of the choices are renormalised, so that they add up to 1.
    """

    def __init__(self, score: ScoreFunction, tokenizer: WordTokenizer, chat: Chat, window: int | None) -> None:
        self._score = score
        self._word_tokenizer = tokenizer
        self._chat = chat
        self._window = window

    def choose(self, requests: Mapping[int, Generate]) -> Iterator[tuple[int, Response | ModelError]]:
        """Yield (index, answer) as answers become ready; ``requests`` is a dict from index to request."""
        questions: dict[int, ChoiceQuestion] = {}
        for index, request in requests.items():
            try:
                question = self._question(request)
            except ModelError as error:
                yield index, error
                continue
            if self._window is not None and question.length > self._window:
                yield index, Response(finish="too_long", tokens_in=len(question.prompt))
            else:
                questions[index] = question

        # All spellings of all questions are scored together, so that they share batches and prefixes.
        scored: list[tuple[int, Tokens]] = []
        texts: list[tuple[Tokens, int]] = []
        for index, question in questions.items():
            for spelling in question.distinct_spellings:
                scored.append((index, spelling))
                texts.append(((*question.prompt, *spelling), len(question.prompt)))
        logprobs: dict[int, dict[Tokens, float | ModelError]] = {index: {} for index in questions}
        for entry, values in self._score(texts):
            index, spelling = scored[entry]
            logprobs[index][spelling] = values if isinstance(values, ModelError) else float(values.sum())
            if len(logprobs[index]) == len(questions[index].distinct_spellings):
                yield index, _answer(requests[index], questions[index], logprobs.pop(index))

    def _question(self, request: Generate) -> ChoiceQuestion:
        """Tokenize the prompt of a request, and the spellings of its choices."""
        prompt = self._chat.prompt(request.messages) if request.messages else RenderedPrompt(request.prompt)
        texts = [_texts(prompt.text, choice) for choice in request.choices]
        # One call for the texts of all choices: each call tokenizes the prompt again.
        all_texts: list[str] = []
        for choice_texts in texts:
            all_texts += choice_texts
        all_tokens = iter(self._word_tokenizer.tokens_after(prompt.text, all_texts))
        spellings = []
        for choice, choice_texts in zip(request.choices, texts, strict=True):
            choice_tokens = islice(all_tokens, len(choice_texts))
            scorable = tuple(dict.fromkeys(filter(self._word_tokenizer.knows, choice_tokens)))
            if not scorable:
                raise ModelError(f"the model's vocabulary cannot spell the choice {choice!r}")
            spellings.append(scorable)
        return ChoiceQuestion(self._word_tokenizer.prompt(prompt), tuple(spellings))


def _texts(prompt: str, choice: str) -> tuple[str, ...]:
    """The spellings of a choice: as given and, if there is no white space between it and the prompt, with a space."""
    needs_space = prompt[-1:].strip() and choice[:1].strip()
    if needs_space:
        return (choice, f" {choice}")
    return (choice,)


def _answer(
    request: Generate, question: ChoiceQuestion, results: Mapping[Tokens, float | ModelError]
) -> Response | ModelError:
    """The most probable choice, or a sampled one if the request has a temperature above 0."""
    logprobs: dict[Tokens, float] = {}
    for spelling, result in results.items():
        if isinstance(result, ModelError):
            return result
        logprobs[spelling] = result
    scores = torch.tensor(_choice_logprobs(question.spellings, logprobs), dtype=torch.float64)
    if request.temperature > 0:
        # The Gumbel trick: the largest sum of a scaled log-probability and Gumbel noise is a draw from the softmax.
        scores = scores / request.temperature + gumbel(len(scores), generator_of(request))
    best = int(scores.argmax())
    best_spelling = max(question.spellings[best], key=logprobs.__getitem__)
    return Response(request.choices[best], tokens_in=len(question.prompt), tokens_out=len(best_spelling))


def _choice_logprobs(spellings: Sequence[Sequence[Tokens]], logprobs: Mapping[Tokens, float]) -> list[float]:
    """The log-probability of each choice, from those of its spellings, without texts that continue as a longer choice.

    ``spellings`` has the spellings of each choice.
    """
    # Probabilities relative to the largest one, so that exp does not underflow for long choices.
    top = max(logprobs.values())
    share = {spelling: math.exp(logprob - top) for spelling, logprob in logprobs.items()}
    # The probability of a spelling contains that of all longer spellings that begin with it. These are subtracted,
    # which leaves the probability of all its other continuations, including the end of the text.
    exclusive = {}
    for spelling in share:
        continued = sum(share[longer] for longer in _next_longer(spelling, share))
        exclusive[spelling] = share[spelling] - continued
    choice_logprobs = []
    for spellings_of_choice in spellings:
        total = sum(exclusive[spelling] for spelling in spellings_of_choice)
        if total > 0:
            choice_logprobs.append(top + math.log(total))
        else:
            choice_logprobs.append(MIN_LOGPROB)
    return choice_logprobs


def _is_beginning(shorter: Tokens, longer: Tokens) -> bool:
    return len(shorter) < len(longer) and longer[: len(shorter)] == shorter


def _next_longer(spelling: Tokens, spellings: Mapping[Tokens, float]) -> list[Tokens]:
    """The longer spellings that begin with this one.

    If one of these begins with another of them, only the shorter of the two is returned: its probability contains that
    of the other.
    """
    longer = [other for other in spellings if _is_beginning(spelling, other)]
    direct = []
    for candidate in longer:
        is_nested = any(_is_beginning(other, candidate) for other in longer)
        if not is_nested:
            direct.append(candidate)
    return direct
