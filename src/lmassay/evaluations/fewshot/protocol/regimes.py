"""How the trainings of one split hang together: each for itself, as an ensemble, as teachers of later generations.

A regime only says which trainings are wanted and which come before which, not who does them or where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lmassay.errors import ConfigError
from lmassay.plugins.options import Nested, Spec
from lmassay.types import Train

Name = Literal["default", "ensemble", "distillation", "self_training", "ipet", "noisy_student"]
GENERATIONS = ("self_training", "ipet", "noisy_student")
PREVIOUS = "previous"
"""In a training's spec: the last training it builds upon is no teacher, its random draws are gone on with."""


class Regime(BaseModel):
    """FewNLU's second axis (``--arch_method``), and what it left out of PET.

    ``default``: every training stands for itself. ``ensemble``: those of a split (patterns, repetitions) answer
    together, by the mean of their logits. ``distillation``: they label the unlabeled examples softly, and a ``student``
    learns from those at a ``temperature``. ``self_training``: each labels the unlabeled examples for its own next
    generation. ``ipet``: the others of its split (``cross``: of all splits) do, and each generation learns from
    ``scale_factor`` times as many. ``noisy_student``: the same with whole words dropped from the second generation on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = "default"
    patterns: list[int] = []
    repetitions: Annotated[int, Field(ge=1)] = 1
    generations: Annotated[int, Field(ge=1)] = 3
    scale_factor: Annotated[float, Field(gt=1)] = 5
    logits_percentage: Annotated[float, Field(gt=0, le=1)] = 0.25
    n_most_likely: int = -1
    cross: bool = False
    dropout_rate: Annotated[float, Field(gt=0, lt=1)] = 0.05
    temperature: Annotated[float, Field(gt=0)] = 2.0
    student: Annotated[Spec, Nested("method")] = "sequence_classifier"

    @property
    def uses_unlabeled(self) -> bool:
        return self.name == "distillation" or (self.name in GENERATIONS and self.generations > 1)


@dataclass(frozen=True, slots=True)
class Seat:
    """Who learns: a split, a pattern, a repetition."""

    split: int
    pattern: int | None
    repetition: int


@dataclass(frozen=True, slots=True)
class Unit:
    """What is judged together: the trainings whose logits are averaged (mostly one)."""

    seat: Seat
    members: tuple[Train, ...]

    @property
    def id(self) -> str:
        pattern = "" if self.seat.pattern is None else f"-p{self.seat.pattern}"
        repetition = f"-r{self.seat.repetition}" if self.seat.repetition else ""
        return f"split-{self.seat.split}{pattern}{repetition}"


Ask = Callable[[Seat, Mapping[str, Any], Sequence[Train]], Train]
"""Makes the request for a seat: what is special about it, and the trainings it builds upon."""


def teachers_of(training: Train) -> tuple[Train, ...]:
    """The trainings whose labels a training learns from."""
    return training.after[:-1] if training.spec.get(PREVIOUS) else training.after


def units(regime: Regime, splits: int, own_pattern: int | None, ask: Ask, *, chained: bool = False) -> list[Unit]:
    """Everything that a run wants, split by split.

    ``chained``: each training goes on with the random draws of the one before, in the order in which FewNLU trains. It
    seeds its generators once per generation, not once per training.
    """
    regime = _checked(regime, splits)
    patterns: list[int | None] = [*regime.patterns] or [own_pattern]
    seats = [Seat(s, p, r) for s in range(splits) for p in patterns for r in range(regime.repetitions)]
    if regime.name in GENERATIONS:
        return [Unit(seat, (training,)) for seat, training in _generations(regime, seats, ask, chained).items()]
    if regime.name == "default":
        trainings = _trainings(seats, ask, lambda seat: ({}, []), chained)
        return [Unit(seat, (training,)) for seat, training in trainings.items()]
    return list(_together(regime, splits, seats, ask))


def _together(regime: Regime, splits: int, seats: Sequence[Seat], ask: Ask) -> Iterator[Unit]:
    teach = regime.name == "distillation"
    for split in range(splits):
        own = [seat for seat in seats if seat.split == split]
        members = tuple(ask(seat, {"label_unlabeled": True} if teach else {}, ()) for seat in own)
        whole = Seat(split, None, 0)
        if not teach:
            yield Unit(whole, members)
            continue
        special = {"method": regime.student, "soft": {"temperature": regime.temperature}}
        yield Unit(whole, (ask(whole, special, members),))


Wanted = Callable[[Seat], tuple[dict[str, Any], list[Train]]]
"""What is special about a seat's training, and its teachers."""


