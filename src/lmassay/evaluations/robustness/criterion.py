"""TEAPOT's criterion (Michel et al. 2019): what an attack destroys in the target against the damage to the source.

The evaluation and the compatibility command ``lmassay teapot`` both compute with these functions.

With a reference y*: d_tgt = max(0, s(y, y*) - s(y', y*)) / s(y, y*); success where s_src + d_tgt exceeds the threshold.
Without one: s_tgt = s(y', y); success where s_src / s_tgt exceeds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def relative_decrease(base: Scores, adversarial: Scores) -> Scores:
    """d_tgt; 0 where the base score is 0, for nothing was left to destroy."""
    # As Python's max: a score that is not a number makes no drop.
    drop = np.fmax(0.0, base - adversarial)
    return np.divide(drop, base, out=np.zeros_like(drop), where=base > 0)


def success(s_src: Scores, target: Scores, threshold: float, *, with_reference: bool) -> NDArray[np.bool_]:
    """Which attacks succeed; ``target`` is d_tgt with a reference, else s_tgt."""
    decide = success_with_reference if with_reference else success_without_reference
    return decide(s_src, target, threshold)


def success_with_reference(s_src: Scores, d_tgt: Scores, threshold: float) -> NDArray[np.bool_]:
    beyond: NDArray[np.bool_] = s_src + d_tgt > threshold
    return beyond


def success_without_reference(s_src: Scores, s_tgt: Scores, threshold: float) -> NDArray[np.bool_]:
    """s_src / s_tgt > threshold; a wholly destroyed target (s_tgt = 0) makes the ratio infinite if s_src > 0."""
    ratio = np.divide(s_src, s_tgt, out=np.where(s_src > 0, np.inf, 0.0), where=s_tgt > 0)
    # Nothing kept and nothing changed is no attack, however low the threshold.
    beyond: NDArray[np.bool_] = (ratio > threshold) & ~((s_src == 0) & (s_tgt == 0))
    return beyond


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Mean, standard deviation and 5 %-95 % range as TEAPOT prints them."""

    mean: float
    std: float
    p5: float
    p95: float


def summarise(scores: Scores) -> ScoreSummary:
    """TEAPOT's statistics: std over N - 1, percentiles without interpolation (the value at int(N p))."""
    n = len(scores)
    # The original sorts before it adds up, which can change the last digit.
    ordered = np.sort(scores)
    mean = _sum(ordered) / n
    # A single score has no spread: its deviation is 0 whatever it is divided by.
    std = float(np.sqrt(_sum((ordered - mean) ** 2) / max(n - 1, 1)))
    return ScoreSummary(mean, std, float(ordered[int(n * 0.05)]), float(ordered[int(n * 0.95)]))


def _sum(scores: Scores) -> float:
    # Added one after the other, so that the last digit is the same as in a plain loop.
    return float(np.add.accumulate(scores)[-1])
