"""What a task and a model must offer. These are protocols: a plug-in needs no base class of ours.

The options of a plug-in are the parameters of its ``__init__``: names, types and defaults are read from there, and a
configuration is checked against them. Making a task or a model must be cheap and touch neither network nor weights;
load on the first question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from lmassay.errors import LmassayError, PluginError, failure
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Candidates, Continuation, Example, Request, Response, Result, Score

Answered = Iterable[Response | str | Continuation | Candidates | tuple[int, Response]]


@runtime_checkable
class Task(Protocol):
    """What is asked, and how the answers are judged."""

    name: str
    version: int
    """Raise it when the same inputs may score differently than before."""
    needs: frozenset[str]
    """Verbs the model must know: generate, logprobs, slot, train; empty if none is asked."""

    def examples(self) -> Iterator[Example]:
        """All examples, in a stable order, with unique ids. May be called more than once."""

    def requests(self, example: Example) -> Sequence[Request]:
        """What to ask about it."""

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> Sequence[Score]:
        """Judge a batch; each example comes with one usable response a request, in the order of its requests."""

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """Numbers for the report, overall first."""

    def signature(self) -> Mapping[str, Any]:
        """What the scores depend on (data hashes, scorers, options), for the signature line."""


@runtime_checkable
class Model(Protocol):
    """Who answers. It has one method a verb in ``can``: generate, logprobs, slot.

    Each takes a sequence of requests and gives the answers back in order (a bare answer will do: a string, a
    Continuation, Candidates), or pairs of position and Response in the order of their arrival, which loses least when
    a run is killed.

    Optional: ``check()`` raises a UserError for what can be known before the first question; ``close()``;
    ``cached = False`` for models whose answers cost nothing and are looked up by place; ``label`` for tables;
    ``sees_right = False`` for models that do not look behind a blank; ``chunk`` for how many examples are asked about
    at a time at least; ``prices`` (a Prices) for what tokens cost; ``heed(budget)``, called before the first question:
    ask nothing more when ``budget.allows`` says no, yield what is in flight, then raise BudgetReached;
    ``keep_in(folder)``, called before the first question: where the model may note what it must find again after a
    crash. ``can`` may also hold "choices": the model keeps to the choices of a Generate request; and "train": its
    weights can be had by a trainer, who is another plug-in (see ``Train``), so there is no method of that name.
    """

    name: str

    @property
    def can(self) -> frozenset[str]:
        """The verbs it knows; a plain attribute will do."""

    def identity(self) -> Mapping[str, Any]:
        """All that makes its answers its own: name, revision, weights hash or endpoint, parameters; no secret."""


def ask(model: Model, verb: str, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
    """Put requests of one verb to a model; yield (position, response) as they arrive, exactly one for each."""
    seen: set[int] = set()
    for count, item in enumerate(_told_by_name(model, verb, requests)):
        place, response = item if _is_placed(item) else (count, item)
        if isinstance(response, str | Continuation | Candidates):
            response = Response(response)
        if place in seen or not 0 <= place < len(requests) or not isinstance(response, Response):
            raise PluginError(f"the model {model.name} answered {item!r}, which answers no request that is open")
        seen.add(place)
        yield place, response
    if len(seen) != len(requests):
        raise PluginError(f"the model {model.name} gave {len(seen)} answers to {len(requests)} requests")


def _told_by_name(model: Model, verb: str, requests: Sequence[Request]) -> Iterator[Any]:
    """What the model returns; a failure in a class of the user's own names it, one of ours is a bug and shows whole."""
    try:
        returned: Answered = getattr(model, verb)(requests)
        yield from returned
    except LmassayError:
        raise
    except Exception as error:
        if type(model).__module__.startswith("lmassay."):
            raise
        raise PluginError(f"the model {model.name} failed: {failure(error)}") from error


def _is_placed(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], int)


def label_of(thing: Any) -> str:
    """The short name that tables show for a task or model."""
    return str(getattr(thing, "label", "") or thing.name)