def _trainings(seats: Sequence[Seat], ask: Ask, wanted: Wanted, chained: bool) -> dict[Seat, Train]:
    """The trainings of one generation, in the order of the seats."""
    order = list(seats)
    if chained:
        # FewNLU's loops: patterns, in them splits, in them repetitions.
        patterns = list(dict.fromkeys(seat.pattern for seat in seats))
        order.sort(key=lambda seat: (patterns.index(seat.pattern), seat.split, seat.repetition))
    found: dict[Seat, Train] = {}
    previous: Train | None = None
    for seat in order:
        special, after = wanted(seat)
        if chained and previous is not None:
            special[PREVIOUS] = True
            after.append(previous)
        previous = found[seat] = ask(seat, special, after)
    return {seat: found[seat] for seat in seats}


def _generations(regime: Regime, seats: Sequence[Seat], ask: Ask, chained: bool) -> dict[Seat, Train]:
    now: dict[Seat, Train] = {}
    for generation in range(regime.generations):
        now = _trainings(seats, ask, _Generation(regime, generation, seats, now).wanted, chained)
    return now


@dataclass(frozen=True, slots=True)
class _Generation:
    """One generation of trainings; ``before`` is the one that teaches it."""

    regime: Regime
    number: int
    seats: Sequence[Seat]
    before: Mapping[Seat, Train]

    def wanted(self, seat: Seat) -> tuple[dict[str, Any], list[Train]]:
        regime = self.regime
        special: dict[str, Any] = {"label_unlabeled": True} if self.number + 1 < regime.generations else {}
        if not self.before:
            return special, []
        special["pseudo"] = _draw(regime, self.number, self.seats.index(seat))
        if regime.name == "noisy_student":
            special["noise"] = regime.dropout_rate
        return special, [self.before[other] for other in _teachers(regime, seat, self.seats)]


def _draw(regime: Regime, generation: int, place: int) -> dict[str, Any]:
    """How the teachers' labels become examples. The n most likely are FewNLU's way for the first generation only."""
    return {
        # A learner that is its own only teacher has all of its labels.
        "logits_percentage": 1.0 if regime.name == "self_training" else regime.logits_percentage,
        "n_most_likely": regime.n_most_likely if generation == 1 else -1,
        "scale": regime.scale_factor**generation,
        "draw": place,
    }


def _teachers(regime: Regime, seat: Seat, seats: Sequence[Seat]) -> list[Seat]:
    if regime.name == "self_training":
        return [seat]
    return [other for other in seats if other != seat and (regime.cross or other.split == seat.split)]


def _checked(regime: Regime, splits: int) -> Regime:
    many = max(1, len(regime.patterns)) * regime.repetitions
    if len(set(regime.patterns)) != len(regime.patterns):
        raise ConfigError("task.regime.patterns: a pattern stands there twice")
    if regime.name in ("ipet", "noisy_student") and regime.generations > 1:
        if many == 1 and not regime.cross:
            raise ConfigError(
                f"task.regime: {regime.name} needs teachers besides the learner itself; give several patterns or "
                "repetitions, or cross: true to be taught by the other splits"
            )
        if many == 1 and splits == 1:
            raise ConfigError("task.regime.cross: there is one split only, so nobody else to be taught by")
    return regime
