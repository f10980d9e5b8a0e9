"""FewNLU's protocol: every configuration is trained on K splits, selected by its mean dev score, and judged by test.

A training that failed leaves its configuration with fewer splits; it is reported and never counted as a score.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.protocol.correlation import Correlation, rank_correlation
from lmassay.statistics import intervals
from lmassay.statistics.intervals import DEFAULT, Settings

# Means of the same scores in another order may differ in the last digit.
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Trial:
    """One training: a configuration on a split. ``dev`` is None without a dev set and NaN where the training failed."""

    strategy: str
    configuration: str
    params: Mapping[str, Any]
    split: int
    dev: float | None
    test: float | None = None
    """None where the test set was not looked at."""
    dev_metrics: Mapping[str, float] = field(default_factory=dict)
    test_metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return any(score is not None and not math.isfinite(score) for score in (self.dev, self.test))


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over splits: sample standard deviation, and Student's interval where there are two or more."""

    value: float | None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """How a configuration fared over the splits."""

    configuration: str
    params: Mapping[str, Any]
    dev: Spread
    test: Spread
    test_metrics: Mapping[str, Spread]
    splits: tuple[int, ...]
    """Those whose trainings ended well."""
    missing: tuple[int, ...]
    """Those whose training failed or is not there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a strategy says of a task: the selected configuration, and how far its dev scores can be trusted."""

    strategy: str
    standings: tuple[Standing, ...]
    chosen: Standing | None
    tied: tuple[str, ...]
    """Configurations with the same mean dev score as the chosen one, which came first."""
    correlation: Correlation
    splits: tuple[int, ...]
    notes: tuple[str, ...]


def selection_score(metrics: Mapping[str, float]) -> float | None:
    """What a training or configuration is selected by: the mean of the task's metrics; None if there are none.

    >>> selection_score({"acc": 0.75, "f1-macro": 0.5})
    0.625
    """
    if not metrics:
        return None
    return math.fsum(metrics.values()) / len(metrics)


def trial_of(
    strategy: str,
    configuration: str,
    params: Mapping[str, Any],
    split: int,
    dev_metrics: Mapping[str, float],
    test_metrics: Mapping[str, float] | None = None,
) -> Trial:
    """A trial whose dev and test scores are the means of its metrics."""
    tested = test_metrics or {}
    dev, test = selection_score(dev_metrics), selection_score(tested)
    return Trial(strategy, configuration, params, split, dev, test, dev_metrics, tested)


def failed_trial(strategy: str, configuration: str, params: Mapping[str, Any], split: int) -> Trial:
    """The trace of a training without a result."""
    return Trial(strategy, configuration, params, split, math.nan)


def spread(values: Iterable[float], settings: Settings | None = DEFAULT) -> Spread:
    """Mean ± std over splits. These share examples, so the interval (none without settings) is a guide, no promise."""
    scores = np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)
    if len(scores) == 0:
        return Spread(None)
    mean = float(scores.mean())
    if len(scores) == 1:
        return Spread(mean, n=1)
    low, high = intervals.interval_of_mean(scores, settings) if settings else (None, None)
    if low is not None and high is not None and scores.min() >= 0 and scores.max() <= 1:
        low, high = max(low, 0.0), min(high, 1.0)
    return Spread(mean, float(scores.std(ddof=1)), low, high, len(scores))


def standings(
    trials: Sequence[Trial], settings: Settings | None = DEFAULT, splits: Sequence[int] | None = None
) -> list[Standing]:
    """Each configuration over all ``splits`` (else those that any configuration was tried on), in order of appearance.

    Several trainings of a configuration on one split are repetitions: they are averaged first.
    """
    expected = sorted({trial.split for trial in trials} if splits is None else set(splits))
    by_configuration: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.split in expected:
            by_configuration.setdefault(trial.configuration, []).append(trial)
    return [_standing(name, tried, expected, settings) for name, tried in by_configuration.items()]


