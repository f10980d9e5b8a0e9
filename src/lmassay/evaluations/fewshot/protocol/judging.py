"""FewNLU's protocol: each configuration is trained on K splits, and the one with the best mean dev score is selected.

Five types lead from a training to a table:

- A *trial* is one training.
- A *configuration* is one setting of the hyper-parameters, with its mean scores over the splits.
- A *verdict* says which configuration is selected on a task, and how well dev scores predict test scores.
- A *strategy* has the verdicts on all tasks for one way to make splits.
- A *study* has the strategies of one method with one model.

The last two are in the module ``studies``. A training that failed is reported and never counted as a score; its
configuration has fewer splits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lmassay.evaluations.fewshot.protocol.costs import NO_COST, SplitCost, mean_cost
from lmassay.evaluations.fewshot.protocol.estimates import (
    NO_ESTIMATE,
    ProtocolEstimate,
    SplitScores,
    mean_over_splits,
    rank_correlation,
)
from lmassay.statistics.intervals import DEFAULT, Settings
from lmassay.statistics.replicates import mean_over_repetitions
from lmassay.types import PerTestScores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Means of the same scores may differ in the last digit, because they were added up in another order.
_ROUNDING = 1e-12
# From this share of answers without a label on, a note says that the scores cover only the others.
_MANY_OUT_OF_CHOICE = 0.05
ONLY_CONFIGURATION = "the only one"
"""The name of a configuration if there is no other."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One training: a configuration on a split, with its scores or the reason why it has none."""

    configuration: str
    """The configuration's name, see ``Configuration``."""
    params: Mapping[str, Any]
    split: int
    dev: float | None = None
    """None without a dev set."""
    test: float | None = None
    """None if nothing was scored on test."""
    test_metrics: Mapping[str, float] = field(default_factory=dict)
    out_of_choice: float | None = None
    """The share of test examples whose answer is not a label; None for a method that does not answer in words."""
    state: Literal["done", "failed", "not done"] = "done"
    reason: str = ""
    """Why there is no result."""
    run: str = ""
    """The id of the run."""
    id: str = ""
    """The example's id in its run, such as ``split-0-p1-every-0.02``."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the run recorded: numbers of examples, dev scores during training, cost."""
    chosen_step: float | None = None
    """The update whose weights were kept."""
    on_tests: PerTestScores | None = None
    """The scores of individual test examples, if the run recorded them."""
    correlation: Mapping[str, float] = field(default_factory=dict)
    """By metric: how strongly splits are correlated because they share examples."""

    @property
    def has_result(self) -> bool:
        """Whether the training was done and its scores are finite numbers."""
        if self.state != "done":
            return False
        scores = [score for score in (self.dev, self.test) if score is not None]
        return all(map(math.isfinite, scores))


@dataclass(frozen=True, slots=True)
class Configuration:
    """One setting of the hyper-parameters, with its scores over the splits."""

    name: str
    """The hyper-parameters that differ between configurations, such as ``learning_rate=1e-05, pattern=2``."""
    params: Mapping[str, Any]
    dev: ProtocolEstimate
    test: ProtocolEstimate
    test_metrics: Mapping[str, ProtocolEstimate]
    splits: tuple[int, ...]
    """The splits whose trainings have a result."""
    missing: tuple[int, ...]
    """The other splits: their training failed, was not reached, or has a score that is not a finite number."""
    out_of_choice: ProtocolEstimate = NO_ESTIMATE
    """The share of test examples whose answer is not a label, for a method that answers in words."""
    cost: SplitCost = NO_COST
    """The mean cost of a split."""


