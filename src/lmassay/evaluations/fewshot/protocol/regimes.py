"""Regimes: how trainings depend on each other.

They may be independent, or teach each other: each generation of trainings may learn from the labels that the generation
before it gave to unlabeled examples. A regime says which trainings a run consists of and in which order; it does not
say where they run.

It adds these entries to the spec of a training, as far as they apply:

- ``label_unlabeled``: True if the trained classifier must label the unlabeled examples, for other trainings
- ``pseudo``: how many examples that teachers labelled are added to the training examples, and how they are drawn
- ``soft``: the training learns only from unlabeled examples, with the teachers' mean logits, at this temperature
- ``noise``: the share of dimensions of the word embeddings that are dropped (noisy student)
- ``method``: the method of the student (distillation), in place of the run's
- ``previous``: see PREVIOUS
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lmassay.errors import ConfigError
from lmassay.plugins.options import Nested, Spec
from lmassay.types import Train

Name = Literal["default", "ensemble", "distillation", "self_training", "ipet", "noisy_student"]
GENERATIONS = ("self_training", "ipet", "noisy_student")
PREVIOUS = "previous"
"""A key in the spec of a training that continues the random draws of the previous training. The last entry of
``Train.after`` is then the previous training, which is not a teacher."""


class Regime(BaseModel):
    """How several trainings are combined: FewNLU's ``--arch_method``, and the combinations of PET that FewNLU lacks.

    - ``default``: every training is independent
    - ``ensemble``: the logits of all trainings of a split (patterns and repetitions) are averaged
    - ``distillation``: the ensemble gives soft labels to the unlabeled examples, and a ``student`` learns these at a
      ``temperature`` (PET)
    - ``self_training``: each training labels unlabeled examples, from which the training with the same split, pattern
      and repetition learns in the next generation
    - ``ipet``: each training learns from unlabeled examples that the other trainings of the split (with ``cross``: of
      all splits) have labelled; each generation has ``scale_factor`` times as many training examples as the one before
    - ``noisy_student``: the same as ``ipet``, with dropout of word embeddings from the second generation on

    The meanings of the other options are in ``FewShot.option_help``.
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
        """Whether the regime learns from unlabelled examples."""
        return self.name == "distillation" or (self.name in GENERATIONS and self.generations > 1)

    @property
    def trainings_per_score(self) -> int:
        """How many trainings there are for each score of a run, including those of teachers."""
        trainings_per_split = max(1, len(self.patterns)) * self.repetitions
        if self.name == "ensemble":
            return trainings_per_split
        if self.name == "distillation":
            # These are the trainings of the ensemble that teaches, and the student.
            return trainings_per_split + 1
        if self.name in GENERATIONS:
            # A training is repeated in every generation, and only the last one is scored.
            return self.generations
        return 1


@dataclass(frozen=True, slots=True)
class TrainingKey:
    """Identifies a training within a generation: split, pattern (None if the method has none) and repetition."""

    split: int
    pattern: int | None
    repetition: int


@dataclass(frozen=True, slots=True)
class TrainingGroup:
    """Trainings that are scored together because their logits are averaged; in most regimes a single one."""

    key: TrainingKey
    members: tuple[Train, ...]

    @property
    def id(self) -> str:
        """The id of the group's example in a run, such as ``split-0-p1-r2``."""
        pattern = "" if self.key.pattern is None else f"-p{self.key.pattern}"
        repetition = f"-r{self.key.repetition}" if self.key.repetition else ""
        return f"split-{self.key.split}{pattern}{repetition}"


MakeTraining = Callable[[TrainingKey, Mapping[str, Any], Sequence[Train]], Train]
"""Makes the request for a training. Its parameters are the key of the training, entries of its spec that depend on the
regime, and the trainings that it builds upon."""


def teachers_of(training: Train) -> tuple[Train, ...]:
    """The trainings whose labels this training learns from."""
    return training.after[:-1] if training.spec.get(PREVIOUS) else training.after


def training_groups(
    regime: Regime, splits: int, own_pattern: int | None, make: MakeTraining, *, chained: bool = False
) -> list[TrainingGroup]:
    """All trainings that a run scores, split by split.

    ``make`` makes the request for one of them. If ``chained``, each training continues the random draws of the one
    before it, in the order in which FewNLU trains, because FewNLU seeds its generators only once per generation.
    """
    _check(regime, splits)
    patterns: list[int | None] = [*regime.patterns] or [own_pattern]
    # The trainings are ordered by split, so that the first splits of an interrupted run are complete.
    keys = []
    for split in range(splits):
        for pattern in patterns:
            for repetition in range(regime.repetitions):
                keys.append(TrainingKey(split, pattern, repetition))
    if regime.name in ("ensemble", "distillation"):
        return _joint_groups(regime, splits, keys, make)
    if regime.name in GENERATIONS:
        trainings = _last_generation(regime, keys, make, chained)
    else:
        plain_requests = {key: _Request({}, []) for key in keys}
        trainings = _generation(keys, make, plain_requests, chained)
    return [TrainingGroup(key, (training,)) for key, training in trainings.items()]


