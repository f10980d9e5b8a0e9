"""The nouns that every part of lmassay speaks in. Frozen, no I/O, and all of them survive a trip through JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = Sequence[float | None] | NDArray[np.float64]

Verb = Literal["generate", "logprobs", "slot", "train"]
State = Literal["scored", "unscored", "error"]
Finish = Literal["stop", "length", "content_filter", "refusal", "empty", "too_long"]


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
    choices: tuple[str, ...] = ()
    """If any: the answer must be one of these texts, the one that the model finds most probable."""
    # Not part of what the model is asked, hence neither of equality nor of the cache key.
    place: Place | None = field(default=None, compare=False)
    draw: str = field(default="", compare=False)
    """Which draw a sampled answer is: the seed for models that sample here."""


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Ask for the log-probability of a continuation after a context, or as the reply to chat messages."""

    verb: ClassVar[Verb] = "logprobs"
    context: str
    continuation: str
    messages: tuple[tuple[str, str], ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """Ask how candidate words fare at a blank: the text is ``left + word + right``, spaces included.

    Masked models see both sides, causal ones the left. ``ranked`` asks for rank and mass as well. A word of several
    tokens is spelled out where ``multi_token`` says so, and has no score otherwise.
    """

    verb: ClassVar[Verb] = "slot"
    left: str
    right: str
    candidates: tuple[str, ...]
    ranked: bool = True
    multi_token: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Train:
    """Ask that something be learned: a piece of work that any process can do, and whose outcome is kept.

    ``by`` names the trainer that does it, ``spec`` says what is to be learned, ``after`` are trainings whose outcomes
    it builds upon.
    """

    verb: ClassVar[Verb] = "train"
    by: str
    spec: Mapping[str, Any]
    after: tuple[Train, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Where the data lie on this machine, which is no part of what is asked."""
    key: str = field(init=False, compare=False, repr=False)
    """What tells trainings apart, without the model."""

    def __post_init__(self) -> None:
        # Made once: what comes before is shared by many, and has others before it.
        own = digest({"by": self.by, "spec": self.spec, "after": [earlier.key for earlier in self.after]})
        object.__setattr__(self, "key", own)


Request = Generate | LogProbs | Slot | Train


@dataclass(frozen=True, slots=True)
class Continuation:
    """Answer to LogProbs: natural-log probability in all and per token."""

    total: float
    tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """How one word fares at a blank; ``logprob`` is None for a word the vocabulary cannot spell as asked."""

    logprob: float | None
    rank: int | None = None
    mass_above: float | None = None
    mass_below: float | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Answer to Slot, as columns in the order of the request's words: lists or numpy arrays of one length.

    ``logprobs`` holds NaN (or None) for a word the vocabulary cannot spell as asked. The others are for models that
    rank their whole vocabulary: how many tokens are more probable, how much they weigh together, and how much all less
    probable ones do.
    """

    logprobs: Column
    ranks: Column | None = None
    masses_above: Column | None = None
    masses_below: Column | None = None

    def __len__(self) -> int:
        return len(self.logprobs)

    def __getitem__(self, place: int) -> Candidate:
        logprob = _plain(self.logprobs[place])
        if logprob is None:
            return Candidate(None)
        rank, above, below = (
            None if column is None else _plain(column[place])
            for column in (self.ranks, self.masses_above, self.masses_below)
        )
        return Candidate(logprob, None if rank is None else int(rank), above, below)

    def __iter__(self) -> Iterator[Candidate]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def candidates_of(words: Iterable[Candidate]) -> Candidates:
    """The columns of candidates given one by one."""
    rows = list(words)
    return Candidates(
        [r.logprob for r in rows], [r.rank for r in rows], [r.mass_above for r in rows], [r.mass_below for r in rows]
    )


def _plain(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


@dataclass(frozen=True, slots=True)
class Trained:
    """Answer to Train: what came of it, as plain JSON."""

    outcome: Mapping[str, Any]


Answer = str | Continuation | Candidates | Trained


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


def compact(value: Any) -> str:
    """The same JSON for keeping: beyond ASCII as it is, which is a third of the size for Korean, where UTF-8 has it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # Only a lone surrogate cannot be written.
    return text if text.isascii() or _is_utf8(text) else canonical(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def digest(*values: Any) -> str:
    """A SHA-256 over JSON-able values, in hex."""
    return hashlib.sha256(canonical(list(values)).encode("ascii")).hexdigest()


def request_as_dict(request: Request) -> dict[str, Any]:
    """What the model is asked, without the place it is asked from."""
    if isinstance(request, Train):
        earlier = [training.key for training in request.after]
        return {"verb": request.verb, "by": request.by, "spec": dict(request.spec), "after": earlier}
    fields = {f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.compare}
    return {"verb": request.verb, **fields}


def request_key(request: Request) -> dict[str, Any]:
    """What tells requests apart. A list of candidate words is shared by many blanks: it is hashed once."""
    if isinstance(request, Train):
        return {"verb": request.verb, "training": request.key}
    if not isinstance(request, Slot):
        return request_as_dict(request)
    key = dataclasses.replace(request, candidates=())
    return {**request_as_dict(key), "candidates": _words_digest(request.candidates)}


@lru_cache(maxsize=64)
def _words_digest(words: tuple[str, ...]) -> str:
    return digest(list(words))


def response_as_dict(response: Response) -> dict[str, Any]:
    """A response as JSON; fields that hold nothing are left out."""
    row = {f.name: getattr(response, f.name) for f in dataclasses.fields(response)}
    answer = response.answer
    if isinstance(answer, Continuation):
        row["answer"] = {"total": answer.total, "tokens": list(answer.tokens)}
    elif isinstance(answer, Candidates):
        row["answer"] = {"candidates": [[c.logprob, c.rank, c.mass_above, c.mass_below] for c in answer]}
    elif isinstance(answer, Trained):
        row["answer"] = {"outcome": dict(answer.outcome)}
    return {name: value for name, value in row.items() if value is not None}


def response_from_dict(row: Mapping[str, Any]) -> Response:
    """The inverse of :func:`response_as_dict`."""
    answer: Any = row.get("answer")
    if isinstance(answer, dict) and "candidates" in answer:
        answer = candidates_of(Candidate(*c) for c in answer["candidates"])
    elif isinstance(answer, dict) and "outcome" in answer:
        answer = Trained(answer["outcome"])
    elif isinstance(answer, dict):
        answer = Continuation(answer["total"], tuple(answer["tokens"]))
    return Response(**{**row, "answer": answer})