def _standing(name: str, tried: Sequence[Trial], expected: Sequence[int], settings: Settings | None) -> Standing:
    well = [trial for trial in tried if not trial.failed]
    done = sorted({trial.split for trial in well})
    metrics = dict.fromkeys(metric for trial in well for metric in trial.test_metrics)

    def over_splits(scores: Iterable[tuple[int, float | None]]) -> Spread:
        found: dict[int, list[float]] = {}
        for split, score in scores:
            if score is not None:
                found.setdefault(split, []).append(score)
        return spread((math.fsum(scores) / len(scores) for _, scores in sorted(found.items())), settings)

    return Standing(
        name,
        tried[0].params,
        over_splits((trial.split, trial.dev) for trial in well),
        over_splits((trial.split, trial.test) for trial in well),
        {metric: over_splits((trial.split, trial.test_metrics.get(metric)) for trial in well) for metric in metrics},
        tuple(done),
        tuple(split for split in expected if split not in done),
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """The configuration with the best mean dev score, if any can be selected."""

    chosen: Standing | None
    tied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def select(found: Sequence[Standing]) -> Selection:
    """The first of those with the highest mean dev score among the configurations that have all their splits.

    Only if none has them all, the ones with the most splits are compared, and it is said.
    """
    trained = [standing for standing in found if standing.splits]
    if not trained:
        return Selection(None, notes=("no training ended well: there is nothing to select",))
    if all(standing.dev.value is None for standing in trained):
        if len(found) == 1:
            return Selection(trained[0], notes=("there is no dev set: the only configuration stands unselected",))
        return Selection(None, notes=(f"there is no dev set to select one of {len(found)} configurations by",))
    eligible = [standing for standing in trained if standing.dev.value is not None]
    notes: list[str] = []
    complete = [standing for standing in eligible if not standing.missing]
    if not complete:
        most = max(len(standing.splits) for standing in eligible)
        complete = [standing for standing in eligible if len(standing.splits) == most]
        notes.append(f"no configuration has all its splits: selected among those with {most}")
    best = max(_dev(standing) for standing in complete)
    winners = [standing for standing in complete if _dev(standing) >= best - _NOTHING]
    tied = tuple(standing.configuration for standing in winners[1:])
    if tied:
        notes.append(f"'{winners[0].configuration}' is the first of {len(winners)} with the same mean dev score")
    return Selection(winners[0], tied, tuple(notes))


def _dev(standing: Standing) -> float:
    assert standing.dev.value is not None
    return standing.dev.value


def judge(trials: Sequence[Trial], settings: Settings = DEFAULT, splits: Sequence[int] | None = None) -> Verdict:
    """The verdict over the trials of one task under one strategy.

    The correlation is that of mean dev with mean test over the configurations that have all their splits.
    """
    strategies = {trial.strategy for trial in trials}
    if len(strategies) != 1:
        names = ", ".join(sorted(strategies)) or "none"
        raise ConfigError(f"a verdict is over trials of one strategy, and here are: {names}; judge each by itself")
    found = standings(trials, settings, splits)
    selection = select(found)
    whole = [s for s in found if not s.missing and s.dev.value is not None and s.test.value is not None]
    correlation = rank_correlation([_dev(s) for s in whole], [s.test.value or 0.0 for s in whole], settings)
    expected = tuple(sorted({trial.split for trial in trials} if splits is None else set(splits)))
    notes = [*_missing_notes(found, len(expected)), *selection.notes]
    return Verdict(
        strategies.pop(), tuple(found), selection.chosen, selection.tied, correlation, expected, tuple(notes)
    )


def _missing_notes(found: Sequence[Standing], k: int) -> list[str]:
    return [
        f"'{standing.configuration}' has {len(standing.splits)} of {k} splits "
        f"(missing: {', '.join(map(str, standing.missing))})"
        for standing in found
        if standing.missing
    ]


def by_strategy(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Trials of one task, sorted by strategy in order of appearance."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.strategy, []).append(trial)
    return found


def failures(trials: Iterable[Trial]) -> Counter[str]:
    """How many trainings of each configuration failed."""
    return Counter(trial.configuration for trial in trials if trial.failed)
