"""Self-training: what teachers think of unlabeled examples becomes training data for the next generation (iPET), or
soft labels for a final classifier (PET's distillation).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Reduction = Literal["mean", "wmean"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Which training of a generation a model comes from."""

    pattern: int
    split: int
    repetition: int


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A model's logits for the unlabeled examples (a row each), and what it is worth under "wmean"."""

    logits: Floats
    score: float = 1.0
    """For PET, the accuracy on the training set before training."""


@dataclass(frozen=True, slots=True)
class Pseudo:
    """An unlabeled example and the label it is given."""

    index: int
    label: str


@dataclass(frozen=True, slots=True)
class Draw:
    """Examples for the next generation, label by label, and what could not be had."""

    examples: tuple[Pseudo, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the next generation's examples are drawn; the values are FewNLU's."""

    share: float = 0.25
    """Of the teachers, drawn at random for each pupil (at least one)."""
    most_likely: int = -1
    """If positive, each label is drawn from so many examples that are likeliest for it, whatever is predicted."""
    reduction: Reduction = "mean"
    upsample: bool = True
    """Repeat the examples of a label that has too few; else all there are must do."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"share={self.share:g} of the teachers: give one above 0 and at most 1")
        if self.reduction not in ("mean", "wmean"):
            raise ConfigError(f"reduction='{self.reduction}' is not known: take 'mean' or 'wmean'")


FEWNLU = Recipe()


def new_examples(n: int, scale: float, generation: int) -> int:
    """How many examples are added to ``n`` after a generation, so that each has ``scale`` times the one before.

    >>> [new_examples(32, 5, generation) for generation in (0, 1)]
    [128, 768]
    """
    if n < 1 or scale <= 1:
        raise ConfigError(f"scale={scale:g} on {n} examples adds none: give a scale above 1 and labelled examples")
    return int(n * scale ** (generation + 1) - n)


def label_sizes(train_labels: Sequence[str], labels: Sequence[str], new: int) -> list[int]:
    """How many new examples each label gets: its share of the training set, cut down.

    >>> label_sizes(["a", "a", "b"], ["a", "b"], 10)
    [6, 3]
    """
    if not train_labels:
        raise DataError("there is no training example to take the shares of labels from")
    multiplier = new / len(train_labels)
    return [int(sum(found == label for found in train_labels) * multiplier) for label in labels]


def teachers_of(pupil: Place, everyone: Mapping[Place, Teacher], *, cross: bool = False) -> list[Teacher]:
    """All other models of the pupil's own split or, ``cross``, of every split."""
    found = [
        teacher
        for place, teacher in sorted(everyone.items(), key=lambda pair: pair[0])
        if place != pupil and (cross or place.split == pupil.split)
    ]
    if not found:
        raise ConfigError(
            f"the model of pattern {pupil.pattern} on split {pupil.split} has no teacher: "
            "train several patterns or repetitions, or let all splits teach (cross)"
        )
    return found


def merged_logits(teachers: Sequence[Teacher], reduction: Reduction = "mean") -> Floats:
    """The teachers' logits averaged, alike or by their scores."""
    if not teachers:
        raise ConfigError("there is no teacher whose logits could be averaged")
    stacked = _stacked(teachers)
    if reduction == "mean":
        return np.asarray(np.mean(stacked, axis=0))
    scores = np.asarray([teacher.score for teacher in teachers], dtype=np.float64)
    if not np.isfinite(scores).all() or (scores < 0).any() or scores.sum() == 0:
        raise ConfigError(f"the teachers' scores {scores.tolist()} are no weights: use reduction 'mean'")
    return np.asarray(np.average(stacked, axis=0, weights=scores))


def _stacked(teachers: Sequence[Teacher]) -> Floats:
    shapes = {np.shape(teacher.logits) for teacher in teachers}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise DataError(f"teachers must give a row an example for the same examples, not {sorted(shapes)}")
    stacked = np.asarray([teacher.logits for teacher in teachers], dtype=np.float64)
    if not np.isfinite(stacked).all():
        bad = int(np.flatnonzero(~np.isfinite(stacked).all(axis=(1, 2)))[0])
        raise DataError(f"teacher {bad} gave logits that are no numbers: leave a failed training out")
    return stacked


def soft_labels(teachers: Sequence[Teacher], reduction: Reduction = "mean", temperature: float = 1.0) -> Floats:
    """Probabilities from averaged logits: what PET's final classifier learns to give at the same temperature (2)."""
    if not temperature > 0:
        raise ConfigError(f"temperature={temperature:g} must be above 0")
    return _softmax(merged_logits(teachers, reduction) / temperature)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Chance:
    """The two generators that all draws of a generation share, one after the other."""

    choosing: random.Random
    drawing: np.random.RandomState


def chance(seed: int = 42) -> Chance:
    """Fresh generators from one seed, the kinds that the original uses."""
    return Chance(random.Random(seed), np.random.RandomState(seed))


def draw(
    teachers: Sequence[Teacher], labels: Sequence[str], sizes: Sequence[int], luck: Chance, recipe: Recipe = FEWNLU
) -> Draw:
    """The next training set of one pupil: ``sizes`` examples a label, surer ones likelier, none twice."""
    if not teachers:
        raise ConfigError("there is no teacher: train several patterns or repetitions, or let all splits teach (cross)")
    number = max(round(len(teachers) * recipe.share), 1)
    chosen = luck.choosing.sample(list(teachers), k=number)
    probabilities = soft_labels(chosen, recipe.reduction)
    if probabilities.shape[1] != len(labels) or len(sizes) != len(labels):
        raise DataError(f"teachers tell {probabilities.shape[1]} labels apart, and there are {len(labels)}")
    examples: list[Pseudo] = []
    notes: list[str] = []
    for column, (label, size) in enumerate(zip(labels, sizes, strict=True)):
        candidates, weights = _candidates(probabilities, column, recipe.most_likely)
        if len(candidates) < size:
            repeated = recipe.upsample and recipe.most_likely <= 0 and bool(candidates)
            notes.append(_too_few(label, len(candidates), size, repeated))
            times = -(-size // len(candidates)) if repeated else 1
            candidates, weights = candidates * times, weights * times
        if not candidates:
            continue
        # Summed one by one, as the original does: the last digit decides a draw now and then.
        total = sum(weights)
        picked = luck.drawing.choice(
            len(candidates), size=min(size, len(candidates)), replace=False, p=[weight / total for weight in weights]
        )
        examples += [Pseudo(candidates[place], label) for place in picked]
    return Draw(tuple(examples), tuple(notes))


def _candidates(probabilities: Floats, column: int, most_likely: int) -> tuple[list[int], list[float]]:
    if most_likely > 0:
        order = sorted(((float(p), row) for row, p in enumerate(probabilities[:, column])), reverse=True)[:most_likely]
        return [row for _, row in order], [p for p, _ in order]
    rows = np.flatnonzero(probabilities.argmax(axis=1) == column)
    return rows.tolist(), probabilities[rows].max(axis=1).tolist()


def _too_few(label: str, there: int, wanted: int, repeated: bool) -> str:
    if not there:
        return f"no unlabeled example was labelled '{label}': {wanted} are missing"
    what = "they are repeated" if repeated else "all are taken"
    return f"{there} unlabeled examples can be '{label}' and {wanted} are wanted: {what}"


def next_generation(
    everyone: Mapping[Place, Teacher],
    labels: Sequence[str],
    sizes: Mapping[int, Sequence[int]],
    *,
    cross: bool = False,
    seed: int = 42,
    recipe: Recipe = FEWNLU,
) -> dict[Place, Draw]:
    """The training sets of all pupils of a generation; ``sizes`` by split. Pupils draw in the order of their places.

    With ``cross``, teachers have been trained on examples of the pupil's dev set: its dev score is too good.
    """
    luck = chance(seed)
    return {
        pupil: draw(teachers_of(pupil, everyone, cross=cross), labels, sizes[pupil.split], luck, recipe)
        for pupil in sorted(everyone)
    }
