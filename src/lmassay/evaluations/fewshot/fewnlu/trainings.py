"""Which training belongs into which of FewNLU's folders: generation, pattern, split, repetition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from lmassay.evaluations.fewshot.fewnlu.config import TOGETHER
from lmassay.evaluations.fewshot.protocol.regimes import teachers_of
from lmassay.evaluations.fewshot.task import FewShot
from lmassay.types import Request, Train, digest

FINAL = "final"
_UNIT = re.compile(r"split-(\d+)(?:-p(\d+))?(?:-r(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class FolderKey:
    """Who learned. A classifier has pattern 0."""

    pattern: int
    fold: int
    repetition: int

    @property
    def folder(self) -> str:
        return f"p{self.pattern}/f{self.fold}-i{self.repetition}"


@dataclass(frozen=True, slots=True)
class Round:
    """Trainings that stand beside each other: all, those of a generation, or what an ensemble comes to."""

    folder: str
    """Below the output folder: "" (itself), "g0" or "final"."""
    trainings: Mapping[FolderKey, tuple[Train, ...]]
    """One a seat, or several whose logits are averaged."""


def rounds(task: FewShot, arch: str, patterns: Sequence[int], repetitions: int) -> list[Round]:
    """All trainings of a run, the earliest round first."""
    asked = {_seat(example.inputs["unit"], patterns): task.requests(example) for example in task.examples()}
    units = {seat: tuple(_trainings(requests)) for seat, requests in sorted(asked.items())}
    if arch in TOGETHER:
        members: dict[FolderKey, tuple[Train, ...]] = {}
        for seat, found in units.items():
            inside = found if arch == "ensemble" else found[0].after
            own = [FolderKey(pattern, seat.fold, number) for pattern, number in product(patterns, range(repetitions))]
            members |= {member: (training,) for member, training in zip(own, inside, strict=True)}
        return [Round("", dict(sorted(members.items()))), Round(FINAL, units)]
    levels = _generations({seat: found[0] for seat, found in units.items()})
    names = [""] if len(levels) == 1 else [f"g{number}" for number in range(len(levels))]
    return [
        Round(name, {seat: (training,) for seat, training in level.items()})
        for name, level in zip(names, levels, strict=True)
    ]


def _seat(unit: str, patterns: Sequence[int]) -> FolderKey:
    match = _UNIT.match(unit)
    assert match is not None
    fold, pattern, repetition = match.groups()
    return FolderKey(patterns[0] if pattern is None else int(pattern), int(fold), int(repetition or 0))


def _trainings(requests: Iterable[Request]) -> Iterator[Train]:
    for request in requests:
        assert isinstance(request, Train)
        yield request


def _generations(last: dict[FolderKey, Train]) -> list[dict[FolderKey, Train]]:
    """The same seats one generation after the other. Everyone taught somebody, so all are found among the teachers."""
    levels = [last]
    while any(teachers_of(training) for training in levels[0].values()):
        teachers = {_who(t.spec): t for training in levels[0].values() for t in teachers_of(training)}
        first = any("pseudo" not in teacher.spec for teacher in teachers.values())
        levels.insert(0, {seat: teachers[_who(own.spec, first=first)] for seat, own in levels[0].items()})
    return levels


def _who(spec: Mapping[str, Any], *, first: bool = False) -> str:
    """What a seat's trainings have in common; from the second generation on also their place among the others."""
    place = None if first or "pseudo" not in spec else spec["pseudo"]["draw"]
    return digest([spec["train"], spec["dev"], spec["method"], spec["sampler_seed"]], place)
