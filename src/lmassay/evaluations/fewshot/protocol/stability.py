"""Does the verdict hold if the splits are fewer? The third criterion of FewNLU: flat curves over K are stable."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmassay.evaluations.fewshot.protocol.correlation import Correlation
from lmassay.evaluations.fewshot.protocol.judging import Spread, Trial, Verdict, judge, select, spread, standings
from lmassay.statistics.intervals import DEFAULT, Settings

# So many subsets of splits are looked at all; of more, as many as asked for are drawn.
_ALL_SUBSETS = 200


@dataclass(frozen=True, slots=True)
class StabilityPoint:
    """The verdict with K splits."""

    k: int
    configuration: str | None
    test: Spread
    test_metrics: Mapping[str, Spread]
    correlation: Correlation


def point_of(verdict: Verdict) -> StabilityPoint:
    """A point of a sweep of its own, for a curve over sweeps with different K."""
    k, chosen = len(verdict.splits), verdict.chosen
    if chosen is None:
        return StabilityPoint(k, None, Spread(None), {}, verdict.correlation)
    return StabilityPoint(k, chosen.configuration, chosen.test, chosen.test_metrics, verdict.correlation)


def stability(trials: Sequence[Trial], settings: Settings = DEFAULT) -> list[StabilityPoint]:
    """The verdicts with the first 1, 2 … K splits of one strategy.

    For strategies that draw each split anew these are the verdicts of smaller K. The folds of cross-validation and MDL
    depend on K: their first few show how much fewer folds of this size would say, not another K.
    """
    splits = sorted({trial.split for trial in trials})
    return [point_of(judge(trials, settings, splits[:k])) for k in range(1, len(splits) + 1)]


def over_subsets(trials: Sequence[Trial], *, draws: int = 100, seed: int = 0) -> list[tuple[int, Spread]]:
    """(K', mean and std of the selected configuration's test mean) over subsets of K' splits, for K' = 1 … K.

    All subsets where these are few, else ``draws`` of them at random. Subsets overlap: there is no interval.
    """
    splits = sorted({trial.split for trial in trials})
    rng = random.Random(seed)
    points = []
    for k in range(1, len(splits) + 1):
        if math.comb(len(splits), k) <= _ALL_SUBSETS:
            subsets = [list(subset) for subset in itertools.combinations(splits, k)]
        else:
            subsets = [sorted(rng.sample(splits, k)) for _ in range(draws)]
        chosen = [select(standings(trials, None, subset)).chosen for subset in subsets]
        tests = [standing.test.value for standing in chosen if standing is not None and standing.test.value is not None]
        points.append((k, spread(tests, None)))
    return points
