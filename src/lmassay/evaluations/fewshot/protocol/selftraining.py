"""Self-training: trained models (teachers) label unlabeled examples, from which further models learn.

The labels are used as training data for the next generation (iPET), or as soft labels for a final classifier (PET's
distillation). See Schick and Schütze (2021), sections 3.3 and 3.4.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Reduction = Literal["mean", "wmean"]
"""How the logits of several teachers are averaged: unweighted, or weighted by the teachers' scores."""


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A model's logits for the unlabeled examples, one row each."""

    logits: Floats
    score: float = 1.0
    """Its weight under "wmean"; in PET this is the accuracy on the training set before training."""


@dataclass(frozen=True, slots=True)
class PseudoLabel:
    """An unlabeled example (by its index), and the label that teachers gave it."""

    index: int
    label: str


@dataclass(frozen=True, slots=True)
class Draw:
    """The new examples for the next generation, and notes on labels that have too few candidates."""

    examples: tuple[PseudoLabel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the next generation's examples are drawn; the defaults are FewNLU's."""

    share: float = 0.25
    """The share of the teachers that are drawn at random for each learner; at least one teacher is drawn."""
    most_likely: int = -1
    """If positive, the examples of a label are drawn from this number of examples with the highest probability of the
    label, whether or not it is their predicted label. Otherwise they are drawn from those with this predicted label."""
    reduction: Reduction = "mean"
    upsample: bool = True
    """Whether the examples of a label that has too few are repeated. This has no effect if ``most_likely`` is
    positive."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"share={self.share:g} of the teachers: give one above 0 and at most 1")
        if self.reduction not in ("mean", "wmean"):
            raise ConfigError(f"reduction='{self.reduction}' is not known: use 'mean' or 'wmean'")


FEWNLU = Recipe()


def count_new_examples(n: int, scale: float) -> int:
    """How many examples must be added to ``n`` examples, so that there are ``scale`` times as many.

    >>> count_new_examples(32, 5)
    128
    """
    if n < 1 or scale <= 1:
        raise ConfigError(f"scale={scale:g} on {n} examples adds none: give a scale above 1 and labelled examples")
    return int(n * scale - n)


def label_sizes(train_labels: Sequence[str], labels: Sequence[str], n_new: int) -> list[int]:
    """How many new examples each label gets.

    The labels have the same proportions as in the training set. As in FewNLU, the numbers are rounded down.

    >>> label_sizes(["a", "a", "b"], ["a", "b"], 10)
    [6, 3]
    """
    if not train_labels:
        raise DataError("there is no training example to take the shares of labels from")
    counts = Counter(train_labels)
    new_per_example = n_new / len(train_labels)
    return [int(counts[label] * new_per_example) for label in labels]


def merged_logits(teachers: Sequence[Teacher], reduction: Reduction = "mean") -> Floats:
    """The mean of the teachers' logits, unweighted or weighted by their scores (PET, equation 3)."""
    if not teachers:
        raise ConfigError("there is no teacher whose logits could be averaged")
    stacked = _stacked(teachers)
    if reduction == "mean":
        return np.asarray(np.mean(stacked, axis=0))
    scores = np.asarray([teacher.score for teacher in teachers], dtype=np.float64)
    if not np.isfinite(scores).all() or (scores < 0).any() or scores.sum() == 0:
        raise ConfigError(f"the teachers' scores {scores.tolist()} cannot be weights: use reduction 'mean'")
    return np.asarray(np.average(stacked, axis=0, weights=scores))


def _stacked(teachers: Sequence[Teacher]) -> Floats:
    """The logits of all teachers: teachers × examples × labels; a DataError if they do not fit together."""
    shapes = {np.shape(teacher.logits) for teacher in teachers}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise DataError(f"teachers must give one row per example for the same examples, not {sorted(shapes)}")
    stacked = np.asarray([teacher.logits for teacher in teachers], dtype=np.float64)
    is_finite = np.isfinite(stacked).all(axis=(1, 2))
    if not is_finite.all():
        failed = int(np.flatnonzero(~is_finite)[0])
        raise DataError(f"teacher {failed} gave logits that are not finite: leave a failed training out")
    return stacked


def soft_labels(teachers: Sequence[Teacher], reduction: Reduction = "mean", temperature: float = 1.0) -> Floats:
    """The labels' probabilities from the averaged logits. PET's final classifier uses the temperature 2."""
    if not temperature > 0:
        raise ConfigError(f"temperature={temperature:g} must be above 0")
    return _softmax(merged_logits(teachers, reduction) / temperature)


def _softmax(logits: Floats) -> Floats:
    # The largest logit is subtracted, which does not change the result but avoids an overflow.
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Generators:
    """Two random generators: Python's chooses teachers, numpy's draws examples."""

    choosing: random.Random
    drawing: np.random.RandomState


def generators(seed: int = 42) -> Generators:
    """New generators with this seed, of the same kinds as in FewNLU."""
    return Generators(random.Random(seed), np.random.RandomState(seed))


def draw(
    teachers: Sequence[Teacher],
    labels: Sequence[str],
    sizes: Sequence[int],
    generators: Generators,
    recipe: Recipe = FEWNLU,
) -> Draw:
    """Draw the new training examples of one learner.

    For each label, the number in ``sizes`` is drawn without replacement, with weights according to the probability of
    the label. If a label has fewer candidates than that, they are repeated (see ``Recipe.upsample``) or all of them
    are used, and a note says so.
    """
    if not teachers:
        raise ConfigError("there is no teacher: train several patterns or repetitions, or let all splits teach (cross)")
    n_chosen = max(round(len(teachers) * recipe.share), 1)
    chosen = generators.choosing.sample(list(teachers), k=n_chosen)
    probabilities = soft_labels(chosen, recipe.reduction)
    if probabilities.shape[1] != len(labels) or len(sizes) != len(labels):
        raise DataError(f"teachers distinguish {probabilities.shape[1]} labels, but there are {len(labels)}")
    examples: list[PseudoLabel] = []
    notes: list[str] = []
    for column, (label, size) in enumerate(zip(labels, sizes, strict=True)):
        candidates, weights = _candidates(probabilities, column, recipe.most_likely)
        if len(candidates) < size:
            is_repeated = recipe.upsample and recipe.most_likely <= 0 and bool(candidates)
            notes.append(_too_few(label, len(candidates), size, is_repeated))
            if is_repeated:
                # The whole list is repeated until it is long enough.
                times = math.ceil(size / len(candidates))
                candidates = candidates * times
                weights = weights * times
        if not candidates:
            continue
        # As in FewNLU, Python's sum is used. numpy's may differ in the last digit, which sometimes changes a draw.
        total = sum(weights)
        shares = [weight / total for weight in weights]
        n_drawn = min(size, len(candidates))
        positions = generators.drawing.choice(len(candidates), size=n_drawn, replace=False, p=shares)
        for position in positions:
            examples.append(PseudoLabel(candidates[position], label))
    return Draw(tuple(examples), tuple(notes))


def _candidates(probabilities: Floats, column: int, most_likely: int) -> tuple[list[int], list[float]]:
    """The examples (by index) that may get the label of this column, and their weights in the draw."""
    if most_likely > 0:
        # As in FewNLU, of examples with the same probability the one with the higher index comes first.
        ranked = [(float(probability), row) for row, probability in enumerate(probabilities[:, column])]
        ranked.sort(reverse=True)
        best_rows: list[int] = []
        best_probabilities: list[float] = []
        for probability, row in ranked[:most_likely]:
            best_rows.append(row)
            best_probabilities.append(probability)
        return best_rows, best_probabilities
    predicted = probabilities.argmax(axis=1)
    rows = np.flatnonzero(predicted == column)
    weights = probabilities[rows].max(axis=1)
    return rows.tolist(), weights.tolist()


def _too_few(label: str, n_candidates: int, wanted: int, is_repeated: bool) -> str:
    if not n_candidates:
        return f"no unlabeled example was labelled '{label}': {wanted} are missing"
    consequence = "they are repeated" if is_repeated else "all are used"
    return f"only {n_candidates} unlabeled examples can be labelled '{label}', but {wanted} are needed: {consequence}"