@dataclass(frozen=True, slots=True)
class ProtocolVerdict:
    """The result on one task under one strategy: the selected configuration, and how well dev predicts test."""

    configurations: tuple[Configuration, ...]
    selected: Configuration | None
    tied: tuple[str, ...]
    """The other configurations that have the same mean dev score as the selected one."""
    correlation: ProtocolEstimate
    """The rank correlation of mean dev and mean test scores, over the configurations that have all their splits."""
    splits: tuple[int, ...]
    """The splits that every configuration should have."""
    selection_notes: tuple[str, ...] = ()
    """Notes on how the configuration was selected, or why none was."""
    trials: tuple[Trial, ...] = ()
    warnings: tuple[str, ...] = ()
    """The warnings of the runs, such as labels without examples, or groups in both train and dev."""

    @property
    def k(self) -> int:
        """The number of splits."""
        return len(self.splits)

    @property
    def dev(self) -> ProtocolEstimate:
        """The selected configuration's dev score."""
        return NO_ESTIMATE if self.selected is None else self.selected.dev

    @property
    def test(self) -> ProtocolEstimate:
        """The selected configuration's test score."""
        return NO_ESTIMATE if self.selected is None else self.selected.test

    @property
    def test_metrics(self) -> Mapping[str, ProtocolEstimate]:
        """The selected configuration's test score by metric."""
        return {} if self.selected is None else self.selected.test_metrics

    @property
    def out_of_choice(self) -> ProtocolEstimate:
        """The selected configuration's out-of-choice rate."""
        return NO_ESTIMATE if self.selected is None else self.selected.out_of_choice

    @property
    def cost(self) -> SplitCost:
        """The mean cost of a split of the selected configuration."""
        return NO_COST if self.selected is None else self.selected.cost

    @property
    def missing_notes(self) -> list[str]:
        """One note for each configuration that lacks splits."""
        notes = []
        for configuration in self.configurations:
            if configuration.missing:
                missing = ", ".join(map(str, configuration.missing))
                done = len(configuration.splits)
                notes.append(f"'{configuration.name}' has {done} of {self.k} splits (missing: {missing})")
        return notes

    @property
    def notes(self) -> list[str]:
        """All notes on missing splits and on the selection."""
        return [*self.missing_notes, *self.selection_notes]

    @property
    def trials_without_result(self) -> list[Trial]:
        """The trials whose training failed or was not reached, so not those that are done but have invalid scores."""
        return [trial for trial in self.trials if trial.state != "done"]

    def trials_of(self, configuration: Configuration | None) -> list[Trial]:
        """The trials of this configuration; empty if it is None."""
        if configuration is None:
            return []
        return [trial for trial in self.trials if trial.configuration == configuration.name]

    def reasons(self) -> list[tuple[str, bool, int]]:
        """(reason, whether trainings failed, number of trainings) for each reason why results are missing."""
        trainings: dict[tuple[str, bool], set[tuple[str, str]]] = {}
        for trial in self.trials_without_result:
            # One training serves all evaluation ratios.
            training_id = trial.id.partition("-every-")[0]
            key = (trial.reason, trial.state == "failed")
            trainings.setdefault(key, set()).add((trial.run, training_id))
        return [(reason, failed, len(ids)) for (reason, failed), ids in trainings.items()]

    def sizes(self, part: str) -> tuple[int, ...]:
        """The numbers of examples in a part (``n_train``, ``n_dev`` or ``n_test``) over all trials, each once."""
        sizes = {int(trial.details[part]) for trial in self.trials if part in trial.details}
        return tuple(sorted(sizes))


def selection_score(metrics: Mapping[str, float]) -> float | None:
    """The score by which trainings and configurations are selected: the mean of the task's metrics; None without any.

    >>> selection_score({"acc": 0.75, "f1-macro": 0.5})
    0.625
    """
    if not metrics:
        return None
    return math.fsum(metrics.values()) / len(metrics)


def judge(
    trials: Sequence[Trial],
    settings: Settings = DEFAULT,
    splits: Iterable[int] | None = None,
    warnings: Iterable[str] = (),
) -> ProtocolVerdict:
    """The verdict on one task under one strategy, from all its trials.

    ``splits`` are the splits that every configuration should have, by default all that occur in the trials.
    """
    tried_splits = {trial.split for trial in trials}
    expected = sorted(tried_splits if splits is None else set(splits))
    judged_trials = tuple(trial for trial in trials if trial.split in expected)
    configurations = _configurations(judged_trials, expected, settings)
    selected, tied, notes = _select(configurations)
    return ProtocolVerdict(
        configurations=tuple(configurations),
        selected=selected,
        tied=tied,
        correlation=_correlation(configurations, settings),
        splits=tuple(expected),
        selection_notes=notes,
        trials=judged_trials,
        warnings=tuple(warnings),
    )