def _joint_groups(regime: Regime, splits: int, keys: Sequence[TrainingKey], make: MakeTraining) -> list[TrainingGroup]:
    """One group per split: the ensemble itself, or the student that learns from it."""
    groups = []
    is_distillation = regime.name == "distillation"
    # The teachers of a student must label the unlabeled examples; the members of an ensemble are only tested.
    special_of_member = {"label_unlabeled": True} if is_distillation else {}
    special_of_student = {"method": regime.student, "soft": {"temperature": regime.temperature}}
    for split in range(splits):
        group_key = TrainingKey(split, None, 0)
        members = [make(key, special_of_member, ()) for key in keys if key.split == split]
        if is_distillation:
            members = [make(group_key, special_of_student, members)]
        groups.append(TrainingGroup(group_key, tuple(members)))
    return groups


@dataclass(frozen=True, slots=True)
class _Request:
    """What one training needs from its regime."""

    special: dict[str, Any]
    """Entries of its spec that depend on the regime."""
    teachers: list[Train]
    """The trainings whose labels it learns from."""


def _generation(
    keys: Sequence[TrainingKey], make: MakeTraining, requests: Mapping[TrainingKey, _Request], chained: bool
) -> dict[TrainingKey, Train]:
    """The trainings of one generation, in the order of the keys."""
    order = list(keys)
    if chained:
        # FewNLU has three nested loops: over patterns, over splits and over repetitions.
        patterns = list(dict.fromkeys(key.pattern for key in keys))
        order.sort(key=lambda key: (patterns.index(key.pattern), key.split, key.repetition))
    trainings: dict[TrainingKey, Train] = {}
    previous: Train | None = None
    for key in order:
        request = requests[key]
        special = dict(request.special)
        after = list(request.teachers)
        if chained and previous is not None:
            special[PREVIOUS] = True
            after.append(previous)
        training = make(key, special, after)
        trainings[key] = training
        previous = training
    return {key: trainings[key] for key in keys}


def _last_generation(
    regime: Regime, keys: Sequence[TrainingKey], make: MakeTraining, chained: bool
) -> dict[TrainingKey, Train]:
    """The trainings of the last generation. Those of earlier generations are their teachers (or teachers of these)."""
    trainings: dict[TrainingKey, Train] = {}
    for generation in range(regime.generations):
        requests = {}
        is_last = generation + 1 == regime.generations
        for position, key in enumerate(keys):
            special: dict[str, Any] = {}
            teachers: list[Train] = []
            if not is_last:
                # The next generation learns from these labels.
                special["label_unlabeled"] = True
            if generation > 0:
                special["pseudo"] = _pseudo_labels(regime, generation, position)
                teachers = [trainings[teacher] for teacher in _teacher_keys(regime, key, keys)]
                if regime.name == "noisy_student":
                    # This is the share of dimensions of the word embeddings that are dropped. The first generation has
                    # no teachers, so it has no noise either.
                    special["noise"] = regime.dropout_rate
            requests[key] = _Request(special, teachers)
        trainings = _generation(keys, make, requests, chained)
    return trainings


def _pseudo_labels(regime: Regime, generation: int, position: int) -> dict[str, Any]:
    """How many of the teachers' labels become training examples, and how they are drawn."""
    return {
        # A learner that is its own teacher has only one, so its labels are always used.
        "logits_percentage": 1.0 if regime.name == "self_training" else regime.logits_percentage,
        # As in FewNLU, the n most likely examples are used for the second generation only.
        "n_most_likely": regime.n_most_likely if generation == 1 else -1,
        "scale": regime.scale_factor**generation,
        # This is added to the seed, so that learners draw different examples.
        "draw": position,
    }


def _teacher_keys(regime: Regime, learner: TrainingKey, keys: Sequence[TrainingKey]) -> list[TrainingKey]:
    """The keys of the trainings in the previous generation whose labels a learner uses."""
    if regime.name == "self_training":
        return [learner]
    teachers = []
    for key in keys:
        if key == learner:
            continue
        # With ``cross``, teachers from other splits may have been trained on this split's dev examples, as in FewNLU.
        # The dev scores are then too high.
        if regime.cross or key.split == learner.split:
            teachers.append(key)
    return teachers


def _check(regime: Regime, splits: int) -> None:
    """Raise a ConfigError for patterns that are given twice, and for learners without a teacher."""
    if len(set(regime.patterns)) != len(regime.patterns):
        raise ConfigError("task.regime.patterns: a pattern is given twice")
    if regime.name not in ("ipet", "noisy_student") or regime.generations == 1:
        return
    trainings_per_split = max(1, len(regime.patterns)) * regime.repetitions
    if trainings_per_split > 1:
        return
    if not regime.cross:
        raise ConfigError(
            f"task.regime: {regime.name} needs teachers other than the learner itself; give several patterns or "
            "repetitions, or cross: true to learn from the other splits"
        )
    if splits == 1:
        raise ConfigError("task.regime.cross: there is only one split, so there is no other to learn from")
