"""The formulas: probabilities of choices, Brier score, expected calibration error and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmassay.types import Settings

BINS = 10
Floats = NDArray[np.float64]


def probabilities(logprobs: Sequence[float]) -> list[float]:
    """Convert the log-probabilities of choices to probabilities that add up to 1.

    >>> [round(p, 2) for p in probabilities([math.log(0.2), math.log(0.2), math.log(0.6)])]
    [0.2, 0.2, 0.6]
    """
    # The largest one is subtracted first, because exp() of very negative numbers would be 0 for all choices.
    largest = max(logprobs)
    weights = [math.exp(logprob - largest) for logprob in logprobs]
    total = sum(weights)
    return [weight / total for weight in weights]


def brier(shares: Sequence[float], right: int) -> float:
    """The Brier score of one question (Brier 1950): the sum over choices of (probability − outcome)².

    ``shares`` are the probabilities of the choices, ``right`` is the position of the right choice, whose outcome is 1.

    >>> brier([0.5, 0.5], right=0)
    0.5
    """
    return sum((share - float(position == right)) ** 2 for position, share in enumerate(shares))


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose confidence lies in one of the equal-width bins, from ``low`` to ``high``."""

    low: float
    high: float
    n: int
    """The number of answers."""
    confidence: float
    """The mean confidence of the answers."""
    accuracy: float
    """The fraction of the answers that are right."""


def bins_of(confidences: Floats, correct: Floats, bins: int = BINS) -> list[Bin]:
    """The bins that contain answers. A confidence on an edge belongs to the lower bin, as in Guo et al. (2017)."""
    edges = np.linspace(0, 1, bins + 1)
    bin_numbers = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    filled = []
    for number in range(bins):
        inside = bin_numbers == number
        if inside.any():
            filled.append(
                Bin(
                    low=float(edges[number]),
                    high=float(edges[number + 1]),
                    n=int(inside.sum()),
                    confidence=float(confidences[inside].mean()),
                    accuracy=float(correct[inside].mean()),
                )
            )
    return filled


def expected_calibration_error(confidences: Floats, correct: Floats, bins: int = BINS) -> float:
    """ECE (Guo et al. 2017, equation 3): the mean of |accuracy − confidence| over bins, weighted by their answers."""
    error = 0.0
    for filled in bins_of(confidences, correct, bins):
        share = filled.n / len(confidences)
        error += share * abs(filled.accuracy - filled.confidence)
    return error


def ece_interval(
    confidences: Floats, correct: Floats, settings: Settings, bins: int = BINS
) -> tuple[float | None, float | None]:
    """A conservative bootstrap interval of ECE; (None, None) for fewer than two answers.

    Noise in the bins makes ECE larger. It is in the data and is added again in every resample, so the resampled values
    are too high. Their upper quantile is a safe upper end. Reflecting it at the estimate, as in the basic bootstrap,
    gives a safe lower end.
    """
    n = len(confidences)
    if n < 2:
        return None, None
    value = expected_calibration_error(confidences, correct, bins)
    rng = np.random.default_rng(settings.seed)
    resampled = np.empty(settings.resamples)
    for number in range(settings.resamples):
        chosen = rng.integers(0, n, n)
        resampled[number] = expected_calibration_error(confidences[chosen], correct[chosen], bins)
    upper = float(np.quantile(resampled, 0.5 + settings.confidence / 2))
    low = 2 * value - upper
    # Make sure that the interval contains the estimate and lies between 0 and 1.
    return max(min(low, value), 0.0), min(max(upper, value), 1.0)
