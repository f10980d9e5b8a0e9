"""Responses of a model: an answer to a request, or the reason why there is none."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = Sequence[float | None] | NDArray[np.float64]

Finish = Literal["stop", "length", "content_filter", "refusal", "empty", "too_long", "not_text"]
"""Why a model stopped generating, or why it was not asked: the request is too long, or is not valid Unicode text (it
contains half of a surrogate pair, which no tokenizer accepts)."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The answer to a :class:`LogProbs` request, in natural logarithms."""

    total: float
    """The log-probability of the whole continuation."""
    tokens: tuple[float, ...]
    """The log-probability of each of its tokens."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The score of one word in a blank."""

    logprob: float | None
    """The natural log-probability; None if the word cannot be scored, for example because it is not a single token and
    the request did not set ``multi_token``."""
    rank: int | None = None
    """The number of tokens in the vocabulary that are more probable, so 0 for the most probable one."""
    mass_above: float | None = None
    """The total probability of all more probable tokens."""
    mass_below: float | None = None
    """The total probability of all less probable tokens."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer to a :class:`Slot` request: one column per value, in the order of the request's words.

    Columns are lists or numpy arrays of the same length. Indexing and iterating yield :class:`Candidate` objects.
    """

    logprobs: Column
    """Natural log-probabilities; NaN or None for a word that cannot be scored (see :class:`Candidate`)."""
    ranks: Column | None = None
    """The number of more probable tokens in the vocabulary; None if the model does not rank its vocabulary."""
    masses_above: Column | None = None
    """The total probability of all more probable tokens."""
    masses_below: Column | None = None
    """The total probability of all less probable tokens."""
    logits: NDArray[np.float32] | None = None
    """The logits of the whole vocabulary, if the request asked for them; never stored."""
    ids: NDArray[np.int64] | None = None
    """The index of each word among ``logits``, -1 for a word that is not a single token."""

    def __len__(self) -> int:
        return len(self.logprobs)

    def __getitem__(self, index: int) -> Candidate:
        logprob = _number_or_none(self.logprobs[index])
        if logprob is None:
            return Candidate(None)
        rank = self._value(self.ranks, index)
        if rank is not None:
            # In a numpy array, ranks are floats.
            rank = int(rank)
        return Candidate(
            logprob,
            rank,
            self._value(self.masses_above, index),
            self._value(self.masses_below, index),
        )

    @staticmethod
    def _value(column: Column | None, index: int) -> float | None:
        if column is None:
            return None
        return _number_or_none(column[index])

    def __iter__(self) -> Iterator[Candidate]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def candidates_from_rows(rows: Iterable[Candidate]) -> Candidates:
    """Build :class:`Candidates`, which has columns, from single words."""
    logprobs: list[float | None] = []
    ranks: list[float | None] = []
    masses_above: list[float | None] = []
    masses_below: list[float | None] = []
    for candidate in rows:
        logprobs.append(candidate.logprob)
        ranks.append(candidate.rank)
        masses_above.append(candidate.mass_above)
        masses_below.append(candidate.mass_below)
    return Candidates(logprobs, ranks, masses_above, masses_below)


def _number_or_none(value: float | None) -> float | None:
    """Return a value of a column; numpy arrays cannot contain None and use NaN instead."""
    if value is None or math.isnan(value):
        return None
    return float(value)


@dataclass(frozen=True, slots=True)
class Substitution:
    """A text in which one token or word was replaced."""

    text: str
    """The new text."""
    start: int
    """Where the replacement begins in the new text: the position of its first character."""
    end: int
    """Where the replacement ends in the new text: the position after its last character."""
    gain: float
    """The expected increase of the loss, in nats."""


@dataclass(frozen=True, slots=True)
class Substitutions:
    """The answer to a :class:`Substitute` request."""

    items: tuple[Substitution, ...]
    """The substitutions: the best one at each position, then the second best at each position, and so on. Empty if
    nothing in the text can be replaced."""


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """The answer to a :class:`Train` request."""

    outcome: Mapping[str, Any]
    """The return value of the trainer, as plain JSON."""


Answer = str | Continuation | Candidates | TrainingOutcome | Substitutions
"""The answer to a request. Its type depends on the kind of request: text, the log-probability of a continuation, scores
of words in a blank, the outcome of a training, or substitutions."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a model returned for one request: either an answer or an error."""

    answer: Answer | None = None
    """The answer; None if there is none."""
    error: str | None = None
    """Why the request failed; None if it did not."""
    finish: Finish = "stop"
    """Why the model stopped: an answer can be complete, cut off, refused or empty."""
    tokens_in: int | None = None
    """The number of input tokens, if the model reports it."""
    tokens_out: int | None = None
    """The number of generated tokens, if the model reports it."""
    seconds: float | None = None
    """How long the request took; None if it was not measured."""

    @property
    def text(self) -> str:
        """The answer to a Generate request. Raises TypeError if the response has no text."""
        if not isinstance(self.answer, str):
            raise TypeError(f"no text in this response: {self.error or self.answer!r}")
        return self.answer

    @property
    def usable(self) -> bool:
        """Whether there is an answer that a task can score."""
        return self.answer is not None and self.error is None


# --- JSON -------------------------------------------------------------------------------------------------------------


def response_as_dict(response: Response) -> dict[str, Any]:
    """Return a response as plain JSON; fields that are None are left out."""
    data: dict[str, Any] = {}
    for declared in dataclasses.fields(response):
        value = getattr(response, declared.name)
        if value is not None:
            data[declared.name] = value
    if response.answer is not None:
        data["answer"] = _answer_as_json(response.answer)
    return data


def _answer_as_json(answer: Answer) -> str | dict[str, Any]:
    """Return an answer as plain JSON. If it is a dict, its keys show what type of answer it is."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Continuation):
        return {"total": answer.total, "tokens": list(answer.tokens)}
    if isinstance(answer, TrainingOutcome):
        return {"outcome": dict(answer.outcome)}
    if isinstance(answer, Substitutions):
        return {"substitutions": [[item.text, item.start, item.end, item.gain] for item in answer.items]}
    rows = []
    for word in answer:
        rows.append([word.logprob, word.rank, word.mass_above, word.mass_below])
    return {"candidates": rows}


def response_from_dict(data: Mapping[str, Any]) -> Response:
    """Read what :func:`response_as_dict` wrote."""
    answer: Any = data.get("answer")
    if isinstance(answer, dict) and "candidates" in answer:
        answer = candidates_from_rows(Candidate(*values) for values in answer["candidates"])
    elif isinstance(answer, dict) and "outcome" in answer:
        answer = TrainingOutcome(answer["outcome"])
    elif isinstance(answer, dict) and "substitutions" in answer:
        answer = Substitutions(tuple(Substitution(*values) for values in answer["substitutions"]))
    elif isinstance(answer, dict):
        answer = Continuation(answer["total"], tuple(answer["tokens"]))
    return Response(**{**data, "answer": answer})
