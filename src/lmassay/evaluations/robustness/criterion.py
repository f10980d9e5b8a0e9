"""TEAPOT's criterion (Michel et al. 2019): an attack succeeds if it destroys more of the output than of the input.

The evaluation and the compatibility command ``lmassay teapot`` both compute with these functions.

With x the input, x' the attacked input, y and y' the outputs for them, y* the reference and s a similarity:

- s_src = s(x', x): how much of the input the attack leaves intact.
- With a reference, d_tgt = max(0, s(y, y*) - s(y', y*)) / s(y, y*), the relative decrease of equation 2 of the paper.
  The attack succeeds if s_src + d_tgt exceeds the threshold (1 in the paper).
- Without a reference, s_tgt = s(y', y). The attack succeeds if s_src / s_tgt exceeds the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def relative_decrease(base: Scores, adversarial: Scores) -> Scores:
    """d_tgt (equation 2); 0 where the base score is 0, because nothing was left to destroy."""
    # fmax ignores NaN as Python's max(0, nan) does in TEAPOT: such a score counts as no drop.
    drop = np.fmax(0.0, base - adversarial)
    return np.divide(drop, base, out=np.zeros_like(drop), where=base > 0)


def success(s_src: Scores, target: Scores, threshold: float, *, with_reference: bool) -> NDArray[np.bool_]:
    """Which attacks succeed; ``target`` is d_tgt with a reference, otherwise s_tgt."""
    if with_reference:
        return success_with_reference(s_src, target, threshold)
    return success_without_reference(s_src, target, threshold)


def success_with_reference(s_src: Scores, d_tgt: Scores, threshold: float) -> NDArray[np.bool_]:
    """s_src + d_tgt > threshold."""
    succeeds: NDArray[np.bool_] = s_src + d_tgt > threshold
    return succeeds


def success_without_reference(s_src: Scores, s_tgt: Scores, threshold: float) -> NDArray[np.bool_]:
    """s_src / s_tgt > threshold; if the output is destroyed completely (s_tgt = 0), the ratio is infinite."""
    ratio_if_destroyed = np.where(s_src > 0, np.inf, 0.0)
    ratio = np.divide(s_src, s_tgt, out=ratio_if_destroyed, where=s_tgt > 0)
    # 0 / 0: an attack that destroys the input as well does not succeed, however low the threshold.
    both_destroyed = (s_src == 0) & (s_tgt == 0)
    succeeds: NDArray[np.bool_] = (ratio > threshold) & ~both_destroyed
    return succeeds


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Mean, standard deviation and 5 %-95 % range as TEAPOT prints them."""

    mean: float
    std: float
    p5: float
    p95: float


def summarise(scores: Scores) -> ScoreSummary:
    """TEAPOT's statistics: standard deviation with N - 1 in the denominator, percentiles without interpolation.

    The percentile p is the value at position int(N p) of the sorted scores.
    """
    n = len(scores)
    # TEAPOT sorts before it sums, which can change the last digit.
    ordered = np.sort(scores)
    mean = _sum(ordered) / n
    # The deviation of a single score is 0. Dividing it by 1 instead of N - 1 = 0 avoids an error.
    std = float(np.sqrt(_sum((ordered - mean) ** 2) / max(n - 1, 1)))
    p5 = float(ordered[int(n * 0.05)])
    p95 = float(ordered[int(n * 0.95)])
    return ScoreSummary(mean, std, p5, p95)


def _sum(scores: Scores) -> float:
    # Summed one after the other, so that the last digit is the same as in TEAPOT's loop; np.sum adds in pairs.
    return float(np.add.accumulate(scores)[-1])