def stability(trials: Sequence[Trial], settings: Settings = DEFAULT) -> list[ProtocolVerdict]:
    """The verdicts that use only the first 1, 2, … K splits of one strategy.

    The less the scores change with K, the more stable they are, which is the paper's third criterion. For strategies
    that draw each split independently, these are the verdicts that a run with a smaller K would give. The folds of
    cross-validation and MDL depend on K, so a run with a smaller K would have other folds.
    """
    splits = sorted({trial.split for trial in trials})
    return [judge(trials, settings, splits[:k]) for k in range(1, len(splits) + 1)]


# --- configurations ---------------------------------------------------------------------------------------------------

_ScoredTrial = tuple[Trial, float]
"""A trial with one of its scores: dev, test or a metric on test."""


def _configurations(trials: Sequence[Trial], expected: Sequence[int], settings: Settings) -> list[Configuration]:
    """Each configuration over the expected splits, in order of appearance."""
    by_name: dict[str, list[Trial]] = {}
    for trial in trials:
        by_name.setdefault(trial.configuration, []).append(trial)
    return [_configuration(own_trials, expected, settings) for own_trials in by_name.values()]


def _configuration(trials: Sequence[Trial], expected: Sequence[int], settings: Settings) -> Configuration:
    """One configuration, from all its trials."""
    with_result = [trial for trial in trials if trial.has_result]
    done = sorted({trial.split for trial in with_result})
    missing = [split for split in expected if split not in done]

    dev_scores: list[_ScoredTrial] = []
    test_scores: list[_ScoredTrial] = []
    metric_scores: dict[str, list[_ScoredTrial]] = {}
    out_of_choice: list[_ScoredTrial] = []
    for trial in with_result:
        if trial.out_of_choice is not None:
            out_of_choice.append((trial, trial.out_of_choice))
        if trial.dev is not None:
            dev_scores.append((trial, trial.dev))
        if trial.test is not None:
            test_scores.append((trial, trial.test))
        for metric, score in trial.test_metrics.items():
            metric_scores.setdefault(metric, []).append((trial, score))
    test_metrics = {}
    for metric, scores in metric_scores.items():
        test_metrics[metric] = _over_splits(scores, metric, settings)

    return Configuration(
        name=trials[0].configuration,
        params=trials[0].params,
        dev=_over_splits(dev_scores, "dev", settings),
        test=_over_splits(test_scores, "test", settings),
        test_metrics=test_metrics,
        splits=tuple(done),
        missing=tuple(missing),
        out_of_choice=_over_splits(out_of_choice, "ooc", settings),
        cost=mean_cost([trial.details for trial in with_result]),
    )


def _over_splits(scores: Sequence[_ScoredTrial], metric: str, settings: Settings) -> ProtocolEstimate:
    """The mean over splits. Several trainings on the same split are repetitions, which are averaged first."""
    by_split: dict[int, list[float]] = {}
    correlation = 0.0
    for trial, score in scores:
        by_split.setdefault(trial.split, []).append(score)
        # If runs recorded different correlations, the largest is used, which gives the widest interval.
        correlation = max(correlation, trial.correlation.get(metric, 0.0))
    means = []
    for split in sorted(by_split):
        repetitions = by_split[split]
        means.append(math.fsum(repetitions) / len(repetitions))
    on_tests, groups = _on_tests([trial for trial, _ in scores], metric)
    return mean_over_splits(SplitScores(means, correlation, on_tests, groups), settings)


