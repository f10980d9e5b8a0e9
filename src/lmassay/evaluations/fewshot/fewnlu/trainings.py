"""Finds FewNLU's folder for each training of a run, by its generation, pattern, split and repetition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.evaluations.fewshot.fewnlu.config import JOINT_REGIMES
from lmassay.evaluations.fewshot.protocol.regimes import teachers_of
from lmassay.evaluations.fewshot.task import FewShot
from lmassay.types import Train, digest

FINAL = "final"
# The ids of ``regimes.TrainingGroup``.
_GROUP_ID = re.compile(r"split-(\d+)(?:-p(\d+))?(?:-r(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class FolderKey:
    """Identifies the folder of a training. A classifier, which has no pattern, has pattern 0."""

    pattern: int
    fold: int
    """The number of the split; FewNLU calls every split a fold."""
    repetition: int

    @property
    def folder(self) -> str:
        """The path of the folder below that of its round."""
        return f"p{self.pattern}/f{self.fold}-i{self.repetition}"


@dataclass(frozen=True, slots=True)
class Round:
    """Trainings whose folders are in the same folder: all of a run, those of a generation, or those of "final"."""

    folder: str
    """Its path below the output folder: "" for the output folder itself, "g0", "g1" … or "final"."""
    trainings: Mapping[FolderKey, tuple[Train, ...]]
    """The training of each folder; if there are several for a folder, their logits are averaged."""


def rounds(task: FewShot, arch: str, patterns: Sequence[int], repetitions: int) -> list[Round]:
    """All trainings of a run, the earliest round first."""
    groups: dict[FolderKey, tuple[Train, ...]] = {}
    for example in task.examples():
        trainings = []
        for request in task.requests(example):
            assert isinstance(request, Train)
            trainings.append(request)
        groups[_folder_key(example.inputs["unit"], patterns)] = tuple(trainings)
    groups = dict(sorted(groups.items()))
    if arch in JOINT_REGIMES:
        return [Round("", _members(groups, arch, patterns, repetitions)), Round(FINAL, groups)]
    last_generation = {key: trainings[0] for key, trainings in groups.items()}
    generations = _generations(last_generation)
    all_rounds = []
    for number, generation in enumerate(generations):
        # A single generation is written to the output folder itself.
        folder = "" if len(generations) == 1 else f"g{number}"
        trainings_by_folder = {key: (training,) for key, training in generation.items()}
        all_rounds.append(Round(folder, trainings_by_folder))
    return all_rounds


def _folder_key(group_id: str, patterns: Sequence[int]) -> FolderKey:
    """The key for the id of a ``regimes.TrainingGroup``. If it has no pattern, it gets the first of ``patterns``."""
    match = _GROUP_ID.match(group_id)
    assert match is not None
    fold, pattern, repetition = match.groups()
    folder_pattern = patterns[0] if pattern is None else int(pattern)
    return FolderKey(folder_pattern, int(fold), int(repetition or 0))


def _members(
    groups: Mapping[FolderKey, tuple[Train, ...]], arch: str, patterns: Sequence[int], repetitions: int
) -> dict[FolderKey, tuple[Train, ...]]:
    """The trainings that an ensemble consists of, or that a student learned from."""
    members: dict[FolderKey, tuple[Train, ...]] = {}
    for key, trainings in groups.items():
        inner = trainings if arch == "ensemble" else trainings[0].after
        # These keys are in the order in which ``regimes.training_groups`` makes the trainings.
        inner_keys = []
        for pattern in patterns:
            for repetition in range(repetitions):
                inner_keys.append(FolderKey(pattern, key.fold, repetition))
        for inner_key, training in zip(inner_keys, inner, strict=True):
            members[inner_key] = (training,)
    return dict(sorted(members.items()))


def _generations(last: dict[FolderKey, Train]) -> list[dict[FolderKey, Train]]:
    """The trainings of all generations, beginning with the first generation.

    Each training of an earlier generation is a teacher of one in the next, so all are found through the teachers.
    """
    generations = [last]
    while any(teachers_of(training) for training in generations[0].values()):
        teachers = {}
        for training in generations[0].values():
            for teacher in teachers_of(training):
                teachers[_learner(teacher.spec)] = teacher
        is_first = any("pseudo" not in teacher.spec for teacher in teachers.values())
        earlier = {}
        for key, training in generations[0].items():
            earlier[key] = teachers[_learner(training.spec, is_first=is_first)]
        generations.insert(0, earlier)
    return generations


def _learner(spec: Mapping[str, Any], *, is_first: bool = False) -> str:
    """What identifies the trainings that are the same in different generations.

    From the second generation on this includes the position among the trainings of a generation, because two trainings
    with otherwise the same spec then draw different examples.
    """
    position = None
    if not is_first and "pseudo" in spec:
        position = spec["pseudo"]["draw"]
    return digest([spec["train"], spec["dev"], spec["method"], spec["sampler_seed"]], position)
