"""The nouns that every part of lmassay speaks in. Frozen, no I/O, and all of them survive a trip through JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Verb = Literal["generate", "logprobs", "slot"]
State = Literal["scored", "unscored", "error"]
Finish = Literal["stop", "length", "content_filter", "refusal", "empty"]


@dataclass(frozen=True, slots=True)
class Example:
    """One thing that is asked about. ``groups`` (category, template …) make tables and clusters."""

    id: str
    inputs: Mapping[str, Any]
    reference: Any = None
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands in its data set, for models that look ready-made answers up: a role and a line or id."""

    role: str
    key: int | str


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask for text. Either a prompt or chat messages, each a (role, content) pair."""

    verb: ClassVar[Verb] = "generate"
    prompt: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    max_tokens: int = 256
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    # Not part of what the model is asked, hence neither of equality nor of the cache key.
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Ask for the log-probability of a continuation after a context."""

    verb: ClassVar[Verb] = "logprobs"
    context: str
    continuation: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """Ask how candidate words fare at a blank. Masked models see both sides, causal ones the left."""

    verb: ClassVar[Verb] = "slot"
    left: str
    right: str
    candidates: tuple[str, ...]
    place: Place | None = field(default=None, compare=False)


Request = Generate | LogProbs | Slot


@dataclass(frozen=True, slots=True)
class Continuation:
    """Answer to LogProbs: natural-log probability in all and per token."""

    total: float
    tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Answer to Slot for one word; ``logprob`` is None for a word the vocabulary cannot spell as asked."""

    logprob: float | None
    rank: int | None = None
    mass_above: float | None = None


Answer = str | Continuation | tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Response:
    """What came back: an answer or an error, never both. ``finish`` tells whole answers from cut or refused ones."""

    answer: Answer | None = None
    error: str | None = None
    finish: Finish = "stop"
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float | None = None

    @property
    def text(self) -> str:
        """The answer to a Generate request."""
        if not isinstance(self.answer, str):
            raise TypeError(f"no text in this response: {self.error or self.answer!r}")
        return self.answer

    @property
    def usable(self) -> bool:
        """True where there is an answer that a task may judge."""
        return self.answer is not None and self.error is None


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict on one example: numbers by metric, or the reason why a metric has none. Never NaN."""

    values: Mapping[str, float] = field(default_factory=dict)
    unscored: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One example of a run as the store keeps it."""

    example: Example
    state: State
    score: Score = field(default_factory=Score)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A number with what it rests on. ``low`` and ``high`` are None where no interval can be given."""

    metric: str
    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_error: int = 0
    n_unscored: int = 0

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def canonical(value: Any) -> str:
    """JSON with one spelling a value, for hashing and storing.

    A lone surrogate is legal in a Python string but not in UTF-8, so everything beyond ASCII is escaped.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*values: Any) -> str:
    """A SHA-256 over JSON-able values, in hex."""
    return hashlib.sha256(canonical(list(values)).encode("ascii")).hexdigest()


def request_as_dict(request: Request) -> dict[str, Any]:
    """What the model is asked, without the place it is asked from."""
    fields = {f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.name != "place"}
    return {"verb": request.verb, **fields}


def response_as_dict(response: Response) -> dict[str, Any]:
    """A response as JSON; fields that hold nothing are left out."""
    row = {f.name: getattr(response, f.name) for f in dataclasses.fields(response)}
    answer = response.answer
    if isinstance(answer, Continuation):
        row["answer"] = {"total": answer.total, "tokens": list(answer.tokens)}
    elif isinstance(answer, tuple):
        row["answer"] = {"candidates": [[c.logprob, c.rank, c.mass_above] for c in answer]}
    return {name: value for name, value in row.items() if value is not None}


def response_from_dict(row: Mapping[str, Any]) -> Response:
    """The inverse of :func:`response_as_dict`."""
    answer: Any = row.get("answer")
    if isinstance(answer, dict) and "candidates" in answer:
        answer = tuple(Candidate(*c) for c in answer["candidates"])
    elif isinstance(answer, dict):
        answer = Continuation(answer["total"], tuple(answer["tokens"]))
    return Response(**{**row, "answer": answer})