def _on_tests(trials: Sequence[Trial], metric: str) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    """The scores of individual test examples, one row per split, and the groups of the examples.

    Both are None unless all trials recorded them for the same test examples.
    """
    import numpy as np

    by_split: dict[int, list[Sequence[float | None]]] = {}
    tests: set[str] = set()
    groups: Sequence[int] = ()
    for trial in trials:
        if trial.on_tests is None or metric not in trial.on_tests.scores:
            return None, None
        by_split.setdefault(trial.split, []).append(trial.on_tests.scores[metric])
        tests.add(trial.on_tests.tests)
        groups = trial.on_tests.groups
    # Only scores of the same test examples can be averaged.
    if len(tests) != 1:
        return None, None
    rows = []
    for split in sorted(by_split):
        repetitions = np.asarray(by_split[split], dtype=float)
        rows.append(mean_over_repetitions(repetitions))
    test_groups = None
    if groups:
        test_groups = np.asarray(groups, dtype=np.int64)
    return np.stack(rows), test_groups


def _correlation(configurations: Sequence[Configuration], settings: Settings) -> ProtocolEstimate:
    """The paper's second criterion: do dev scores rank the configurations in the same order as test scores?"""
    dev: list[float] = []
    test: list[float] = []
    for configuration in configurations:
        # A mean over some of the splits cannot be compared with means over all of them.
        if configuration.missing or configuration.dev.value is None or configuration.test.value is None:
            continue
        dev.append(configuration.dev.value)
        test.append(configuration.test.value)
    return rank_correlation(dev, test, settings)


# --- selection --------------------------------------------------------------------------------------------------------


def _select(
    configurations: Sequence[Configuration],
) -> tuple[Configuration | None, tuple[str, ...], tuple[str, ...]]:
    """Select the configuration with the highest mean dev score.

    Returns it, the names of others with the same score, and notes. Only configurations that have all their splits are
    compared. If none has all, those with the most splits are compared, and a note says so.
    """
    trained: list[Configuration] = []
    with_dev: list[tuple[float, Configuration]] = []
    for configuration in configurations:
        if not configuration.splits:
            continue
        trained.append(configuration)
        if configuration.dev.value is not None:
            with_dev.append((configuration.dev.value, configuration))
    if not trained:
        # Every training of every configuration failed.
        return None, (), ("all trainings failed; nothing to select",)
    if not with_dev:
        # If a method answers in words, there may be a dev set, but no answer that can be read as a label.
        answers_in_words = trained[0].out_of_choice.value is not None
        reason = "there is no dev set"
        if answers_in_words:
            reason = "there is no dev set, or no dev answer can be read as a label"
        if len(configurations) == 1:
            return trained[0], (), (f"{reason}; the only configuration is reported without selection",)
        return None, (), (f"{reason}; none of the {len(configurations)} configurations can be selected",)

    notes = []
    candidates = [(dev, configuration) for dev, configuration in with_dev if not configuration.missing]
    if not candidates:
        # A mean over fewer splits is less certain, so only the configurations with the most splits are compared.
        most_splits = max(len(configuration.splits) for _, configuration in with_dev)
        for dev, configuration in with_dev:
            if len(configuration.splits) == most_splits:
                candidates.append((dev, configuration))
        notes.append(f"no configuration has all its splits; selected among those with {most_splits} of them")

    best_dev = max(dev for dev, _ in candidates)
    best = [configuration for dev, configuration in candidates if dev >= best_dev - _ROUNDING]
    # If several have the same score, the first one is selected, and the others are reported as tied.
    selected, *others = best
    if others:
        notes.append(f"'{selected.name}' is the first of {len(best)} with the same mean dev score")
    no_label = selected.out_of_choice.value
    if no_label is not None and no_label > _MANY_OUT_OF_CHOICE:
        # Scores cover readable answers only, so a configuration that seldom answers may have the best dev score.
        name = "the configuration" if selected.name == ONLY_CONFIGURATION else f"'{selected.name}'"
        notes.append(
            f"{name} gave no label to {100 * no_label:.0f} % of the test examples; its scores cover only the others"
        )
    tied = [other.name for other in others]
    return selected, tuple(tied), tuple(notes)
